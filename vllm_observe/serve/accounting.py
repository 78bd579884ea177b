"""What one joined request adds to our counters and histograms."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product

from vllm_observe.join.cardinality import LabelCap
from vllm_observe.join.targets import targets_met, ttft_s
from vllm_observe.model import JoinedRequest, Outcome
from vllm_observe.serve.exemplars import exemplar_labels
from vllm_observe.serve.instruments import Instruments
from vllm_observe.thresholds import Targets

__all__ = ["Accounting"]

#: Whose duration tells how fast the server is. A user who left after a second or a request that was
#: refused at once was not served fast, and would make a slow server look better than it is. A
#: timeout was served at least as slowly as its duration says.
_TIMED = frozenset({Outcome.OK, Outcome.TIMEOUT})


class Accounting:
    """Counts joined requests by model and profile.

    Args:
        instruments: where.
        profiles: bounds the profiles, which any app can name.
        models: bounds the models that requests name before a scrape has told what is served.
        targets: what the server promises; may be replaced while running.
    """

    def __init__(
        self, instruments: Instruments, *, profiles: LabelCap, models: LabelCap, targets: Targets
    ) -> None:
        self.targets = targets
        self._instruments = instruments
        self._profiles = profiles
        self._models = models
        self._served: tuple[str, ...] = ()
        self._shown: set[str] = set()  # served now or before
        self._foreseen: set[tuple[str, str]] = set()

    def serves(self, models: Collection[str]) -> None:
        """Take note of the models that vLLM serves; what counts their requests exists from now on.

        Call it with every good scrape: where a request comes first, the request is the first that
        Prometheus sees of its model.
        """
        self._served = tuple(models)
        self._shown.update(models)
        profiles = {self._profiles.label(None), *(profile for _, profile in self._foreseen)}
        for model, profile in product(models, profiles):
            self._foresee(model, profile)

    def joined(self, request: JoinedRequest) -> None:
        """Count one attempt of a request, once, when it leaves the join."""
        model, profile = self._model(request.model_name), self._profiles.label(request.profile)
        self._foresee(model, profile)
        self._outcome(request, model, profile)
        self._tokens(request, model, profile)
        self._promises(request, model, profile)
        if request.outcome in _TIMED:
            self._durations(request, model, profile)
            self._phases(request, model)

    def _outcome(self, request: JoinedRequest, model: str, profile: str) -> None:
        count = self._instruments.counter
        count("vllm_observe_join_closed_total", parts=request.parts).inc()
        count("vllm_observe_requests_total", model_name=model, profile=profile, outcome=request.outcome).inc()
        if request.evidence is not None:
            count(
                "vllm_observe_slow_requests_total",
                model_name=model,
                profile=profile,
                cause=request.evidence.cause,
            ).inc()
        if request.attempt > 1:
            count("vllm_observe_request_retries_total", model_name=model).inc()

    def _tokens(self, request: JoinedRequest, model: str, profile: str) -> None:
        tokens = {
            "prompt": request.prompt_tokens,
            "cached": request.cached_tokens,
            "uncached": _uncached(request),
            "completion": request.completion_tokens,
        }
        for kind, amount in tokens.items():
            if amount is not None:
                self._instruments.counter(
                    "vllm_observe_request_tokens_total", model_name=model, profile=profile, kind=kind
                ).inc(amount)

    def _promises(self, request: JoinedRequest, model: str, profile: str) -> None:
        for target, met in targets_met(request, self.targets).items():
            self._instruments.counter(
                "vllm_observe_request_targets_total",
                model_name=model,
                profile=profile,
                target=target,
                met="true" if met else "false",
            ).inc()

    def _durations(self, request: JoinedRequest, model: str, profile: str) -> None:
        exemplar = exemplar_labels(request.request_id, request.session_id)
        durations = {
            "vllm_observe_request_duration_seconds": request.duration_s,
            "vllm_observe_request_ttft_seconds": ttft_s(request),
        }
        for name, seconds in durations.items():
            if seconds is not None:
                self._instruments.histogram(name, model_name=model, profile=profile).observe(
                    seconds, exemplar=exemplar
                )

    def _phases(self, request: JoinedRequest, model: str) -> None:
        for phase in request.phases.__struct_fields__:
            seconds = getattr(request.phases, phase)
            if seconds is not None:
                self._instruments.histogram(
                    "vllm_observe_request_phase_seconds", model_name=model, phase=phase
                ).observe(seconds)

    def _model(self, named: str | None) -> str:
        """The served model that a request means.

        Clients name aliases, adapters and models that do not exist; where vLLM serves one model, as
        it does in nearly every case, all of them asked that one. A model that a scrape has shown
        before keeps its name: its last requests leave the join after it has gone.
        """
        if named is not None and named in self._shown:
            return named
        if len(self._served) == 1:
            return self._served[0]
        return self._models.label(named)

    def _foresee(self, model: str, profile: str) -> None:
        if (model, profile) not in self._foreseen:
            self._foreseen.add((model, profile))
            self._instruments.foresee(model_name=model, profile=profile)


def _uncached(request: JoinedRequest) -> int | None:
    """Prompt tokens that had to be computed; ``None`` where the records do not tell."""
    if request.prompt_tokens is None or request.cached_tokens is None:
        return None
    return max(0, request.prompt_tokens - request.cached_tokens)
