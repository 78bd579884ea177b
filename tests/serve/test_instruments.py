from __future__ import annotations

import math
import os
import subprocess
import sys
import threading

import pytest
from prometheus_client import REGISTRY

from vllm_observe.errors import ScrapeFailure
from vllm_observe.model import Cause, Exemplar, Kind, Outcome
from vllm_observe.serve.instruments import Instruments
from vllm_observe.signals import OWN, OwnMetric

DROPPED = OwnMetric(
    name="vllm_observe_dropped_total",
    kind=Kind.COUNTER,
    labels=("reason",),
    help="What a bound cut off.",
    known={"reason": ("join_full",)},
)
WAIT = OwnMetric(
    name="vllm_observe_wait_seconds",
    kind=Kind.HISTOGRAM,
    labels=("model_name",),
    help="Waiting.",
    unit="seconds",
    buckets=(0.5, 1, 2.5),
)
LINES = OwnMetric(name="vllm_observe_lines_total", kind=Kind.COUNTER, labels=(), help="Lines.")
LAG = OwnMetric(name="vllm_observe_lag_seconds", kind=Kind.GAUGE, labels=(), help="Lag.", unit="seconds")
LIMIT = OwnMetric(name="vllm_observe_limit", kind=Kind.GAUGE, labels=("model_name", "engine"), help="Limit.")
TABLE = (WAIT, LINES, LAG, LIMIT, DROPPED)

NOT_COUNTABLE = [-1, -0.001, math.nan, math.inf, -math.inf, 2**53, 10**400]


def values(instruments):
    """Every sample's value by the series as a page writes it."""
    return {
        sample.series.text: sample.value for family in instruments.families() for sample in family.samples
    }


def family(instruments, name):
    return next(family for family in instruments.families() if family.name == name)


def test_every_counter_of_the_table_is_there_at_0_for_its_known_label_values():
    start = values(Instruments())
    assert {value for series, value in start.items()} == {0.0}
    assert "vllm_observe_log_lines_total" in start
    for reason in ScrapeFailure:
        assert f'vllm_observe_scrape_failures_total{{reason="{reason.value}"}}' in start


def test_a_counter_of_a_model_is_there_at_0_once_the_model_is_foreseen():
    instruments = Instruments()
    instruments.foresee(model_name="m", profile="")
    now = values(instruments)
    for outcome in Outcome:
        assert now[f'vllm_observe_requests_total{{model_name="m",profile="",outcome="{outcome.value}"}}'] == 0
    for cause in Cause:
        assert (
            now[f'vllm_observe_slow_requests_total{{model_name="m",profile="",cause="{cause.value}"}}'] == 0
        )
    assert now['vllm_observe_request_retries_total{model_name="m"}'] == 0
    assert now['vllm_observe_request_duration_seconds_count{model_name="m",profile=""}'] == 0
    assert now['vllm_observe_request_phase_seconds_count{model_name="m",phase="decode"}'] == 0


def test_foreseeing_again_resets_nothing():
    instruments = Instruments(TABLE)
    instruments.foresee(model_name="m")
    instruments.histogram("vllm_observe_wait_seconds", model_name="m").observe(1)
    instruments.foresee(model_name="m")
    assert values(instruments)['vllm_observe_wait_seconds_count{model_name="m"}'] == 1


def test_families_come_in_the_tables_order_with_its_words():
    instruments = Instruments()
    instruments.foresee(model_name="m", profile="")
    for metric in OWN:
        if metric.kind is Kind.GAUGE:
            instruments.gauge(metric.name, **dict.fromkeys(metric.labels, "x")).set(1)
    told = [(f.name, f.kind, f.help, f.unit) for f in instruments.families()]
    assert told == [(m.name, m.kind, m.help, m.unit) for m in OWN]


def test_a_histogram_counts_in_its_tables_buckets():
    instruments = Instruments(TABLE)
    histogram = instruments.histogram("vllm_observe_wait_seconds", model_name="m")
    for seconds in (0.5, 0.6, 1, 100):
        histogram.observe(seconds)
    assert [(s.series.text, s.value) for s in family(instruments, "vllm_observe_wait_seconds").samples] == [
        ('vllm_observe_wait_seconds_bucket{model_name="m",le="0.5"}', 1),
        ('vllm_observe_wait_seconds_bucket{model_name="m",le="1.0"}', 3),
        ('vllm_observe_wait_seconds_bucket{model_name="m",le="2.5"}', 3),
        ('vllm_observe_wait_seconds_bucket{model_name="m",le="+Inf"}', 4),
        ('vllm_observe_wait_seconds_count{model_name="m"}', 4),
        ('vllm_observe_wait_seconds_sum{model_name="m"}', 102.1),
    ]


def test_an_exemplar_stands_at_the_bucket_that_its_value_fell_into():
    instruments = Instruments(TABLE)
    histogram = instruments.histogram("vllm_observe_wait_seconds", model_name="m")
    histogram.observe(0.7, exemplar={"request_id": "r-1", "session_id": "s-1"})
    histogram.observe(0.1, exemplar={})
    found = {
        sample.series.label("le"): sample.exemplar
        for sample in family(instruments, "vllm_observe_wait_seconds").samples
        if sample.exemplar
    }
    assert found == {
        "1.0": Exemplar((("request_id", "r-1"), ("session_id", "s-1")), 0.7, found["1.0"].timestamp)
    }
    assert found["1.0"].timestamp > 1_600_000_000


@pytest.mark.parametrize("amount", NOT_COUNTABLE)
def test_an_amount_that_no_counter_can_take_is_dropped_and_counted(amount):
    instruments = Instruments(TABLE)
    instruments.counter("vllm_observe_lines_total").inc(3)
    instruments.counter("vllm_observe_lines_total").inc(amount)
    now = values(instruments)
    assert now["vllm_observe_lines_total"] == 3
    assert now['vllm_observe_dropped_total{reason="bad_value"}'] == 1


@pytest.mark.parametrize("value", NOT_COUNTABLE)
def test_a_value_that_no_histogram_can_take_is_dropped_and_counted(value):
    instruments = Instruments(TABLE)
    instruments.histogram("vllm_observe_wait_seconds", model_name="m").observe(
        value, exemplar={"request_id": "r"}
    )
    now = values(instruments)
    assert now['vllm_observe_wait_seconds_count{model_name="m"}'] == 0
    assert now['vllm_observe_wait_seconds_sum{model_name="m"}'] == 0
    assert now['vllm_observe_dropped_total{reason="bad_value"}'] == 1


def test_a_gauge_is_absent_until_it_is_set_and_again_when_its_value_is_not_known():
    instruments = Instruments(TABLE)
    lag = instruments.gauge("vllm_observe_lag_seconds")
    seen = [values(instruments).get("vllm_observe_lag_seconds")]
    for value in (0, 2.5, None, 1, math.nan, None):
        lag.set(value)
        seen.append(values(instruments).get("vllm_observe_lag_seconds"))
    assert seen == [None, 0, 2.5, None, 1, None, None]


def test_labels_stand_in_the_tables_order_whatever_the_callers():
    instruments = Instruments(TABLE)
    instruments.gauge("vllm_observe_limit", engine="0", model_name="m").set(8)
    instruments.gauge("vllm_observe_limit", model_name="m", engine="1").set(9)
    now = values(instruments)
    assert now['vllm_observe_limit{model_name="m",engine="0"}'] == 8
    assert now['vllm_observe_limit{model_name="m",engine="1"}'] == 9


def test_one_label_set_is_one_counter_in_whatever_order_its_labels_are_given():
    instruments = Instruments()
    name = "vllm_observe_requests_total"
    instruments.counter(name, model_name="m", profile="p", outcome="ok").inc()
    instruments.counter(name, outcome=Outcome.OK, profile="p", model_name="m").inc()
    assert values(instruments)[f'{name}{{model_name="m",profile="p",outcome="ok"}}'] == 2


def test_a_label_value_that_utf8_cannot_hold_does_not_cost_the_page():
    instruments = Instruments(TABLE)
    instruments.gauge("vllm_observe_limit", model_name="m\ud800", engine="0").set(1)
    instruments.histogram("vllm_observe_wait_seconds", model_name="m\ud800").observe(1)
    page = "\n".join(values(instruments))
    assert page.encode("utf-8").count(b'model_name="m?"') == 7


@pytest.mark.parametrize(
    "ask",
    [
        lambda i: i.counter("vllm_observe_no_such_total"),
        lambda i: i.counter("vllm_observe_lag_seconds"),
        lambda i: i.histogram("vllm_observe_lines_total"),
        lambda i: i.gauge("vllm_observe_lines_total"),
        lambda i: i.gauge("vllm_observe_limit", model_name="m"),
        lambda i: i.counter("vllm_observe_dropped_total"),
        lambda i: i.counter("vllm_observe_dropped_total", cause="x"),
        lambda i: i.counter("vllm_observe_lines_total", reason="x"),
    ],
)
def test_what_the_table_does_not_have_is_a_fault_of_the_caller(ask):
    instruments = Instruments(TABLE)
    with pytest.raises((KeyError, ValueError)):
        ask(instruments)


def test_two_sets_of_instruments_count_apart_and_none_in_the_librarys_own_registry():
    first, second = Instruments(TABLE), Instruments(TABLE)
    first.counter("vllm_observe_lines_total").inc()
    assert [values(i)["vllm_observe_lines_total"] for i in (first, second)] == [1, 0]
    assert not any(metric.name.startswith("vllm_observe") for metric in REGISTRY.collect())


def test_counting_from_several_threads_loses_nothing():
    instruments = Instruments(TABLE)

    def count():
        for number in range(500):
            instruments.counter("vllm_observe_lines_total").inc()
            instruments.gauge("vllm_observe_limit", model_name=str(number), engine="0").set(number)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        instruments.families()
    assert values(instruments)["vllm_observe_lines_total"] == 2000


def test_it_refuses_to_write_into_vllms_own_metric_files(tmp_path):
    program = """
from vllm_observe.errors import ConfigError
from vllm_observe.serve.instruments import Instruments
try:
    Instruments()
except ConfigError as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.startswith("PROMETHEUS_MULTIPROC_DIR is vLLM's")
    assert told.stdout.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
