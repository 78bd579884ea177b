"""What the HTTP side of a simulated vLLM counts, whatever becomes of its engines."""

from __future__ import annotations

from collections import Counter

from vllm_observe.sim.requests import End, Ended
from vllm_observe.sim.tally import Histogram, histogram

__all__ = ["HttpTally", "status_of"]

#: What the client of a request that did not end well was told; one that left heard nothing more.
_STATUS = {End.REFUSED: 503, End.INVALID: 400, End.FAILED: 500, End.BROKEN: 500}
_BYTES_PER_TOKEN = 4


def status_of(ended: Ended) -> int | None:
    """Return the HTTP status that a client got; ``None`` if it left before there was any."""
    if ended.end is End.LEFT:
        return 200 if ended.first_token_at is not None and ended.arrival.stream else None
    return ended.status or _STATUS.get(ended.end, 200)


class HttpTally:
    """Answers, their durations and sizes, by method and handler, which is the path.

    Attributes:
        answers: how many, by method, handler and status class such as ``2xx``.
    """

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, str, str]] = Counter()
        self.all_seconds = histogram("http_duration_highr")
        self.seconds: dict[tuple[str, str], Histogram] = {}
        self.request_bytes: dict[str, Histogram] = {}  # by handler alone
        self.response_bytes: dict[str, Histogram] = {}

    def answered(self, ended: Ended) -> None:
        """Count the answer to a simulated request, if there was one."""
        status = status_of(ended)
        if status is None:
            return
        streamed = ended.arrival.stream  # an answer without a length counts as one of 0 bytes
        self.count(
            "POST",
            ended.arrival.path,
            status,
            seconds=ended.duration_s,
            request_bytes=_BYTES_PER_TOKEN * ended.prompt_tokens,
            response_bytes=0 if streamed else _BYTES_PER_TOKEN * ended.output_tokens,
        )

    def count(
        self,
        method: str,
        handler: str,
        status: int,
        *,
        seconds: float,
        request_bytes: int,
        response_bytes: int,
    ) -> None:
        """Count an answer."""
        self.answers[method, handler, f"{status // 100}xx"] += 1
        self.all_seconds.observe(seconds)
        self.seconds.setdefault((method, handler), histogram("http_duration")).observe(seconds)
        self.request_bytes.setdefault(handler, Histogram(())).observe(request_bytes)
        self.response_bytes.setdefault(handler, Histogram(())).observe(response_bytes)
