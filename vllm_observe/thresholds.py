"""Every number that an alert, a board, the terminal or a cause compares with, in one place.

Each says where it comes from. A test holds that no other module compares a signal with a literal.
"""

from __future__ import annotations

from typing import NamedTuple

from vllm_observe.model import ServiceClass

__all__ = [
    "ANSWERS_WITHOUT_TOKENS",
    "AVAILABILITY_OBJECTIVE",
    "BURN_RATES",
    "DISCONNECTS_HIGH",
    "ERRORS_HIGH",
    "GPU_HOT_CELSIUS",
    "GPU_IDLE",
    "IMBALANCE",
    "JOIN_COVERAGE_LOW",
    "JUDGED_MIN_REQUESTS",
    "JUST_RESTARTED_S",
    "KV_FULL",
    "KV_NEAR_FULL",
    "PREEMPTIONS_HIGH",
    "PREFIX_CACHE_DROP",
    "PREFIX_CACHE_MATTERS",
    "PROMPT_LONG_TOKENS",
    "QUEUE_SHARE",
    "QUEUE_TIME_CRITICAL_S",
    "QUEUE_TIME_HIGH_S",
    "RESTARTS_AN_HOUR",
    "SLOTS_EXHAUSTED",
    "SLOTS_NEAR_LIMIT",
    "SLOW_FACTOR",
    "SLOW_FLOOR_S",
    "SPECULATIVE_ACCEPTANCE_LOW",
    "STALE_AFTER_INTERVALS",
    "STALL_AFTER_S",
    "STEPS_MOSTLY_FULL",
    "STEP_FULL",
    "TARGETS",
    "THROUGHPUT_COLLAPSE",
    "TTFT_OBJECTIVE",
    "TTFT_SURGE_FACTOR",
    "TTFT_SURGE_FLOOR_S",
    "UNPARSED_HIGH",
    "USUAL_MIN_REQUESTS",
    "BurnRate",
    "Targets",
]

#: Running over max_num_seqs at which a warning is due: the brief's "nears max-num-seqs".
SLOTS_NEAR_LIMIT = 0.9
#: Running over max_num_seqs at which no slot is left (the scheduler fills the last one at once).
SLOTS_EXHAUSTED = 0.98

#: KV-cache usage at which a warning is due: the brief's "passes 90 %".
KV_NEAR_FULL = 0.9
#: KV-cache usage from which the next request most likely finds no room.
KV_FULL = 0.95

#: Mean tokens of a step over max_num_batched_tokens from which the step's budget binds.
STEP_FULL = 0.9
#: The same from which, with the KV cache full as well, the budget was missing for longer than blocks:
#: a third of the steps were full, and a step full of a prompt takes more than twice as long as another.
STEPS_MOSTLY_FULL = 1 / 3

#: Seconds with work present and no token, after which an engine is stalled. A first prefill of a
#: million tokens at 5,000 a second takes 200 s and moves no counter meanwhile.
STALL_AFTER_S = 300.0

#: Inference requests answered 2xx since the last token, from which the engine answers without
#: serving. One may be a client that left, three in a row are not.
ANSWERS_WITHOUT_TOKENS = 3

#: Seconds after a restart in which a server is not simply well: clients that it failed try again by then.
JUST_RESTARTED_S = 60.0

#: Scrape intervals without a good scrape, after which an engine's state is stale, so absent.
STALE_AFTER_INTERVALS = 3

#: A request is slow from this many times its profile's usual duration.
SLOW_FACTOR = 3.0

#: The share of a slow request's time from which one phase is called its cause.
QUEUE_SHARE = 0.3

#: Prompt tokens that no cache held, from which a prompt is called long.
PROMPT_LONG_TOKENS = 4096


class Targets(NamedTuple):
    """What a service class promises, in seconds; ``None`` promises nothing."""

    ttft: float
    tpot: float
    e2e: float | None = None


#: A chat's reader waits 2 to 3 s for a first token and reads about ten tokens a second.
TARGETS = {
    ServiceClass.INTERACTIVE: Targets(ttft=2.5, tpot=0.1),
    ServiceClass.BATCH: Targets(ttft=30.0, tpot=1.0),
}

#: Seconds up to which no request is slow for being over its profile's usual: a person's train of
#: thought holds for about a second, and three times 5 ms is nothing.
SLOW_FLOOR_S = 1.0

#: Requests of a profile from which their median is called usual: of 20, a burst of 9 cannot move it.
USUAL_MIN_REQUESTS = 20

# What the alerts compare with. Each but the last few is a judgement of practice, and says on what.

#: Mean seconds in the queue at which a warning is due, and at which somebody is woken. A healthy
#: server's mean is below 3 s; at 30 s an interactive client has left.
QUEUE_TIME_HIGH_S = 5.0
QUEUE_TIME_CRITICAL_S = 30.0

#: Time to first token over its own usual from which it jumped, and the mean below which no jump is told:
#: three times 50 ms is nothing that a reader notices.
TTFT_SURGE_FACTOR = 3.0
TTFT_SURGE_FLOOR_S = 1.0

#: Tokens a second for each running request, over its usual, below which throughput collapsed. Twice the
#: batch may halve it on a healthy GPU; a quarter is a slow or a starved one.
THROUGHPUT_COLLAPSE = 0.25

#: Requests in a window below which no quantile and no share is judged: of ten, p95 is the worst.
JUDGED_MIN_REQUESTS = 10

#: The share of requests failing through no fault of the client at which somebody is woken.
ERRORS_HIGH = 0.05
#: The share of requests whose clients left before the end. People stop answers that they have read
#: enough of: a tenth is normal in a chat.
DISCONNECTS_HIGH = 0.2

#: Preemptions for each finished request from which the KV cache thrashes. A full and healthy batch has
#: one in a few hundred.
PREEMPTIONS_HIGH = 0.1

#: The prefix cache's hit rate over its usual below which it dropped, and the usual rate that matters.
PREFIX_CACHE_DROP = 0.5
PREFIX_CACHE_MATTERS = 0.2

#: Accepted over drafted tokens below which speculative decoding costs more than it gives.
SPECULATIVE_ACCEPTANCE_LOW = 0.3

#: Between the fullest and the emptiest engine of one server, in shares of max_num_seqs.
IMBALANCE = 0.5

#: Restarts within an hour from which it is no deployment any more: a blue/green swap makes one, and the
#: mend of a bad rollout a second.
RESTARTS_AN_HOUR = 3

#: The share of the engine's requests that the request log must know.
JOIN_COVERAGE_LOW = 0.9
#: The share of a log's lines that are no records.
UNPARSED_HIGH = 0.05

#: GPU utilisation below which a GPU idles while requests wait, and degrees Celsius at which data-centre
#: GPUs begin to slow down.
GPU_IDLE = 0.3
GPU_HOT_CELSIUS = 85.0

#: What the service promises over 30 days: the share of requests within the time-to-first-token target,
#: and of those answered at all.
TTFT_OBJECTIVE = 0.95
AVAILABILITY_OBJECTIVE = 0.99


class BurnRate(NamedTuple):
    """A pace at which the error budget of 30 days goes, over two windows in seconds."""

    factor: float
    long: int
    short: int
    pages: bool


#: From Google's SRE workbook, chapter "Alerting on SLOs": 2 % of the budget in an hour, 5 % in six,
#: 10 % in three days; the short window, a twelfth, ends the alert soon after the trouble.
BURN_RATES = (
    BurnRate(14.4, long=3600, short=300, pages=True),
    BurnRate(6.0, long=21600, short=1800, pages=True),
    BurnRate(3.0, long=86400, short=7200, pages=False),
    BurnRate(1.0, long=259200, short=21600, pages=False),
)
