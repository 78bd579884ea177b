"""The demo's one view of a terminal: always as high, so that it is redrawn in place and never scrolls.

On a terminal too low for it, there is what a person needs most: what happens, why, whose, and where to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from vllm_observe.cli import demo_words as words
from vllm_observe.cli.demo_picture import Picture
from vllm_observe.cli.table import COLOURS
from vllm_observe.cli.words import UNKNOWN, amount, duration, percent, printable
from vllm_observe.demo.run import Demo
from vllm_observe.demo.story import Story
from vllm_observe.serve.state import EngineStatus
from vllm_observe.thresholds import KV_NEAR_FULL, SLOTS_NEAR_LIMIT

__all__ = ["DemoView"]

#: Lines beside those of the two lists, and the fewest and the most lines of these.
_OTHER_LINES = 20  # and one for the prompt
_FEWEST, _MOST = 3, 8
_NAME = 14  # the width of the names at the left
_GAP = 2
_SEVERITIES = {"critical": "bold red", "warning": "bold yellow"}


class DemoView:
    """A picture, laid out for whatever terminal it is drawn on.

    Args:
        demo: what is shown.
        picture: what is known of it now.
        program: how this program is called.
        over: whether it has ended, and nobody can ask the sidecar any more.
    """

    def __init__(self, demo: Demo, picture: Picture, *, program: str, over: bool) -> None:
        self._demo = demo
        self._picture = picture
        self._program = program
        self._over = over

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give each line, cut to the width."""
        width = options.max_width
        rows = min(console.size.height - _OTHER_LINES - 1, _MOST)
        is_low = rows < _FEWEST
        for line in self._needed(console, width) if is_low else self._lines(console, width, rows):
            line.no_wrap, line.overflow = True, "ellipsis"
            line.truncate(width, overflow="ellipsis")
            yield line

    def _lines(self, console: Console, width: int, rows: int) -> Iterator[Text]:
        picture = self._picture
        yield from self._beginning(width)
        yield from self._bars(width)
        yield _named("first token", UNKNOWN if picture.state is None else words.first_token(picture.state))
        yield _named("gets done", UNKNOWN if picture.state is None else words.throughput(picture.state))
        yield _named("engine's time", words.holders(picture))
        yield Text()
        yield from _side_by_side(self._causes(width // 2 - _GAP, rows), self._sessions(rows), width // 2)
        yield Text()
        yield from self._found(console, width)
        yield from self._end()

    def _needed(self, console: Console, width: int) -> Iterator[Text]:
        yield from self._beginning(width)
        yield from self._found(console, width)
        yield list(self._end())[-1]

    def _beginning(self, width: int) -> Iterator[Text]:
        judged = self._picture.judged
        yield self._title(width)
        yield _named("happens", self._story())
        yield _named("seen", Text(printable(judged.text, width=300), COLOURS[judged.level]))

    def _found(self, console: Console, width: int) -> Iterator[Text]:
        yield _named("alerts", self._alerts(width - _NAME))
        yield _named("why", Text(words.why(self._picture), style="bold"))
        yield _named("whose", words.whose(self._picture))
        yield from self._one_to_look_at(console, width)

    def _title(self, width: int) -> Text:
        title, now = Text(words.about(self._demo), style="bold"), f"{self._picture.now:.0f} s"
        title.truncate(width - len(now) - _GAP, overflow="ellipsis", pad=True)
        return Text.assemble(title, " " * _GAP, (now, "dim"))

    def _story(self) -> str:
        watched = self._demo.watched
        return watched.at(self._picture.now) if isinstance(watched, Story) else "what your users do"

    # --- Engines

    def _bars(self, width: int) -> Iterator[Text]:
        engines = () if self._picture.state is None else self._picture.state.engines
        room = width - _NAME - 16
        running, slots = _sum(e.running for e in engines), _sum(e.max_num_seqs for e in engines)
        waiting, kv = _sum(e.waiting for e in engines), _fullest(engines)
        utilization = running / slots if running is not None and slots else None
        taken = f"{amount(running)} of {'?' if slots is None else amount(slots)}"
        yield _bar("slots", utilization, taken, room, alarming=SLOTS_NEAR_LIMIT)
        queue = None if waiting is None or not slots else waiting / slots
        yield _bar("waiting", queue, amount(waiting), room, alarming=0.0)
        yield _bar("KV cache", kv, percent(kv), room, alarming=KV_NEAR_FULL)

    # --- Requests

    def _causes(self, width: int, rows: int) -> list[Text]:
        lines = [Text("slow or failed, by cause", style="dim")]
        counts = self._picture.causes.most_common(rows)
        for cause, count in counts:
            line = Text(f"{cause.value:20}{amount(count):>6} ")
            line.append(_blocks(count / counts[0][1], width - len(line.plain)), style="yellow")
            lines.append(line)
        return _padded(lines, rows + 1)

    def _sessions(self, rows: int) -> list[Text]:
        lines = [Text("sessions with the most of them", style="dim")]
        for session, requests, longest in self._picture.worst_hit[:rows]:
            name = printable(session, width=20)
            lines.append(Text(f"{name:21}{requests}, up to {duration(longest)}"))
        return _padded(lines, rows + 1)

    def _alerts(self, width: int) -> Text:
        """As many names as there is room for, the worst first; no room is left for the others' number."""
        firing = [alert for alert in self._picture.firing if not alert.muted]
        severities = {alert.name: alert.severity for alert in reversed(firing)}
        if not severities:
            return Text(words.no_alerts(self._demo, self._picture))
        line = Text()
        for number, (name, severity) in enumerate(reversed(severities.items())):
            if line and line.cell_len + len(name) + len(", and 9 more") > width:
                return line.append(f" and {len(severities) - number} more")
            line.append(", " if line else "").append(name, style=_SEVERITIES.get(severity, ""))
        return line

    def _one_to_look_at(self, console: Console, width: int) -> Sequence[Text]:
        """Two lines: the command and its flag, or at the end, when it would find nobody, its answer."""
        example = self._picture.example
        if example is None:
            return Text(), Text()
        if self._over:
            first, *rest = Text(words.evidence(example)).wrap(console, width - _NAME)
            return _named("for example", first), _named("", Text(" ").join(rest))
        command = words.explain_command(self._program, example, self._demo)
        whole = _named("see", Text(" ".join(command), style="cyan"))
        return (whole, Text()) if whole.cell_len <= width else _broken(command, width)

    def _end(self) -> Iterator[Text]:
        """Three lines: where else to look, or at the end, when nothing is there any more, what was worst."""
        # The last line is a short one: a terminal writes ^C behind it, which must not begin a new line.
        if self._over:
            yield _named("at its worst", words.at_worst(self._picture))
            yield Text()
            yield Text("ended; --list names other scenarios", style="dim")
        else:
            yield _named("metrics", words.metrics_pages(self._demo))
            yield _named("admin", words.other_pages(self._demo))
            yield Text("Ctrl-C ends it", style="dim")


def _broken(command: Sequence[str], width: int) -> tuple[Text, Text]:
    """Break a command where both lines fit; without its name, which is worth less, where it must be."""
    for last in range(len(command) - 1, 0, -1):
        first = Text(" ".join(command[:last]) + " \\", style="cyan")
        second = Text("  " + " ".join(command[last:]), style="cyan")
        if max(first.cell_len, second.cell_len) <= width:
            break
    named = _named("see", first)
    return (named if named.cell_len <= width else first), second


def _named(name: str, content: str | Text) -> Text:
    return Text.assemble((f"{name:{_NAME}}", "dim"), content)


def _bar(name: str, share: float | None, told: str, room: int, *, alarming: float) -> Text:
    """A bar, full at 1, coloured from ``alarming`` on, with its figure behind it."""
    blocks = "" if share is None else _blocks(min(share, 1.0), room)
    colour = "yellow" if share is not None and share > alarming else "green"
    rest = "·" * (room - len(blocks))
    return Text.assemble((f"{name:{_NAME}}", "dim"), (blocks, colour), (rest, "dim"), f" {told}")


def _blocks(share: float, room: int) -> str:
    """What is not 0 shows at least one block."""
    return "█" * max(round(share * room), 1 if share > 0 else 0)


def _side_by_side(left: Sequence[Text], right: Sequence[Text], width: int) -> Iterator[Text]:
    for one, other in zip_longest(left, right, fillvalue=Text()):
        line = one.copy()
        line.truncate(width - _GAP, overflow="ellipsis", pad=True)
        yield line.append(" " * _GAP).append_text(other)


def _padded(lines: list[Text], rows: int) -> list[Text]:
    return lines + [Text()] * (rows - len(lines))


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum over all engines; ``None`` where one does not tell, or there are none."""
    known = list(values)
    return None if not known or None in known else sum(value for value in known if value is not None)


def _fullest(engines: Iterable[EngineStatus]) -> float | None:
    return max((engine.kv_usage for engine in engines if engine.kv_usage is not None), default=None)
