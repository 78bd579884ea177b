"""Measure what the plugin costs: output tokens per second of a real vLLM with it, over without it.

    python scripts/bench_plugin.py                  about 5 minutes
    python scripts/bench_plugin.py --control        both without it: how far apart two equals are

A pair of runs is one span of time in which two servers, one with the plugin and one without, get the
same load, so that whatever else the machine does hits both alike; runs that follow one another differ
by far more than the plugin costs. In the second round the servers are started anew, the other one
first. The figure is the median of the pairs' ratios. Where others use the machine as well, it needs
many pairs: beside it stands the processor time of vLLM's API process for each output token, on which
others have little influence. Needs ``scripts/real_vllm.py install``, ``vllm-observe`` beside this
interpreter, and Linux. Exit code 1 means that the median is under 0.98.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
WANTED = 0.98
START_S = 300.0

#: Half of the requests stream, since the plugin looks at each chunk. A character is a token.
AT_ONCE = 8
PROMPT = "x" * 200
OUTPUT_TOKENS = 100
SPAN_S = 6.0


class Server(NamedTuple):
    """A vLLM that serves; the process is that of its API."""

    url: str
    process: int

    def processor_s(self) -> float:
        """Seconds of processor time that the API's process has used so far."""
        after_name = Path(f"/proc/{self.process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


class Work(NamedTuple):
    """What one server did in one span of time."""

    tokens_per_s: float
    processor_us_per_token: float


class Pair(NamedTuple):
    """What both servers did in one span of time."""

    without: Work
    with_plugin: Work

    @property
    def ratio(self) -> float:
        """Output tokens per second with the plugin over without it."""
        return self.with_plugin.tokens_per_s / self.without.tokens_per_s


def main(arguments: Sequence[str]) -> int:
    """Measure, print a table, and answer the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=12, help="in each of the two rounds")
    parser.add_argument("--release", default="0.32.0")
    parser.add_argument("--control", action="store_true", help="leave the plugin out of both servers")
    options = parser.parse_args(arguments)
    print("       tokens/s               API process, us a token")
    print("pair  without  with   ratio  without  with")
    pairs: list[Pair] = []
    for plugin_first in (False, True):
        with tempfile.TemporaryDirectory() as place:
            for pair in _round(Path(place), options, plugin_first=plugin_first):
                pairs.append(pair)
                before, after = pair
                print(
                    f"{len(pairs):4}  {before.tokens_per_s:7.0f}  {after.tokens_per_s:4.0f}  {pair.ratio:.4f}"
                    f"  {before.processor_us_per_token:7.0f}  {after.processor_us_per_token:4.0f}",
                    flush=True,
                )
    low, median, high = statistics.quantiles((pair.ratio for pair in pairs), n=4)
    print(f"median {median:.4f}, half of the pairs from {low:.4f} to {high:.4f}; wanted {WANTED}")
    more = statistics.median(
        pair.with_plugin.processor_us_per_token - pair.without.processor_us_per_token for pair in pairs
    )
    print(f"the API process used {more:.1f} us more a token with the plugin, as the median")
    return 0 if median >= WANTED else 1


def _round(place: Path, options: argparse.Namespace, *, plugin_first: bool) -> Iterator[Pair]:
    """Start both servers and measure pair by pair."""
    log = place / "requests.jsonl"
    environments = {"without": {}, "with": {} if options.control else _plugin_environment(place, log)}
    with contextlib.ExitStack() as servers:
        both = {
            name: servers.enter_context(_serving(options.release, place / f"{name}.log", environments[name]))
            for name in sorted(environments, reverse=not plugin_first)
        }
        _measure(both)  # warm
        for _ in range(options.pairs):
            yield _measure(both)
    if not options.control and '"kind":"engine"' not in log.read_text(encoding="utf-8"):
        sys.exit("bench_plugin: the plugin wrote no engine record")


def _measure(servers: Mapping[str, Server]) -> Pair:
    """Keep both servers busy for one span; each user's rate is taken up to the end of its last request."""

    def user(url: str, number: int) -> tuple[int, float]:
        began, tokens = time.monotonic(), 0
        while (took := time.monotonic() - began) < SPAN_S:
            _ask(url, streams=number % 2 == 0)
            tokens += OUTPUT_TOKENS
        return tokens, tokens / took

    before = {name: server.processor_s() for name, server in servers.items()}
    with ThreadPoolExecutor(AT_ONCE * len(servers)) as pool:
        users = {
            name: [pool.submit(user, server.url, number) for number in range(AT_ONCE)]
            for name, server in servers.items()
        }
    work = {}
    for name, server in servers.items():
        tokens, rates = zip(*(each.result() for each in users[name]), strict=True)
        used = server.processor_s() - before[name]
        work[name] = Work(sum(rates), used / sum(tokens) * 1e6)
    return Pair(work["without"], work["with"])


def _ask(url: str, *, streams: bool) -> None:
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": OUTPUT_TOKENS,
        "ignore_eos": True,
        "stream": streams,
    }
    headers = {"Content-Type": "application/json", "X-Session-ID": "bench", "X-Profile": "bench"}
    request = urllib.request.Request(  # noqa: S310  # the loopback
        f"{url}/v1/chat/completions", data=json.dumps(body).encode(), headers=headers
    )
    with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310
        while answer.read(65536):
            pass


def _plugin_environment(place: Path, log: Path) -> Mapping[str, str]:
    folder = place / "plugin"
    program = Path(sys.executable).with_name("vllm-observe")
    subprocess.run([program, "install-plugin", folder], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return {"PYTHONPATH": str(folder), "OBSERVE_PLUGIN_LOG": str(log)}


@contextlib.contextmanager
def _serving(release: str, log: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    """Serve for the time of the block; with an environment of its own it is the one with the plugin."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(HERE / "real_vllm.py"), "serve", "--release", release, "--port", str(port)]
    if environment:
        command += ["--middleware", "vllm_observe.plugin.RequestLogMiddleware"]
    with log.open("wb") as output:
        server = subprocess.Popen(  # noqa: S603  # all of it is written here
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment}
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(server, url, log)
        yield Server(url, server.pid)
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=2):  # noqa: S310
            return
        time.sleep(0.5)
    sys.exit(f"bench_plugin: vLLM did not start; its log ends:\n{log.read_text(errors='replace')[-2000:]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
