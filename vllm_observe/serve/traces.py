"""The OTLP/HTTP receiver: ``POST /v1/traces``, as the OpenTelemetry protocol's specification has it.

An answer is written as its request was: protobuf or JSON; a refusal is a ``google.rpc.Status``.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from vllm_observe.errors import BodyError
from vllm_observe.records.otlp import Encoding, Export, answer

__all__ = ["DECODED_AT_ONCE", "MAX_BODY_BYTES", "traces_route"]

#: As sent and as unpacked. Some 3,000 spans; vLLM sends 512 at once. Decoded, protobuf made to be large
#: takes sixty times as much memory.
MAX_BODY_BYTES = 2 << 20
#: Bodies that are decoded at the same time; the others wait, as they were sent.
DECODED_AT_ONCE = 2

_ENCODINGS = {encoding.value: encoding for encoding in Encoding}
_GZIP = 31  # zlib's wbits for a gzip header


class _Refused(Exception):  # noqa: N818  # it is no error of ours
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def traces_route(take: Callable[[bytes, Encoding], Export]) -> Route:
    """Make the route.

    Args:
        take: takes the records of a body; raises BodyError for one that holds no traces. Worker threads
            call it, at most :data:`DECODED_AT_ONCE` at a time.
    """
    decoding = asyncio.Semaphore(DECODED_AT_ONCE)

    async def traces(request: Request) -> Response:
        encoding = _ENCODINGS.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())
        if encoding is None:
            return _status(_Refused(415, f"send {' or '.join(_ENCODINGS)}"), Encoding.JSON)
        try:
            unpack = _unpacker(request)
            body = await _body(request)
            async with decoding:
                export = await run_in_threadpool(lambda: take(unpack(body), encoding))
        except _Refused as refused:
            return _status(refused, encoding)
        except BodyError as error:
            return _status(_Refused(400, str(error)), encoding)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is left to read it
        return Response(answer(export, encoding), media_type=encoding.value)

    return Route("/v1/traces", traces, methods=["POST"])


async def _body(request: Request) -> bytes:
    """Read a body up to the cap; one whose Content-Length is over it is refused unread."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
    return bytes(body)


def _unpacker(request: Request) -> Callable[[bytes], bytes]:
    coding = request.headers.get("content-encoding", "").strip().lower()
    if coding == "gzip":
        return _unpacked
    if coding in ("", "identity"):
        return bytes
    raise _Refused(415, "the body may be packed with gzip, or not at all")


def _unpacked(body: bytes) -> bytes:
    """Unpack gzip, never beyond the cap: a few bytes can unpack to gigabytes."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        content = unpacker.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error:
        raise _Refused(400, "the body is not gzip") from None
    if len(content) > MAX_BODY_BYTES:
        raise _too_large()
    if not unpacker.eof or unpacker.unused_data:
        raise _Refused(400, "the body is not one whole gzip")
    return content


def _too_large() -> _Refused:
    return _Refused(413, f"over {MAX_BODY_BYTES} bytes, packed or not: send smaller batches")


def _status(refused: _Refused, encoding: Encoding) -> Response:
    message = str(refused)
    if encoding is Encoding.JSON:
        body = msgspec.json.encode({"message": message})
    else:  # field 2, a string; all messages are shorter than the 128 bytes that take a longer length
        body = bytes((0x12, len(message))) + message.encode()
    return Response(body, refused.status, media_type=encoding.value)
