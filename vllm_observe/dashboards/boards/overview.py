"""The fleet at a glance: what the person on call opens first."""

from __future__ import annotations

from vllm_observe.dashboards.annotations import firing
from vllm_observe.dashboards.boards.common import (
    ALL,
    FINISH_REASONS,
    INTERACTIVE,
    MANY,
    OUTCOMES,
    RUNNING,
    count_where,
    kv_usage,
    quantiles,
    slots_used,
    tokens_per_second,
)
from vllm_observe.dashboards.metrics import foreign, own, vllm
from vllm_observe.dashboards.panels import (
    Bands,
    Board,
    Colour,
    Column,
    Link,
    Query,
    Row,
    Stat,
    State,
    Table,
    TimeSeries,
    Unit,
    above,
)
from vllm_observe.dashboards.queries import (
    MODEL,
    SERVER,
    Expr,
    calculate,
    count_by,
    first_of,
    increase,
    max_by,
    min_by,
    quantile,
    rate,
    select,
    sum_by,
    top,
    total,
    whole_total,
)
from vllm_observe.thresholds import (
    KV_FULL,
    KV_NEAR_FULL,
    RESTARTS_AN_HOUR,
    SLOTS_EXHAUSTED,
    SLOTS_NEAR_LIMIT,
)

__all__ = ["OVERVIEW"]

_ENGINE_LINK = Link(
    "Engine board of this instance",
    "/d/vllm-observe-engine?${__url_time_range}&${datasource:queryparam}&${job:queryparam}"
    "&${service_class:queryparam}&${profile:queryparam}&${sidecar:queryparam}"
    "&var-model_name=${__data.fields.Model}&var-instance=${__data.fields.Instance}",
)

_SEVERITIES = (
    State(3, "critical", Colour.CRITICAL),
    State(2, "warning", Colour.WARNING),
    State(1, "info", Colour.NEUTRAL),
)
#: What tells one firing alert from another.
_ALERT = {
    "alertname": "Alert",
    "window": "Window",
    "model_name": "Model",
    "instance": "Instance",
    "engine": "Engine",
}


def _severity() -> Expr:
    """Return the number of each firing alert's severity, so that the worst can stand first."""
    return first_of(
        *(calculate(max_by(firing(f'severity="{one.text}"'), *_ALERT), "*", one.value) for one in _SEVERITIES)
    )


_WRONG = Row(
    "Is anything wrong now?",
    "What fires, and which servers do not serve.",
    (
        Stat(
            title="Alerts firing",
            shows="How many of the VLLM alerts fire, by severity.",
            means="Any number above 0 has a runbook that says what to do. Nothing here may also mean that the "
            "alert rules are not loaded.",
            first="see which in the table of firing alerts below, then open its runbook.",
            unit=Unit.COUNT,
            nothing="none",
            colours={one.text: one.colour for one in _SEVERITIES},
            queries=tuple(Query(count_by(firing(f'severity="{one.text}"')), one.text) for one in _SEVERITIES),
        ),
        Stat(
            title="Servers in trouble",
            shows="Servers that Prometheus cannot scrape, whose vLLM the sidecar cannot scrape, and that have "
            "work but produce nothing. A server can be in several of these.",
            means="A rise takes capacity away: the others get its requests.",
            first="look at the server's process and log; a stalled engine still answers /health with 200.",
            unit=Unit.COUNT,
            bands=Bands(Colour.GOOD, ((1, Colour.CRITICAL),)),
            width=10,
            queries=(
                Query(count_where(foreign("up"), "==", 0), "not scraped"),
                Query(count_where(own("scrape_success"), "==", 0), "vLLM silent"),
                Query(count_where(own("engine_stalled"), "==", 1), "stalled"),
                Query(count_where(own("engine_answers_without_tokens"), "==", 1), "no tokens"),
            ),
        ),
        Stat(
            title="Servers by state",
            shows="Servers that run requests, that have none, and that sleep.",
            means="More idle ones than usual while others are full means that the balancing is uneven.",
            first="compare the table of servers below.",
            unit=Unit.COUNT,
            width=10,
            queries=(
                Query(count_where(RUNNING, ">", 0), "serving"),
                Query(count_where(RUNNING, "==", 0), "idle"),
                Query(count_where(vllm("sleep_state"), "==", 0, 'sleep_state="awake"'), "asleep"),
            ),
        ),
    ),
)

_FULL = Row(
    "How full is it?",
    "How much of each limit is used, and who waits.",
    (
        TimeSeries(
            title="Running, waiting and the limit",
            shows="Requests in the running batches, requests that wait, and the most that can run at once "
            "(max_num_seqs, all engines of a model together; not drawn unless it is known of each).",
            means="Waiting requests while running is at the limit: the limit holds them back. Waiting ones "
            "below the limit: something else does, most often the KV cache.",
            first="see on the engine board which limit binds; then add a replica or raise --max-num-seqs "
            "while KV cache is left.",
            unit=Unit.COUNT,
            queries=(
                Query(top(MANY, total(RUNNING, "model_name")), "{{model_name}} running"),
                Query(top(MANY, total(vllm("waiting"), "model_name")), "{{model_name}} waiting"),
                Query(
                    top(MANY, whole_total(own("max_num_seqs"), "model_name", beside=RUNNING)),
                    "{{model_name}} limit",
                ),
            ),
        ),
        TimeSeries(
            title="Slots used, fullest engine",
            shows="Running requests over max_num_seqs, of each model's fullest engine.",
            means="At the upper line no slot is left, and new requests wait although others may be idle.",
            first="compare the servers in the table below: one full engine is a balancing problem, all full "
            "is too little capacity.",
            unit=Unit.RATIO,
            top_value=1,
            bands=above(SLOTS_NEAR_LIMIT, SLOTS_EXHAUSTED),
            queries=(Query(top(MANY, max_by(slots_used(), "model_name")), "{{model_name}}"),),
        ),
        TimeSeries(
            title="KV-cache usage, fullest engine",
            shows="Share of the KV-cache blocks in use, of each model's fullest engine. Shares are never added.",
            means="Close to full is good use of memory as long as nothing waits; together with preemptions "
            "work is thrown away and done again.",
            first="look for preemptions on the engine board; then lower --max-num-seqs or --max-model-len, or "
            "add a replica.",
            unit=Unit.RATIO,
            top_value=1,
            bands=above(KV_NEAR_FULL, KV_FULL),
            queries=(Query(top(MANY, max_by(kv_usage(), "model_name")), "{{model_name}}"),),
        ),
        TimeSeries(
            title="KV-cache usage, spread between engines",
            shows="The fullest engine's KV-cache usage less the emptiest one's, for each model.",
            means="A rise means that some engines are full while others have room: requests go to the wrong "
            "ones, or a few very long ones sit on one.",
            first="check the load balancer's policy: least requests, or one that knows the prefix caches.",
            unit=Unit.RATIO,
            top_value=1,
            queries=(
                Query(
                    top(
                        MANY,
                        calculate(max_by(kv_usage(), "model_name"), "-", min_by(kv_usage(), "model_name")),
                    ),
                    "{{model_name}}",
                ),
            ),
        ),
        TimeSeries(
            title="Tokens in",
            shows="Prompt tokens a second, those that a cache held included.",
            means="A rise is more or longer prompts; each uncached one delays the first tokens of others.",
            first="if TTFT rose with it, look at the prefix cache's hit rate.",
            unit=Unit.TOKENS_PER_SECOND,
            queries=(Query(top(MANY, tokens_per_second("prompt_tokens", "model_name")), "{{model_name}}"),),
        ),
        TimeSeries(
            title="Tokens out",
            shows="Generated tokens a second.",
            means="A fall with requests still running is a slow or a stuck engine; with none running it is "
            "less traffic.",
            first="compare with the running requests above.",
            unit=Unit.TOKENS_PER_SECOND,
            queries=(
                Query(top(MANY, tokens_per_second("generation_tokens", "model_name")), "{{model_name}}"),
            ),
        ),
    ),
)

_FAST = Row(
    "How fast is it?",
    "What users wait for, as vLLM measures it.",
    (
        TimeSeries(
            title="Time to first token",
            shows="From a request's arrival to its first token; the line is the interactive target.",
            means="A rise is waiting or slow prefill: queues, long prompts, or a cache that hits less.",
            first="see on the requests board where the time went, and the causes of slow requests.",
            unit=Unit.SECONDS,
            bands=above(INTERACTIVE.ttft),
            queries=quantiles(vllm("ttft"), "model_name"),
        ),
        TimeSeries(
            title="Inter-token latency",
            shows="Between two outputs of a request. With speculative decoding an output holds several tokens.",
            means="A rise is a larger batch, prefills in between, or a slower GPU.",
            first="compare with tokens per step and running requests on the engine board.",
            unit=Unit.SECONDS,
            bands=above(INTERACTIVE.tpot),
            queries=quantiles(vllm("itl"), "model_name"),
        ),
        TimeSeries(
            title="Request duration",
            shows="From a request's arrival to its last token. Its first bucket ends at 0.3 s: what is shorter "
            "is shown as up to that.",
            means="A rise alone can be longer answers; with inter-token latency it is a slower engine.",
            first="compare with the two graphs beside this.",
            unit=Unit.SECONDS,
            queries=quantiles(vllm("e2e"), "model_name"),
        ),
    ),
)

_ENDED = Row(
    "How did requests end?",
    "For clients, and for the engine: the two differ where a client left or an answer was an error.",
    (
        TimeSeries(
            title="Outcomes for clients",
            shows="Requests a second by how they ended for the client, from the request log.",
            means="error and timeout are the service's; abort is a client that left; rejected was never served.",
            first="open the requests board: it names the cause of each.",
            unit=Unit.REQUESTS_PER_SECOND,
            stacked=True,
            width=12,
            colours=OUTCOMES,
            queries=(Query(sum_by(rate(own("requests_total")), "outcome"), "{{outcome}}"),),
        ),
        TimeSeries(
            title="Finish reasons",
            shows="Requests a second by why the engine ended them. Clients that left are in none of these.",
            means="A rise of length means answers cut at max_tokens; error and abort are failures.",
            first="for errors read vLLM's log at that time.",
            unit=Unit.REQUESTS_PER_SECOND,
            stacked=True,
            width=12,
            colours=FINISH_REASONS,
            queries=(Query(sum_by(rate(vllm("finished")), "finished_reason"), "{{finished_reason}}"),),
        ),
    ),
)

_WHICH = Row(
    "Which server is it?",
    "Every server with what matters of it; a click on one opens its engine board.",
    (
        Table(
            title="Servers",
            shows="One line for each model on each server, the fullest first.",
            means="One line that stands out is that server's problem; all lines alike are the fleet's.",
            first="click on the instance.",
            keys={"instance": "Instance", "model_name": "Model"},
            columns=(
                Column("Running", total(RUNNING, *MODEL), Unit.COUNT),
                Column("Waiting", total(vllm("waiting"), *MODEL), Unit.COUNT),
                Column("Limit", total(own("max_num_seqs"), *MODEL), Unit.COUNT),
                Column(
                    "Slots used",
                    max_by(slots_used(), *MODEL),
                    Unit.RATIO,
                    above(SLOTS_NEAR_LIMIT, SLOTS_EXHAUSTED),
                ),
                Column("KV cache", max_by(kv_usage(), *MODEL), Unit.RATIO, above(KV_NEAR_FULL, KV_FULL)),
                Column(
                    "TTFT p95", quantile(0.95, vllm("ttft"), *MODEL), Unit.SECONDS, above(INTERACTIVE.ttft)
                ),
                Column("ITL p95", quantile(0.95, vllm("itl"), *MODEL), Unit.SECONDS, above(INTERACTIVE.tpot)),
                Column("Tokens out", tokens_per_second("generation_tokens", *MODEL), Unit.TOKENS_PER_SECOND),
                Column("Preemptions", sum_by(rate(vllm("preemptions")), *MODEL), Unit.PER_SECOND),
            ),
            sort="KV cache",
            row_links=(_ENGINE_LINK,),
        ),
        Table(
            title="Restarts and scrapes",
            shows="For each server its restarts within an hour, and whether and how fast it can be scraped.",
            means="Restarts take every running request with them. A slow scrape delays requests too: vLLM "
            "renders its metrics on the loop that serves them.",
            first="read the end of the server's log before the restart.",
            keys={"instance": "Instance", "job": "Job"},
            columns=(
                Column(
                    "Scraped",
                    max_by(select(foreign("up")), *SERVER),
                    Unit.COUNT,
                    words=(State(0, "no", Colour.CRITICAL), State(1, "yes", Colour.GOOD)),
                ),
                Column(
                    "Restarts in 1 h",
                    sum_by(increase(own("engine_restarts_total"), window="1h"), *SERVER),
                    Unit.COUNT,
                    above(1, RESTARTS_AN_HOUR),
                ),
                Column("Scrape", max_by(select(foreign("scrape_duration_seconds")), *SERVER), Unit.SECONDS),
            ),
            sort="Restarts in 1 h",
            width=12,
            height=7,
        ),
        Table(
            title="Firing alerts",
            shows="The alerts that fire, the worst first, and on what.",
            means="Each line has its runbook under alerts/runbooks, by its name.",
            first="critical ones; then those whose instance is in several.",
            keys=_ALERT,
            columns=(
                Column("Severity", _severity(), Unit.COUNT, words=_SEVERITIES),
                Column("Firing", count_by(firing(), *_ALERT), Unit.COUNT),
            ),
            sort="Severity",
            width=12,
            height=7,
        ),
    ),
)

OVERVIEW = Board(
    name="overview",
    title="vLLM overview",
    summary="The fleet at a glance: is anything wrong, how full is it, how fast, and on which server.",
    rows=(_WRONG, _FULL, _FAST, _ENDED, _WHICH),
    variables=ALL,
)
