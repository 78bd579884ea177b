"""Addresses that links and messages go to: what they may hold, and what is put behind them."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from vllm_observe.errors import ConfigError

__all__ = ["address_of", "behind"]

#: What no address may hold unescaped (RFC 3986, sections 2 and 3). Prometheus would read braces as a template.
_FORBIDDEN = re.compile(r'[\s"<>\\^`{|}]')
#: How the names of parameters end whose values nobody else may know.
_SECRET = re.compile(
    r"(?:token|secret|password|passwd|pwd|key|auth|sig|signature|credentials?|code)$", re.IGNORECASE
)


def address_of(
    flag: str, text: str, *, query: bool = True, instead: str = "leave that out, and let readers log in"
) -> str:
    """Return an address that a path can be put behind, without a slash at its path's end.

    Args:
        flag: the option that gives it.
        text: as a person wrote it.
        query: whether it may have a query.
        instead: what to do where it holds a secret, since all can read what is rendered.

    Raises:
        ConfigError: it is no address of the web, or holds what must not stand there. It is not repeated: it
            may hold a password.
    """
    parts = _split(text)
    if parts is None:
        raise ConfigError(f"{flag} is no address: write it like https://example.com/path")
    if parts.username is not None:
        raise ConfigError(f"{flag} holds a user, and all can read what is rendered: {instead}")
    if parts.fragment:
        raise ConfigError(f"{flag} has a '#', and a path behind it would be part of that: leave it out")
    if parts.query and not query:
        raise ConfigError(f"{flag} has a '?', and what is asked there has its own: leave it out")
    for name, _ in parse_qsl(parts.query.replace(";", "&"), keep_blank_values=True):
        if found := _SECRET.search(name):
            raise ConfigError(
                f"{flag} holds a secret (...{found[0]}=), and all can read what is rendered: {instead}"
            )
    return behind(text, "")


def behind(address: str, path: str) -> str:
    """Put a path behind an address, or behind a path: before its query, where it has one."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path))


def _split(text: str) -> SplitResult | None:
    """Take an address of the web apart; ``None`` where it is none."""
    if _FORBIDDEN.search(text) or not text.isprintable():
        return None
    try:
        parts = urlsplit(text)
        fits = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if fits else None
