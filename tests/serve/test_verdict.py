from __future__ import annotations

import msgspec
import pytest

from support.looks import Looked, seen
from vllm_observe.errors import ScrapeError, ScrapeFailure
from vllm_observe.model import BindingLimit
from vllm_observe.serve.state import EngineStatus, RequestsState, ScrapeStatus, State
from vllm_observe.serve.verdict import Level, Verdict, verdict
from vllm_observe.serve.windows import Throughput


def engine(rank: str = "0", **values: object) -> EngineStatus:
    usual = {
        "running": 3.0,
        "waiting": 0.0,
        "max_num_seqs": 8,
        "kv_usage": 0.2,
        "awake": True,
        "stalled": False,
    }
    return EngineStatus(model_name="m", engine=rank, age_s=1.0, **usual | values)


def state(*engines: EngineStatus, **values: object) -> State:
    whole = State(
        generated_at=0.0,
        url="http://vllm:8000",
        scrape=ScrapeStatus(success=True, age_s=1.0),
        stall_after_s=300.0,
        engines=engines,
    )
    return msgspec.structs.replace(whole, **values)


DOWN = ScrapeStatus(
    success=False, age_s=12.4, reason=ScrapeFailure.CONNECTION, message="nothing listens there"
)
SLOTS = BindingLimit.SLOTS
ENGINES = [engine(str(rank)) for rank in range(16)]


@pytest.mark.parametrize(
    ("seen", "level", "text"),
    [
        (state(engine(running=0.0)), Level.WELL, "idle"),
        (state(engine()), Level.WELL, "serving: 3 of 8 slots, 0 waiting"),
        (state(engine(), engine("1")), Level.WELL, "serving: 6 of 16 slots, 0 waiting"),
        (state(engine(max_num_seqs=None)), Level.WELL, "serving: 3 running, 0 waiting"),
        (state(engine(waiting=None)), Level.WELL, "serving: 3 of 8 slots, ? waiting"),
        (
            state(engine(running=8.0, waiting=16.0, binding_limit=SLOTS)),
            Level.BUSY,
            "saturated: 8 of 8 slots, 16 waiting",
        ),
        (
            state(engine(running=8.0, waiting=16.0, binding_limit=SLOTS), engine("1")),
            Level.BUSY,
            "saturated: 8 of 8 slots, 16 waiting (engine 0 of 2)",
        ),
        (
            state(*(engine(str(rank), waiting=1.0, binding_limit=SLOTS) for rank in range(3))),
            Level.BUSY,
            "saturated: 9 of 24 slots, 3 waiting (all 3 engines)",
        ),
        (
            state(engine(waiting=5.0, kv_usage=0.99, binding_limit=BindingLimit.KV)),
            Level.BUSY,
            "short of KV cache: 99.0 % used, 3 of 8 slots, 5 waiting",
        ),
        (
            state(engine(waiting=5.0, max_num_seqs=None)),
            Level.BUSY,
            "waiting: 3 running, 5 waiting, max_num_seqs unknown",
        ),
        (
            state(engine(running=62.0, waiting=41.0, max_num_seqs=64, utilization=62 / 64)),
            Level.BUSY,
            "waiting: 62 of 64 slots, 41 waiting, nearly all slots are taken",
        ),
        (
            state(engine(waiting=5.0, kv_usage=0.93)),
            Level.BUSY,
            "waiting: 3 of 8 slots, 5 waiting, 93.0 % of the KV cache used",
        ),
        (state(engine(waiting=1.0, queued=False)), Level.WELL, "serving: 3 of 8 slots, 1 waiting"),
        (
            state(engine(waiting=1.0, queued=False), engine("1", waiting=2.0, queued=True)),
            Level.BUSY,
            "waiting: 3 of 8 slots, 2 waiting, why is not known (engine 1 of 2)",
        ),
        (
            state(engine(running=8.0, waiting=1.0, queued=False, binding_limit=SLOTS)),
            Level.BUSY,
            "saturated: 8 of 8 slots, 1 waiting",
        ),
        (state(engine(running=0.0), restart_age_s=1.2), Level.BUSY, "restarted 1 s ago: idle"),
        (
            state(engine(), restart_age_s=59.0),
            Level.BUSY,
            "restarted 59 s ago: serving: 3 of 8 slots, 0 waiting",
        ),
        (state(engine(running=0.0), restart_age_s=60.0), Level.WELL, "idle"),
        (
            state(engine(running=8.0, utilization=1.0)),
            Level.BUSY,
            "near its limit: 8 of 8 slots, 0 waiting",
        ),
        (
            state(engine(kv_usage=0.937)),
            Level.BUSY,
            "near its limit: 93.7 % of the KV cache used, 3 of 8 slots, 0 waiting",
        ),
        (
            state(engine(awake=False, running=0.0), *ENGINES[1:6]),
            Level.BUSY,
            "asleep: it serves nobody until it is woken up (engine 0 of 6)",
        ),
        (
            state(engine(running=8.0, waiting=16.0, stalled=True, binding_limit=SLOTS)),
            Level.PROBLEM,
            "stalled: 8 running, 16 waiting and no token for 300 s or more",
        ),
        (
            state(engine(running=0.0), answers_without_tokens=True),
            Level.PROBLEM,
            "dead engine: requests are answered 2xx and no token is made; restart vLLM",
        ),
        (
            state(),
            Level.PROBLEM,
            "state unknown: vLLM tells neither running nor waiting requests; is it run with --disable-log-stats?",
        ),
        (state(scrape=DOWN), Level.PROBLEM, "down: nothing listens there (last seen 12 s ago)"),
        (
            state(engine(), scrape=DOWN),
            Level.PROBLEM,
            "stale, all figures are 12 s old; down: nothing listens there",
        ),
        (
            state(scrape=ScrapeStatus(success=False, message="vLLM has not been scraped yet")),
            Level.PROBLEM,
            "no state: vLLM has not been scraped yet",
        ),
    ],
)
def test_the_state_in_one_sentence(seen, level, text):
    assert verdict(seen) == Verdict(level, text)


def test_what_is_worse_is_told_first():
    worst = state(engine(stalled=True, binding_limit=SLOTS, waiting=1.0), scrape=DOWN)
    assert verdict(worst).text.startswith("stale")
    assert verdict(msgspec.structs.replace(worst, scrape=ScrapeStatus(success=True))).text.startswith(
        "stalled"
    )


ENDING = Throughput(window_s=60.0, requests_per_s=0.5)


def silent(seconds: float | None, **values: object) -> State:
    return state(engine(), **{"requests": RequestsState(silent_s=seconds), "throughput": ENDING} | values)


@pytest.mark.parametrize("stall_after", [15.0, 300.0, None])
def test_a_request_log_that_stopped_is_told_once_it_has_lasted(stall_after):
    least = stall_after or 300.0
    told = verdict(silent(least, stall_after_s=stall_after))
    assert told == Verdict(
        Level.BUSY,
        f"the request log is silent: nothing for {least:.0f} s, though vLLM ends requests: "
        "serving: 3 of 8 slots, 0 waiting",
    )
    assert verdict(silent(least - 1, stall_after_s=stall_after)).level is Level.WELL


@pytest.mark.parametrize(
    "talking",
    [
        silent(None),
        silent(900.0, requests=None),
        silent(900.0, throughput=None),
        silent(900.0, throughput=Throughput(window_s=60.0)),
        silent(900.0, throughput=Throughput(window_s=60.0, requests_per_s=0.0)),
    ],
)
def test_where_no_request_ends_or_no_log_is_followed_no_silence_is_told(talking):
    assert verdict(talking).text == "serving: 3 of 8 slots, 0 waiting"


def test_a_silent_log_hides_no_server_that_is_full():
    full = state(engine(binding_limit=SLOTS), requests=RequestsState(silent_s=900.0), throughput=ENDING)
    assert verdict(full).text.startswith("saturated: ")


def test_only_some_of_many_engines_are_named():
    many = state(*(engine(str(rank), waiting=1.0, binding_limit=SLOTS) for rank in range(9)), engine("9"))
    assert verdict(many).text.endswith("(engines 0, 1, 2, 3, … of 10)")


def test_real_servers_are_judged_as_their_operators_would():
    assert verdict(seen("vllm-0.32.0/saturated.prom")).text == "saturated: 8 of 8 slots, 16 waiting"
    assert verdict(seen("vllm-0.32.0/idle.prom")).text == "idle"
    assert verdict(seen("vllm-0.9.2-v0/saturated.prom")).text == "saturated: 8 of 8 slots, 16 waiting"
    assert verdict(seen("vllm-0.16.0-engine-dead/metrics.prom")).level is Level.PROBLEM
    preempted = seen("vllm-0.32.0/preempting-06.prom", "vllm-0.32.0/preempting-12.prom")
    assert verdict(preempted).text == "short of KV cache: 68.4 % used, 3 of 8 slots, 13 waiting"


def test_another_service_is_no_vllm():
    server = Looked()
    server.sees(ScrapeError(ScrapeFailure.NO_VLLM_METRICS, "there are python_ ones only"))
    assert verdict(server.state) == Verdict(Level.PROBLEM, "no vLLM metrics: there are python_ ones only")
