"""What is marked across all graphs of a board: restarts, models that came, firing alerts."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_observe.dashboards.metrics import foreign, own, vllm
from vllm_observe.dashboards.panels import Colour
from vllm_observe.dashboards.queries import (
    MODEL,
    SERVER,
    Expr,
    Vector,
    but_not,
    changes,
    count_by,
    first_of,
    increase,
    max_by,
    select,
    sum_by,
    where,
)

__all__ = ["ANNOTATIONS", "Annotation", "firing"]


def firing(*matchers: str) -> Vector:
    """Return our alerts that fire. One that names no model is about all of them."""
    of_ours = ('alertname=~"VLLM.+"', 'alertstate="firing"', 'model_name=~"$model_name|"')
    return where(select(foreign("ALERTS"), *of_ours, *matchers), "== 1")


#: A restart is seen by the first scrape after it; two minutes hold at least that one.
_SINCE = "2m"


@dataclass(frozen=True)
class Annotation:
    """A mark wherever a query gives a value other than 0; ``title`` and ``text`` may hold labels."""

    name: str
    expr: Expr
    title: str
    text: str
    colour: Colour


ANNOTATIONS = (
    Annotation(
        "Restarts",
        first_of(
            sum_by(increase(own("engine_restarts_total"), window=_SINCE), *SERVER),
            sum_by(changes(foreign("process_start_time_seconds"), window=_SINCE), *SERVER),
            on=SERVER,
        ),
        "vLLM restarted",
        "{{instance}}",
        Colour.WARNING,
    ),
    Annotation(
        "Models",
        but_not(
            count_by(select(vllm("running")), *MODEL),
            count_by(select(vllm("running"), offset=_SINCE), *MODEL),
            on=MODEL,
        ),
        "A model came",
        "{{model_name}} on {{instance}}",
        Colour.NEUTRAL,
    ),
    Annotation(
        "Firing alerts",
        max_by(firing(), "alertname", "severity", "model_name", "instance"),
        "{{alertname}} ({{severity}})",
        "{{model_name}} {{instance}}",
        Colour.CRITICAL,
    ),
)
