"""Reading an answer: its status, and its whole body within a bound, or the reason why there is none."""

from __future__ import annotations

import re
import zlib

import requests
import urllib3

from vllm_observe.errors import ScrapeError, ScrapeFailure

__all__ = ["check_status", "read_body"]

_CHUNK_BYTES = 64 * 1024
_GZIP_WITH_HEADER = 16 + zlib.MAX_WBITS


def check_status(status: int, where: str) -> None:
    """Raise the failure that an HTTP status means, where it is no success."""
    if 200 <= status < 300:  # noqa: PLR2004  # HTTP's own classes
        return
    if status in (401, 403):
        reason, mend = (
            ScrapeFailure.AUTH,
            "give it the right token in scrape_token_file (--scrape-token-file)",
        )
    elif 400 <= status < 500:  # noqa: PLR2004  # the same
        reason, mend = ScrapeFailure.HTTP_CLIENT, "check --vllm-url and --metrics-path"
    elif status >= 500:  # noqa: PLR2004  # the same
        reason, mend = ScrapeFailure.HTTP_SERVER, "metrics are unavailable, the engine may well be serving"
    else:
        reason, mend = ScrapeFailure.MALFORMED, "this is no answer to a GET"
    raise ScrapeError(reason, f"{where} answers {status}: {mend}")


def read_body(response: requests.Response, where: str, *, max_bytes: int) -> bytes:
    """Read and unpack the body of an answer.

    It is read and unpacked here, with a bound on both, since urllib3 unpacks a whole chunk before one
    can look at its size, and would unpack what is packed several times over.

    Raises:
        ScrapeError: the body is too large, cut off, or packed in a way that was not asked for.
    """
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        raise ScrapeError(ScrapeFailure.MALFORMED, f"{where} packs its answer in a way nobody asked for")
    body = _read(response, where, max_bytes=max_bytes)
    return _unpack(body, where, max_bytes=max_bytes) if encoding == "gzip" else body


def _read(response: requests.Response, where: str, *, max_bytes: int) -> bytes:
    announced = _announced(response)
    body = bytearray()
    while announced <= max_bytes and len(body) <= max_bytes:
        try:
            chunk = response.raw.read(_CHUNK_BYTES, decode_content=False)
        except urllib3.exceptions.ProtocolError:
            raise _truncated(where) from None
        if not chunk:
            break
        body += chunk
    else:
        raise _too_large(where, max_bytes)
    if len(body) < announced:  # urllib3 1 takes this for the end
        raise _truncated(where)
    return bytes(body)


def _announced(response: requests.Response) -> int:
    """Return the length that the headers promise; 0 where the body's end is told otherwise."""
    length = response.headers.get("Content-Length", "")
    plain = "Transfer-Encoding" not in response.headers and re.fullmatch(r"[0-9]{1,18}", length)
    return int(length) if plain else 0


def _unpack(body: bytes, where: str, *, max_bytes: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP_WITH_HEADER)
    try:
        unpacked = unpacker.decompress(body, max_bytes + 1)
    except zlib.error:
        raise ScrapeError(ScrapeFailure.MALFORMED, f"{where} answers with a broken gzip") from None
    if len(unpacked) > max_bytes:
        raise _too_large(where, max_bytes)
    if not unpacker.eof:
        raise _truncated(where)
    return unpacked


def _truncated(where: str) -> ScrapeError:
    return ScrapeError(ScrapeFailure.TRUNCATED, f"{where} broke off in the middle of its answer")


def _too_large(where: str, max_bytes: int) -> ScrapeError:
    return ScrapeError(
        ScrapeFailure.TOO_LARGE, f"{where} answers with more than {max_bytes} bytes (scrape_max_bytes)"
    )
