"""Engine state for tests: families of a recorded server or from text, and samples by hand."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.engine.upgrade import Upgrader
from vllm_observe.model import EngineKey, EngineSample, Family, Kind, Sample, Series

DATA = Path(__file__).parent.parent / "data"
KEY = EngineKey("tiny", "0")


def families(text: str) -> list[Family]:
    """Families as an upgrade would give them, from a few lines in today's words."""
    found = []
    for metric in text_string_to_metric_families(text):
        name = metric.name + ("_total" if metric.type == "counter" else "")
        samples = [
            Sample(Series(series, tuple(labels.items())), value)
            for series, labels, value, *_ in metric.samples
        ]
        found.append(Family(name, Kind(metric.type), metric.documentation, samples))
    return found


def capture(name: str) -> list[Family]:
    """Upgraded families of a real vLLM, by release and file."""
    return _upgraded(DATA / "captures" / name)


def case(name: str) -> list[Family]:
    """Upgraded families of a case, by folder and file."""
    return _upgraded(DATA / "cases" / name)


def _upgraded(page: Path) -> list[Family]:
    exposition = ExpositionParser().parse(page.read_bytes(), "text/plain; version=0.0.4")
    return list(Upgrader().upgrade(exposition.families).families)


def sample(at: float = 0.0, key: EngineKey = KEY, **values: float | bool | None) -> EngineSample:
    """An engine's sample that tells only what is given."""
    return EngineSample(at=at, key=key, **values)
