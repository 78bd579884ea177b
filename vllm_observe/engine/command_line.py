"""Reading an engine's limits from the command line of a vLLM server, one that is seen in /proc as well."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from vllm_observe.engine.address import Address
from vllm_observe.engine.limit_sources import known_limits
from vllm_observe.model import Limits, LimitsSource

__all__ = ["CommandLineSource", "command_line_of", "from_command_line"]

#: Reads a file that a command line names; ``None`` where that is not possible.
ReadFile = Callable[[str], str | None]

#: All ways to start a server, in the words of a command line; of the first only the file's name counts.
_STARTS = (
    ("vllm", "serve"),
    ("-m", "vllm.entrypoints.openai.api_server"),
    ("-m", "vllm.entrypoints.cli.main", "serve"),
)
_DEFAULT_PORT = "8000"
_SETTINGS = {
    "--max-num-seqs": "max_num_seqs",
    "--max-num-active-seqs": "max_num_active_seqs",
    "--max-num-batched-tokens": "max_num_batched_tokens",
    "--max-model-len": "max_model_len",
    "--block-size": "block_size",
    "--port": "port",
}
_NUMBER = re.compile(r"(?P<whole>[0-9]{1,18})(?P<fraction>\.[0-9]{1,18})?(?P<suffix>[kKmMgGtT]?)")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

#: What a command line and a configuration file are read up to.
_MAX_COMMAND_BYTES = 2 * 1024 * 1024
_MAX_CONFIG_BYTES = 64 * 1024


class _Server(NamedTuple):
    """What a command line says of the server that it starts."""

    port: int | None
    limits: Limits


def from_command_line(argv: Sequence[str], *, read: ReadFile | None = None) -> Limits | None:
    """Read the limits from a command line; ``None`` where it does not start a vLLM server.

    Args:
        argv: the program and its arguments.
        read: reads the file that ``--config`` names. Without it, or where it fails, that file counts
            for nothing.
    """
    server = _server(argv, read)
    return server.limits if server else None


def command_line_of(address: Address, *, proc: Path = Path("/proc")) -> Callable[[], Limits | None]:
    """Return what reads the limits of the server at an address.

    Only of one on this machine: another one here may well listen on the port of one that is elsewhere.
    """
    source = CommandLineSource(port=address.port, proc=proc)
    return lambda: source.read() if address.is_local() else None


class CommandLineSource:
    """Finds the vLLM server that listens on a port among the processes of this machine or pod.

    Nothing of a command line leaves this class but its numbers: it can hold an API key.

    Args:
        port: the port of the server that is scraped.
        proc: where the processes are seen.
    """

    def __init__(self, *, port: int, proc: Path = Path("/proc")) -> None:
        self._port = port
        self._proc = proc

    def read(self) -> Limits | None:
        """Return the limits of the server on the port.

        ``None`` where there is no such process, or where several would listen on it that differ: in
        pods of their own they can.
        """
        found = {server.limits for server in self._servers() if server.port == self._port}
        return found.pop() if len(found) == 1 else None

    def _servers(self) -> Iterator[_Server]:
        for process in self._processes():
            command = _read(process / "cmdline", _MAX_COMMAND_BYTES)
            if command is None or b"vllm" not in command:
                continue
            argv = command.rstrip(b"\0").decode(errors="replace").split("\0")
            server = _server(argv, functools.partial(_read_as, process))
            if server is not None:
                yield server

    def _processes(self) -> list[Path]:
        try:
            return [entry for entry in self._proc.iterdir() if entry.name.isdecimal()]
        except OSError:
            return []


def _read(path: Path, limit: int) -> bytes | None:
    """Read a file of at most so many bytes; ``None`` where it is longer, gone or forbidden."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError:
        return None
    return content if len(content) <= limit else None


def _read_as(process: Path, name: str) -> str | None:
    """Read a file as a process sees it: from its own root and working directory."""
    path = process / "root" / name.lstrip("/") if name.startswith("/") else process / "cwd" / name
    if not path.is_file():  # a pipe would wait for a writer
        return None
    content = _read(path, _MAX_CONFIG_BYTES)
    return content.decode(errors="replace") if content is not None else None


def _server(argv: Sequence[str], read: ReadFile | None) -> _Server | None:
    arguments = _serve_arguments(argv)
    if arguments is None or "--headless" in arguments:  # engines without a server
        return None
    given = _given([*_from_config(arguments, read), *arguments])
    values = {name: _whole_number(text) for name, text in given.items()}
    port = _whole_number(given.get("port", _DEFAULT_PORT))
    return _Server(port, known_limits(LimitsSource.COMMAND_LINE, values))


def _serve_arguments(argv: Sequence[str]) -> Sequence[str] | None:
    """Return what follows the words that start a server; ``None`` where none does."""
    for at, word in enumerate(argv):
        for start in _STARTS:
            end = at + len(start)
            if (word.rpartition("/")[2], *argv[at + 1 : end]) == start:
                return argv[end:]
    return None


def _from_config(arguments: Sequence[str], read: ReadFile | None) -> list[str]:
    """Return what vLLM's own configuration file says, as arguments: vLLM reads it so too.

    Like vLLM, this overlooks ``--config=FILE``, in one word.
    """
    if read is None or "--config" not in arguments[:-1]:
        return []
    text = read(arguments[arguments.index("--config") + 1])
    try:
        import yaml  # noqa: PLC0415  # slow to load, and few servers are started with a file

        document = yaml.safe_load(text or "")
    except Exception:  # noqa: BLE001  # PyYAML lets out whatever a constructor of its own raises
        return []
    entries = document.items() if isinstance(document, dict) else ()
    return [f"--{key}={value}" for key, value in entries if isinstance(value, int | str)]


def _given(arguments: Sequence[str]) -> dict[str, str]:
    """Return the text of each setting that is given; the last one counts."""
    given: dict[str, str] = {}
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        setting = _setting(name.replace("_", "-"))
        if setting:
            given[setting] = value if equals else "".join(arguments[at + 1 : at + 2])
    return given


def _setting(name: str) -> str | None:
    # vLLM takes any abbreviation that fits one of its options only. It runs, so this one did.
    fitting = [setting for flag, setting in _SETTINGS.items() if name[:2] == "--" and flag.startswith(name)]
    return fitting[0] if len(fitting) == 1 else None


def _whole_number(text: str) -> int | None:
    """Read a number as vLLM does: 1k is 1000, 1K is 1024, and only 1.5k may have a fraction."""
    number = _NUMBER.fullmatch(text.strip())
    if number is None:
        return None
    suffix = number["suffix"]
    if suffix in _DECIMAL:
        return int(float(number["whole"] + (number["fraction"] or "")) * _DECIMAL[suffix])
    return None if number["fraction"] else int(number["whole"]) * _BINARY[suffix]
