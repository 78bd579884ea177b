"""The labels of an exemplar: the way from a bucket to the one request behind it."""

from __future__ import annotations

__all__ = ["exemplar_labels"]

#: OpenMetrics allows an exemplar's label names and values this many characters together, and
#: Prometheus refuses the exemplar that has more.
_MAX_CHARACTERS = 128
#: A session id that has to be cut below this would be a riddle: it is left out instead.
_LEAST_OF_A_SESSION = 16
#: What ends a value or the labels for a reader that takes no note of quotes and escapes.
_UNSAFE = frozenset('"\\{}')


def exemplar_labels(request_id: str, session_id: str | None = None) -> dict[str, str]:
    """Name a request and its session within what an exemplar can hold.

    The request comes first and takes what it needs, the session what is left. A longer value is
    cut at its end. What some reader of expositions trips over becomes ``_``: quotes, backslashes,
    braces, and every character that does not print. A request without an id has no labels.
    """
    labels: dict[str, str] = {}
    room = _MAX_CHARACTERS - len("request_id")
    if not request_id:
        return labels
    labels["request_id"] = _safe(request_id[:room])
    room -= len(labels["request_id"]) + len("session_id")
    if session_id and room >= min(len(session_id), _LEAST_OF_A_SESSION):
        labels["session_id"] = _safe(session_id[:room])
    return labels


def _safe(value: str) -> str:
    return "".join("_" if c in _UNSAFE or not c.isprintable() else c for c in value)
