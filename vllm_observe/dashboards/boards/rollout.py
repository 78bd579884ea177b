"""Blue/green and canary: two versions or two models side by side."""

from __future__ import annotations

from vllm_observe.dashboards.boards.common import ALL, INTERACTIVE, MANY, RUNNING, WAITING, kv_usage
from vllm_observe.dashboards.metrics import foreign, own, vllm
from vllm_observe.dashboards.panels import BarGauge, Board, Column, Query, Row, Table, TimeSeries, Unit, above
from vllm_observe.dashboards.queries import (
    ENGINE,
    MODEL,
    SERVER,
    Expr,
    Vector,
    calculate,
    first_of,
    max_by,
    newest,
    quantile_of,
    rate,
    ratio,
    select,
    startup,
    sum_by,
    top,
)
from vllm_observe.thresholds import ERRORS_HIGH

__all__ = ["ROLLOUT"]

_BY = ("model_name", "vllm_version")
_LEGEND = "{{model_name}} {{vllm_version}}"


def _with_version(by_server: Expr) -> Expr:
    """Add vLLM's release to series that keep their server; where no sidecar tells it, it stays empty."""
    known = max_by(select(own("target_info"), 'vllm_version!=""'), *SERVER, "vllm_version")
    versions = newest(known, *SERVER)  # one each: where the old one lingers, no two may meet
    told = calculate(by_server, f"* on ({', '.join(SERVER)}) group_left (vllm_version)", versions)
    return first_of(told, by_server, on=SERVER)


def _sum(vector: Vector, *labels: str) -> Expr:
    return sum_by(_with_version(sum_by(vector, *MODEL, *labels)), *_BY, *labels)


def _level(gauge: Vector) -> Expr:
    """Add up a gauge over engines, each once however many processes expose it."""
    return sum_by(_with_version(sum_by(max_by(gauge, *ENGINE), *MODEL)), *_BY)


def _quantile(share: float, key: str) -> Expr:
    return quantile_of(share, _sum(rate(vllm(key), part="_bucket"), "le"))


def _mean(key: str) -> Expr:
    return ratio(_sum(rate(vllm(key), part="_sum")), _sum(rate(vllm(key), part="_count")))


_SHIFT = Row(
    "Where does the traffic go?",
    "How much each side serves, and whether the old one has drained.",
    (
        TimeSeries(
            title="Share of the finished requests",
            shows="Each model's and release's share of the requests that engines finished.",
            means="It should follow the split that you asked for; retries and long requests blur it a little.",
            first="compare with the load balancer's weights.",
            unit=Unit.RATIO,
            top_value=1,
            stacked=True,
            queries=(
                Query(
                    ratio(
                        _sum(rate(vllm("finished"))),
                        sum_by(rate(vllm("finished"))),
                        matching="on () group_left ()",
                    ),
                    _LEGEND,
                ),
            ),
        ),
        TimeSeries(
            title="Running and waiting: drained at zero",
            shows="Requests that run or wait on each side.",
            means="The old side may be stopped when its line has reached 0 and stays there.",
            first="if it does not fall, something still sends: a client that keeps its connection, a retry.",
            unit=Unit.COUNT,
            queries=(
                Query(top(MANY, _level(select(RUNNING))), f"{_LEGEND} running"),
                Query(top(MANY, _level(select(WAITING))), f"{_LEGEND} waiting"),
            ),
        ),
        TimeSeries(
            title="Servers on each side",
            shows="Servers that serve each model with each release.",
            means="A side that shrinks below what its share of the traffic needs will queue.",
            first="compare with the waiting requests.",
            unit=Unit.COUNT,
            queries=(
                Query(
                    sum_by(_with_version(calculate(max_by(select(RUNNING), *MODEL), ">= bool", 0)), *_BY),
                    _LEGEND,
                ),
            ),
        ),
    ),
)

_COMPARE = Row(
    "Is the new side as good?",
    "The same figures of both sides in one graph.",
    (
        TimeSeries(
            title="First token, p95 by side",
            shows="95th percentile of the time to first token.",
            means="A new side that is slower in its first minutes has cold caches; later, it is slower.",
            first="wait for the prefix cache to warm up, then compare again before shifting more.",
            unit=Unit.SECONDS,
            width=6,
            bands=above(INTERACTIVE.ttft),
            queries=(Query(top(MANY, _quantile(0.95, "ttft")), _LEGEND),),
        ),
        TimeSeries(
            title="Inter-token latency, p95 by side",
            shows="95th percentile of the time between two outputs.",
            means="Unlike first tokens it does not need warm caches: a difference is real.",
            first="compare running requests: a fuller side is slower by itself.",
            unit=Unit.SECONDS,
            width=6,
            bands=above(INTERACTIVE.tpot),
            queries=(Query(top(MANY, _quantile(0.95, "itl")), _LEGEND),),
        ),
        TimeSeries(
            title="Mean duration by side",
            shows="Mean time of a request in vLLM.",
            means="With inter-token latency alike, it is the length of answers that differs.",
            first="compare tokens per request beside this.",
            unit=Unit.SECONDS,
            width=6,
            queries=(Query(top(MANY, _mean("e2e")), _LEGEND),),
        ),
        TimeSeries(
            title="Answer length by side",
            shows="Mean generated tokens of a finished request.",
            means="Two sides that should be alike and answer at different lengths differ in model, template or "
            "sampling.",
            first="compare the two configurations.",
            unit=Unit.COUNT,
            width=6,
            queries=(Query(top(MANY, _mean("request_generation_tokens")), _LEGEND),),
        ),
        TimeSeries(
            title="Errors by side",
            shows="Share of the requests that ended in an error, a timeout or a refusal for their clients.",
            means="A rise on the new side alone ends the rollout.",
            first="turn the traffic back, then look for the cause.",
            unit=Unit.RATIO,
            width=6,
            bands=above(ERRORS_HIGH),
            queries=(
                Query(
                    top(
                        MANY,
                        ratio(
                            _sum(rate(own("requests_total"), 'outcome=~"error|timeout|rejected"')),
                            _sum(rate(own("requests_total"))),
                        ),
                    ),
                    _LEGEND,
                ),
            ),
        ),
        TimeSeries(
            title="Engine failures by side",
            shows="Share of the finished requests that the engine ended with abort or error.",
            means="It is there without a request log too, but says nothing of clients that left.",
            first="read vLLM's log on the side that rose.",
            unit=Unit.RATIO,
            width=6,
            bands=above(ERRORS_HIGH),
            queries=(
                Query(
                    top(
                        MANY,
                        ratio(
                            _sum(rate(vllm("finished"), 'finished_reason=~"abort|error"')),
                            _sum(rate(vllm("finished"))),
                        ),
                    ),
                    _LEGEND,
                ),
            ),
        ),
        TimeSeries(
            title="KV-cache usage by side",
            shows="KV-cache usage of each side's fullest engine.",
            means="More on the new side at the same traffic: its cache is smaller, or its requests longer.",
            first="compare the cache's configuration on the engine board.",
            unit=Unit.RATIO,
            width=6,
            top_value=1,
            queries=(Query(top(MANY, max_by(_with_version(max_by(kv_usage(), *MODEL)), *_BY)), _LEGEND),),
        ),
        TimeSeries(
            title="Tokens out by side",
            shows="Generated tokens a second.",
            means="Compare it with the share of requests: fewer tokens for the same share is slower or shorter.",
            first="compare answer lengths.",
            unit=Unit.TOKENS_PER_SECOND,
            width=6,
            queries=(Query(top(MANY, _sum(rate(vllm("generation_tokens")))), _LEGEND),),
        ),
    ),
)

_START = Row(
    "How do servers start?",
    "How long a start takes decides how early to scale, and how long a rollback lasts.",
    (
        BarGauge(
            title="Start-up time",
            shows="From the process's start to the first scrape that it answered, of servers that started "
            "within the time shown. Absent with several API processes.",
            means="Minutes are loading and compiling; more than usual is a slow disk or a cold compile cache.",
            first="keep weights and the compile cache on a local disk.",
            unit=Unit.SECONDS,
            width=12,
            queries=(Query(top(MANY, startup(foreign("process_start_time_seconds"))), "{{instance}}"),),
        ),
        Table(
            title="Sides",
            shows="Each server with its model and vLLM's release.",
            means="A server that is still on the old release keeps its side alive.",
            first="drain it.",
            keys={"instance": "Instance", "model_name": "Model", "vllm_version": "vLLM"},
            columns=(
                Column(
                    "Running", _with_version(sum_by(max_by(select(RUNNING), *ENGINE), *MODEL)), Unit.COUNT
                ),
                Column(
                    "Waiting", _with_version(sum_by(max_by(select(WAITING), *ENGINE), *MODEL)), Unit.COUNT
                ),
                Column(
                    "Finished",
                    _with_version(sum_by(rate(vllm("finished")), *MODEL)),
                    Unit.REQUESTS_PER_SECOND,
                ),
            ),
            sort="Running",
            width=12,
            height=8,
        ),
    ),
)

ROLLOUT = Board(
    name="rollout",
    title="vLLM rollout",
    summary="Blue/green and canary: two versions or two models side by side.",
    rows=(_SHIFT, _COMPARE, _START),
    variables=ALL,
)
