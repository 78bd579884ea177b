from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.looks import Looked, page
from vllm_observe.engine.watch import Look
from vllm_observe.serve.windows import (
    LATENCIES,
    Latency,
    LookBack,
    QuantileFigure,
    Throughput,
    latencies,
    prefix_cache_hit_ratio,
    same_process,
    throughput,
)
from vllm_observe.signals import BY_KEY

SATURATED = "vllm-0.32.0/saturated.prom"
LATER = "vllm-0.32.0/saturated-1s-later.prom"


def look(answer: str | bytes, at: float = 0.0) -> Look:
    found = Looked().sees(answer, after=at)
    assert found is not None
    return found


def counters(started: float = 17.0, engines: str = "0", **values: float) -> bytes:
    lines = [f"process_start_time_seconds {started}"]
    for key, value in values.items():
        name = BY_KEY[key].name
        lines += [f"# TYPE {name} counter"]
        lines += [f'{name}{{model_name="m",engine="{engine}"}} {value}' for engine in engines]
    return "\n".join([*lines, ""]).encode()


def sum_and_count(answer: str, key: str) -> tuple[float, float]:
    """A histogram's totals as prometheus_client reads them."""
    name = BY_KEY[key].name
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(page(answer).decode())
        for sample in family.samples
    }
    return samples[name + "_sum"], samples[name + "_count"]


# --- Latencies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", LATENCIES)
def test_without_an_earlier_look_latencies_run_since_the_start(key):
    total, count = sum_and_count(SATURATED, key)
    found = {latency.signal: latency for latency in latencies(look(SATURATED), None)}[key]
    assert (found.window_s, found.count) == (None, count)
    assert found.mean_s == pytest.approx(total / count)


@pytest.mark.parametrize("key", LATENCIES)
def test_with_an_earlier_look_latencies_are_those_of_the_window(key):
    (total, count), (total_before, count_before) = sum_and_count(LATER, key), sum_and_count(SATURATED, key)
    window = latencies(look(LATER, at=1.0), look(SATURATED))
    found = {latency.signal: latency for latency in window}[key]
    assert (found.window_s, found.count) == (1.0, count - count_before)
    assert found.mean_s == pytest.approx((total - total_before) / (count - count_before))


def test_a_quantile_in_the_first_bucket_is_below_it_and_the_mean_tells_how_far():
    # 37 prefills of 0.438 s together, all in the first bucket, which ends at 0.3 s
    found = {latency.signal: latency for latency in latencies(look(SATURATED), None)}["prefill_time"]
    assert found.p50 == found.p99 == QuantileFigure(value_s=0.3, bound="below")
    assert found.mean_s == pytest.approx(0.0118, abs=1e-4)


def test_a_window_without_requests_has_no_figures_instead_of_old_ones():
    found = latencies(look(SATURATED, at=5.0), look(SATURATED))
    assert set(found) == {Latency(signal=key, window_s=5.0) for key in LATENCIES}


def test_a_latency_that_is_not_exposed_is_left_out():
    found = latencies(look("vllm-0.9.2-v0/saturated.prom"), None)
    assert [latency.signal for latency in found] == [key for key in LATENCIES if key != "tpot"]


def test_a_histogram_of_one_bucket_has_a_mean_and_no_quantile():
    name = BY_KEY["e2e"].name
    only = f'# TYPE {name} histogram\n{name}_bucket{{le="+Inf"}} 2\n{name}_sum 3\n{name}_count 2\n'
    assert latencies(look(only.encode()), None) == (Latency(signal="e2e", count=2.0, mean_s=1.5),)


# --- Throughput and hits --------------------------------------------------------------------------


def test_throughput_is_what_was_done_between_two_looks():
    # 7802 - 6546 generated, 37044 - 31928 prompt tokens, 49 - 37 requests, in two seconds
    assert throughput(look(LATER, at=2.0), look(SATURATED)) == Throughput(
        window_s=2.0,
        generation_tokens_per_s=628.0,
        prompt_tokens_per_s=2558.0,
        requests_per_s=6.0,
        preemptions_per_s=0.0,
    )


def test_one_look_has_no_throughput_and_no_average_in_its_place():
    assert throughput(look(SATURATED), None) is None


def test_the_engines_of_a_server_add_up():
    before, now = counters(engines="01", generation_tokens=10), counters(engines="01", generation_tokens=40)
    done = throughput(look(now, at=10.0), look(before))
    assert (done.generation_tokens_per_s, done.prompt_tokens_per_s) == (6.0, None)


def test_an_engine_that_came_later_makes_the_sum_unknown():
    before, now = counters(engines="0", generation_tokens=10), counters(engines="01", generation_tokens=40)
    assert throughput(look(now, at=10.0), look(before)).generation_tokens_per_s is None


def test_prefix_cache_hits_are_those_of_the_window():
    ratio = prefix_cache_hit_ratio(look(LATER, at=1.0), look(SATURATED))
    assert (ratio.value, ratio.window_s) == ((31616 - 27264) / (37044 - 31928), 1.0)


def test_prefix_cache_hits_run_since_the_start_where_nothing_was_looked_up_meanwhile():
    ratio = prefix_cache_hit_ratio(look(SATURATED, at=1.0), look(SATURATED))
    assert (ratio.value, ratio.window_s) == (27264 / 31928, None)


def test_a_hit_ratio_of_nothing_is_unknown():
    assert prefix_cache_hit_ratio(look("vllm-0.32.0/idle.prom"), None) is None
    assert prefix_cache_hit_ratio(look("vllm-0.9.2-v0/saturated.prom"), None) is None


def test_hits_that_are_more_than_the_queries_are_no_ratio():
    assert prefix_cache_hit_ratio(look(counters(prefix_queries=5, prefix_hits=6)), None) is None


def test_sums_that_no_number_holds_are_unknown():
    nothing = counters(engines="01", generation_tokens=0, prefix_queries=0, prefix_hits=0)
    endless = counters(engines="01", generation_tokens=1.7e308, prefix_queries=1.7e308, prefix_hits=1.7e308)
    assert throughput(look(endless, at=1.0), look(nothing)).generation_tokens_per_s is None
    assert prefix_cache_hit_ratio(look(endless), None) is None


# --- Where a window can begin ---------------------------------------------------------------------


def test_no_window_spans_a_restart():
    before = look(counters(generation_tokens=10))
    assert same_process(before, look(counters(generation_tokens=20), at=5.0)) is before
    assert same_process(before, look(counters(generation_tokens=20, started=18.0), at=5.0)) is None
    assert same_process(before, look(counters(generation_tokens=9), at=5.0)) is None


def test_no_window_has_no_length():
    now = look(SATURATED, at=5.0)
    assert same_process(now, now) is None
    assert same_process(look(SATURATED, at=6.0), now) is None
    assert same_process(None, now) is None


def test_the_look_back_grows_to_a_minute_and_then_moves_on():
    back = LookBack(seconds=60.0, every=5.0)
    windows = []
    for second in range(0, 200, 2):
        now = look(counters(generation_tokens=second), at=float(second))
        back.add(now)
        windows.append(now.at - back.earlier.at)
    assert windows[:4] == [0.0, 2.0, 4.0, 6.0]
    assert all(60.0 <= window < 66.0 for window in windows[31:])


def test_the_look_back_keeps_few_looks():
    back = LookBack(seconds=60.0, every=5.0)
    for second in range(300):
        back.add(look(counters(generation_tokens=second), at=float(second)))
    assert len(back._kept) <= 60 / 5 + 2


def test_the_look_back_begins_anew_with_another_process():
    back = LookBack()
    assert back.earlier is None
    back.add(look(counters(generation_tokens=100), at=10.0))
    restarted = look(counters(generation_tokens=0, started=18.0), at=20.0)
    back.add(restarted)
    assert back.earlier is restarted
