"""The causes of a real vLLM's requests, each made to befall them by what was sent; the table is printed.

Two servers, with the plugin in each: one with eight slots and room for all of them, one with slots for
everybody and little room. A kind's targets are such that what befell it is what breaks them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from support.joins import Desk
from support.load import App, Use
from support.vllm import VllmServer, install_vllm
from support.waiting import eventually
from vllm_observe.join.causes import Classifier
from vllm_observe.join.usual import UsualRequests
from vllm_observe.model import Cause, EdgeRecord, EngineRecord, EngineSample, JoinedRequest, Limits
from vllm_observe.records.format1 import decode
from vllm_observe.thresholds import USUAL_MIN_REQUESTS, Targets

# Two servers and some hundred requests are over in five minutes; on a busy machine in three times that.
pytestmark = pytest.mark.timeout(1200)

RIGHT = 0.95
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PREEMPTIONS = "vllm:num_preemptions_total"
ROUNDS = 12
# Of a crowd of 40 requests some 32 queue; half of them stream, so that their first token can be late.
QUEUED_S, ENOUGH_QUEUED, CROWDS = 0.25, 30, 6
NEVER = 1000.0  # seconds: a target that nothing here breaks


class Kind(NamedTuple):
    """What befalls the requests whose ids begin with a word, and what they are promised."""

    causes: frozenset[Cause]
    targets: Targets


def kind(*causes: Cause, ttft: float = NEVER, tpot: float = NEVER, e2e: float | None = None) -> Kind:
    return Kind(frozenset(causes), Targets(ttft=ttft, tpot=tpot, e2e=e2e))


KINDS = {
    "queue": kind(Cause.QUEUE_SLOTS, ttft=0.5),
    "prompt": kind(Cause.PREFILL_LONG, ttft=0.01),
    "answer": kind(Cause.DECODE_LONG, e2e=0.5),
    "left": kind(Cause.CLIENT_DISCONNECTED),
    "bad": kind(Cause.CLIENT_ERROR),
    # With a slot for everybody, room in the cache is all that can be missing, before the start or after.
    # Those that find room at once have their first token long before others end, on a busy machine too.
    "room": kind(Cause.QUEUE_KV, Cause.PREEMPTED, ttft=2.0),
    # Three answers that begin together and outgrow the cache, and two that fit. Each request is slow by such a
    # promise: that of the three since one was thrown out, that of the two as the machine is.
    "thrown": kind(Cause.PREEMPTED, tpot=0.0001),
    "stayed": kind(Cause.DECODE_SLOW, tpot=0.0001),
    # Each with a grammar of its own, which has to be compiled before it can run.
    "grammar": kind(Cause.QUEUE_DEFERRED, ttft=0.5),
}
#: The first release that tells of a request how often it was thrown out.
TELLS_PREEMPTIONS = (0, 30)


@contextmanager
def served(
    release: str, place: Path, name: str, folder: Path, *options: str
) -> Iterator[tuple[VllmServer, Path]]:
    """Serve with the plugin; give the server and the plugin's log."""
    log = place / name / "requests.jsonl"
    server = VllmServer(
        release,
        log=folder / f"vllm-causes-{name}.log",
        options=["--middleware=vllm_observe.plugin.RequestLogMiddleware", *options],
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(place / "path"))
        environment.setenv("OBSERVE_PLUGIN_LOG", str(log))
        try:
            server.start()
            yield server, log
        finally:
            server.stop()


def app(server: VllmServer, place: Path, name: str, prompt: int, output: int) -> App:
    return App(server.url, place / f"{name}.jsonl", uses=[Use(name, prompt, output)])


def leave(server: VllmServer, number: int) -> None:
    """Ask for a long stream and go away at its beginning.

    One answer could be made and sent before vLLM sees that nobody is there.
    """
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "tell"}],
        "max_tokens": 1800,
        "n": 16,
        "ignore_eos": True,
        "stream": True,
    }
    headers = {"X-Request-Id": f"left-{number}"}
    with requests.post(server.url + CHAT, json=body, headers=headers, stream=True, timeout=60) as answer:
        next(answer.iter_lines())


def stream(server: VllmServer, request_id: str, **asked: Any) -> None:
    """Ask for a stream, and wait for its end."""
    body = {"model": "tiny", "ignore_eos": True, "stream": True, **asked}
    headers = {"X-Request-Id": request_id}
    with requests.post(server.url + TEXT, json=body, headers=headers, stream=True, timeout=120) as answer:
        answer.raise_for_status()
        assert any(line.startswith(b"data: {") for line in list(answer.iter_lines()))


def grow(server: VllmServer, request_id: str, answers: int) -> bool:
    """Have several answers of one request grow together; say whether vLLM threw one of them out.

    Each begins with 3 blocks of the cache's 19 and ends with 9: so two fit to their end, and no third.
    They are of one request since a server this fast may have ended one before it hears of the next.
    """
    before = server.total(PREEMPTIONS)
    stream(
        server,
        request_id,
        prompt=[f"{request_id}-{each}" + "x" * 300 for each in range(answers)],
        max_tokens=800,
    )
    return server.total(PREEMPTIONS) > before


def compile_grammars(server: VllmServer, count: int) -> None:
    """Ask at once for answers in as many forms, each too large to be compiled in no time."""

    def ask(number: int) -> None:
        fields = {f"f{number}_{each}": {"type": "string", "maxLength": 900} for each in range(1200)}
        schema = {"type": "object", "properties": fields, "required": list(fields)}
        form = {"type": "json_schema", "json_schema": {"name": "form", "schema": schema}}
        stream(server, f"grammar-{number}", prompt="x", max_tokens=20, response_format=form)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(ask, range(count)))


def ask_wrongly(server: VllmServer, number: int) -> None:
    body: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "tell"}]}
    body |= [{"max_tokens": -1}, {"model": "none"}, {"messages": 7}][number % 3]
    headers = {"X-Request-Id": f"bad-{number}"}
    assert requests.post(server.url + CHAT, json=body, headers=headers, timeout=60).status_code < 500


def told(log: Path, requests_sent: int) -> list[Any]:
    """All records of a log, once it has a line of every request."""

    def lines() -> list[bytes]:
        return log.read_bytes().splitlines()

    eventually(
        lambda: sum(b'"kind"' not in one for one in lines()) >= requests_sent, within=20, what="the log"
    )
    return [decode(line) for line in lines()]


def causes_of(records: list[Any]) -> list[tuple[str, Cause | None]]:
    """Join a log's records; return each request's kind and the cause that was named."""
    (limits,) = (record for record in records if isinstance(record, Limits))
    samples = [record for record in records if isinstance(record, EngineSample)]
    usual = UsualRequests()

    def classify(request: Any, around: Any) -> Any:
        of_kind = KINDS.get(request.request_id.partition("-")[0])
        targets = of_kind.targets if of_kind is not None else Targets(NEVER, NEVER)
        return Classifier(targets=targets, limits_for=lambda _: limits, usual=usual.of)(request, around)

    desk = Desk(*samples, classify=classify)
    found = []
    for record in records:
        if isinstance(record, EdgeRecord | EngineRecord):
            desk.add(record)
            closed = desk.after(3.0)
            found += closed
            for request in closed:
                usual.observe(request)
    found += desk.joiner.drain()
    return [(kind_of(request), request.evidence and request.evidence.cause) for request in found]


def kind_of(request: JoinedRequest) -> str:
    """What befell a request, by its id; in a crowd also by how long its engine says that it queued.

    A server this fast may end one request before its API process takes the next from its socket: that one has
    waited outside of the engine.
    """
    name = request.request_id.partition("-")[0]
    return "outside" if name == "queue" and (request.phases.queue or 0.0) < QUEUED_S else name


def queued(log: Path) -> int:
    """Count the requests of a crowd that vLLM's own figures say to have queued."""
    parts = [json.loads(line) for line in log.read_bytes().rpartition(b"\n")[0].splitlines()]
    return sum(
        "-queue-" in part["request_id"] and part.get("queue_s", 0.0) >= QUEUED_S
        for part in parts
        if part.get("kind") == "engine"
    )


@pytest.fixture(scope="module")
def named(release: str, folder: Path, tmp_path_factory: pytest.TempPathFactory):
    """The kind of every request that was sent, and the cause that was named."""
    install_vllm(release)
    place = tmp_path_factory.mktemp("causes")
    program = Path(sys.executable).with_name("vllm-observe")
    subprocess.run([program, "install-plugin", place / "path"], check=True)
    slots = ("--no-enable-prefix-caching", "--max-num-batched-tokens=128")
    with served(release, place, "slots", folder, *slots) as (server, log):
        app(server, place, "warm", 20, 30).send(2 * USUAL_MIN_REQUESTS, at_once=1, name="usual")
        app(server, place, "answer", 20, 1500).send(20, at_once=4, name="answer")
        # Every other one streams, so that its time to first token is known, and can break a target.
        app(server, place, "prompt", 1900, 4).send(40, at_once=1, name="prompt")
        crowds = 0
        while crowds < CROWDS and queued(log) < ENOUGH_QUEUED:
            crowds += 1
            app(server, place, f"queue-{crowds}", 20, 400).send(40, at_once=40, name=f"queue-{crowds}")
        for number in range(20):
            leave(server, number)
            ask_wrongly(server, number)
        first = causes_of(told(log, 2 * USUAL_MIN_REQUESTS + 20 + 40 + 40 * crowds + 40))
    room = ("--max-num-seqs=64", "--num-gpu-blocks-override=20")
    with served(release, place, "room", folder, *room) as (server, log):
        app(server, place, "room", 300, 400).send(60, at_once=60, name="room")
        assert all(grow(server, f"thrown-{number}", answers=3) for number in range(ROUNDS))
        assert not any(grow(server, f"stayed-{number}", answers=2) for number in range(ROUNDS))
        compile_grammars(server, 24)
        second = causes_of(told(log, 60 + 2 * ROUNDS + 24))
    return first + second


@pytest.mark.parametrize("name", KINDS)
def test_each_request_that_was_slow_or_failed_has_the_cause_that_was_brought_about(named, name, release):
    found = Counter(cause for kind_, cause in named if kind_ == name and cause is not None)
    table = "\n".join(f"  {name:8} named {cause.value:20} {count}" for cause, count in found.items())
    print(table)  # noqa: T201  # what pytest -s is run for

    causes = KINDS[name].causes
    if name == "thrown" and tuple(map(int, release.split(".")[:2])) < TELLS_PREEMPTIONS:
        causes = {Cause.DECODE_SLOW}  # which is no less true, and all that can be known
    right = sum(count for cause, count in found.items() if cause in causes)
    assert found.total() >= 10, "too few were slow to tell"
    assert right >= RIGHT * found.total(), table
