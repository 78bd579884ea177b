"""The plugin's settings, from the environment: vLLM constructs it without arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from vllm_observe.plugin.say import logger

__all__ = ["DEFAULT_LOG", "PREFIX", "Settings"]

#: Not VLLM_: vLLM warns of every such variable that is not its own, or refuses to start.
PREFIX = "OBSERVE_PLUGIN_"
DEFAULT_LOG = Path("/var/log/vllm-observe/requests.jsonl")

_MIB = 1024 * 1024


class Settings(NamedTuple):
    """How and where the plugin writes.

    Attributes:
        logs: the log's path; where there are several, the first that can be written.
        max_bytes: the size at which the log is rotated.
        files: how many rotated logs are kept.
        session_header: names the session, ``profile_header`` the app's use of the model, and
            ``client_header`` the caller. All lower case.
    """

    logs: tuple[Path, ...]
    max_bytes: int = 64 * _MIB
    files: int = 4
    session_header: bytes = b"x-session-id"
    profile_header: bytes = b"x-profile"
    client_header: bytes = b"x-client-id"

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings; one that cannot be meant is named in a warning, and its default holds."""
        told = environment.get(f"{PREFIX}LOG")
        return cls(
            logs=(Path(told),) if told else (DEFAULT_LOG, _own_log(environment)),
            max_bytes=_number(environment, "LOG_MAX_BYTES", cls._field_defaults["max_bytes"], least=_MIB),
            files=_number(environment, "LOG_FILES", cls._field_defaults["files"], least=1),
            session_header=_header(environment, "SESSION_HEADER", cls._field_defaults["session_header"]),
            profile_header=_header(environment, "PROFILE_HEADER", cls._field_defaults["profile_header"]),
            client_header=_header(environment, "CLIENT_HEADER", cls._field_defaults["client_header"]),
        )


def _own_log(environment: Mapping[str, str]) -> Path:
    """Return where a user who may not write to /var/log keeps logs."""
    home = environment.get("HOME") or "/nonexistent"
    state = environment.get("XDG_STATE_HOME") or f"{home}/.local/state"
    return Path(state) / "vllm-observe" / DEFAULT_LOG.name


def _number(environment: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    told = environment.get(PREFIX + name, "").strip()
    if not told:
        return default
    if told.isascii() and told.isdecimal() and len(told) <= len(str(2**63)) and int(told) >= least:
        return int(told)
    logger.warning("%s%s is no whole number from %d up; %d it is", PREFIX, name, least, default)
    return default


def _header(environment: Mapping[str, str], name: str, default: bytes) -> bytes:
    told = environment.get(PREFIX + name, "").strip().lower()
    if told and not (told.isascii() and told.replace("-", "").replace("_", "").isalnum()):
        logger.warning("%s%s is no header's name; %s it is", PREFIX, name, default.decode())
        return default
    return told.encode() or default
