"""A listener: one application on one address, in a thread of its own."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import uvicorn
from anyio import to_thread
from starlette.types import ASGIApp

from vllm_observe import logs
from vllm_observe.errors import ConfigError
from vllm_observe.serve.address import Address, parse_address
from vllm_observe.serve.connection import KEEP_ALIVE_S, Connection

__all__ = ["Listener", "TlsFiles"]

#: Threads that render pages, for each listener. More would only wait for each other.
_WORKERS = 4
#: The longest request line and headers together; a request to us has a tenth of it.
_MAX_HEAD_BYTES = 16 * 1024
#: Between two looks at whether a certificate has been renewed.
_RENEWAL_LOOK_S = 30
#: What may be left to do after the last answer is sent or given up.
_WIND_UP_S = 0.5

_log = logs.EventLog("serve")


class TlsFiles:
    """The certificate and the key of a listener, read again when they are renewed.

    Args:
        certificate: PEM, the server's own first, then those between it and the root.
        key: PEM, not encrypted.

    Raises:
        ConfigError: a file cannot be read, or they do not belong together. It names the file.
    """

    def __init__(self, *, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._stamp()
        self._load()

    def renew(self) -> None:
        """Read changed files; until they are whole and right, the old certificate stays in use."""
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._load()
        except ConfigError as error:
            _log.error("certificate not re-read", error=str(error))
        else:
            _log.info("certificate re-read", certificate=str(self._certificate))

    def _load(self) -> None:
        _open(self._certificate)
        _open(self._key)
        # Tried first on a context that nobody uses: a pair that does not match would spoil ours.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
            self._load_into(context)

    def _load_into(self, context: ssl.SSLContext) -> None:
        try:
            # Without a password OpenSSL would ask the terminal for one, and wait.
            context.load_cert_chain(self._certificate, self._key, password="")
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or "not PEM, or the key is encrypted"
            raise ConfigError(
                f"{self._certificate} and {self._key} are no certificate with its key ({reason})"
            ) from None

    def _stamp(self) -> list[tuple[int, int, int]]:
        try:
            stats = [path.stat() for path in (self._certificate, self._key)]
        except (OSError, ValueError):
            return []
        return [(stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats]


class Listener:
    """Serves an application over HTTP/1.1, or over TLS 1.2 and later.

    The address is bound when the listener is made, so that a wrong one is told at the start.

    Args:
        app: what to serve.
        listen: ``HOST:PORT``; port 0 takes any free one.
        flag: the setting that ``listen`` comes from, for messages.
        tls: the certificate; without one, plain HTTP.

    Raises:
        ConfigError: the address is wrong or taken. It names the flag and the mend.
    """

    def __init__(self, app: ASGIApp, listen: str, *, flag: str, tls: TlsFiles | None = None) -> None:
        self._socket = _bind(parse_address(listen, flag=flag), flag)
        #: Where it listens, with the real port.
        self.address = Address(*self._socket.getsockname()[:2])
        #: The same for a browser's address bar.
        self.url = f"{'https' if tls else 'http'}://{self.address}"
        self._server = uvicorn.Server(_configuration(app, tls))
        self._thread = threading.Thread(target=self._run, name=f"listener {self.address}", daemon=True)

    def start(self) -> None:
        """Begin to answer. What was asked since the address was bound is answered too."""
        self._thread.start()

    def close(self, timeout: float) -> bool:
        """Stop listening, finish what is being answered, and say whether the thread has ended.

        Args:
            timeout: seconds that it may take; after that the connections are cut.
        """
        if self._thread.ident is None:
            self._socket.close()
            return True
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it is told to cut what is left
        # uvicorn rounds nothing here, whatever its annotation says.
        self._server.config.timeout_graceful_shutdown = max(0.0, timeout - _WIND_UP_S)  # type: ignore[assignment]
        self._server.should_exit = True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001  # a thread's last chance to tell of it
            _log.exception("listener ended", error, address=str(self.address))

    async def _serve(self) -> None:
        to_thread.current_default_thread_limiter().total_tokens = _WORKERS
        await self._server.serve(sockets=[self._socket])
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()


def _configuration(app: ASGIApp, tls: TlsFiles | None) -> uvicorn.Config:
    async def look_for_renewal() -> None:
        if tls is not None:
            tls.renew()

    config = uvicorn.Config(
        app,
        http=Connection,
        loop="asyncio",
        ws="none",
        lifespan="off",
        workers=1,
        log_config=None,
        log_level=logging.ERROR,  # its warnings tell of clients' faults, as many as a client likes
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        callback_notify=look_for_renewal,
        timeout_notify=_RENEWAL_LOOK_S,
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
    )
    config.load()
    # uvicorn would make a context of its own, from files that it would read only when it starts.
    config.ssl = tls.context if tls else None
    return config


def _open(path: Path) -> None:
    try:
        path.open("rb").close()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from None


def _bind(address: Address, flag: str) -> socket.socket:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ConfigError(f"{flag}: no host {address.host} is known here; give an IP address") from None
    # A name such as localhost has an address of each family: who scrapes by number means IPv4.
    family, _, _, _, place = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    try:
        return _listen(family, place)
    except OSError as error:
        raise ConfigError(f"{flag}: cannot listen on {address}: {_mend(error)}") from None


def _listen(family: int, place: tuple[Any, ...]) -> socket.socket:
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # [::] is every IPv4 one too
        bound.bind(place)
        bound.listen()  # only now is the address surely ours
    except OSError:
        bound.close()
        raise
    return bound


def _mend(error: OSError) -> str:
    mends = {
        errno.EADDRINUSE: "another program listens there; stop it or choose another port",
        errno.EADDRNOTAVAIL: "no interface of this host has that address; 0.0.0.0 is all of them",
        errno.EACCES: "a port below 1024 needs a privilege; choose a higher one",
    }
    return mends.get(error.errno or 0, error.strerror or "the system refuses it")
