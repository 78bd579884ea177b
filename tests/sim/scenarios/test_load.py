"""The load client against the simulated vLLM as a process, over HTTP and in real time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from support.crowds import always, clients, people, profile, worker
from support.programs import answers, free_port
from support.sims import limits
from support.waiting import eventually
from vllm_observe.clock import SystemClock
from vllm_observe.model import EdgeRecord, Outcome
from vllm_observe.records.format1 import decode
from vllm_observe.sim.cost import TINY_CPU
from vllm_observe.sim.http.port import Port
from vllm_observe.sim.http.server import Settings, SimulatedVllm
from vllm_observe.sim.prompts import Segment
from vllm_observe.sim.scenarios.incidents import Deed, Incident
from vllm_observe.sim.scenarios.load import Load
from vllm_observe.sim.scenarios.scenario import Scenario
from vllm_observe.sim.scenarios.words import messages
from vllm_observe.sim.scenarios.workloads import Manners

ONE = profile(turns=always(1))


class Server:
    """A simulated vLLM of a tiny model that obeys commands."""

    def __init__(self, log):
        options = ["--hardware", "tiny-cpu", "--port", "0", "--max-model-len", "2000", "--log", log]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vllm_observe.sim", "--commands", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()
        self.log = log

    def obey(self, command):
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()


@contextmanager
def serving(folder):
    server = Server(folder / "vllm.jsonl")
    with server.process:
        try:
            eventually(lambda: answers(f"{server.url}/health"), within=20, what="the server")
            yield server
        finally:
            server.process.kill()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("sound")) as server:
        yield server


@pytest.fixture
def server(tmp_path):
    """A server of the test's own, to be harmed."""
    with serving(tmp_path) as found:
        yield found


def drive(url, *sources, seconds=20.0, until=None, context=2000, stop=None):
    """Drive the clients until so many requests ended; return what the app's log says of them."""
    lines, stop = [], stop or threading.Event()
    crowd = clients(*sources, context=context)

    def log(line):
        lines.append(decode(line.rstrip(b"\n")))
        if until is not None and len(lines) >= until:
            stop.set()

    load = Load(crowd, url=url, model="simulated", clock=SystemClock(), log=log)
    load.run(stop, seconds=seconds)
    assert load.in_flight == crowd.in_flight == 0
    assert crowd.sent == len(lines)
    return lines


def test_a_chat_is_streamed_measured_and_written_down(sound):
    first, second = drive(sound.url, worker(profile=profile(think=always(0.2))), until=2)

    for record in (first, second):
        assert (record.outcome, record.status, record.stream) == (Outcome.OK, 200, True)
        assert (record.session_id, record.profile, record.client) == ("w-1", "small", "c")
        assert record.completion_tokens == 5
        assert 0 < record.ttft_s <= record.duration_s
        assert record.max_tokens == 50
    # A word is a token, and so is each message's role: the second turn has the first one and its answer.
    assert second.prompt_tokens == first.prompt_tokens + 5 + 10 + 2


def test_the_server_knows_who_asked(sound):
    (record,) = drive(sound.url, worker(name="known", profile=ONE), until=1)

    def told():
        records = [decode(line) for line in sound.log.read_bytes().splitlines()]
        return [
            edge for edge in records if isinstance(edge, EdgeRecord) and edge.request_id == record.request_id
        ]

    (edge,) = eventually(told, within=10, what="the plugin's record")
    assert (edge.session_id, edge.profile, edge.client) == ("known-1", "small", "c")
    assert edge.duration_s <= record.duration_s


def test_an_answer_that_is_no_stream_has_no_first_token(sound):
    (record,) = drive(sound.url, worker(profile=profile(turns=always(1), stream=False)), until=1)

    assert (record.outcome, record.stream, record.ttft_s) == (Outcome.OK, False, None)
    assert record.completion_tokens == 5


def test_many_at_once_are_all_answered(sound):
    records = drive(sound.url, worker(at_once=30, sessions=60, profile=ONE), until=60)

    assert {record.outcome for record in records} == {Outcome.OK}
    assert len({record.request_id for record in records}) == 60


def test_too_long_a_prompt_is_the_client_s_fault_and_not_sent_again(sound):
    manners = Manners(oversized=1.0, retries=3, backoff_s=0.1)
    (record,) = drive(sound.url, worker(profile=ONE, manners=manners), seconds=0.8)

    assert (record.outcome, record.status) == (Outcome.ERROR, 400)
    assert record.error == "BadRequestError"


def test_a_client_gives_up_on_a_server_that_hangs_and_tries_again(server):
    server.obey("hang")
    manners = Manners(timeout_s=0.5, retries=1, backoff_s=0.2)
    first, second = drive(server.url, worker(profile=ONE, manners=manners), until=2)

    assert [record.outcome for record in (first, second)] == [Outcome.TIMEOUT] * 2
    assert first.request_id == second.request_id
    assert 0.5 <= first.duration_s < 3.0


def test_a_person_who_leaves_is_no_timeout(server):
    server.obey("hang")
    (record,) = drive(
        server.url, worker(profile=ONE, manners=Manners(leaving=1.0, patience=always(0.3))), until=1
    )

    assert record.outcome is Outcome.ABORT


def test_a_client_that_gives_up_amid_an_answer_says_how_far_it_came(sound):
    endless = profile(turns=always(1), output=always(1500), max_tokens=1500)
    (record,) = drive(sound.url, worker(profile=endless, manners=Manners(timeout_s=1.0)), until=1)

    assert (record.outcome, record.status) == (Outcome.TIMEOUT, 200)
    assert record.ttft_s < 1.0 <= record.duration_s < 3.0


@pytest.mark.parametrize(
    ("command", "status", "outcome"),
    [("fail_share 1", 500, Outcome.ERROR), ("crash 200", 200, Outcome.ERROR), ("crash", 500, Outcome.ERROR)],
)
def test_an_error_is_one_whatever_its_status(server, command, status, outcome):
    server.obey(command)
    record = drive(server.url, worker(name="w", profile=ONE, since=0.5), until=1)[0]

    assert (record.outcome, record.status) == (outcome, status)
    assert record.error


def test_nobody_listens():
    (record,) = drive(f"http://127.0.0.1:{free_port()}", worker(profile=ONE), until=1)

    assert (record.outcome, record.status, record.error) == (Outcome.ERROR, None, "ConnectionRefusedError")


def test_who_is_stopped_leaves_at_once(server):
    server.obey("hang")
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    records = drive(server.url, worker(at_once=5, sessions=5, profile=ONE), seconds=60.0, stop=stop)

    assert time.monotonic() - began < 5.0
    assert [record.outcome for record in records] == [Outcome.ABORT] * 5


def test_a_prompt_is_as_many_words_as_tokens_and_the_same_each_time():
    prompt = (Segment("system small", 100), Segment("question w-1-1", 7), Segment("answer w-1-1", 5))

    said = messages(prompt, lambda _: None)
    assert [message["role"] for message in said] == ["system", "user", "assistant"]
    assert [len(message["content"].split()) for message in said] == [100, 7, 5]
    assert said == messages(prompt, lambda _: None)
    assert messages(prompt, {"answer w-1-1": "as it was"}.get)[2]["content"] == "as it was"


class Stage:
    """A scenario's server in a thread, with its timeline: it begins when its port is open."""

    def __init__(self, scenario):
        self._scenario = scenario
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        vllm = SimulatedVllm(self._scenario.deployment(), Settings(), deeds=self._scenario.timeline)
        port = Port(vllm, host="127.0.0.1", port=0)
        self.url = f"http://127.0.0.1:{port.port}"
        serving = asyncio.ensure_future(port.run())
        going_on = asyncio.ensure_future(vllm.conductor.run())
        self._ready.set()
        await self._stop.wait()
        port.close()
        await serving
        going_on.cancel()

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        eventually(lambda: answers(f"{self.url}/health"), within=10, what="the server")
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def test_a_scenario_s_timeline_befalls_a_server_over_http():
    """All is answered until the engine dies, three seconds after the server began; nothing is from then on."""
    scenario = Scenario(
        name="dead",
        summary="",
        shows="",
        limits=limits(max_model_len=200, num_gpu_blocks=400),
        cost=TINY_CPU,
        workload=(people(20.0, profile=ONE),),
        seconds=60.0,
        load_s=0.0,
        incidents=(
            Incident(name="dead engine", start=3.0, end=60.0, deeds=(Deed(3.0, lambda it: it.crash(200)),)),
        ),
    )
    records, stop = [], threading.Event()

    def log(line):
        records.append(decode(line.rstrip()))
        if sum(record.outcome is Outcome.ERROR for record in records) == 10:
            stop.set()

    with Stage(scenario) as stage:
        load = Load(scenario.clients(), url=stage.url, model=scenario.model, clock=SystemClock(), log=log)
        load.run(stop, seconds=scenario.seconds)

    first_dead = next(place for place, one in enumerate(records) if one.outcome is Outcome.ERROR)
    assert first_dead > 5
    assert {record.outcome for record in records[:first_dead]} == {Outcome.OK}
    assert {record.outcome for record in records[first_dead:]} <= {Outcome.ERROR, Outcome.ABORT}
    assert {record.status for record in records[: first_dead + 5]} == {200}
