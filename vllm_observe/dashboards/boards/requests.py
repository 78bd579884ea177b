"""Whose requests are slow or fail, and why: the board of the join."""

from __future__ import annotations

from dataclasses import replace

from vllm_observe.dashboards.boards.common import ALL, INTERACTIVE, MANY, OUTCOMES, PHASES, by_profile
from vllm_observe.dashboards.metrics import Metric, own, vllm
from vllm_observe.dashboards.panels import (
    Board,
    Heatmap,
    Link,
    Query,
    Row,
    Stat,
    TimeSeries,
    Unit,
    above,
    below,
)
from vllm_observe.dashboards.queries import (
    SERVER,
    Expr,
    bottom,
    buckets,
    max_by,
    mean,
    quantile,
    rate,
    ratio,
    select,
    sum_by,
    top,
)
from vllm_observe.dashboards.variables import SIDECAR
from vllm_observe.thresholds import DISCONNECTS_HIGH, ERRORS_HIGH, JOIN_COVERAGE_LOW

__all__ = ["REQUESTS"]

_TIME_SHOWN = "since=${__from:date:seconds}&until=${__to:date:seconds}"
_LIST_LINK = Link(
    "Requests of this time, from the sidecar", f"${{{SIDECAR}}}/api/v1/requests?{_TIME_SHOWN}&limit=100"
)
_SESSIONS_LINK = Link(
    "Sessions of this time, from the sidecar", f"${{{SIDECAR}}}/api/v1/sessions?{_TIME_SHOWN}&limit=100"
)


def _share_of_requests(outcomes: str) -> Expr:
    """Return the share of each profile's requests that ended in one of the outcomes."""
    requests = own("requests_total")
    return ratio(
        sum_by(rate(requests, f'outcome=~"{outcomes}"'), "profile"), sum_by(rate(requests), "profile")
    )


def _felt(histogram: Metric) -> Query:
    """Ask for the 95th percentile of each profile: more than one line for each would be a tangle."""
    named = by_profile(top(MANY, quantile(0.95, histogram, "profile")))
    return replace(named, exemplars=True)


_WHO = Row(
    "Whose requests, and how did they end?",
    "By profile: the app's use of the model, as the request log tells it.",
    (
        TimeSeries(
            title="Requests by profile",
            shows="Requests a second that ended, by profile.",
            means="A rise of one profile that goes with slowness of all is a noisy neighbour.",
            first="ask that app to slow down, or give it a server of its own.",
            unit=Unit.REQUESTS_PER_SECOND,
            stacked=True,
            width=8,
            queries=(by_profile(top(MANY, sum_by(rate(own("requests_total")), "profile"))),),
            links=(_LIST_LINK,),
        ),
        TimeSeries(
            title="Requests by outcome",
            shows="Requests a second by how they ended for the client.",
            means="error and timeout are the service's; abort is a client that left; rejected was not served.",
            first="see the causes below.",
            unit=Unit.REQUESTS_PER_SECOND,
            stacked=True,
            width=8,
            colours=OUTCOMES,
            queries=(Query(sum_by(rate(own("requests_total")), "outcome"), "{{outcome}}"),),
            links=(_LIST_LINK,),
        ),
        TimeSeries(
            title="Failed requests by profile",
            shows="Share of each profile's requests that ended in an error, a timeout or a refusal.",
            means="One profile alone asks for something that fails, such as prompts that are too long; all "
            "of them is the service.",
            first="open the list of requests, or run vllm-observe requests: each has its cause with the evidence.",
            unit=Unit.RATIO,
            bands=above(ERRORS_HIGH),
            width=8,
            queries=(by_profile(top(MANY, _share_of_requests("error|timeout|rejected"))),),
            links=(_LIST_LINK,),
        ),
    ),
)

_SLOW = Row(
    "How long did they take?",
    "As the user felt it. The dots are single requests: a click leads to what the sidecar knows of one.",
    (
        TimeSeries(
            title="Time to first token, p95 as felt",
            shows="From sending a request to its first token: the 95th percentile of each profile; the line is "
            "the interactive target.",
            means="If vLLM's own figure on the engine board did not rise too, the time is lost outside it.",
            first="click on a dot above the line.",
            unit=Unit.SECONDS,
            bands=above(INTERACTIVE.ttft),
            width=12,
            queries=(_felt(own("request_ttft_seconds")),),
            links=(_LIST_LINK,),
        ),
        TimeSeries(
            title="Duration, p95 as felt",
            shows="From sending a request to the end of its answer: the 95th percentile of each profile.",
            means="A rise with longer answers is what was asked for; see tokens by profile.",
            first="click on a dot that is far above the others.",
            unit=Unit.SECONDS,
            width=12,
            queries=(_felt(own("request_duration_seconds")),),
            links=(_LIST_LINK,),
        ),
        Heatmap(
            title="First tokens as felt, by bucket",
            shows="How many requests had their first token within each bucket.",
            means="A second cloud further up is a kind of requests that waits.",
            first="click on a dot in it.",
            unit=Unit.SECONDS,
            queries=(Query(buckets(own("request_ttft_seconds")), "{{le}}", exemplars=True),),
        ),
        Heatmap(
            title="Durations as felt, by bucket",
            shows="How many requests took as long as each bucket says.",
            means="Few very long ones hold slots and KV cache for all the others.",
            first="click on a dot at the top.",
            unit=Unit.SECONDS,
            queries=(Query(buckets(own("request_duration_seconds")), "{{le}}", exemplars=True),),
        ),
    ),
)

_WHY = Row(
    "Why?",
    "The one cause that best explains each slow or failed request, and where the time went.",
    (
        TimeSeries(
            title="Slow and failed requests by cause",
            shows="Requests a second by cause, stacked.",
            means="queue_slots and queue_kv: too little capacity. preempted: too little KV cache. prefill_long "
            "and decode_long: what was asked. decode_slow: a slow engine. outside_engine: app or network.",
            first="take the largest, and list its requests: vllm-observe requests --cause CAUSE.",
            unit=Unit.REQUESTS_PER_SECOND,
            stacked=True,
            width=12,
            queries=(Query(sum_by(rate(own("slow_requests_total")), "cause"), "{{cause}}"),),
            links=(_LIST_LINK,),
        ),
        TimeSeries(
            title="Slow and failed requests by profile",
            shows="Share of each profile's requests that were slow or failed.",
            means="One profile alone has changed what it asks; all of them is the service.",
            first="pick the profile at the top, and see its causes.",
            unit=Unit.RATIO,
            width=12,
            queries=(
                by_profile(
                    top(
                        MANY,
                        ratio(
                            sum_by(rate(own("slow_requests_total")), "profile"),
                            sum_by(rate(own("requests_total")), "profile"),
                        ),
                    )
                ),
            ),
            links=(_LIST_LINK,),
        ),
        TimeSeries(
            title="Where the time went",
            shows="Mean time of a request outside the engine, in the queue, in prefill and in decode, stacked.",
            means="The part that grows is the one to look at. outside is the app, the network, the tokenizer.",
            first="for outside look at the app and its proxy; else at the engine board.",
            unit=Unit.SECONDS,
            stacked=True,
            width=12,
            colours=PHASES,
            queries=(Query(mean(own("request_phase_seconds"), "phase"), "{{phase}}"),),
        ),
        TimeSeries(
            title="Prompt tokens served from the prefix cache",
            shows="Share of each profile's prompt tokens that a cache held, of the requests whose records tell it.",
            means="A fall makes that profile's first tokens late, and everybody's prefill busier.",
            first="see what changed in its prompts: what varies belongs to their end.",
            unit=Unit.RATIO,
            top_value=1,
            width=12,
            queries=(
                by_profile(
                    bottom(
                        MANY,
                        ratio(
                            sum_by(rate(own("request_tokens_total"), 'kind="cached"'), "profile"),
                            sum_by(rate(own("request_tokens_total"), 'kind=~"cached|uncached"'), "profile"),
                        ),
                    )
                ),
            ),
        ),
        TimeSeries(
            title="Tokens by profile",
            shows="Prompt and completion tokens a second of joined requests.",
            means="Whoever grows here uses the capacity.",
            first="compare with requests by profile: longer, or more?",
            unit=Unit.TOKENS_PER_SECOND,
            width=12,
            queries=(
                by_profile(
                    top(
                        MANY,
                        sum_by(
                            rate(own("request_tokens_total"), 'kind=~"prompt|completion"'), "profile", "kind"
                        ),
                    ),
                    "kind",
                ),
            ),
        ),
        TimeSeries(
            title="Retries",
            shows="Attempts a second after a request's first.",
            means="Retries add load just when there is too much of it.",
            first="see that clients wait longer after each attempt, and give up.",
            unit=Unit.REQUESTS_PER_SECOND,
            width=12,
            queries=(
                Query(top(MANY, sum_by(rate(own("request_retries_total")), "model_name")), "{{model_name}}"),
            ),
        ),
    ),
)

_LEFT = Row(
    "Who left, and what is not seen?",
    "Sessions, disconnects, and how much of the traffic the join knows.",
    (
        Stat(
            title="Active sessions",
            shows="Sessions of which a request ended in the last minutes. A session that two servers served "
            "counts at both.",
            means="A rise with requests alike is more users; without, it is sessions that are not reused.",
            first="see which sessions are the slowest: the link, or vllm-observe sessions.",
            unit=Unit.COUNT,
            width=4,
            height=8,
            queries=(Query(sum_by(max_by(select(own("active_sessions")), *SERVER))),),
            links=(_SESSIONS_LINK,),
        ),
        TimeSeries(
            title="Clients that left",
            shows="Share of each profile's requests whose client left before the end.",
            means="People leave when they wait too long, and when they have read enough.",
            first="compare with the time to first token as felt.",
            unit=Unit.RATIO,
            bands=above(DISCONNECTS_HIGH),
            queries=(by_profile(top(MANY, _share_of_requests("abort"))),),
        ),
        TimeSeries(
            title="Disconnects that vLLM did not count",
            shows="Clients that left, as the request log saw them, and aborts that vLLM counted.",
            means="What lies between the two is in no metric of vLLM's: it used the engine for nobody.",
            first="trust the log's number.",
            unit=Unit.REQUESTS_PER_SECOND,
            queries=(
                Query(sum_by(rate(own("requests_total"), 'outcome="abort"')), "seen by the log"),
                Query(sum_by(rate(vllm("finished"), 'finished_reason="abort"')), "counted by vLLM"),
            ),
        ),
        TimeSeries(
            title="Join coverage",
            shows="Share of the requests that the engine ended which the request log knows too.",
            means="Below the line this board tells of a part only: some traffic has no record.",
            first="ask the doctor (vllm-observe doctor); then look at the sidecar board.",
            unit=Unit.RATIO,
            top_value=1,
            width=4,
            bands=below(JOIN_COVERAGE_LOW),
            queries=(
                Query(
                    ratio(
                        sum_by(rate(own("join_closed_total"), 'parts="both"')),
                        sum_by(rate(own("join_closed_total"), 'parts=~"both|engine"')),
                    ),
                    "known",
                ),
            ),
        ),
    ),
)

REQUESTS = Board(
    name="requests",
    title="vLLM requests and sessions",
    summary="Whose requests are slow or fail, since when, and why; from a dot to the one request.",
    rows=(_WHO, _SLOW, _WHY, _LEFT),
    variables=ALL,
    of_sidecar=True,
)
