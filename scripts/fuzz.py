"""Feed mutated inputs to everything that reads what others wrote; none may crash or take long.

    python scripts/fuzz.py                     200,000 inputs, a different seed each day
    python scripts/fuzz.py --inputs 5000 --seed 7 --only otlp-json

A reader may give a result or one of this package's own errors. Anything else is a crash, and so is an
input that takes over a second of the processor: it is told with the seed and the number that make it
again, and the exit code is 1. The samples are what real programs wrote: tests/data.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import NamedTuple

from vllm_observe.clock import ManualClock
from vllm_observe.config import RequestLog
from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.engine.upgrade import Upgrader
from vllm_observe.errors import VllmObserveError
from vllm_observe.plugin import answers
from vllm_observe.records import cri, docker, otlp
from vllm_observe.records.formats import decoder
from vllm_observe.records.lines import cut
from vllm_observe.records.pieces import Assembly
from vllm_observe.records.shown import show
from vllm_observe.serve.address import is_loopback, split_host
from vllm_observe.serve.auth import Credentials
from vllm_observe.serve.render import Format, negotiate, render

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
TOO_LONG_S = 1.0
#: A larger sample is begun at a random line: a mutation of its end would be rare, and each one slow.
SAMPLE_BYTES = 20_000

#: What parsers stumble over: ends, escapes, numbers at the rims, words that mean something to one.
TOKENS = (
    b"", b"\0", b"\n", b"\r\n", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\", b'"', b"'", b"{", b"}", b"[", b"]",
    b"[" * 2000, b'{"a":' * 2000, b",", b":", b";q=", b"=", b"-", b"-0", b"1e400", b"-1e400", b"NaN", b"Infinity",
    b"1" * 5000, b"9223372036854775808", b"0x10", b"null", b"true", b"\\ud800", b"\\u0000", b"\x1b[0m",
    b"\x80" * 12, b"\x0a\xff\xff\xff\xff\x0f", b"# EOF\n", b"# TYPE a counter\n", b'{le="+Inf"}', b" P ", b" F ",
    b"stdout", b"INFO 11-29 19:48:12 [logger.py:1] Received request ", b"Request a aborted.", b'"kind":"engine"',
    b'"request_id":', b'"ts":', b"2026-02-30T25:61:60Z", b"llm_request", b"gen_ai.request.id", b"gzip", b"*/*",
)  # fmt: skip


class Target(NamedTuple):
    """One reader: what it reads, as real programs write it, and how it is fed."""

    name: str
    samples: Sequence[bytes]
    feed: Callable[[bytes], object]


@dataclass
class Tally:
    """What became of a target's inputs."""

    read: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    crashes: list[str] = field(default_factory=list)


def targets() -> list[Target]:
    """List every reader."""
    captures = sorted((DATA / "captures").glob("*/*.prom"))
    lines = [
        line for file in sorted((DATA / "join").glob("*.jsonl")) for line in file.read_bytes().splitlines()
    ]
    pod = (DATA / "cases/12-cri-partial/pod.log").read_bytes()
    entry = b'{"asctime":"2026-11-29 19:48:12,250","name":"vllm.v1.engine.async_llm","message":"Request a aborted."}'
    vllm = [entry, *(file.read_bytes() for file in sorted((DATA / "captures").glob("*/server.log")))]
    traces = (DATA / "captures/vllm-0.32.0/otlp-body.bin").read_bytes()
    document = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"llm_request","endTimeUnixNano":"1795982140094838851",'
    document += b'"attributes":[{"key":"gen_ai.request.id","value":{"stringValue":"a"}},'
    document += b'{"key":"gen_ai.latency.e2e","value":{"doubleValue":1.5}}]}]}]}]}'
    accepts = (DATA / "cases/03-colon-rewritten/accept_headers.txt").read_bytes().splitlines()
    docker_line = b'{"log":"{\\"ts\\":1772446500,\\"request_id\\":\\"a\\"}\\n","stream":"stdout","time":"2026-03-02T10:15:00Z"}'
    own = {"request_id": "a.b.0", "session_id": "m.s", "duration_s": {"from": "ms", "scale": 0.001}}
    mapped = b'{"ts":1772446500,"a":{"b":["x"]},"m":"{\\"s\\":\\"y\\"}","ms":"250","status":200}'
    return [
        Target("exposition", [file.read_bytes() for file in captures], _exposition),
        Target("format1", lines, _decoding("jsonl")),
        Target("field map", [mapped, mapped.replace(b'"x"', b'"x-2"')], _decoding("jsonl", **own)),
        *(Target(form, _lines_of(form), _decoding(form)) for form in ("nginx", "envoy", "litellm")),
        Target("vllm log", vllm, _each_line(_decoding("vllm"))),
        Target(
            "containers",
            [pod, docker_line, docker_line + b"\n" + pod, docker_line.replace(b"}\\n", b"}\\n{}\\n{")],
            _containers,
        ),
        Target("otlp-protobuf", [traces], lambda body: otlp.read(body, otlp.Encoding.PROTOBUF, time.time())),
        Target("otlp-json", [document], lambda body: otlp.read(body, otlp.Encoding.JSON, time.time())),
        Target("headers", [*accepts, b"[::1]:9810", b"localhost:80", b"Basic dTpw", b"Bearer t"], _Headers()),
        Target(
            "answers",
            [b'data: {"error":{"type":"a"}}\n\n', b'data: {"choices":[{"text":"a"}]}\n\n'],
            _answers,
        ),
    ]


def _lines_of(form: str) -> list[bytes]:
    return (DATA / "formats" / f"{form}.jsonl").read_bytes().splitlines()


def _decoding(form: str, **fields: object) -> Callable[[bytes], object]:
    decode = decoder(
        RequestLog.model_validate({"path": "-", "format": form, "fields": fields}), clock=ManualClock()
    )

    def feed(line: bytes) -> object:
        show(line)
        return decode(line)

    return feed


def _each_line(feed: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Feed the lines of a text; one that is refused does not keep the others back."""

    def feed_each(content: bytes) -> None:
        refused: VllmObserveError | None = None
        for line in content.split(b"\n"):
            try:
                feed(line)
            except VllmObserveError as error:  # noqa: PERF203  # the rest of the lines is fed all the same
                refused = error
        if refused is not None:
            raise refused

    return feed_each


def _exposition(page: bytes) -> None:
    parser, upgrader = ExpositionParser(), Upgrader()
    for _ in range(2):  # a second page of the same form is read another way
        families = parser.parse(page, "text/plain; version=0.0.4").families
    upgraded = upgrader.upgrade(families)
    for form in Format:
        render(upgraded.families, form)


def _containers(content: bytes) -> None:
    assembly = Assembly(4096)
    for raw in cut(content, inside=False, max_bytes=4096).lines:
        for part in cri.pieces(raw.data) or docker.pieces(raw.data):
            assembly.add(part, raw.start, whole=raw.whole)
    assembly.give_up()


class _Headers:
    """Feeds the readers of headers; no header but the right one may open a listener."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()  # it goes with this object
        token = Path(self._folder.name, "token")
        token.write_text("secret\n")
        self._credentials = Credentials(token_file=token)

    def __call__(self, value: bytes) -> None:
        text = value.decode("latin-1")
        negotiate(text)
        is_loopback(split_host(text))
        if self._credentials.allows(text):
            raise AssertionError("it was let in")


def _answers(chunk: bytes) -> None:
    for flag in (True, False):
        answers.has_token(chunk, is_response=flag)
        answers.failure(chunk, streams=flag, first=not flag)
    answers.error_type(chunk)


# --- Mutations ------------------------------------------------------------------------------------


def _flip(content: bytearray, place: slice, _: bytes, chance: random.Random) -> None:
    if place.start < len(content):
        content[place.start] ^= 1 << chance.randrange(8)


def _delete(content: bytearray, place: slice, _: bytes, __: random.Random) -> None:
    del content[place]


def _end(content: bytearray, place: slice, _: bytes, __: random.Random) -> None:
    del content[place.start :]


def _repeat(content: bytearray, place: slice, _: bytes, chance: random.Random) -> None:
    content[place.start : place.start] = content[place] * chance.choice((1, 2, 100))


def _noise(content: bytearray, place: slice, _: bytes, chance: random.Random) -> None:
    content[place] = chance.randbytes(chance.choice((1, 4, 16)))


def _splice(content: bytearray, place: slice, other: bytes, chance: random.Random) -> None:
    there = chance.randrange(len(other) + 1)
    content[place] = other[there : there + chance.choice((1, 8, 64, 512))]


def _token(content: bytearray, place: slice, _: bytes, chance: random.Random) -> None:
    content[place] = chance.choice(TOKENS)


CHANGES = (_flip, _delete, _end, _repeat, _noise, _splice, _token)


def mutated(sample: bytes, other: bytes, chance: random.Random) -> bytes:
    """Give a sample with a few random changes, some of them from another sample."""
    content = bytearray(_piece(sample, chance))
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        start = chance.randrange(len(content) + 1)
        place = slice(start, min(len(content), start + chance.choice((0, 1, 2, 8, 64))))
        chance.choice(CHANGES)(content, place, other, chance)
    return bytes(content)


def _piece(sample: bytes, chance: random.Random) -> bytes:
    if len(sample) <= SAMPLE_BYTES:
        return sample
    start = sample.rfind(b"\n", 0, chance.randrange(len(sample))) + 1
    return sample[start : start + chance.choice((500, 2_000, SAMPLE_BYTES))]


def inputs(target: Target, seed: int, count: int) -> Iterator[bytes]:
    """Give a target's inputs; the same for the same seed."""
    chance = random.Random(f"{seed} {target.name}")  # noqa: S311  # it has to come again, not to be secret
    for _ in range(count):
        yield mutated(chance.choice(target.samples), chance.choice(target.samples), chance)


def fuzz(target: Target, *, seed: int, count: int) -> Tally:
    """Feed a target; count what became of the inputs, and tell of the crashes."""
    tally = Tally()
    for number, content in enumerate(inputs(target, seed, count)):
        began = time.thread_time()
        try:
            target.feed(content)
            tally.read += 1
        except VllmObserveError:
            tally.refused += 1
        except Exception as error:  # noqa: BLE001  # finding these is what this program is for
            tally.crashes.append(f"input {number}: {type(error).__name__}: {error} for {content[:200]!r}")
        took = time.thread_time() - began
        tally.slowest_s = max(tally.slowest_s, took)
        if took > TOO_LONG_S:
            tally.crashes.append(f"input {number}: {took:.1f} s for {len(content)} bytes: {content[:200]!r}")
    return tally


def main(arguments: Sequence[str]) -> int:
    """Carry out one command line; answer the exit code."""
    known = {target.name: target for target in targets()}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=200_000, help="over all readers together")
    parser.add_argument("--seed", type=int, default=date.today().toordinal())  # noqa: DTZ011  # any will do
    parser.add_argument("--only", choices=known)
    told = parser.parse_args(arguments)
    chosen = [known[told.only]] if told.only else list(known.values())
    print(f"seed {told.seed}\n{'reader':<14}{'inputs':>8}{'read':>8}{'refused':>9}{'slowest':>11}")
    crashes = 0
    for target in chosen:
        count = -(-told.inputs // len(chosen))
        tally = fuzz(target, seed=told.seed, count=count)
        print(
            f"{target.name:<14}{count:>8}{tally.read:>8}{tally.refused:>9}{tally.slowest_s * 1000:>8.1f} ms",
            flush=True,
        )
        for crash in tally.crashes[:5]:
            print(f"  CRASH {crash}", file=sys.stderr)
        crashes += len(tally.crashes)
    print(f"{crashes} crashes")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
