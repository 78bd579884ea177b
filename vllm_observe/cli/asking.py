"""Where ``requests``, ``sessions`` and ``explain`` get their answers: a running sidecar, or a store file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import msgspec
import requests

from vllm_observe import __version__
from vllm_observe.clock import Clock
from vllm_observe.engine.address import Address
from vllm_observe.errors import ConfigError, CursorError, VllmObserveError
from vllm_observe.serve.api.answers import (
    Attempts,
    Problem,
    RequestList,
    SessionList,
    attempts_of,
    list_requests,
    list_sessions,
)
from vllm_observe.serve.api.questions import PARAMETERS, QuestionError, read_question
from vllm_observe.store.protocol import RequestReader

__all__ = ["RequestSource", "SidecarAccess", "SidecarRequests", "StoreRequests"]

_TIMEOUT_S = 10.0
_OK, _BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 200, 400, 401, 403, 404

_PARAMETERS = tuple(parameter.name for parameter in PARAMETERS)

_Answer = TypeVar("_Answer")


class RequestSource(Protocol):
    """Answers questions about requests. Parameters are those of the admin API, as a person writes them.

    Every method raises ConfigError for a parameter that is wrong, and VllmObserveError where there is no
    answer.
    """

    def list_requests(self, parameters: Mapping[str, str]) -> RequestList:
        """List requests, the newest first."""

    def list_sessions(self, parameters: Mapping[str, str]) -> SessionList:
        """Sum up sessions, that of the newest request first."""

    def attempts_of(self, request_id: str) -> Attempts | None:
        """Return all attempts of one request; ``None`` where it is not known."""


class StoreRequests:
    """Answers from a store, without a sidecar.

    Args:
        reader: the store.
        clock: ages such as ``15m`` count from its time of day.
    """

    def __init__(self, reader: RequestReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock

    def list_requests(self, parameters: Mapping[str, str]) -> RequestList:
        """See RequestSource."""
        with _wrong_use():
            asked = read_question(parameters.items(), now=self._clock.wall())
            return list_requests(self._reader, asked.where, limit=asked.limit, cursor=asked.cursor)

    def list_sessions(self, parameters: Mapping[str, str]) -> SessionList:
        """See RequestSource."""
        with _wrong_use():
            asked = read_question(parameters.items(), now=self._clock.wall())
            return list_sessions(self._reader, asked.where, limit=asked.limit, cursor=asked.cursor)

    def attempts_of(self, request_id: str) -> Attempts | None:
        """See RequestSource."""
        return attempts_of(self._reader, request_id)


class SidecarAccess(NamedTuple):
    """How to reach a sidecar's admin API."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None


class SidecarRequests:
    """Answers from a running sidecar's admin API.

    Args:
        access: how to reach it.
        clock: as for a store; what is asked wrongly is told before anybody is asked.

    Raises:
        ConfigError: the address is none, or the token file cannot be read.
    """

    def __init__(self, access: SidecarAccess, clock: Clock) -> None:
        self._clock = clock
        try:
            address = Address.parse(access.url)
        except ConfigError:
            raise ConfigError(
                "--sidecar must be an http or https address with a host, such as http://127.0.0.1:9810"
            ) from None
        self._base = address.origin + address.prefix + "/api/v1"
        self._where = address.show(address.prefix)
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy of the environment does not know the way next door
        self._session.headers["User-Agent"] = f"vllm-observe/{__version__}"
        if address.basic:
            self._session.headers["Authorization"] = address.basic
        if access.token_file is not None:
            self._session.headers["Authorization"] = f"Bearer {_token(access.token_file)}"
        if access.ca_file is not None:
            self._session.verify = str(access.ca_file)

    def list_requests(self, parameters: Mapping[str, str]) -> RequestList:
        """See RequestSource."""
        self._check(parameters)
        return self._ask("/requests", parameters, RequestList)

    def list_sessions(self, parameters: Mapping[str, str]) -> SessionList:
        """See RequestSource."""
        self._check(parameters)
        return self._ask("/sessions", parameters, SessionList)

    def _check(self, parameters: Mapping[str, str]) -> None:
        with _wrong_use():
            read_question(parameters.items(), now=self._clock.wall())

    def attempts_of(self, request_id: str) -> Attempts | None:
        """See RequestSource."""
        # The segments . and .. are resolved on the way, where their dots are not quoted.
        quoted = quote(request_id, safe="", errors="replace").replace(".", "%2E")
        response = self._get(f"/requests/{quoted}", {})
        if response.status_code == _NOT_FOUND and _problem(response):
            return None
        return self._read(response, Attempts)

    def _ask(self, path: str, parameters: Mapping[str, str], kind: type[_Answer]) -> _Answer:
        return self._read(self._get(path, parameters), kind)

    def _get(self, path: str, parameters: Mapping[str, str]) -> requests.Response:
        try:
            asked = self._session.prepare_request(requests.Request("GET", self._base, params=parameters))
            base, mark, query = str(asked.url).partition("?")
            asked.url = base + path + mark + query  # by hand: requests would undo quoted dots
            return self._session.send(asked, timeout=_TIMEOUT_S, allow_redirects=False)
        except requests.Timeout:
            raise self._failed(f"no answer within {_TIMEOUT_S:g} s: is the sidecar hung?") from None
        except (requests.RequestException, OSError):
            raise self._failed(
                "no connection: is the sidecar up, is this its --admin-listen address, and its certificate "
                "trusted (--ca-file)? A store file is asked without one, by --store"
            ) from None

    def _read(self, response: requests.Response, kind: type[_Answer]) -> _Answer:
        if response.status_code == _OK:
            try:
                return msgspec.json.decode(response.content, type=kind)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                raise self._failed("what answers there is no sidecar's admin API") from None
        if response.status_code in (_UNAUTHORIZED, _FORBIDDEN):
            raise self._failed("it wants a token: name the file that holds the right one with --token-file")
        told = _problem(response)
        if told is None:
            raise self._failed("what answers there is no sidecar's admin API")
        if response.status_code == _BAD_REQUEST:
            raise ConfigError(_as_flag(told))
        raise self._failed(told)

    def _failed(self, why: str) -> VllmObserveError:
        return VllmObserveError(f"sidecar at {self._where}: {why}")


def _problem(response: requests.Response) -> str | None:
    """What the admin API says went wrong; ``None`` where something else answered."""
    try:
        return msgspec.json.decode(response.content, type=Problem).error.message
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


@contextlib.contextmanager
def _wrong_use() -> Iterator[None]:
    try:
        yield
    except (QuestionError, CursorError) as error:
        raise ConfigError(_as_flag(str(error))) from None


def _as_flag(complaint: str) -> str:
    """Name the parameter that a complaint begins with as the command line does."""
    name = next((name for name in _PARAMETERS if complaint.startswith((f"{name} ", f"{name}:"))), None)
    return complaint if name is None else f"--{name.replace('_', '-')}{complaint.removeprefix(name)}"


def _token(file: Path) -> str:
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        raise ConfigError(f"--token-file: {file} cannot be read") from None
    if not token or len(token.split()) != 1:
        raise ConfigError(f"--token-file: {file} does not hold one token in one line")
    return token
