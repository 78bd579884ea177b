"""The address of a vLLM server: what is asked there, what is shown of it, where a redirect may lead."""

from __future__ import annotations

import base64
import re
import socket
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from vllm_observe.errors import ConfigError, ScrapeError, ScrapeFailure

__all__ = ["Address"]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_EXAMPLE = "such as http://127.0.0.1:8000"
_NOT_SHOWN = re.compile(r"[^\x21-\x7e]")
_SHOWN_CHARACTERS = 200


class Address(NamedTuple):
    """A server, and the path before those of its own.

    Attributes:
        origin: scheme, host and port, without the user and password of the URL.
        prefix: the path before every other, without a slash at its end.
        basic: the Authorization header that the user and password of the URL make.
    """

    origin: str
    prefix: str
    basic: str | None

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read the setting ``--vllm-url``.

        Raises:
            ConfigError: it is no address of an HTTP server. The message does not repeat it: a URL can
                hold a password.
        """
        parts = None if re.search(r"[\x00-\x20\x7f]", url.strip()) else _split(url.strip())
        if parts is None or parts.scheme not in _DEFAULT_PORTS:
            raise ConfigError(f"--vllm-url must be an http or https address with a host, {_EXAMPLE}")
        if parts.query or parts.fragment:
            raise ConfigError(f"--vllm-url must be an address without a ? or a # in it, {_EXAMPLE}")
        basic = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            basic = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
        return cls(_origin(parts), parts.path.rstrip("/"), basic)

    @property
    def port(self) -> int:
        """The port of the server, where the URL names none that of its scheme."""
        parts = urlsplit(self.origin)
        return parts.port or _DEFAULT_PORTS[parts.scheme]

    def is_local(self) -> bool:
        """Say whether the server is on this machine: whether its host's address is one of ours."""
        host = urlsplit(self.origin).hostname or ""
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError):
            return False
        return any(_is_ours(family, address) for family, *_, address in found)

    def show(self, path: str) -> str:
        """Return the URL of a path as a message may show it: without a query, which can hold a key."""
        return _shown(self.origin + path.partition("?")[0])

    def follow(self, asked: str, location: str) -> str:
        """Return the path to ask next, query included, when the answer to ``asked`` names a location.

        Whatever the location says, the next request can only go to this origin.

        Raises:
            ScrapeError: the location is not on this server, or ends in a slash: behind ``/metrics/``
                vLLM has another exporter, whose names differ with the release and the client.
        """
        target = _split(location, base=self.origin + asked) if location else None
        if target is None:
            problem = "no address"
        elif _server(target) != _server(urlsplit(self.origin)):
            problem = f"{_shown(_origin(target))}, and only the server itself is followed"
        elif target.path.endswith("/"):
            problem = f"{_shown(target.path)}, and no metrics of vLLM are behind a slash"
        else:
            return (target.path or "/") + (f"?{target.query}" if target.query else "")
        raise ScrapeError(
            ScrapeFailure.REDIRECT,
            f"{self.show(asked)} redirects to {problem}: give --vllm-url the address of vLLM itself",
        )


def _is_ours(family: int, address: tuple[object, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address[0], 0, *address[2:]))  # only an address of this machine can be bound
    except OSError:
        return False
    return True


def _split(url: str, *, base: str = "") -> SplitResult | None:
    """Take a URL apart; ``None`` where it has no host, or a port that is none."""
    try:
        parts = urlsplit(urljoin(base, url))
        usable = parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _origin(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _server(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _shown(text: str) -> str:
    return _NOT_SHOWN.sub("?", text)[:_SHOWN_CHARACTERS]
