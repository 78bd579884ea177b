"""What can be asked for: one table of parameters, for reading them and for describing them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from vllm_observe.durations import parse_duration
from vllm_observe.errors import VllmObserveError
from vllm_observe.model import Cause, Outcome
from vllm_observe.records.times import epoch
from vllm_observe.store.protocol import MOST_PER_PAGE, RequestFilter
from vllm_observe.store.queries import CURSOR

__all__ = ["DEFAULT_LIMIT", "PARAMETERS", "Parameter", "Question", "QuestionError", "read_question"]

DEFAULT_LIMIT = 50
#: Python refuses to read thousands of digits, with an error of its own.
_MOST_DIGITS = 9
_NUMBER = r"[0-9]{1,12}(\.[0-9]{1,12})?"
_DURATION = rf"{_NUMBER}(ms|s|m|h|d)?"
#: An age ends in its unit, or it would be taken for seconds since the epoch.
_AGE = rf"{_NUMBER}(ms|s|m|h|d)"
_EPOCH = r"[0-9]{1,10}(\.[0-9]{1,6})?"
_MOMENT = (
    r"(197[1-9]|19[89][0-9]|20[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])"
)


class QuestionError(VllmObserveError):
    """What was asked cannot be answered. The message names the parameter and the mend."""


class Parameter(NamedTuple):
    """One parameter.

    Attributes:
        name: its name, that of the filter's field.
        help: what it means, in one sentence.
        read: turns its text into a value, by the time of day; raises ValueError with what is wrong.
        schema: its JSON schema.
    """

    name: str
    help: str
    read: Callable[[str, float], Any]
    schema: Mapping[str, Any]


class Question(NamedTuple):
    """Which requests, how many of them, and from where on."""

    where: RequestFilter = RequestFilter()
    limit: int = DEFAULT_LIMIT
    cursor: str | None = None


def _text(text: str, _: float) -> str:
    return text


def _time(text: str, now: float) -> float:
    """Read a time of day, or how long ago it was."""
    try:
        return epoch(text)
    except ValueError:
        pass
    try:
        return now - parse_duration(text)
    except ValueError:
        raise ValueError("must be RFC 3339 with its zone, epoch seconds, or an age such as 15m") from None


def _duration(text: str, _: float) -> float:
    return parse_duration(text)


def _limit(text: str, _: float) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    if not (is_number and 1 <= int(text) <= MOST_PER_PAGE):
        raise ValueError(f"must be a whole number from 1 to {MOST_PER_PAGE}")
    return int(text)


def _member(kind: type[Outcome | Cause]) -> Callable[[str, float], Outcome | Cause]:
    def read(text: str, _: float) -> Outcome | Cause:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"must be one of {', '.join(_values(kind))}") from None

    return read


def _values(kind: type[Outcome | Cause]) -> list[str]:
    return [member.value for member in kind]


_TIMES = {"type": "string", "pattern": f"^({_AGE}|{_EPOCH}|{_MOMENT})$"}

#: All parameters; every list takes all of them.
PARAMETERS = (
    Parameter("session_id", "Of this session.", _text, {"type": "string"}),
    Parameter("profile", "Of this profile.", _text, {"type": "string"}),
    Parameter("client", "Of this client.", _text, {"type": "string"}),
    Parameter("model", "Served by this model.", _text, {"type": "string"}),
    Parameter("outcome", "That ended so.", _member(Outcome), {"type": "string", "enum": _values(Outcome)}),
    Parameter("cause", "Slow or failed for this cause.", _member(Cause),
              {"type": "string", "enum": _values(Cause)}),
    Parameter("slower_than", "That took longer than so: seconds, or a duration such as 100ms or 2m.", _duration,
              {"type": "string", "pattern": f"^{_DURATION}$"}),
    Parameter("since", "That ended then or later: RFC 3339, epoch seconds, or an age such as 15m.", _time, _TIMES),
    Parameter("until", "That ended before then.", _time, _TIMES),
    Parameter("limit", "How many at most.", _limit,
              {"type": "integer", "minimum": 1, "maximum": MOST_PER_PAGE, "default": DEFAULT_LIMIT}),
    Parameter("cursor", "The next_cursor of the page before.", _text,
              {"type": "string", "pattern": f"^{CURSOR}$"}),
)  # fmt: skip
_BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}


def read_question(given: Iterable[tuple[str, str]], *, now: float) -> Question:
    """Read the parameters that a person or a program gave.

    Args:
        given: names and values.
        now: the time of day, from which ages count.

    Raises:
        QuestionError: a parameter is unknown, stands twice or cannot be understood.
    """
    values: dict[str, Any] = {}
    for name, text in given:
        parameter = _BY_NAME.get(name)
        if parameter is None:
            raise QuestionError(_unknown(name))
        if name in values:
            raise QuestionError(f"{name} is given twice")
        try:
            values[name] = parameter.read(text, now)
        except ValueError as error:
            raise QuestionError(f"{name} {error}") from None
    limit, cursor = values.pop("limit", DEFAULT_LIMIT), values.pop("cursor", None)
    return Question(RequestFilter(**values), limit, cursor)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    mend = f"did you mean {near[0]}?" if near else f"there are {', '.join(_BY_NAME)}"
    return f"no parameter is named {name[:40]!r}: {mend}"
