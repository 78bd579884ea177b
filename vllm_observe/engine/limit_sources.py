"""Reading an engine's limits from what vLLM says of itself: its /server_info and its log."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from vllm_observe.model import Limits, LimitsSource

__all__ = ["CEILINGS", "from_log_line", "from_server_info", "known_limits", "version_of"]

#: The limits, and above what each is not believed. vLLM counts tokens and blocks in 32 bits, and makes
#: room for every slot when it starts.
CEILINGS = {
    "max_num_seqs": 1_000_000,
    "max_num_active_seqs": 1_000_000,
    "max_num_batched_tokens": 2**31 - 1,
    "max_model_len": 2**31 - 1,
    "num_gpu_blocks": 2**31 - 1,
    "block_size": 2**31 - 1,
}


def known_limits(source: LimitsSource, values: Mapping[str, object]) -> Limits:
    """Build limits from what a source states; what is no positive, believable integer is unknown."""
    known = {
        name: value
        for name, ceiling in CEILINGS.items()
        # A bool is an int to isinstance.
        if type(value := values.get(name)) is int and 0 < value <= ceiling
    }
    return msgspec.structs.replace(Limits(source=source), **known)


# --- /server_info -------------------------------------------------------------------------------

#: Where each limit stands in ``/server_info?config_format=json``.
_SECTIONS = {
    "max_num_seqs": "scheduler_config",
    "max_num_active_seqs": "scheduler_config",
    "max_num_batched_tokens": "scheduler_config",
    "max_model_len": "model_config",
    "num_gpu_blocks": "cache_config",
    "block_size": "cache_config",
}


def from_server_info(document: object) -> Limits | None:
    """Read the limits from what ``/server_info?config_format=json`` answers, since vLLM 0.11.

    Nothing else of the document is kept: it can hold secrets. ``None`` where it is not that document;
    older releases answer with a text, which does not hold ``max_num_seqs``.
    """
    config = _section(document, "vllm_config")
    values = {name: _section(config, section).get(name) for name, section in _SECTIONS.items()}
    if _section(config, "parallel_config").get("data_parallel_size") not in (None, 1):
        values["num_gpu_blocks"] = None  # there the blocks of all ranks are added up
    limits = known_limits(LimitsSource.SERVER_INFO, values)
    return limits if limits != Limits(source=LimitsSource.SERVER_INFO) else None


def version_of(document: object) -> str | None:
    """Read vLLM's version from what ``/version`` answers."""
    version = document.get("version") if isinstance(document, Mapping) else None
    return version if isinstance(version, str) and re.fullmatch(r"[A-Za-z0-9_.+!-]{1,64}", version) else None


def _section(document: object, name: str) -> Mapping[str, object]:
    section = document.get(name) if isinstance(document, Mapping) else None
    return section if isinstance(section, Mapping) else {}


# --- The log ------------------------------------------------------------------------------------

_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# Since 0.9 what differs from the defaults, before that everything. The line's first level opens vLLM's
# own header, which names one of the files that ever wrote this line. A prompt or a request id can hold
# all this too, but only behind another header; and vLLM repeats the header in each line of a message,
# but with the file of that message. What stands before the level is a process or a log shipper.
_HEADER = re.compile(
    r"""(?:(?!DEBUG|INFO|WARNING|ERROR|CRITICAL)[^'"{}]){0,300}
        INFO[ ]\d\d-\d\d[ ]\d\d:\d\d:\d\d[ ]
        \[?(?:[\w.]+/)*(?:api_server|cli_args|utils|api_utils)\.py:\d+\][ ]""",
    re.VERBOSE,
)
_MESSAGE = re.compile(r"(?:non-default args: (?=\{)|args: Namespace(?=\())")
# What a repr is made of, as far as its depth goes. An open string runs to the end of the line.
_TOKENS = re.compile(
    r"""(?P<setting>(?:'(?P<key>\w+)':[ ]|\b(?P<name>\w+)=)(?P<number>\d{1,18})(?=[,})]))
      | (?P<text>'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z) | "[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))
      | (?P<open>[\[({]) | (?P<close>[\])}])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class _JsonRecord(msgspec.Struct):
    name: str
    message: str


def from_log_line(line: str) -> Limits | None:
    """Read the limits from the line with which a vLLM server logs its arguments when it starts.

    ``None`` for every other line. A limit that the line does not name is unknown: its default depends
    on the GPU and the release.
    """
    if "args: " not in line:
        return None
    arguments = _arguments(line)
    if arguments is None:
        return None
    return known_limits(LimitsSource.ENGINE_LOG, _top_level_numbers(arguments))


def _arguments(line: str) -> str | None:
    """Return what follows "non-default args: " in vLLM's own line; ``None`` in any other line."""
    line = _COLOURS.sub("", line)
    header = _HEADER.match(line)
    text = line[header.end() :] if header else _json_message(line)
    message = _MESSAGE.match(text)
    return text[message.end() :] if message else None


def _json_message(line: str) -> str:
    """Return the message of a line from vLLM's JSON formatter; nothing for other lines."""
    if not line.startswith("{"):
        return ""
    try:
        record = msgspec.json.decode(line, type=_JsonRecord)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    return record.message if record.name.startswith("vllm.") else ""


def _top_level_numbers(text: str) -> dict[str, int]:
    """Return the integers of a dict's or a Namespace's repr, without those of what it contains.

    It need not be a valid repr: an object within may print as anything, and a line can be cut.
    """
    found: dict[str, int] = {}
    depth = 0
    for token in _TOKENS.finditer(text):
        if token["setting"] and depth == 1:
            found[token["key"] or token["name"]] = int(token["number"])
        depth += bool(token["open"]) - bool(token["close"])
        if depth == 0:
            break
    return found
