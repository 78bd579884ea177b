"""The simulated vLLM as a program: until a signal ends it, or the end of its commands."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable
from functools import partial

from vllm_observe.sim.http.commands import UnknownCommandError, command
from vllm_observe.sim.http.port import Port
from vllm_observe.sim.http.server import SimulatedVllm

__all__ = ["serve"]


def serve(
    vllm: SimulatedVllm,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    commands: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> None:
    """Serve until SIGTERM or SIGINT; return when the port is closed and the request log is written.

    Args:
        vllm: what to serve.
        host: an address of this machine.
        port: 0 takes any free one.
        commands: whether to obey what comes on standard input, one of ``commands.command``'s a line;
            its end is the end then, so that the server never outlives the program that commands it.
        say: told the address, and which commands are none.

    Raises:
        OSError: the address is wrong or taken.
    """
    asyncio.run(_serve(vllm, host, port, commands=commands, say=say))


async def _serve(
    vllm: SimulatedVllm, host: str, number: int, *, commands: bool, say: Callable[[str], object]
) -> None:
    port, stop = Port(vllm, host=host, port=number), asyncio.Event()
    loop = asyncio.get_running_loop()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, stop.set)
    say(f"http://{port.host}:{port.port}")
    serving = asyncio.ensure_future(port.run())
    others = [asyncio.ensure_future(vllm.conductor.run()), asyncio.ensure_future(stop.wait())]
    if commands:
        others.append(asyncio.ensure_future(_obey(vllm, say)))
    try:
        await asyncio.wait([serving, *others], return_when=asyncio.FIRST_COMPLETED)
        port.close()
        if vllm.conductor.loaded.is_set():
            await serving
    finally:
        for task in (serving, *others):
            task.cancel()
        results = await asyncio.gather(serving, *others, return_exceptions=True)
        vllm.close()
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _obey(vllm: SimulatedVllm, say: Callable[[str], object]) -> None:
    """Obey each line of standard input; return at its end."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with contextlib.closing(transport):
        while line := await reader.readline():
            _obey_one(vllm, line.decode(errors="replace"), say)


def _obey_one(vllm: SimulatedVllm, line: str, say: Callable[[str], object]) -> None:
    try:
        do = command(line)
    except UnknownCommandError as error:
        say(str(error))
    else:
        vllm.conductor.act(partial(do, vllm.control))
