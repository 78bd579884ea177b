"""Prometheus's HTTP API, as far as a board asks it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import requests

from vllm_observe import __version__
from vllm_observe.errors import ConfigError, VllmObserveError

__all__ = ["Answer", "Prometheus", "QueryError"]

_TIMEOUT_S = 30.0

_Data = TypeVar("_Data", dict[str, Any], list[Any])


class QueryError(VllmObserveError):
    """Prometheus refused one query; the message is Prometheus's."""


class Answer(NamedTuple):
    """A series of an answer: its labels, and its values by their times in seconds since the Unix epoch."""

    labels: Mapping[str, str]
    points: list[tuple[float, float]]


class Prometheus:
    """Asks one Prometheus, or what speaks its API.

    Args:
        url: where it is; ``/api/v1`` follows.
        token_file: holds a bearer token.

    Raises:
        ConfigError: the token cannot be read.
    """

    def __init__(self, url: str, *, token_file: Path | None = None) -> None:
        self._url = url.rstrip("/")
        self._session = requests.Session()
        self._session.headers["User-Agent"] = f"vllm-observe/{__version__}"
        if token_file is not None:
            try:
                token = token_file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"--token-file {token_file} cannot be read: {error}") from None
            self._session.headers["Authorization"] = f"Bearer {token}"

    def range(self, query: str, *, start: float, end: float, step: float) -> list[Answer]:
        """Ask for the values between two times, so many seconds apart."""
        found = self._ask("query_range", {"query": query, "start": start, "end": end, "step": step}, dict)
        return [Answer(one["metric"], _points(one["values"])) for one in found.get("result", [])]

    def instant(self, query: str, *, at: float) -> list[Answer]:
        """Ask for the values at a time."""
        found = self._ask("query", {"query": query, "time": at}, dict)
        if found.get("resultType") == "scalar":
            return [Answer({}, _points([found["result"]]))]
        return [Answer(one["metric"], _points([one["value"]])) for one in found.get("result", [])]

    def label_values(self, label: str, *, selector: str, start: float, end: float) -> list[str]:
        """Ask for a label's values, of the series of a selector or, where that is empty, of all."""
        asked: dict[str, Any] = {"start": start, "end": end}
        if selector:
            asked["match[]"] = selector
        return [str(value) for value in self._ask(f"label/{label}/values", asked, list)]

    def _ask(self, endpoint: str, asked: Mapping[str, Any], kind: type[_Data]) -> _Data:
        address = f"{self._url}/api/v1/{endpoint}"
        try:
            answer = self._session.get(address, params=asked, timeout=_TIMEOUT_S)
        except (
            requests.exceptions.InvalidURL,
            requests.exceptions.InvalidSchema,
            requests.exceptions.MissingSchema,
        ):
            raise ConfigError(
                f"--prometheus {self._url} is no address: write it like http://127.0.0.1:9090"
            ) from None
        except requests.Timeout:
            raise VllmObserveError(
                f"Prometheus at {self._url} did not answer within {_TIMEOUT_S:g} s"
            ) from None
        except requests.RequestException:
            raise VllmObserveError(
                f"Prometheus at {self._url} cannot be reached: check --prometheus"
            ) from None
        try:
            told = answer.json()
        except ValueError:
            told = None
        if not isinstance(told, dict) or "status" not in told:
            raise VllmObserveError(
                f"{self._url} answers with HTTP {answer.status_code} and no JSON of Prometheus's: check --prometheus"
            )
        if told["status"] != "success":
            raise QueryError(str(told.get("error", "no reason given")))
        data = told.get("data")
        if not isinstance(data, kind):
            raise VllmObserveError(f"{self._url} answers otherwise than Prometheus does: check --prometheus")
        return data


def _points(told: list[tuple[float, str]]) -> list[tuple[float, float]]:
    return [(float(at), float(value)) for at, value in told]
