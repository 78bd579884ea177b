"""Every query of every board: it parses, names what exists, and makes none of the usual mistakes."""

from __future__ import annotations

import re
from functools import cache

import promql_parser
import pytest

from support.boards import asked, fill, walk
from support.facts import RELEASES, rows
from vllm_observe.dashboards import Options
from vllm_observe.dashboards.annotations import ANNOTATIONS
from vllm_observe.dashboards.metrics import FOREIGN, own, vllm
from vllm_observe.dashboards.queries import (
    chosen,
    first_of,
    increase,
    max_by,
    mean,
    quantile,
    rate,
    ratio,
    select,
    span,
    sum_by,
)
from vllm_observe.model import Kind
from vllm_observe.signals import NEWEST, OLDEST, OWN, SIGNALS
from vllm_observe.thresholds import BURN_RATES

ASKED = asked()
KINDS = {
    **{signal.name: signal.kind for signal in SIGNALS},
    **{metric.name: metric.kind for metric in OWN},
    **{metric.name: metric.kind for metric in FOREIGN.values()},
}
PARTS = ("_bucket", "_sum", "_count")
TIMELINES = {query.panel["title"] for query in ASKED if query.panel["type"] == "state-timeline"}
COUNTED = {Kind.COUNTER, Kind.HISTOGRAM}


@cache
def _parsed(expr):
    return promql_parser.parse(fill(expr))


def parsed(query):
    return _parsed(query.expr)


def family(name):
    """Return the family of a series' name."""
    if name in KINDS:
        return name
    return next((name.removesuffix(part) for part in PARTS if name.endswith(part)), name)


def selectors(expr):
    return [node for node in walk(expr) if isinstance(node, promql_parser.VectorSelector)]


def matchers(selector):
    return {matcher.name: matcher for matcher in selector.matchers.matchers}


def test_a_query_names_only_metrics_that_the_tables_know():
    for query in ASKED:
        named = {family(selector.name) for selector in selectors(parsed(query))}

        assert named, query.name
        assert named <= KINDS.keys(), query.name


@pytest.mark.parametrize("mark", ANNOTATIONS, ids=lambda mark: mark.name)
def test_a_mark_is_asked_for_in_known_names(mark):
    named = {
        family(selector.name)
        for selector in selectors(promql_parser.parse(fill(Options().text(mark.expr.text))))
    }

    assert named
    assert named <= KINDS.keys()


def test_what_is_counted_is_shown_as_it_grows_and_nothing_else_is():
    def bare(expr):
        """Give the selectors of an expression that stand without a range."""
        ranged = {
            str(node.vector_selector) for node in walk(expr) if isinstance(node, promql_parser.MatrixSelector)
        }
        return [selector for selector in selectors(expr) if str(selector) not in ranged]

    for query in ASKED:
        expr = parsed(query)
        assert not [it.name for it in bare(expr) if KINDS[family(it.name)] in COUNTED], query.name
        for node in walk(expr):
            if isinstance(node, promql_parser.Call) and node.func.name in {"rate", "increase"}:
                assert KINDS[family(node.args[0].vector_selector.name)] in COUNTED, query.name


def test_windows_follow_the_screen_but_where_a_promise_or_a_title_names_one():
    for query in ASKED:
        windows = set(re.findall(r"\[([^\]]+)\]", re.sub(r'"[^"]*"', "", query.expr)))
        if query.board == "service-levels":
            windows -= {span(burn.long) for burn in BURN_RATES} | {"30d"}
        named = {"Restarts and scrapes": {"1h"}, "Start-up time": {"$__range:30s"}}
        # A timeline shows the same series all along: it looks at all the time shown to choose them.
        named |= {title: {"$__range:1m"} for title in TIMELINES}
        assert windows <= {"$__rate_interval"} | named.get(query.panel["title"], set()), query.name


def test_quantiles_are_of_buckets_added_up_over_le():
    for query in ASKED:
        for node in walk(parsed(query)):
            if isinstance(node, promql_parser.Call) and node.func.name == "histogram_quantile":
                added = node.args[1]
                while isinstance(added, promql_parser.BinaryExpr) and str(added.op) == "and":
                    added = added.lhs  # what bounds are left out
                assert isinstance(added, promql_parser.AggregateExpr), query.name
                assert str(added.op) == "sum", query.name
                assert "le" in added.modifier.labels, query.name


def test_no_bound_of_a_bucket_is_compared_as_text():
    for query in ASKED:
        for selector in selectors(parsed(query)):
            bound = matchers(selector).get("le")
            assert bound is None or bound.op == promql_parser.MatchOp.Re, query.name


def test_nothing_is_divided_by_what_may_be_nothing():
    for query in ASKED:
        for node in walk(parsed(query)):
            if isinstance(node, promql_parser.BinaryExpr) and str(node.op) == "/":
                divisor = node.rhs.expr if isinstance(node.rhs, promql_parser.ParenExpr) else node.rhs
                if not isinstance(divisor, promql_parser.NumberLiteral):
                    assert isinstance(divisor, promql_parser.BinaryExpr), query.name
                    assert str(divisor.op) == ">", query.name


def test_shares_are_never_added_up():
    ratios = {row.name for row in (*SIGNALS, *OWN) if row.unit == "ratio"}
    for query in ASKED:
        for node in walk(parsed(query)):
            if isinstance(node, promql_parser.AggregateExpr) and str(node.op) in {"sum", "avg"}:
                inner = node.expr
                assert not {selector.name for selector in selectors(inner)} & ratios, query.name
                assert not (isinstance(inner, promql_parser.BinaryExpr) and str(inner.op) == "/"), query.name


def test_each_selector_is_of_what_is_picked():
    for query in ASKED:
        for selector in selectors(parsed(query)):
            known = matchers(selector)
            if selector.name == "ALERTS":  # an alert without a model or an instance is of all of them
                continue
            assert known.keys() >= (
                {"Hostname"} if selector.name.startswith("DCGM_") else {"job", "instance"}
            )
            for label in ("model_name", "engine", "profile"):
                metric = next((row for row in (*SIGNALS, *OWN) if row.name == family(selector.name)), None)
                assert (label in known) == (metric is not None and label in metric.labels), selector.name


@pytest.mark.parametrize("release", RELEASES)
def test_a_releases_boards_name_what_that_release_exposes(release):
    exposed = {row["family"] for row in rows(release)}

    for query in asked(Options(vllm_version=release)):
        named = {family(selector.name) for selector in selectors(parsed(query))}
        theirs = {name for name in named if name.startswith("vllm:")}
        # One of several choices may be of another release; not all of them.
        assert not theirs or theirs & exposed, query.name


@pytest.mark.parametrize("release", [OLDEST, "0.8.5", "0.9.2", "0.10.2", "0.11.2", NEWEST])
def test_an_old_release_is_asked_by_its_own_names(release):
    named = {
        family(selector.name)
        for query in asked(Options(vllm_version=release))
        for selector in selectors(parsed(query))
    }

    former = {
        OLDEST: {
            "vllm:gpu_cache_usage_perc",
            "vllm:time_per_output_token_seconds",
            "vllm:gpu_prefix_cache_hit_rate",
        },
        "0.8.5": {"vllm:gpu_cache_usage_perc", "vllm:gpu_prefix_cache_hits_total"},
        "0.9.2": {"vllm:kv_cache_usage_perc", "vllm:time_per_output_token_seconds"},
        "0.10.2": {"vllm:kv_cache_usage_perc", "vllm:inter_token_latency_seconds"},
        "0.11.2": {"vllm:kv_cache_usage_perc", "vllm:inter_token_latency_seconds"},
        NEWEST: {"vllm:kv_cache_usage_perc", "vllm:request_time_per_output_token_seconds"},
    }
    assert named >= former[release]


@pytest.mark.parametrize("release", ["0.6.6.post1", "0.9.2", NEWEST])
def test_without_a_sidecar_none_of_its_metrics_is_named(release):
    for query in asked(Options(vllm_version=release)):
        assert "vllm_observe_" not in query.expr, query.name


def test_where_two_engines_of_a_release_name_a_gauge_differently_both_are_asked():
    """vLLM 0.9.2 renamed the KV-cache usage in its V1 engine, and not in V0."""
    (expr,) = [
        query.expr
        for query in asked(Options(vllm_version="0.9.2"))
        if query.panel["title"] == "KV-cache usage"
    ]
    named = [selector.name for selector in selectors(_parsed(expr))]

    assert named == ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]


def test_of_choices_those_that_can_exist_are_kept_and_all_where_none_can():
    first, second, third = (max_by(select(vllm(key))) for key in ("running", "waiting", "kv_usage"))
    text = first_of(first_of(first, second), third, on=("model_name",)).text

    assert chosen(text, lambda _: True) == f"({first.text} or {second.text}) or on (model_name) {third.text}"
    assert chosen(text, lambda choice: "waiting" in choice) == f"({second.text})"
    assert chosen(text, lambda _: False) == chosen(text, lambda _: True)


def test_another_prefix_stands_before_all_of_vllms_names_and_no_others():
    every = asked(Options(metric_prefix="ray_vllm_"))
    named = {selector.name for query in every for selector in selectors(parsed(query))}

    assert "ray_vllm_num_requests_running" in named
    assert "ray_vllm_time_to_first_token_seconds_bucket" in named
    assert "http_requests_total" in named
    assert not {name for name in named if name.startswith("vllm:")}


def test_a_gauge_has_no_rate():
    with pytest.raises(ValueError, match="gauge"):
        rate(vllm("running"))
    with pytest.raises(ValueError, match="gauge"):
        increase(own("join_pending"))


def test_of_a_histogram_only_the_parts_have_a_rate_and_a_counter_has_none():
    with pytest.raises(ValueError, match="histogram"):
        rate(vllm("ttft"))
    with pytest.raises(ValueError, match="counter"):
        rate(vllm("preemptions"), part="_sum")


def test_an_answer_needs_all_of_one_way():
    both = ratio(sum_by(rate(vllm("prefix_hits"))), sum_by(rate(vllm("prefix_queries"))))

    assert both.ways == {frozenset({"vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"})}
    assert mean(vllm("ttft")).ways == {frozenset({"vllm:time_to_first_token_seconds"})}
    assert quantile(0.5, vllm("ttft")).ways == {frozenset({"vllm:time_to_first_token_seconds"})}
    assert max_by(select(own("max_num_seqs"))).ways == {frozenset({"vllm_observe_max_num_seqs"})}


@pytest.mark.parametrize(("seconds", "written"), [(300, "5m"), (5400, "90m"), (259200, "3d"), (7, "7s")])
def test_durations_are_written_as_prometheus_reads_them(seconds, written):
    assert span(seconds) == written
