"""The errors that cross a module's boundary, as one tree.

VllmObserveError
├── ConfigError        a setting is missing, unknown or out of range; exit code 2
├── ScrapeError        one scrape failed, with the reason that the metrics count
├── RecordError        one line of a log is no record, with the reason that the metrics count
├── BodyError          what was sent to us holds no traces
└── StoreError         the store of requests cannot be read
    └── CursorError    a page was asked for by a cursor that no page gave

Every message is one line for the person on call: what is wrong and how to mend it. None holds a
secret, a prompt or an output.
"""

from __future__ import annotations

from enum import Enum

__all__ = [
    "BodyError",
    "ConfigError",
    "CursorError",
    "Drop",
    "RecordError",
    "ScrapeError",
    "ScrapeFailure",
    "StoreError",
    "UnparsedReason",
    "VllmObserveError",
]


class VllmObserveError(Exception):
    """Anything that this package raises on purpose."""


class ConfigError(VllmObserveError):
    """A setting is wrong. The message names the setting and the mend."""


class ScrapeFailure(str, Enum):
    """Why a scrape gave no engine state; the label values of ``vllm_observe_scrape_failures_total``."""

    CONNECTION = "connection"  # refused, reset, no such host, TLS not accepted
    TIMEOUT = "timeout"  # no whole answer before the deadline
    AUTH = "auth"  # 401 or 403
    REDIRECT = "redirect"  # sent to another host, or in a circle
    HTTP_CLIENT = "http_client"  # any other 4xx: most often a wrong path
    HTTP_SERVER = "http_server"  # 5xx: metrics are unavailable, the engine may well be serving
    TOO_LARGE = "too_large"  # more bytes than the cap
    MALFORMED = "malformed"  # 200, but not one line of it is an exposition's
    TRUNCATED = "truncated"  # the body ended before its length, or OpenMetrics without its # EOF
    NO_VLLM_METRICS = "no_vllm_metrics"  # a healthy exposition of something that is not vLLM


class ScrapeError(VllmObserveError):
    """A scrape that gave no engine state.

    Attributes:
        reason: why, as the metrics count it.
    """

    def __init__(self, reason: ScrapeFailure, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Drop(str, Enum):
    """Why a part of vLLM's page is not passed on, as the metrics count it."""

    MALFORMED_LINE = "malformed_line"
    VALUE_TOO_LONG = "value_too_long"
    DUPLICATE = "duplicate"  # a series for the second time; the first one counts
    BAD_VALUE = "bad_value"  # a number that its type cannot have: a negative counter, a bucket of NaN
    TOO_MANY = "too_many"  # beyond the greatest number of lines
    NAME_CLASH = "name_clash"  # beside another family it would make the page invalid
    RESERVED_NAME = "reserved_name"  # it begins as our own names do


class UnparsedReason(str, Enum):
    """Why a log line or a span gave no record; the label values of ``vllm_observe_log_unparsed_total``."""

    NOT_JSON = "not_json"
    NOT_OBJECT = "not_object"  # JSON, but an array, a string or a number
    NOT_UTF8 = "not_utf8"
    MISSING_FIELD = "missing_field"  # request_id, ts, or all that tells how it ended
    BAD_FIELD = "bad_field"  # a field of a wrong type, or a number out of its range
    UNKNOWN_KIND = "unknown_kind"  # "kind" is none of edge, engine, sample, limits
    TOO_LONG = "too_long"  # over the cap on a line's bytes


class RecordError(VllmObserveError):
    """A line that is no record.

    Attributes:
        reason: why, as the metrics count it.
    """

    def __init__(self, reason: UnparsedReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class BodyError(VllmObserveError):
    """A body that was sent to us holds no traces. The message is for who sent it, and quotes nothing."""


class StoreError(VllmObserveError):
    """The store of requests cannot be read: it is missing, damaged or locked."""


class CursorError(StoreError):
    """A page was asked for by a cursor that no page gave."""
