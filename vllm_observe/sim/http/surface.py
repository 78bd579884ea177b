"""What the HTTP side of one release does otherwise than that of another."""

from __future__ import annotations

from vllm_observe.sim.pages import place_of

__all__ = ["Surface"]


class _Since:
    """Whether a surface's release is this one or a later one."""

    def __init__(self, first: str) -> None:
        self._first = first

    def __get__(self, surface: Surface, _: type[Surface]) -> bool:
        return surface.place >= place_of(self._first)


class Surface:
    """What a release has or does.

    Args:
        release: one of ``pages.releases()``.

    Raises:
        ValueError: the release is not known.
    """

    def __init__(self, release: str) -> None:
        self.place = place_of(release)
        self.release = release

    pings = _Since("0.7.3")  # has /ping
    develops = _Since("0.8.5")  # in development mode it sleeps, and tells of its configuration
    names_completions = _Since("0.10.1")  # takes a completion's id from the body too
    nests_errors = _Since("0.10.1")  # an error's body holds an object "error", as OpenAI's does
    is_unavailable = _Since("0.11.0.post2")  # /health of a dead engine says 503, before that 500
    tells_json = _Since("0.11.0.post2")  # /server_info can be had as JSON
    has_plugins = _Since("0.11.1")  # looks for stat loggers
    counts_cached = _Since("0.13.0")  # its statistics of a request hold the cached tokens
    names_requests = _Since("0.20.0")  # and the request's id
    tells_deferred = _Since("0.20.0")  # and, of an engine, who waits for something else than capacity
    finds_sessions = _Since("0.28.0")  # in the body, the header or vllm_xargs
    heeds_priority_header = _Since("0.28.0")
    counts_preemptions = _Since("0.30.0")  # in its statistics of a request
    confirms_sleep = _Since("0.32.0")  # /sleep and /wake_up answer with a body; 0.24.0 does not
    cuts_outputs = _Since("0.32.0")  # to what the prompt leaves of the context; 0.24.0 refuses
