"""Which targets a person means, checked before that stands in every rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vllm_observe.alerts.promql import Scope
from vllm_observe.errors import ConfigError, VllmObserveError

if TYPE_CHECKING:
    from vllm_observe.alerts.lint.expression import Matcher

__all__ = ["gpu_scope_of", "scope_of"]

#: Stands behind the matchers when they are read: what ends the braces early, or joins by ``or``, loses it.
_LAST = 'vllm_observe="last"'
#: What Prometheus puts on every series.
_ALWAYS = frozenset({"job", "instance"})
#: Labels of metrics that people give to their targets too, and that no rule reads.
_OF_TARGETS_TOO = frozenset(
    {"backend", "limit", "method", "operation", "phase", "position"}
    | {"profile", "result", "target", "tier", "vllm_version"}
)


def scope_of(flag: str, text: str) -> Scope:
    """Return the scope of an option such as ``--selector``: matchers, with or without the braces around them.

    They stand in every selector: in those of ``up``, which has the labels of its target alone, and in those
    of what a page says.

    Raises:
        ConfigError: it is no list of matchers, or one that leaves some rules nothing to read.
    """
    scope, matchers = _read(flag, text)
    if matchers:
        from vllm_observe.alerts.lint.tables import EXPOSED_LABELS  # noqa: PLC0415  # as below

        of_pages = EXPOSED_LABELS - _OF_TARGETS_TOO
        named = next((one for one in matchers if one.label in of_pages and _leaves_out(one)), None)
        if named is not None:
            raise ConfigError(
                f"{flag} {named}: {named.label} is a label of what a page says, and up has those of its target "
                "alone: not every rule could fire; choose by labels of targets, such as job"
            )
    return scope


def gpu_scope_of(flag: str, text: str) -> Scope:
    """Return the scope of ``--gpu-selector``: it stands in selectors of DCGM's metrics alone.

    Raises:
        ConfigError: it is no list of matchers, or nothing satisfies it.
    """
    return _read(flag, text)[0]


def _read(flag: str, text: str) -> tuple[Scope, Sequence[Matcher]]:
    matchers = text.strip()
    if matchers.startswith("{") and matchers.endswith("}"):
        matchers = matchers[1:-1]
    matchers = matchers.strip().removesuffix(",")
    if not matchers:
        return Scope(), ()
    try:
        from vllm_observe.alerts.lint.expression import Selector  # noqa: PLC0415  # a parser that is not there where only rendering is
        from vllm_observe.alerts.lint.parsing import ExpressionError, parse  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "promql_parser":
            raise
        raise VllmObserveError(f"{flag} needs promql-parser: pip install promql-parser") from None
    try:
        found = parse(f"up{{{matchers},{_LAST}}}")
    except ExpressionError as error:
        raise _no_matchers(flag, text, str(error)) from None
    if not (isinstance(found, Selector) and found.matchers and str(found.matchers[-1]) == _LAST):
        raise _no_matchers(flag, text, "it is no list of matchers")
    asked = found.matchers[:-1]
    for label in dict.fromkeys(matcher.label for matcher in asked):
        together = [matcher for matcher in asked if matcher.label == label]
        if _never(label, together):
            shown = ", ".join(map(str, together))
            raise ConfigError(f"{flag} matches nothing, and no rule could fire: no {label} satisfies {shown}")
    return Scope(matchers), asked


def _never(label: str, matchers: Sequence[Matcher]) -> bool:
    """Whether no value of a label satisfies all matchers; False where only Prometheus can tell."""
    from vllm_observe.alerts.lint.matching import accepts  # noqa: PLC0415  # as above

    named = next((values for matcher in matchers for values in _only(matcher)), None)
    if named is None:
        return False
    values = [value for value in named if value or label not in _ALWAYS]
    return not any(all(accepts(matcher, value) is not False for matcher in matchers) for value in values)


def _leaves_out(matcher: Matcher) -> bool:
    """Whether a matcher leaves out the series without its label, all those with it, or a part of a histogram."""
    from vllm_observe.alerts.lint.matching import accepts  # noqa: PLC0415  # as above

    absent = any(tuple(values) == ("",) for values in _only(matcher))
    return absent or accepts(matcher, "") is False or matcher.label == "le"


def _only(matcher: Matcher) -> Iterator[Sequence[str]]:
    """Yield the values that a matcher leaves, where these can be counted."""
    from vllm_observe.alerts.lint.matching import alternatives  # noqa: PLC0415  # as above

    if (matcher.operator, matcher.value) in {("!~", ".*"), ("!~", ".+"), ("=~", "")}:
        yield () if matcher.value == ".*" else ("",)
    # A dot in a pattern may be any character.
    elif (values := alternatives(matcher)) and (matcher.operator == "=" or "." not in matcher.value):
        yield values


def _no_matchers(flag: str, text: str, reason: str) -> ConfigError:
    shown = " ".join(text.split())
    return ConfigError(f"{flag} {shown}: {reason}; write it like 'job=\"vllm\"', with the quotes")
