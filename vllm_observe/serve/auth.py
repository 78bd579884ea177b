"""Who may ask a listener: credentials from files, and the gate that asks for them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from vllm_observe import logs
from vllm_observe.errors import ConfigError
from vllm_observe.serve.address import is_loopback, parse_address, split_host

__all__ = ["Credentials", "Gate", "Refusal", "check_exposure"]

_MAX_BYTES = 64 * 1024
_TOKEN = re.compile(rb"[!-~]+")
# Compared as it stands, a hash would be the password, and the password itself would be refused.
_HASHED = re.compile(rb"\$(2[abxy]?|apr1|[156y])\$|\{SHA\}")

_log = logs.EventLog("serve")


class Credentials:
    """The secrets that open a listener: bearer tokens, users with their passwords, or both.

    A token file holds one token a line, so that a new one can be handed out before the old one
    goes. A basic-auth file holds ``user:password`` lines. In both a line that begins with ``#`` is
    a comment. A change of a file counts from the next request on; a file that has gone, is empty
    or is wrong by then lets nobody in.

    Raises:
        ConfigError: at the start a file is missing, unreadable, empty or wrong. The message names
            the file, never what it holds.
    """

    def __init__(self, *, token_file: Path | None = None, basic_auth_file: Path | None = None) -> None:
        self._files: list[_SecretFile] = []
        challenges: list[str] = []
        if token_file is not None:
            self._files.append(_SecretFile(token_file, what="a bearer token", read_line=_token))
            challenges.append("Bearer")
        if basic_auth_file is not None:
            self._files.append(_SecretFile(basic_auth_file, what="user:password", read_line=_user))
            challenges.append('Basic realm="vllm-observe", charset="UTF-8"')
        #: The value of WWW-Authenticate: how to ask.
        self.challenge = ", ".join(challenges)

    @property
    def required(self) -> bool:
        """Whether a client has to show anything."""
        return bool(self._files)

    def allows(self, authorization: str | None) -> bool:
        """Say whether an ``Authorization`` header opens the listener, in a time that tells nothing."""
        if not self.required:
            return True
        shown = _shown(authorization or "")
        match = False
        for accepted in (digest for file in self._files for digest in file.digests()):
            match |= hmac.compare_digest(accepted, shown)
        return match


def check_exposure(listen: str, credentials: Credentials, *, flag: str = "--admin-listen") -> None:
    """Refuse a listener that other hosts can reach and anybody may ask.

    Raises:
        ConfigError: it is off loopback and has no credentials, or is no address.
    """
    if credentials.required or is_loopback(parse_address(listen, flag=flag).host):
        return
    raise ConfigError(
        f"{flag}: other hosts can reach {listen.strip()}, so it needs credentials; "
        "set admin_security.token_file, or listen on 127.0.0.1"
    )


class Refusal(NamedTuple):
    """Why a request is not answered, as HTTP says it."""

    status: int
    message: str
    headers: dict[str, str] = {}  # noqa: RUF012  # a default that nobody changes


class Gate:
    """ASGI middleware that lets a request through or answers it with a refusal.

    Args:
        app: what is behind the gate.
        credentials: what opens it.
        refuse: writes a refusal in the listener's own form.
        open_paths: what anybody may ask: a kubelet's probes carry no credentials.
        local_only: without credentials, whether the ``Host`` header must name this machine. A page
            on the web can point a name of its own at 127.0.0.1, and the browser of a person who
            reads that page would then fetch from us on its behalf.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        credentials: Credentials,
        refuse: Callable[[Refusal], Response],
        open_paths: Collection[str] = (),
        local_only: bool = False,
    ) -> None:
        self._app = app
        self._credentials = credentials
        self._refuse = refuse
        self._open_paths = open_paths
        self._local_only = local_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        refusal = self._refusal(scope["path"], Headers(scope=scope))
        await (self._refuse(refusal) if refusal else self._app)(scope, receive, send)

    def _refusal(self, path: str, headers: Headers) -> Refusal | None:
        if path in self._open_paths:
            return None
        if self._credentials.required:
            if self._credentials.allows(headers.get("authorization")):
                return None
            challenge = {"WWW-Authenticate": self._credentials.challenge}
            return Refusal(401, "credentials are missing or wrong", challenge)
        if self._local_only and not is_loopback(split_host(headers.get("host", ""))):
            return Refusal(421, "ask for this listener by 127.0.0.1, ::1 or localhost")
        return None


class _SecretFile:
    """The digests of what one file accepts, read again when the file changes."""

    def __init__(self, path: Path, *, what: str, read_line: Callable[[bytes], bytes | None]) -> None:
        self._path = path
        self._what = what
        self._read_line = read_line
        self._seen = self._stamp()
        self._digests = self._read()

    def digests(self) -> Collection[bytes]:
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._digests = self._read()
            except ConfigError as error:
                self._digests = []
                _log.error("credentials not re-read, nobody is let in", error=str(error))
        return self._digests

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat()
        except (OSError, ValueError):
            return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    def _read(self) -> list[bytes]:
        try:
            if self._path.exists() and not self._path.is_file():
                raise self._wrong("is not a file")
            with self._path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise self._wrong(f"cannot be read ({getattr(error, 'strerror', error)})") from None
        if len(content) > _MAX_BYTES:
            raise self._wrong("is too large")
        digests = list(self._parse(content.removeprefix(b"\xef\xbb\xbf")))
        if not digests:
            raise self._wrong("is empty")
        return digests

    def _parse(self, content: bytes) -> Iterable[bytes]:
        for number, line in enumerate(content.splitlines(), start=1):
            if not line.strip() or line.startswith(b"#"):
                continue
            digest = self._read_line(line)
            if digest is None:
                raise self._wrong(f"is wrong in line {number}")
            yield digest

    def _wrong(self, how: str) -> ConfigError:
        return ConfigError(f"{self._path} {how}; it must hold {self._what}, one a line, in plain text")


def _token(line: bytes) -> bytes | None:
    token = line.strip()
    return _digest(b"bearer", token) if _TOKEN.fullmatch(token) else None


def _user(line: bytes) -> bytes | None:
    user, _, password = line.partition(b":")
    if not user or not password or _HASHED.match(password):
        return None
    return _digest(b"basic", line)


def _shown(authorization: str) -> bytes:
    """Digest what a client shows; what is no credential at all has a digest that nothing accepts."""
    scheme, _, rest = authorization.encode("latin-1", "replace").partition(b" ")
    scheme, secret = scheme.lower(), rest.strip()
    if scheme == b"basic":
        try:
            secret = base64.b64decode(secret, validate=True)
        except binascii.Error:
            scheme = b""
    return _digest(scheme, secret)


def _digest(scheme: bytes, secret: bytes) -> bytes:
    # All of one length, so that a comparison tells nothing, and no secret stays in memory.
    return hashlib.sha256(scheme + b" " + secret).digest()
