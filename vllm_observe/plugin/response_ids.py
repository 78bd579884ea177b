"""The ids of ``/v1/responses``, which vLLM makes itself whatever ``X-Request-Id`` says.

The middleware knows the client's id and the stat logger vLLM's. They meet in what vLLM notes in the
request's state while it handles it, so that the engine's record can bear the client's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["METADATA", "ResponseIds"]

#: The key in a request's state under which vLLM notes its own id and, at the end, the usage.
METADATA = "request_metadata"

#: Ids to remember: a response in the background is answered long before the engine is done with it.
MOST = 10_000


class ResponseIds:
    """Which client's id an id of vLLM's stands for. For one thread: the event loop's."""

    def __init__(self) -> None:
        self._unknown: dict[int, tuple[Mapping[str, Any], str]] = {}  # vLLM noted nothing in these yet
        self._known: dict[str, str] = {}

    def begin(self, state: Mapping[str, Any], request_id: str) -> None:
        """Take note of a request that goes to vLLM with its client's id."""
        self._unknown[id(state)] = (state, request_id)

    def end(self, state: Mapping[str, Any]) -> None:
        """Take note that the request was answered."""
        self._learn()
        self._unknown.pop(id(state), None)

    def client_id(self, engine_id: str) -> str | None:
        """Return the client's id for an engine's id, whose turns are numbered: ``resp_abc_0``."""
        if self._unknown:
            self._learn()
        if not self._known:
            return None
        return self._known.get(engine_id) or self._known.get(engine_id.rpartition("_")[0])

    def _learn(self) -> None:
        for place, (state, client_id) in list(self._unknown.items()):
            vllms_id = getattr(state.get(METADATA), "request_id", None)
            if isinstance(vllms_id, str):
                del self._unknown[place]
                self._known[vllms_id] = client_id
                if len(self._known) > MOST:
                    del self._known[next(iter(self._known))]
