"""Where a listener listens: ``HOST:PORT``, and whether other hosts can reach it there."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from vllm_observe.errors import ConfigError

__all__ = ["Address", "is_loopback", "parse_address", "split_host"]

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<name>[^\[\]:/@\s]*)):(?P<port>[0-9]{1,5})")
_LAST_PORT = 65535


class Address(NamedTuple):
    """A host, by name or by number, and a port; port 0 stands for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, *, flag: str = "--listen") -> Address:
    """Read ``HOST:PORT``; ``:PORT`` is every IPv4 address of this host, ``[::]:PORT`` is all of both.

    A port alone is refused: whether it would mean this host or the whole network is a guess.

    Raises:
        ConfigError: the text is no address; the message names the flag.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > _LAST_PORT:
        raise ConfigError(f"{flag} must be HOST:PORT, for example 0.0.0.0:9809, 127.0.0.1:9809 or [::1]:9809")
    return Address(match["v6"] or match["name"] or "0.0.0.0", int(match["port"]))  # noqa: S104  # asked for


def split_host(header: str) -> str:
    """Take the port off a ``Host`` header, and the brackets off an IPv6 address in it."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Say whether a host means this machine alone: ``localhost``, 127.0.0.0/8 or ::1.

    Any other name is not looked up: what it means can change after the look.
    """
    if host.lower() == "localhost":
        return True
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(number, "ipv4_mapped", None)
    return bool((mapped or number).is_loopback)
