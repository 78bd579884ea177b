"""The engine as the rules see it: through a sidecar, or on vLLM's own page.

The sidecar says some things that vLLM does not, the limit of running requests above all. On vLLM's own
page the same is asked of what is there, as well as that goes; the rules are written once, on top of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import ENGINE, SERVER, Scope, span
from vllm_observe.thresholds import ANSWERS_WITHOUT_TOKENS, STALL_AFTER_S

__all__ = ["NO_METRICS", "View", "failing", "loading", "unreachable", "view_for"]

_STALL = span(int(STALL_AFTER_S))
#: Long enough for some requests, and for four scrapes a minute apart: two of them may fail.
_LATELY = "4m"
NO_METRICS = 'reason="no_vllm_metrics"'
_REQUESTS, _NO_ANSWER = "vllm_observe_requests_total", 'reason=~"connection|timeout"'
#: For how long a server may load: a 70B model takes up to ten minutes.
_LOADING = "12m"
#: The paths that generate text, as ``http_requests_total`` names them.
_INFERENCE = 'handler=~"/v1/(chat/completions|completions|responses|messages)"'


def loading(answers: str) -> str:
    """Servers that never answered and had no time enough for that: they load their model.

    Args:
        answers: selects a gauge that is 1 where a server answers and 0 where it does not.
    """
    return f"(max_over_time({answers}[12h]) == 0 unless {answers} offset {_LOADING})"


def unreachable(scope: Scope) -> str:
    """Servers that a sidecar cannot reach: they do not answer, or what stands before them says so with a 5xx.

    A server whose log shows answers meanwhile is there, whatever its /metrics says.
    """
    behind, answered = failing(scope, 'reason="http_server"'), scope(_REQUESTS, 'outcome="ok"')
    return (
        f"{failing(scope, _NO_ANSWER)}\n"
        f"or {behind}\n"
        f"unless on ({SERVER}) sum by ({SERVER}) (increase({answered}[{_LATELY}])) > 0"
    )


def failing(scope: Scope, reason: str) -> str:
    """Servers whose page a sidecar failed to read of late, for reasons such as ``reason="auth"``."""
    failures = scope("vllm_observe_scrape_failures_total", reason)
    return f"sum by ({SERVER}) (increase({failures}[{_LATELY}])) > 0"


class View(Protocol):
    """What the rules ask of the engine; each gives an instant vector, empty where nothing is wrong."""

    def utilization(self, over: str, window: str) -> str:
        """Running requests over max_num_seqs for each engine, by a function such as ``avg_over_time``."""

    def stalled(self) -> str:
        """Engines that have work and make no token."""

    def answers_without_tokens(self) -> str:
        """Servers that answer 2xx and make no token."""

    def down(self) -> str:
        """Servers that cannot be reached, and are not loading for the first time."""

    def without_metrics(self) -> str:
        """Servers that answer /metrics without vLLM's families."""

    def restarts(self, window: str) -> str:
        """How often each server restarted within a window."""


@dataclass(frozen=True)
class _BehindSidecar:
    scope: Scope

    def utilization(self, over: str, window: str) -> str:
        ratio = self.scope("vllm_observe_sequence_utilization_ratio")
        return f"max by ({ENGINE}) ({over}({ratio}[{window}]))"

    def stalled(self) -> str:
        return f"max by ({ENGINE}) ({self.scope('vllm_observe_engine_stalled')}) == 1"

    def answers_without_tokens(self) -> str:
        failed = self.scope(_REQUESTS, 'outcome="error"')
        return (
            f"max by ({SERVER}) ({self.scope('vllm_observe_engine_answers_without_tokens')}) == 1\n"
            # One that died with work in hand shows that work for good, as one that hangs. The log tells:
            # its answers are errors, and not clients that gave up.
            f"or (sum by ({SERVER}) (increase({failed}[{_LATELY}])) >= {ANSWERS_WITHOUT_TOKENS}\n"
            f"and on ({SERVER}) {_answered(self.scope, _LATELY)}\n"
            f"and on ({SERVER}) ({_tokens(self.scope, SERVER, _LATELY)} == 0))"
        )

    def down(self) -> str:
        success = self.scope("vllm_observe_scrape_success")
        return (
            f"max by ({SERVER}) ({success}) == 0\n"
            f"and on ({SERVER}) ({unreachable(self.scope)})\n"
            f"unless on ({SERVER}) {loading(success)}"
        )

    def without_metrics(self) -> str:
        success = self.scope("vllm_observe_scrape_success")
        missing = failing(self.scope, NO_METRICS)
        return f"max by ({SERVER}) ({success}) == 0\nand on ({SERVER}) {missing}"

    def restarts(self, window: str) -> str:
        return f"sum by ({SERVER}) (increase({self.scope('vllm_observe_engine_restarts_total')}[{window}]))"


@dataclass(frozen=True)
class _Direct:
    scope: Scope
    max_num_seqs: int

    def utilization(self, over: str, window: str) -> str:
        running = self.scope("vllm:num_requests_running")
        return f"max by ({ENGINE}) ({over}({running}[{window}])) / {self.max_num_seqs}"

    def stalled(self) -> str:
        gauges = (self.scope(f"vllm:num_requests_{state}") for state in ("running", "waiting"))
        work = " or ".join(f"max by ({ENGINE}) (min_over_time({gauge}[{_STALL}])) > 0" for gauge in gauges)
        asleep = self.scope("vllm:engine_sleep_state", 'sleep_state="awake"')
        return (
            f"({work})\n"
            f"and on ({ENGINE}) ({_tokens(self.scope, ENGINE, _STALL)} == 0)\n"
            # One that began within that time may be at its first prompt.
            f"and on ({ENGINE}) {self.scope('vllm:num_requests_running')} offset {_STALL}\n"
            f"unless on ({ENGINE}) {asleep} == 0"
        )

    def answers_without_tokens(self) -> str:
        return (
            f"{_answered(self.scope, _STALL)}\nand on ({SERVER}) ({_tokens(self.scope, SERVER, _STALL)} == 0)"
        )

    def down(self) -> str:
        up = self.scope("up")
        return f"max by ({SERVER}) ({up}) == 0\nunless on ({SERVER}) {loading(up)}"

    def without_metrics(self) -> str:
        return (
            f"max by ({SERVER}) ({self.scope('up')}) == 1\n"
            f"unless on ({SERVER}) {self.scope('vllm:num_requests_running')}"
        )

    def restarts(self, window: str) -> str:
        # Several API processes show no time of their start; counters that fell tell the same.
        starts = f"changes({self.scope('process_start_time_seconds')}[{window}])"
        falls = f"resets({self.scope('vllm:prompt_tokens_total')}[{window}])"
        return f"(max by ({SERVER}) ({starts}) or max by ({SERVER}) ({falls}))"


def _answered(scope: Scope, window: str) -> str:
    """Servers that answered requests for generation with 2xx, more than by chance."""
    answered = scope("http_requests_total", 'status="2xx"', _INFERENCE)
    return f"sum by ({SERVER}) (increase({answered}[{window}])) >= {ANSWERS_WITHOUT_TOKENS}"


def _tokens(scope: Scope, labels: str, window: str) -> str:
    """The tokens that were read and made."""
    names = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")
    return " + ".join(f"sum by ({labels}) (increase({scope(name)}[{window}]))" for name in names)


def view_for(options: RuleOptions) -> View:
    """Return the view of what Prometheus scrapes."""
    if options.max_num_seqs is None:
        return _BehindSidecar(options.scope)
    return _Direct(options.scope, options.max_num_seqs)
