"""Which alerts cannot fire with which releases of vLLM, since these do not expose what the rules read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from vllm_observe.alerts.lint.expression import Binary, Call, Expression, Selector, children
from vllm_observe.alerts.lint.parsing import parse
from vllm_observe.alerts.lint.tables import of_release, release, today
from vllm_observe.alerts.rule import Alert, Group
from vllm_observe.signals import BY_KEY, OLDEST, SIGNALS, Signal

__all__ = ["Able", "able", "can_fire", "releases"]

#: Metrics of the sidecar's that it makes of one signal, and does not have without it.
_MADE_OF = {
    "vllm_observe_engine_answers_without_tokens": BY_KEY["http_requests"].name,
    "vllm_observe_lora_max_adapters": BY_KEY["lora"].name,
    "vllm_observe_lora_adapters": BY_KEY["lora"].name,
}


class Able(NamedTuple):
    """From which release on an alert can fire, and the options and features that vLLM must have for that."""

    alert: str
    since: str
    needs: tuple[str, ...]


def releases() -> list[str]:
    """Return the releases with which what vLLM exposes changed, the oldest first."""
    ends = {signal.first for signal in SIGNALS} | {name.first for signal in SIGNALS for name in signal.former}
    return sorted(ends | {OLDEST}, key=lambda version: release(version) or ())


def able(groups: Iterable[Group], *, behind_sidecar: bool) -> Iterator[Able]:
    """Give for each alert the first release with which one of its rules can fire."""
    rules: dict[str, list[Alert]] = {}
    for group in groups:
        for alert in group.alerts:
            rules.setdefault(alert.name, []).append(alert)
    for name, alerts in rules.items():
        expressions = [parse(alert.expr) for alert in alerts]
        since = next(
            version
            for version in releases()
            if any(can_fire(rule, version, behind_sidecar=behind_sidecar) for rule in expressions)
        )
        yield Able(name, since, tuple(_needs(expressions)))


def can_fire(expression: Expression, version: str, *, behind_sidecar: bool) -> bool:
    """Whether a release exposes enough for an expression to give anything.

    Args:
        expression: of a rule.
        version: the release.
        behind_sidecar: the sidecar gives today's names to what the release calls otherwise.
    """
    names = of_release(version).metrics

    def there(name: str) -> bool:
        found = today(_MADE_OF.get(name, name))
        if found is None:
            return True
        signal, _ = found
        return any(known in names for known in (signal.names if behind_sidecar else (signal.name,)))

    return _gives(expression, there)


def _gives(expression: Expression, there: Callable[[str], bool]) -> bool:
    """Whether an expression gives anything, where some metrics are not there."""
    if isinstance(expression, Selector):
        return there(expression.name)
    if isinstance(expression, Call) and expression.function.startswith("absent"):
        return True
    parts = children(expression)
    if isinstance(expression, Binary) and expression.operator == "unless":
        parts = parts[:1]
    given = [_gives(part, there) for part in parts]
    return any(given) if isinstance(expression, Binary) and expression.operator == "or" else all(given)


def _needs(expressions: Collection[Expression]) -> Iterator[str]:
    """Give the options without which none of some rules can fire."""
    for gate in dict.fromkeys(signal.gate for signal in SIGNALS if signal.gate):

        def without(name: str, gate: str = gate) -> bool:
            signal = _signal(_MADE_OF.get(name, name))
            return signal is None or signal.gate != gate

        if not any(_gives(expression, without) for expression in expressions):
            yield gate


@cache
def _signal(name: str) -> Signal | None:
    found = today(name)
    return found[0] if found else None
