"""The demo as lines of a log: one every few seconds, and one for each thing that happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vllm_observe.cli import demo_words as words
from vllm_observe.cli.demo_picture import Picture
from vllm_observe.cli.words import UNKNOWN, amount, printable
from vllm_observe.demo.run import Demo
from vllm_observe.demo.story import Story

__all__ = ["DemoLines"]

_TELL_EVERY_S = 3.0


class DemoLines:
    """Says what is new in each picture.

    Args:
        demo: what is shown.
        program: how this program is called.
        say: takes each line.
    """

    def __init__(self, demo: Demo, *, program: str, say: Callable[[str], None]) -> None:
        self._demo = demo
        self._program = program
        self._say = say
        self._marks = demo.watched.marks if isinstance(demo.watched, Story) else []
        self._firing: set[str] = set()
        self._told = -1  # the last of the intervals in which it was told how things stand

    def begin(self) -> None:
        """Say in three lines what there is to look at."""
        demo = self._demo
        self._say(f"{words.about(demo).removesuffix('.')}; metrics: {words.metrics_pages(demo)}")
        self._say(
            f"admin: {words.other_pages(demo)}; "
            f"look from another terminal: {self._program} status --sidecar {demo.admin}"
        )
        self._say(f"alerts: {words.no_alerts(demo)}; Ctrl-C ends it")

    def show(self, picture: Picture) -> None:
        """Say what happened since the last picture, and every few seconds how things stand."""
        while self._marks and self._marks[0].at <= picture.now:
            self._tell(picture, f"--- {self._marks.pop(0).text}")
        heard = {alert.name: alert for alert in picture.firing if not alert.muted}
        for name in sorted(heard.keys() - self._firing):
            self._tell(
                picture,
                f"ALERT {name} ({heard[name].severity}): {printable(heard[name].summary, width=200)}",
            )
        # One that a worse one mutes has not ended: what it told of goes on.
        firing = {alert.name for alert in picture.firing}
        for name in sorted(self._firing - firing):
            self._tell(picture, f"ALERT {name} fires no more")
        self._firing = self._firing & firing | heard.keys()
        interval = int(picture.now // _TELL_EVERY_S)
        if interval > self._told:
            self._told = interval
            self._tell(picture, _now(picture))

    def end(self, picture: Picture) -> None:
        """Sum up: the worst that was seen, whose requests, why, and one of them."""
        for line in self._summary(picture):
            self._say(line)

    def _summary(self, picture: Picture) -> Iterator[str]:
        yield f"at its worst: {words.at_worst(picture)}"
        if isinstance(self._demo.watched, Story) or self._demo.watched.has_requests:
            whose = f" ({picture.main_cause.value}): {words.whose(picture)}" if picture.main_cause else ""
            yield f"why and whose: {words.why(picture)}{whose}"
        else:
            yield "without a request log nobody can say whose requests were slow: give --request-log"
        if picture.example is not None:
            yield f"for example: {words.evidence(picture.example)}"
        if picture.fired:
            yield f"alerts that fired: {', '.join(f'{n} ({s})' for n, s in sorted(picture.fired.items()))}"

    def _tell(self, picture: Picture, text: str) -> None:
        self._say(f"{picture.now:3.0f} s  {text}")


def _now(picture: Picture) -> str:
    parts = [printable(picture.judged.text, width=200)]
    first_token = UNKNOWN if picture.state is None else words.first_token(picture.state)
    if first_token != UNKNOWN:
        parts.append(f"first token {first_token}")
    if picture.causes:
        parts.append(
            "slow or failed: " + ", ".join(f"{amount(n)} {c.value}" for c, n in picture.causes.most_common())
        )
    return "; ".join(parts)
