"""The formats of request logs, by the name that ``format`` in the settings gives them.

A proxy's JSON log is a :class:`~vllm_observe.records.formats.ready.ReadyMap`: a table that says where
the fields of record format 1 stand, and what a table cannot say. :mod:`vllm_log` reads text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vllm_observe.clock import Clock
from vllm_observe.config import RequestLog
from vllm_observe.errors import ConfigError
from vllm_observe.model import Record
from vllm_observe.records import format1
from vllm_observe.records.fields import FieldMap
from vllm_observe.records.formats.envoy import ENVOY
from vllm_observe.records.formats.litellm import LITELLM
from vllm_observe.records.formats.nginx import NGINX
from vllm_observe.records.formats.ready import Mapped
from vllm_observe.records.formats.vllm_log import VllmLog

__all__ = ["READY", "Decode", "decoder", "jsonl"]

#: Turns one line into its records: one as a rule, none where the line tells of no request. Raises
#: RecordError where a line should be a record and is none.
Decode = Callable[[bytes], Sequence[Record]]

READY = {"nginx": NGINX, "envoy": ENVOY, "litellm": LITELLM}


def jsonl(line: bytes) -> Sequence[Record]:
    """Decode a line of record format 1."""
    return (format1.decode(line),)


def decoder(log: RequestLog, *, clock: Clock) -> Decode:
    """Make what decodes the lines of one request log.

    Args:
        log: the settings of that log.
        clock: tells the year, which vLLM's own log leaves out.

    Raises:
        ConfigError: the field map is wrong, or the format takes none.
    """
    if log.format == "vllm":
        if log.fields:
            raise ConfigError("fields: vLLM's own log is text; a field map is for JSON")
        return VllmLog(clock=clock)
    if log.format in READY:
        return Mapped(READY[log.format], log.fields)
    if not log.fields:
        return jsonl
    fields = FieldMap(log.fields)
    return lambda line: (format1.decode(line, fields),)
