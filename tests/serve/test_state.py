from __future__ import annotations

import json

import msgspec
import pytest

from support.looks import DATA, EIGHT_SLOTS, Looked, page, seen
from vllm_observe.errors import ScrapeError, ScrapeFailure
from vllm_observe.model import BindingLimit, Limits, LimitsSource
from vllm_observe.serve.state import EXPECTED, LoraAdapters, RequestsState, State
from vllm_observe.signals import BY_KEY, OLDEST

REFUSED = ScrapeError(ScrapeFailure.CONNECTION, "http://vllm:8000/metrics: nothing listens there")
SATURATED = "vllm-0.32.0/saturated.prom"
LATER = "vllm-0.32.0/saturated-1s-later.prom"


def test_a_saturated_engine_is_told_with_its_slots_its_queue_and_its_cache():
    engine = seen(SATURATED).engines[0]
    assert (engine.model_name, engine.engine) == ("tiny", "0")
    assert (engine.running, engine.max_num_seqs, engine.utilization) == (8, 8, 1.0)
    assert (engine.waiting, engine.waiting_capacity, engine.waiting_deferred) == (16, 16, 0)
    assert engine.kv_usage == pytest.approx(0.681, abs=1e-3)
    assert engine.kv_capacity_tokens == 6144  # kv_cache_size_tokens of its vllm:cache_config_info
    assert engine.binding_limit is BindingLimit.SLOTS
    assert engine.awake is True


def test_a_queue_is_one_that_was_there_at_the_look_before():
    server = Looked()
    queued = []
    for name in (SATURATED, LATER, "vllm-0.32.0/idle.prom"):
        server.sees(name)
        queued.append(server.state.engines[0].queued)
    assert queued == [None, True, False]


def test_requests_that_came_since_the_look_before_are_no_queue():
    server = Looked()
    server.sees(page(SATURATED).replace(b'"} 16.0', b'"} 0.0'))
    server.sees(LATER)
    assert server.state.engines[0].queued is False


def test_without_a_known_limit_nothing_is_made_up_for_it():
    server = Looked()
    server.limits = Limits()
    server.sees(SATURATED)
    engine = server.state.engines[0]
    assert (engine.max_num_seqs, engine.utilization, engine.binding_limit) == (None, None, None)
    assert server.state.limits_source is LimitsSource.UNKNOWN


@pytest.mark.parametrize("value", ["0.937", "1.0", "0.0"])
def test_kv_usage_under_its_old_name_is_the_kv_usage(value):
    old = page("vllm-0.9.2-v0/saturated.prom").replace(
        b'vllm:gpu_cache_usage_perc{model_name="tiny"} 0.0',
        f'vllm:gpu_cache_usage_perc{{model_name="tiny"}} {value}'.encode(),
    )
    state = seen(old)
    assert [engine.kv_usage for engine in state.engines] == [float(value)]
    assert state.found["kv_usage"] == "vllm:gpu_cache_usage_perc"
    assert state.missing == ()


def test_two_names_for_one_number_are_read_once():
    state = seen("vllm-0.9.2-v1/loaded.prom")
    assert [engine.kv_usage for engine in state.engines] == [0.00201416015625]
    assert state.prefix_cache_hit_ratio.value == 39680 / 45686


def test_a_kv_usage_that_is_not_exposed_is_unknown_and_named_as_missing():
    without = b"\n".join(line for line in page(SATURATED).splitlines() if b"kv_cache_usage_perc" not in line)
    state = seen(without + b"\n")
    assert state.engines[0].kv_usage is None
    assert state.missing == ("kv_usage",)


def test_each_rank_is_an_engine_of_its_own():
    state = seen("vllm-0.32.0/data-parallel-2.prom")
    assert [(e.engine, e.running, e.waiting) for e in state.engines] == [("0", 8, 0), ("1", 8, 0)]


def test_ranks_stand_in_the_order_of_their_numbers():
    lines = [f'vllm:num_requests_running{{model_name="m",engine="{rank}"}} 1' for rank in range(12)]
    assert [e.engine for e in seen("\n".join([*lines, ""]).encode()).engines] == [str(r) for r in range(12)]


def test_every_capture_exposes_all_that_is_expected():
    captures = sorted((DATA / "captures").glob("*/*.prom"))
    assert len(captures) >= 15
    for capture in captures:
        assert seen(capture.read_bytes()).missing == (), capture


@pytest.mark.parametrize("key", EXPECTED)
def test_what_is_expected_is_exposed_by_every_release_without_being_asked_for(key):
    signal = BY_KEY[key]
    assert OLDEST in {signal.first, *(former.first for former in signal.former)}
    assert signal.last is None
    assert not signal.gate


def test_a_dead_engine_that_answers_is_known_at_the_first_look():
    assert seen("vllm-0.16.0-engine-dead/metrics.prom").answers_without_tokens is True
    assert seen(SATURATED).answers_without_tokens is False
    assert seen("vllm-0.32.0/idle.prom").answers_without_tokens is None  # it has not answered anybody yet


def test_one_look_at_a_working_engine_does_not_say_that_it_moves():
    assert seen(SATURATED).engines[0].stalled is None
    assert seen(SATURATED, LATER).engines[0].stalled is False
    assert seen("vllm-0.32.0/idle.prom").engines[0].stalled is False


def test_a_server_that_took_the_place_of_another_says_since_when():
    server = Looked()
    server.sees(SATURATED)
    assert server.state.restart_age_s is None
    server.sees("vllm-0.32.0/idle.prom", after=5.0)  # its counters are at 0
    server.clock.advance(3.0)
    assert server.state.restart_age_s == 3.0


def test_an_engine_with_work_and_flat_counters_is_stalled():
    stall = [(DATA / f"cases/07-engine-stalled/stall_{t:03}.prom").read_bytes() for t in range(0, 361, 60)]
    server = Looked(stale_after=180.0)
    for moment in stall:
        server.sees(moment, after=60.0)
    assert [engine.stalled for engine in server.state.engines] == [True]
    assert server.state.stall_after_s == 300.0


def test_a_stall_over_a_gap_in_the_looks_is_a_stall():
    server = Looked(stale_after=15.0)
    server.sees(SATURATED)
    server.sees(SATURATED, after=400.0)
    assert [engine.stalled for engine in server.state.engines] == [True]


# --- Fresh, stale, absent -------------------------------------------------------------------------


def test_a_good_scrape_is_a_success_with_its_age_and_duration():
    server = Looked()
    server.sees(SATURATED)
    server.clock.advance(2.0)
    scrape = server.state.scrape
    assert (scrape.success, scrape.age_s, scrape.duration_s, scrape.reason) == (True, 2.0, 0.002, None)
    assert server.state.engines[0].age_s == 2.0


def test_after_a_failed_scrape_the_engines_are_shown_with_their_age():
    server = Looked()
    server.sees(SATURATED)
    server.sees(REFUSED, after=5.0)
    state = server.state
    assert (state.scrape.success, state.scrape.reason) == (False, ScrapeFailure.CONNECTION)
    assert state.scrape.message == str(REFUSED)
    assert [engine.age_s for engine in state.engines] == [5.0]


def test_what_is_too_old_to_speak_for_now_is_absent():
    server = Looked(stale_after=15.0)
    server.sees(SATURATED)
    server.sees(REFUSED, after=15.0)
    state = server.state
    assert (state.engines, state.latency, state.throughput, state.found) == ((), (), None, {})
    assert (state.prefix_cache_hit_ratio, state.lora, state.answers_without_tokens) == (None, None, None)
    assert state.scrape.age_s == 15.0


def test_a_scrape_that_is_overdue_is_no_success():
    server = Looked(stale_after=15.0)
    server.sees(SATURATED)
    server.clock.advance(20.0)
    assert server.state.scrape.success is False
    assert server.state.scrape.message == "no scrape for 20 s"


def test_before_the_first_scrape_nothing_is_known():
    state = Looked().state
    assert (state.scrape.success, state.scrape.age_s) == (False, None)
    assert state.engines == ()
    assert (state.vllm_version, state.limits_source) == ("0.32.0", EIGHT_SLOTS.source)


def test_what_a_page_holds_and_nobody_can_use_is_counted():
    assert seen(page(SATURATED) + b"what is this\n").scrape.dropped == {"malformed_line": 1}


def test_the_current_adapters_are_told():
    state = seen((DATA / "cases/08-lora-info/scrape.prom").read_bytes() + page(SATURATED))
    assert state.lora == LoraAdapters(max_adapters=4, running=("tax-q", "faq-es"), waiting=("hr-de",))


# --- The document ---------------------------------------------------------------------------------


def test_the_address_is_shown_without_the_user_and_password_in_it():
    server = Looked()
    server.url = "http://me:secret@vllm:8000/prefix/"
    assert server.state.url == "http://vllm:8000/prefix"


def test_the_document_is_read_back_as_it_was_written():
    state = msgspec.structs.replace(
        seen(SATURATED, LATER),
        requests=RequestsState(lines=7, lag_s=0.5, joined={"ok": 6}, slow={"queue_slots": 1}),
    )
    written = msgspec.json.encode(state)
    assert msgspec.json.decode(written, type=State) == state
    assert json.loads(written)["targets"] == {"ttft_s": 2.5, "tpot_s": 0.1, "e2e_s": None}


def test_what_is_not_known_is_null_and_not_left_out():
    written = json.loads(msgspec.json.encode(Looked().state))
    assert written["throughput"] is None
    assert written["requests"] is None
    assert written["answers_without_tokens"] is None
