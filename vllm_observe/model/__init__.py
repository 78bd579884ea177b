"""The values that the parts hand each other: frozen, typed, without any I/O.

Times of day are seconds since the Unix epoch, durations are seconds, shares are ratios 0..1 and
amounts are tokens or requests. ``None`` always means "not known", never zero.
"""

from __future__ import annotations

from vllm_observe.model.engine import (
    BindingLimit,
    EngineKey,
    EngineSample,
    Limits,
    LimitsSource,
    ServiceClass,
)
from vllm_observe.model.exposition import Exemplar, Family, Kind, Sample, Series
from vllm_observe.model.joined import Cause, Claimed, Evidence, JoinedRequest, Parts, Phases
from vllm_observe.model.records import EdgeRecord, EngineRecord, EngineState, Outcome, Record, outcome_of

__all__ = [
    "BindingLimit",
    "Cause",
    "Claimed",
    "EdgeRecord",
    "EngineKey",
    "EngineRecord",
    "EngineSample",
    "EngineState",
    "Evidence",
    "Exemplar",
    "Family",
    "JoinedRequest",
    "Kind",
    "Limits",
    "LimitsSource",
    "Outcome",
    "Parts",
    "Phases",
    "Record",
    "Sample",
    "Series",
    "ServiceClass",
    "outcome_of",
]
