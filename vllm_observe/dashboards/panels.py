"""The kinds of panels that boards are made of, as plain values: what is asked, in which unit, and what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from vllm_observe.dashboards.queries import Expr

__all__ = [
    "Bands",
    "BarGauge",
    "Board",
    "Colour",
    "Column",
    "Heatmap",
    "Link",
    "Panel",
    "Query",
    "Row",
    "Stat",
    "State",
    "StateTimeline",
    "Table",
    "TimeSeries",
    "Unit",
    "above",
    "below",
]


class Unit(str, Enum):
    """A unit as Grafana names it."""

    RATIO = "percentunit"
    SECONDS = "s"
    COUNT = "short"
    PER_SECOND = "suffix:/s"
    REQUESTS_PER_SECOND = "reqps"
    TOKENS_PER_SECOND = "count:tok/s"
    BYTES = "bytes"
    BYTES_PER_SECOND = "Bps"
    WATTS = "watt"
    CELSIUS = "celsius"
    FACTOR = "suffix:x"
    CORES = "suffix:cores"
    MOMENT = "dateTimeAsIso"


class Colour(str, Enum):
    """A colour with a meaning, as Grafana names it."""

    GOOD = "green"
    WARNING = "orange"
    CRITICAL = "red"
    NEUTRAL = "blue"
    MEMORY = "purple"
    QUIET = "#8e8e8e"


@dataclass(frozen=True)
class Bands:
    """Which colour a value has: the first colour below all bounds, then each from its bound on.

    ``line`` draws the bounds into a graph.
    """

    start: Colour = Colour.NEUTRAL
    steps: tuple[tuple[float, Colour], ...] = ()
    line: bool = False


def above(warning: float, critical: float | None = None, *, line: bool = True) -> Bands:
    """Colour what must not rise."""
    steps = ((warning, Colour.WARNING), (critical, Colour.CRITICAL))
    return Bands(Colour.GOOD, tuple((at, colour) for at, colour in steps if at is not None), line)


def below(warning: float, critical: float | None = None, *, line: bool = True) -> Bands:
    """Colour what must not fall; ``critical`` is the lower of the two."""
    if critical is None:
        return Bands(Colour.WARNING, ((warning, Colour.GOOD),), line)
    return Bands(Colour.CRITICAL, ((critical, Colour.WARNING), (warning, Colour.GOOD)), line)


@dataclass(frozen=True)
class Query:
    """One query of a panel.

    ``legend`` names its series, with labels as ``{{model_name}}``. ``exemplars`` asks for single requests
    too, where the metric has them.
    """

    expr: Expr
    legend: str = ""
    exemplars: bool = False


@dataclass(frozen=True)
class Link:
    """A link of a panel; ``url`` may hold variables and field values."""

    title: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """What all panels have.

    Attributes:
        title: a few words.
        shows: what is drawn, in a sentence.
        means: what a rise (or a fall) says.
        first: what to do first.
        unit: of the values.
        bands: at which values the colour changes.
        colours: a fixed colour for series of a known name.
        width, height: in cells of a grid 24 wide.
        top_value: the upper end of the scale, where there is one.
    """

    title: str
    shows: str
    means: str
    first: str
    unit: Unit
    queries: tuple[Query, ...] = ()
    bands: Bands = Bands()
    colours: Mapping[str, Colour] = field(default_factory=dict, hash=False)
    links: tuple[Link, ...] = ()
    width: int = 8
    height: int = 8
    top_value: float | None = None

    @property
    def asked(self) -> tuple[Query, ...]:
        """All that it asks Prometheus."""
        return self.queries

    @property
    def description(self) -> str:
        """What Grafana shows behind the panel's ``i``."""
        return f"{self.shows}\n\n{self.means}\n\n**First:** {self.first}"


@dataclass(frozen=True, kw_only=True)
class Stat(Panel):
    """The last value of each series, large; ``nothing`` stands where there is no series."""

    width: int = 4
    height: int = 4
    nothing: str = ""


@dataclass(frozen=True, kw_only=True)
class TimeSeries(Panel):
    """Lines over time; ``stacked`` where the series are parts of one whole.

    The scale begins at ``low_value``, or lower where values do.
    """

    low_value: float = 0
    stacked: bool = False
    bars: bool = False


@dataclass(frozen=True, kw_only=True)
class BarGauge(Panel):
    """The last value of each series as a bar: for comparing many."""


@dataclass(frozen=True, kw_only=True)
class Heatmap(Panel):
    """How many observations fell into each bucket, over time. ``unit`` is that of the buckets' bounds."""

    width: int = 12


@dataclass(frozen=True)
class State:
    """What a value is called and how it is coloured."""

    value: int
    text: str
    colour: Colour


@dataclass(frozen=True, kw_only=True)
class StateTimeline(Panel):
    """Which state each series was in, over time."""

    states: tuple[State, ...]
    width: int = 12


@dataclass(frozen=True)
class Column:
    """A column of a table: one value for each row.

    ``words`` replace numbers.
    """

    title: str
    expr: Expr
    unit: Unit
    bands: Bands | None = None
    words: tuple[State, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Table(Panel):
    """One row for each value of the labels ``keys``, which are shown under the names that they are mapped to.

    ``row_links`` hold field values, such as ``${__data.fields.Instance}``. ``sort`` names the column by which
    rows are sorted, the largest first.
    """

    keys: Mapping[str, str] = field(hash=False)
    columns: tuple[Column, ...]
    sort: str
    row_links: tuple[Link, ...] = ()
    unit: Unit = Unit.COUNT
    width: int = 24
    height: int = 9

    @property
    def asked(self) -> tuple[Query, ...]:
        """One query for each column."""
        return tuple(Query(column.expr) for column in self.columns)


@dataclass(frozen=True)
class Row:
    """Panels under one heading; ``answers`` says which question they answer.

    ``collapsed`` for what many deployments lack: nothing is asked of Prometheus before it is opened.
    """

    title: str
    answers: str
    panels: tuple[Panel, ...]
    collapsed: bool = False


@dataclass(frozen=True)
class Board:
    """One dashboard.

    Attributes:
        name: its file's name, and the end of its uid.
        title: as Grafana lists it.
        summary: who opens it, and with which question.
        rows: from top to bottom.
        variables: the names of what can be picked, in order.
        of_sidecar: whether only a sidecar can fill it.
    """

    name: str
    title: str
    summary: str
    rows: tuple[Row, ...]
    variables: tuple[str, ...]
    of_sidecar: bool = False

    @property
    def uid(self) -> str:
        """Its identity in a URL: ``/d/UID``."""
        return f"vllm-observe-{self.name}"

    @property
    def panels(self) -> Iterator[Panel]:
        """All its panels, from top to bottom."""
        return (panel for row in self.rows for panel in row.panels)
