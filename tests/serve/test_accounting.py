from __future__ import annotations

import math

import pytest

from vllm_observe.join.cardinality import LabelCap
from vllm_observe.model import (
    Cause,
    EdgeRecord,
    EngineRecord,
    Evidence,
    JoinedRequest,
    Outcome,
    Parts,
    Phases,
)
from vllm_observe.serve.accounting import Accounting
from vllm_observe.serve.instruments import Instruments
from vllm_observe.thresholds import Targets

REQUESTS = "vllm_observe_requests_total"
SLOW = "vllm_observe_slow_requests_total"
DURATION = "vllm_observe_request_duration_seconds"
TTFT = "vllm_observe_request_ttft_seconds"
PHASE = "vllm_observe_request_phase_seconds"
TOKENS = "vllm_observe_request_tokens_total"
RETRIES = "vllm_observe_request_retries_total"
TARGETS = "vllm_observe_request_targets_total"
CLOSED = "vllm_observe_join_closed_total"


@pytest.fixture
def instruments():
    return Instruments()


@pytest.fixture
def accounting(instruments):
    accounting = Accounting(
        instruments,
        profiles=LabelCap(limit=1),
        models=LabelCap(limit=1),
        targets=Targets(ttft=2.5, tpot=0.1, e2e=10.0),
    )
    accounting.serves(["m"])
    return accounting


def request(outcome=Outcome.OK, *, phases=None, evidence=None, attempt=1, engines=(), **edge):
    record = EdgeRecord(**{"ts": 100.0, "request_id": "r-1", "outcome": outcome, "model": "m"} | edge)
    return JoinedRequest(
        request_id=record.request_id,
        attempt=attempt,
        edges=(record,),
        engines=engines,
        outcome=outcome,
        phases=phases or Phases(),
        evidence=evidence,
        parts=Parts.BOTH if engines else Parts.EDGE,
    )


def counted(instruments):
    """What is not 0, by the series as a page writes it; of histograms the counts and sums alone."""
    return {
        sample.series.text: sample.value
        for family in instruments.families()
        for sample in family.samples
        if sample.value and sample.series.label("le") is None
    }


def test_a_served_request_is_counted_once_with_its_times_and_its_tokens(instruments, accounting):
    accounting.joined(
        request(
            profile="coder",
            duration_s=4.0,
            ttft_s=0.5,
            prompt_tokens=100,
            cached_tokens=64,
            completion_tokens=36,
            engines=(EngineRecord(ts=100.0, request_id="chatcmpl-r-1", model="m"),),
            phases=Phases(outside=0.1, queue=0.2, prefill=0.2, decode=3.5),
        )
    )
    by = 'model_name="m",profile="coder"'
    assert counted(instruments) == {
        f'{REQUESTS}{{{by},outcome="ok"}}': 1,
        f"{DURATION}_count{{{by}}}": 1,
        f"{DURATION}_sum{{{by}}}": 4.0,
        f"{TTFT}_count{{{by}}}": 1,
        f"{TTFT}_sum{{{by}}}": 0.5,
        f'{PHASE}_count{{model_name="m",phase="outside"}}': 1,
        f'{PHASE}_sum{{model_name="m",phase="outside"}}': 0.1,
        f'{PHASE}_count{{model_name="m",phase="queue"}}': 1,
        f'{PHASE}_sum{{model_name="m",phase="queue"}}': 0.2,
        f'{PHASE}_count{{model_name="m",phase="prefill"}}': 1,
        f'{PHASE}_sum{{model_name="m",phase="prefill"}}': 0.2,
        f'{PHASE}_count{{model_name="m",phase="decode"}}': 1,
        f'{PHASE}_sum{{model_name="m",phase="decode"}}': 3.5,
        f'{TOKENS}{{{by},kind="prompt"}}': 100,
        f'{TOKENS}{{{by},kind="cached"}}': 64,
        f'{TOKENS}{{{by},kind="uncached"}}': 36,
        f'{TOKENS}{{{by},kind="completion"}}': 36,
        f'{TARGETS}{{{by},target="ttft",met="true"}}': 1,
        f'{TARGETS}{{{by},target="tpot",met="true"}}': 1,
        f'{TARGETS}{{{by},target="e2e",met="true"}}': 1,
        f'{CLOSED}{{parts="both"}}': 1,
    }


def test_what_is_not_known_of_a_request_is_not_counted_as_0(instruments, accounting):
    accounting.joined(request())
    assert counted(instruments) == {
        f'{REQUESTS}{{model_name="m",profile="",outcome="ok"}}': 1,
        f'{CLOSED}{{parts="edge"}}': 1,
    }


def test_what_a_cache_held_of_a_prompt_is_told_of_the_requests_that_tell_it(instruments, accounting):
    accounting.joined(request(prompt_tokens=100, cached_tokens=25))
    accounting.joined(request(prompt_tokens=1000))
    tokens = {series: value for series, value in counted(instruments).items() if series.startswith(TOKENS)}
    by = 'model_name="m",profile=""'
    assert tokens == {
        f'{TOKENS}{{{by},kind="prompt"}}': 1100,
        f'{TOKENS}{{{by},kind="cached"}}': 25,
        f'{TOKENS}{{{by},kind="uncached"}}': 75,
    }


@pytest.mark.parametrize(
    ("outcome", "timed"),
    [
        (Outcome.OK, True),
        (Outcome.TIMEOUT, True),
        (Outcome.ABORT, False),
        (Outcome.ERROR, False),
        (Outcome.REJECTED, False),
    ],
)
def test_only_requests_that_were_served_or_timed_out_tell_how_fast_the_server_is(
    instruments, accounting, outcome, timed
):
    accounting.joined(request(outcome, duration_s=1.0, ttft_s=0.2, phases=Phases(queue=0.5)))
    now = counted(instruments)
    assert now[f'{REQUESTS}{{model_name="m",profile="",outcome="{outcome.value}"}}'] == 1
    for series in (
        f'{DURATION}_count{{model_name="m",profile=""}}',
        f'{TTFT}_count{{model_name="m",profile=""}}',
        f'{PHASE}_count{{model_name="m",phase="queue"}}',
    ):
        assert now.get(series) == (1 if timed else None)


def test_an_answer_that_came_all_at_once_has_no_first_token_to_wait_for(instruments, accounting):
    accounting.joined(request(stream=False, duration_s=4.0, ttft_s=4.0))
    now = counted(instruments)
    assert now[f'{DURATION}_count{{model_name="m",profile=""}}'] == 1
    assert f'{TTFT}_count{{model_name="m",profile=""}}' not in now


def test_a_slow_or_failed_request_is_counted_by_its_cause(instruments, accounting):
    accounting.joined(request(evidence=Evidence(Cause.QUEUE_KV, "waited 9 s while the KV cache was full")))
    accounting.joined(request(Outcome.ABORT, evidence=Evidence(Cause.CLIENT_DISCONNECTED, "left after 1 s")))
    slow = {series: value for series, value in counted(instruments).items() if series.startswith(SLOW)}
    assert slow == {
        f'{SLOW}{{model_name="m",profile="",cause="queue_kv"}}': 1,
        f'{SLOW}{{model_name="m",profile="",cause="client_disconnected"}}': 1,
    }


def test_attempts_after_the_first_are_retries(instruments, accounting):
    for attempt in (1, 2, 3):
        accounting.joined(request(attempt=attempt))
    assert counted(instruments)[f'{RETRIES}{{model_name="m"}}'] == 2


def test_a_missed_target_is_counted_beside_the_met_ones(instruments, accounting):
    accounting.joined(request(duration_s=11.0, ttft_s=3.0))
    now = counted(instruments)
    assert now[f'{TARGETS}{{model_name="m",profile="",target="ttft",met="false"}}'] == 1
    assert now[f'{TARGETS}{{model_name="m",profile="",target="e2e",met="false"}}'] == 1


def test_an_exemplar_leads_from_the_bucket_to_the_request(instruments, accounting):
    accounting.joined(request(duration_s=4.0, ttft_s=0.2, session_id="s-1"))
    found = {
        (family.name, sample.series.label("le")): dict(sample.exemplar.labels)
        for family in instruments.families()
        for sample in family.samples
        if sample.exemplar
    }
    who = {"request_id": "r-1", "session_id": "s-1"}
    assert found == {(DURATION, "5.0"): who, (TTFT, "0.25"): who}


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_a_number_that_cannot_be_costs_nothing_but_itself(instruments, accounting, bad):
    accounting.joined(request(duration_s=bad, ttft_s=0.2, prompt_tokens=-5, completion_tokens=2**60))
    now = counted(instruments)
    assert now['vllm_observe_dropped_total{reason="bad_value"}'] == 3
    assert now[f'{REQUESTS}{{model_name="m",profile="",outcome="ok"}}'] == 1
    assert now[f'{TTFT}_count{{model_name="m",profile=""}}'] == 1
    assert f'{DURATION}_count{{model_name="m",profile=""}}' not in now
    assert not any(series.startswith(TOKENS) for series in now)


def test_profiles_beyond_the_cap_share_one_label_value(instruments, accounting):
    for profile in ("coder", "assistant", "summarizer", None):
        accounting.joined(request(profile=profile))
    requests = {series: n for series, n in counted(instruments).items() if series.startswith(REQUESTS)}
    assert requests == {
        f'{REQUESTS}{{model_name="m",profile="coder",outcome="ok"}}': 1,
        f'{REQUESTS}{{model_name="m",profile="other",outcome="ok"}}': 2,
        f'{REQUESTS}{{model_name="m",profile="",outcome="ok"}}': 1,
    }


@pytest.mark.parametrize("named", ["an-alias", "a-lora-adapter", "no-such-model", "M", "", None])
def test_every_request_asked_the_one_model_that_is_served(instruments, accounting, named):
    accounting.joined(request(model=named))
    assert counted(instruments)[f'{REQUESTS}{{model_name="m",profile="",outcome="ok"}}'] == 1


def test_where_several_models_are_served_a_name_that_is_none_of_them_is_capped(instruments, accounting):
    accounting.serves(["m", "n"])
    for named in ("m", "n", "first-alias", "second-alias", "third-alias", None):
        accounting.joined(request(model=named))
    requests = {series: n for series, n in counted(instruments).items() if series.startswith(REQUESTS)}
    assert requests == {
        f'{REQUESTS}{{model_name="m",profile="",outcome="ok"}}': 1,
        f'{REQUESTS}{{model_name="n",profile="",outcome="ok"}}': 1,
        f'{REQUESTS}{{model_name="first-alias",profile="",outcome="ok"}}': 1,
        f'{REQUESTS}{{model_name="other",profile="",outcome="ok"}}': 2,
        f'{REQUESTS}{{model_name="",profile="",outcome="ok"}}': 1,
    }


def test_a_model_that_has_gone_keeps_its_last_requests(instruments, accounting):
    accounting.serves(["n"])
    accounting.joined(request(model="m"))
    accounting.joined(request(model="an-alias"))
    requests = {series: n for series, n in counted(instruments).items() if series.startswith(REQUESTS)}
    assert requests == {
        f'{REQUESTS}{{model_name="m",profile="",outcome="ok"}}': 1,
        f'{REQUESTS}{{model_name="n",profile="",outcome="ok"}}': 1,
    }


def existing(instruments):
    return {sample.series.text for family in instruments.families() for sample in family.samples}


def test_a_served_model_has_its_counters_before_its_first_request(instruments, accounting):
    accounting.serves(["m", "n"])
    assert f'{REQUESTS}{{model_name="n",profile="",outcome="error"}}' in existing(instruments)
    assert f'{REQUESTS}{{model_name="m",profile="",outcome="error"}}' in existing(instruments)


def test_a_profile_has_all_its_counters_from_its_first_request_on(instruments, accounting):
    accounting.joined(request(profile="coder"))
    assert f'{REQUESTS}{{model_name="m",profile="coder",outcome="error"}}' in existing(instruments)
    assert f'{SLOW}{{model_name="m",profile="coder",cause="queue_slots"}}' in existing(instruments)


def test_a_new_model_has_the_counters_of_every_profile_seen_before(instruments, accounting):
    accounting.joined(request(profile="coder"))
    accounting.serves(["n"])
    assert f'{REQUESTS}{{model_name="n",profile="coder",outcome="error"}}' in existing(instruments)


def test_new_targets_count_from_the_next_request_on(instruments, accounting):
    accounting.targets = Targets(ttft=0.1, tpot=0.1)
    accounting.joined(request(ttft_s=1.0))
    now = counted(instruments)
    assert now[f'{TARGETS}{{model_name="m",profile="",target="ttft",met="false"}}'] == 1
