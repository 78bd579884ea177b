"""Fetching vLLM's metrics: one whole answer before the deadline, or one clear reason why not."""

from __future__ import annotations

import contextlib
import re
import threading
from pathlib import Path
from typing import NamedTuple

import msgspec
import requests
import urllib3

from vllm_observe import __version__
from vllm_observe.clock import Clock
from vllm_observe.engine.address import Address
from vllm_observe.engine.body import check_status, read_body
from vllm_observe.engine.failures import connection_failure, timed_out
from vllm_observe.engine.transport import CuttableAdapter
from vllm_observe.errors import ScrapeError, ScrapeFailure

__all__ = ["Fetched", "Fetcher"]

#: Redirects that one request follows: a proxy in front adds one, rarely two.
_MAX_REDIRECTS = 3
#: OpenMetrics is not named on purpose. prometheus_client looks at no ``q``: to name it anywhere is to
#: get it, and newer releases then write ``vllm_x`` for ``vllm:x``. Who has nothing else may send it.
_ACCEPT_METRICS = "text/plain;version=0.0.4, */*;q=0.1"
_ACCEPT_JSON = "application/json"
_TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")


class Fetched(NamedTuple):
    """A whole answer, unpacked, and the seconds that it took."""

    body: bytes
    content_type: str | None
    seconds: float


class Fetcher:
    """Asks one vLLM server over a connection that is kept alive. Any thread may use it.

    It speaks through requests' adapter without a session, which would bring what a scrape must not
    have: proxies of the environment (NO_PROXY is easily wrong, and vLLM is next door), passwords from
    a .netrc, cookies, and redirects whose bodies are read without a bound.

    Args:
        url: the server's address, http or https, perhaps with a path before that of the metrics. A
            user and password in it are sent where there is no token.
        metrics_path: where the metrics are. A slash at its end is left out: behind it vLLM answers
            something else.
        timeout: seconds until the answer must be there as a whole, redirects included.
        max_bytes: the size of an unpacked answer above which it is given up.
        token_file: holds the bearer token. It is read for each request, so that the token can be
            replaced at any time, and sent to this server alone.
        ca_file: holds the certificates to trust, in place of those that requests brings.
        compression: whether to ask for gzip: fewer bytes for more work on vLLM's event loop.
        clock: measures ``Fetched.seconds``. The deadline is the system's time.

    Raises:
        ConfigError: ``url`` is no address of an HTTP server.
    """

    def __init__(
        self,
        *,
        url: str,
        metrics_path: str = "/metrics",
        timeout: float,
        max_bytes: int = 32 * 1024 * 1024,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        compression: bool = False,
        clock: Clock,
    ) -> None:
        self._address = Address.parse(url)
        path, question, query = metrics_path.partition("?")
        self._metrics = f"/{path.strip('/')}{question}{query}"
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._token_file = token_file
        self._ca_file = ca_file
        self._encoding = "gzip" if compression else "identity"
        self._clock = clock
        self._adapter = CuttableAdapter()
        self._lock = threading.Lock()
        self._closed = False

    def fetch(self) -> Fetched:
        """Fetch the metrics.

        Raises:
            ScrapeError: there is no whole answer. Its message holds no secret.
        """
        return self._get(self._metrics, accept=_ACCEPT_METRICS)

    def get_json(self, path: str) -> object | None:
        """Return what a path such as ``/version`` answers; ``None`` where that is not JSON."""
        try:
            document: object = msgspec.json.decode(self._get(path, accept=_ACCEPT_JSON).body)
        except (ScrapeError, msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return document

    def close(self) -> None:
        """Give up a request under way, refuse later ones, and close the connection."""
        self._closed = True
        self._adapter.cut()
        self._adapter.close()

    def _get(self, path: str, *, accept: str) -> Fetched:
        path = self._address.prefix + path
        where = self._address.show(path)
        with self._lock, self._adapter.within(self._timeout):
            began = self._clock.monotonic()
            failure: ScrapeError | None = None
            try:
                body, content_type = self._follow(path, accept=accept)
            except ScrapeError as error:
                failure = error
            except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                failure = connection_failure(error, where=where, seconds=self._timeout)
            # A connection that was cut looks like any broken one, or like the end of a body.
            if self._adapter.was_cut and not self._closed:
                failure = timed_out(where, self._timeout)
            if failure is not None:
                raise failure
            return Fetched(body, content_type, self._clock.monotonic() - began)

    def _follow(self, path: str, *, accept: str) -> tuple[bytes, str | None]:
        """Ask for a path, and on from there while the server sends us to others of its own."""
        asked = [path]
        while True:
            where = self._address.show(path)
            with contextlib.closing(self._send(path, accept=accept)) as response:
                if not 300 <= response.status_code < 400:  # noqa: PLR2004  # HTTP's redirects
                    check_status(response.status_code, where)
                    body = read_body(response, where, max_bytes=self._max_bytes)
                    return body, response.headers.get("Content-Type")
                path = self._address.follow(path, response.headers.get("Location", ""))
            if path in asked or len(asked) > _MAX_REDIRECTS:
                raise ScrapeError(ScrapeFailure.REDIRECT, f"{where} redirects in a circle: check --vllm-url")
            asked.append(path)

    def _send(self, path: str, *, accept: str) -> requests.Response:
        """Send a request and return its answer once the headers are there."""
        if self._closed:
            raise ScrapeError(ScrapeFailure.CONNECTION, "the scrape was given up: the sidecar stops")
        headers = {
            "Accept": accept,
            "Accept-Encoding": self._encoding,
            "User-Agent": f"vllm-observe/{__version__}",
        }
        request = requests.Request(
            "GET", self._address.origin + path, headers | self._authorization()
        ).prepare()
        trusted = self._trusted()
        try:
            return self._adapter.send(request, stream=True, timeout=self._timeout, verify=trusted)
        except requests.ConnectionError:
            if self._adapter.connecting or self._adapter.was_cut:
                raise
        # The server closed the idle connection as we used it again: vLLM does after 5 idle seconds,
        # which is the scrape interval. That says nothing about the server, so ask once more.
        return self._adapter.send(request, stream=True, timeout=self._timeout, verify=trusted)

    def _authorization(self) -> dict[str, str]:
        if self._token_file is None:
            return {"Authorization": self._address.basic} if self._address.basic else {}
        try:
            with self._token_file.open(encoding="latin-1") as file:
                token = file.read(16_384).strip()  # a wrong path can name a file of any size
            problem = None if _TOKEN.fullmatch(token) else "does not hold one token, in one line of ASCII"
        except OSError as error:
            problem = f"cannot be read ({(error.strerror or 'no reason given').lower()})"
        if problem:
            raise ScrapeError(
                ScrapeFailure.AUTH,
                f"the token file {self._token_file} {problem}: mend scrape_token_file (--scrape-token-file)",
            )
        return {"Authorization": f"Bearer {token}"}

    def _trusted(self) -> str | bool:
        if self._ca_file is None:
            return True
        if not self._ca_file.is_file():
            raise ScrapeError(
                ScrapeFailure.CONNECTION,
                f"the certificates {self._ca_file} are no file: mend scrape_ca_file (--scrape-ca-file)",
            )
        return str(self._ca_file)
