"""Why a request failed, in one line for the person on call instead of a library's repr."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator

import requests
import urllib3

from vllm_observe.errors import ScrapeError, ScrapeFailure

__all__ = ["connection_failure", "timed_out"]


def timed_out(where: str, seconds: float) -> ScrapeError:
    """Return the error of a scrape that had no whole answer at its deadline."""
    return ScrapeError(ScrapeFailure.TIMEOUT, f"{where} gave no whole answer within {seconds:g} s")


def connection_failure(error: Exception, *, where: str, seconds: float) -> ScrapeError:
    """Return what an exception of requests, urllib3 or the system means for a scrape.

    Args:
        error: the exception; its message is never passed on, since it can hold a URL or a header.
        where: the address that was asked, fit to be shown.
        seconds: the deadline.
    """
    causes = list(_causes(error))
    if any(isinstance(cause, _TIMEOUTS) for cause in causes):
        return timed_out(where, seconds)
    root = causes[-1]
    why = next((say(root) for kind, say in _MEANINGS if isinstance(root, kind)), "the connection failed")
    return ScrapeError(ScrapeFailure.CONNECTION, f"{where}: {why}")


#: ``TimeoutError`` is the system's and the socket's; the others hide theirs.
_TIMEOUTS = (TimeoutError, requests.Timeout, urllib3.exceptions.ReadTimeoutError)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Walk from what was raised last to what happened first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    return (
        f"its TLS certificate is not trusted ({error.verify_message.rstrip('.')}): name the certificates "
        "to trust in scrape_ca_file (--scrape-ca-file)"
    )


def _tls(error: ssl.SSLError) -> str:
    reason = (error.reason or "no reason given").replace("_", " ").lower()
    return f"TLS failed ({reason}): does it speak https, and is scrape_ca_file right?"


def _system(error: OSError) -> str:
    return (error.strerror or "the connection failed").lower()


#: What the first cause means: the first kind that fits, so the narrow ones stand before the wide.
_MEANINGS: tuple[tuple[type[BaseException], Callable[..., str]], ...] = (
    (ssl.SSLCertVerificationError, _untrusted),
    (ssl.SSLError, _tls),
    (socket.gaierror, lambda _: "the host name cannot be resolved: check --vllm-url"),
    (ConnectionRefusedError, lambda _: "nothing listens there: is vLLM up, and --vllm-url right?"),
    (http.client.RemoteDisconnected, lambda _: "the connection was closed without an answer"),
    (ConnectionError, lambda _: "the connection broke before the answer"),
    (http.client.HTTPException, lambda _: "what answers there does not speak HTTP: check --vllm-url"),
    (requests.RequestException, lambda _: "the answer is no valid HTTP"),
    (OSError, _system),
)
