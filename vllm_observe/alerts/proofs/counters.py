"""Counters that begin again, come back, or are new to Prometheus: what has grown, and what only seems to."""

from __future__ import annotations

from vllm_observe.alerts.proofs.course import STEP, Course, Page, counter, gauge
from vllm_observe.alerts.proofs.page import HEALTHY, from_instance, own, vllm
from vllm_observe.alerts.proofs.proof import Check, Scene, critical, warning

__all__ = ["COUNTERS"]

_HOUR = 3600
_RUNNING = vllm("num_requests_running")
_CORRUPTED = vllm("corrupted_requests_total")
_ADMISSION = vllm("admission_rejections_total", 'reason="max_num_queued_reqs"', engine="")
_EVENTS = (critical("VLLMCorruptedRequests"), warning("VLLMAdmissionRejections"))
#: An event of before a restart, and as many after it.
_AGAIN = Course(
    ((0, 0.0), (1200, None), (1260, 0.0), (1320, 1 / STEP), (1350, 0.0)), counts=True, start=1, resets=True
)


def _restarted(at: int) -> Page:
    """A server whose counters begin again at a time."""
    return {
        name: Course(((0, rate), (at, None), (at + 2 * STEP, rate)), counts=True, start=1e6, resets=True)
        for name, course in HEALTHY.items()
        if name.startswith("vllm:") and course.counts
        for _, rate in course.parts[:1]
    }


COUNTERS = (
    Scene(
        "a counter whose first sample is 1",
        {_CORRUPTED: counter((_HOUR, 0.0), start=1)},
        (Check(_HOUR - STEP), Check(_HOUR, (critical("VLLMCorruptedRequests"),))),
    ),
    Scene(
        "a new Prometheus: its first samples of counters are of any age",
        {_CORRUPTED: counter(0, start=5), _ADMISSION: counter(0, start=5)},
        tuple(Check(at) for at in (0, STEP, 570, 600, 630, 1200)),
    ),
    Scene(
        "a server under a new name, which brings its old counters",
        from_instance(
            {_CORRUPTED: counter((1200, 0.0), start=5), _RUNNING: gauge((1200, 4))}, "renamed:9809"
        ),
        tuple(Check(at, (), only=_EVENTS[0]) for at in (1200, 1230, 1770, 1800, 2400)),
    ),
    Scene(
        "a new server whose first rejection comes five minutes after its start",
        {_ADMISSION: counter((300, 0.0), start=1)},
        (Check(570), Check(600, _EVENTS[1:])),
    ),
    Scene(
        "a counter that comes back from a gap as it was",
        {
            _CORRUPTED: counter(
                (0, 0.0), (600, 1 / STEP), (600 + STEP, 0.0), (_HOUR, None), (_HOUR + 900, 0.0)
            )
        },
        (Check(600, (critical("VLLMCorruptedRequests"),)), Check(_HOUR + 900), Check(_HOUR + 1200)),
    ),
    Scene("a restart: all counters begin again", _restarted(1200), (Check(1290), Check(2400))),
    Scene(
        "two swaps within an hour",
        {
            own("engine_restarts_total"): counter(
                0, (1200, 1 / STEP), (1230, 0.0), (2400, 1 / STEP), (2430, 0.0)
            )
        },
        (Check(2400), Check(_HOUR)),
    ),
    Scene(
        "counters of rare events that come back from a gap as they were",
        {_ADMISSION: counter((0, 0.0), (1200, None), (1500, 0.0), start=1)},
        (Check(1140), Check(1500), Check(1800)),
    ),
    Scene(
        "after a restart as many rare events as before it",
        {_CORRUPTED: _AGAIN, _ADMISSION: _AGAIN},
        (Check(1290), Check(1320, _EVENTS)),
    ),
)
