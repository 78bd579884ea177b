"""The observer itself: does it see everything, how late, and what does looking cost?"""

from __future__ import annotations

from vllm_observe.dashboards.boards.common import ALL, MANY, ROWS
from vllm_observe.dashboards.metrics import Metric, foreign, own
from vllm_observe.dashboards.panels import (
    Board,
    Colour,
    Column,
    Query,
    Row,
    State,
    StateTimeline,
    Table,
    TimeSeries,
    Unit,
    above,
    below,
)
from vllm_observe.dashboards.queries import (
    SERVER,
    Expr,
    bottom,
    max_by,
    rate,
    ratio,
    select,
    sum_by,
    top,
    worst,
)
from vllm_observe.thresholds import JOIN_COVERAGE_LOW, UNPARSED_HIGH

__all__ = ["SIDECAR"]

_SERVER = "{{instance}}"


def _gauge(metric: Metric) -> Expr:
    return top(MANY, max_by(select(metric), *SERVER))


def _rate(metric: Metric, *labels: str) -> Expr:
    return top(MANY, sum_by(rate(metric), *SERVER, *labels))


def _rate_by(metric: Metric, label: str) -> Expr:
    return sum_by(rate(metric), label)


_SCRAPING = Row(
    "Does it see vLLM, and what does looking cost?",
    "vLLM renders its metrics on the loop that serves requests: each scrape delays them a little.",
    (
        StateTimeline(
            title="vLLM seen",
            shows="Whether the last scrape of vLLM gave an engine's state.",
            means="Without it every engine's figures are absent, never frozen.",
            first="see the reason beside this; vllm-observe doctor says how to mend it.",
            unit=Unit.COUNT,
            states=(State(0, "not seen", Colour.CRITICAL), State(1, "seen", Colour.GOOD)),
            width=8,
            queries=(
                Query(
                    worst(ROWS, max_by(select(own("scrape_success")), *SERVER), *SERVER, lowest=True), _SERVER
                ),
            ),
        ),
        TimeSeries(
            title="Failed scrapes by reason",
            shows="Scrapes of vLLM a second that gave nothing, by reason.",
            means="connection and timeout: vLLM is down or busy. auth and http_client: a wrong setting. "
            "no_vllm_metrics: something else answers there, or --disable-log-stats is set.",
            first="vllm-observe doctor.",
            unit=Unit.PER_SECOND,
            stacked=True,
            queries=(Query(_rate_by(own("scrape_failures_total"), "reason"), "{{reason}}"),),
        ),
        TimeSeries(
            title="Duration of a scrape of vLLM",
            shows="How long the last scrape of vLLM took.",
            means="A rise is a busy event loop in vLLM, or many more series.",
            first="scrape less often (--scrape-interval): requests wait while vLLM renders.",
            unit=Unit.SECONDS,
            queries=(Query(_gauge(own("scrape_duration_seconds")), _SERVER),),
        ),
        TimeSeries(
            title="Duration of a scrape of the sidecar",
            shows="How long Prometheus's last scrape of this page took.",
            means="Near Prometheus's timeout, scrapes begin to fail.",
            first="see how many samples the page has.",
            unit=Unit.SECONDS,
            queries=(Query(_gauge(foreign("scrape_duration_seconds")), _SERVER),),
        ),
        TimeSeries(
            title="Samples on the page",
            shows="Samples that Prometheus read in its last scrape.",
            means="Each is a series to pay for; a rise is a new label value, such as a profile.",
            first="see which profiles there are; their number is bounded by a setting.",
            unit=Unit.COUNT,
            queries=(Query(_gauge(foreign("scrape_samples_scraped")), _SERVER),),
        ),
        TimeSeries(
            title="Scrapes and samples left out",
            shows="Scrapes a second that were skipped, since the one before was still under way, and parts of "
            "vLLM's page that were not passed on, by reason.",
            means="Skipped scrapes: vLLM answers too slowly. Left-out samples: the page is damaged or too long.",
            first="look at the scrape's duration; then at the reason.",
            unit=Unit.PER_SECOND,
            queries=(
                Query(sum_by(rate(own("scrapes_skipped_total"))), "scrapes skipped"),
                Query(_rate_by(own("exposition_dropped_total"), "reason"), "samples: {{reason}}"),
            ),
        ),
    ),
)

_READING = Row(
    "Does it read the request logs, and in time?",
    "Lines, lag, and what is no record.",
    (
        TimeSeries(
            title="Lines read",
            shows="Lines a second from the request logs.",
            means="None while requests end is a log that is not written or not followed.",
            first="compare the path in the settings with the app's.",
            unit=Unit.PER_SECOND,
            width=6,
            queries=(Query(_rate(own("log_lines_total")), _SERVER),),
        ),
        TimeSeries(
            title="Bytes read",
            shows="Bytes a second from the request logs.",
            means="More bytes for as many lines is longer records.",
            first="see what the app began to log; prompts do not belong there.",
            unit=Unit.BYTES_PER_SECOND,
            width=6,
            queries=(Query(_rate(own("log_bytes_total")), _SERVER),),
        ),
        TimeSeries(
            title="Lag behind the log",
            shows="For how long a request log has held what was not read yet.",
            means="A rise is a sidecar that cannot keep up: requests join late or not at all.",
            first="give the sidecar more processor time.",
            unit=Unit.SECONDS,
            width=6,
            queries=(Query(_gauge(own("log_lag_seconds")), _SERVER),),
        ),
        TimeSeries(
            title="Share of lines that are no record",
            shows="Lines and spans that should be records and are none, over all lines.",
            means="Above the line the format has changed, or another program writes there too.",
            first="see the reasons beside this.",
            unit=Unit.RATIO,
            width=6,
            bands=above(UNPARSED_HIGH),
            queries=(
                Query(
                    top(
                        MANY,
                        ratio(
                            sum_by(rate(own("log_unparsed_total")), *SERVER),
                            sum_by(rate(own("log_lines_total")), *SERVER),
                        ),
                    ),
                    _SERVER,
                ),
            ),
        ),
        TimeSeries(
            title="Lines that are no record, by reason",
            shows="Lines and spans a second by what is wrong with them.",
            means="missing_field and bad_field: a field map is wrong. not_json: another program's lines.",
            first="run vllm-observe doctor on the log.",
            unit=Unit.PER_SECOND,
            stacked=True,
            queries=(Query(_rate_by(own("log_unparsed_total"), "reason"), "{{reason}}"),),
        ),
        TimeSeries(
            title="Spans received",
            shows="OpenTelemetry spans a second that were sent to /v1/traces, by what became of them.",
            means="record: a request's part from the engine. other: spans that tell of no request, as expected.",
            first="for unparsed see the reasons beside this.",
            unit=Unit.PER_SECOND,
            stacked=True,
            queries=(Query(_rate_by(own("spans_total"), "result"), "{{result}}"),),
        ),
        TimeSeries(
            title="What happened to the files",
            shows="Rotations, truncations, failures to open and files whose rest is lost a second, and files that "
            "are not followed because too many others are.",
            means="Truncation loses what was not read yet. A file that cannot be opened is not read at all, nor "
            "is one that is gone or packed in a form that cannot be read.",
            first="rotate by renaming, not by truncating (no copytruncate); check the rights.",
            unit=Unit.COUNT,
            queries=(
                Query(sum_by(rate(own("log_rotations_total"))), "rotations"),
                Query(sum_by(rate(own("log_truncations_total"))), "truncations"),
                Query(sum_by(rate(own("log_open_errors_total"))), "not opened"),
                Query(sum_by(rate(own("log_unread_total")), "reason"), "lost: {{reason}}"),
                Query(sum_by(max_by(select(own("log_files_waiting")), *SERVER)), "files waiting"),
            ),
        ),
    ),
)

_JOINING = Row(
    "Does it join them, and what does it lose?",
    "Both sides of each request, and what the bounds cut off.",
    (
        TimeSeries(
            title="Requests by the sides that were seen",
            shows="Requests a second that left the join: with both sides, only the client's, or only the "
            "engine's.",
            means="engine: traffic that no log tells of. edge: requests that no engine record meets.",
            first="for edge see that the plugin or OTLP spans reach the sidecar; for engine, the app's log.",
            unit=Unit.REQUESTS_PER_SECOND,
            stacked=True,
            colours={"both": Colour.GOOD, "edge": Colour.NEUTRAL, "engine": Colour.WARNING},
            queries=(Query(_rate_by(own("join_closed_total"), "parts"), "{{parts}}"),),
        ),
        TimeSeries(
            title="Coverage by server",
            shows="Share of the requests that the engine ended which the log knows too.",
            means="Below the line the requests board tells of a part only.",
            first="see which server's log is missing.",
            unit=Unit.RATIO,
            top_value=1,
            bands=below(JOIN_COVERAGE_LOW),
            queries=(
                Query(
                    bottom(
                        MANY,
                        ratio(
                            sum_by(rate(own("join_closed_total"), 'parts="both"'), *SERVER),
                            sum_by(rate(own("join_closed_total"), 'parts=~"both|engine"'), *SERVER),
                        ),
                    ),
                    _SERVER,
                ),
            ),
        ),
        TimeSeries(
            title="Requests that wait for a part",
            shows="Requests in the join of which one side has not come yet.",
            means="A rise is one side that lags: compare with the lag behind the log.",
            first="see which of the two sides is late.",
            unit=Unit.COUNT,
            queries=(Query(_gauge(own("join_pending")), _SERVER),),
        ),
        TimeSeries(
            title="Tokens that nobody claims",
            shows="Tokens a second that vLLM counted and no request's record claims.",
            means="Somebody uses the server past the log: that traffic has no owner here.",
            first="find who calls vLLM directly.",
            unit=Unit.TOKENS_PER_SECOND,
            queries=(Query(_rate_by(own("unattributed_tokens_total"), "kind"), "{{kind}}"),),
        ),
        TimeSeries(
            title="Dropped, by bound",
            shows="What a bound cut off a second: requests in the join, sessions, label values, store writes.",
            means="The figures are right but for these; nothing is dropped in silence.",
            first="raise the bound that is named, if its memory is affordable.",
            unit=Unit.PER_SECOND,
            queries=(Query(_rate_by(own("dropped_total"), "reason"), "{{reason}}"),),
        ),
        TimeSeries(
            title="The store",
            shows="Requests in the store, and times a second that it could not be written or read.",
            means="Errors mean that requests cannot be looked up later; the metrics do not need the store.",
            first="see that its disk has room, and the sidecar's log.",
            unit=Unit.COUNT,
            queries=(
                Query(_gauge(own("store_rows")), f"rows {_SERVER}"),
                Query(_rate(own("store_errors_total")), f"errors {_SERVER}"),
            ),
        ),
    ),
)

_ABOUT = Row(
    "Which sidecars are these?",
    "Versions, classes, and where each learnt vLLM's limits.",
    (
        Table(
            title="Sidecars",
            shows="Each sidecar's service class, vLLM's release behind it, and where its limits were read.",
            means="Where the source is unknown, the alerts on slots cannot work.",
            first="give --max-num-seqs, or let the sidecar read vLLM's log or use the plugin.",
            keys={
                "instance": "Instance",
                "service_class": "Service class",
                "vllm_version": "vLLM",
                "limits_source": "Limits from",
            },
            columns=(
                Column(
                    "Seen",
                    max_by(
                        select(own("target_info")), *SERVER, "service_class", "vllm_version", "limits_source"
                    ),
                    Unit.COUNT,
                    words=(State(1, "yes", Colour.GOOD),),
                ),
            ),
            sort="Instance",
            width=12,
        ),
        Table(
            title="Versions",
            shows="Each sidecar's own version.",
            means="Different versions may count differently.",
            first="finish the rollout of the sidecar.",
            keys={"instance": "Instance", "version": "Version", "python_version": "Python"},
            columns=(
                Column(
                    "Seen",
                    max_by(select(own("build_info")), *SERVER, "version", "python_version"),
                    Unit.COUNT,
                    words=(State(1, "yes", Colour.GOOD),),
                ),
            ),
            sort="Instance",
            width=6,
        ),
        TimeSeries(
            title="Readings of the configuration",
            shows="Readings of the configuration a second while running, by result.",
            means="A failed one leaves the old settings in force.",
            first="read the sidecar's log: it names the setting.",
            unit=Unit.PER_SECOND,
            width=6,
            height=9,
            bars=True,
            colours={"ok": Colour.GOOD, "failed": Colour.CRITICAL},
            queries=(Query(_rate_by(own("config_reloads_total"), "result"), "{{result}}"),),
        ),
    ),
)

SIDECAR = Board(
    name="sidecar",
    title="vLLM sidecar",
    summary="The observer itself: does it see everything, how late, and what does looking cost?",
    rows=(_SCRAPING, _READING, _JOINING, _ABOUT),
    variables=ALL,
    of_sidecar=True,
)
