"""A board as a picture or as a page: each panel where its place in the grid says."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image

from vllm_observe.errors import VllmObserveError
from vllm_observe.preview.board import GRID, Board, Panel
from vllm_observe.preview.canvas import DPI, Canvas, cut
from vllm_observe.preview.kinds import KINDS, SILENT
from vllm_observe.preview.looks import BACKGROUND, FAINT, TEXT, colour
from vllm_observe.preview.page import page
from vllm_observe.preview.prometheus import Prometheus
from vllm_observe.preview.series import Found, ask
from vllm_observe.preview.span import Span
from vllm_observe.preview.variables import Filling

__all__ = ["FORMS", "draw"]

#: A cell's height, the gap between two panels, and the edge around all, in pixels.
_CELL, _GAP, _EDGE = 38.0, 8.0, 12.0
_HEAD, _NAME_HEIGHT = 56.0, 36.0
_TITLE, _TITLE_ROOM, _INNER = 13.0, 28.0, 10.0
#: Queries that are asked at once: Prometheus has others to answer, too.
_AT_ONCE = 4

_LOOKS: Any = {  # matplotlib types its settings' names one by one
    "font.family": ["DejaVu Sans"],
    "text.parse_math": False,  # a label may hold dollar signs
    "svg.fonttype": "path",
    "svg.hashsalt": "vllm-observe",  # the same picture for the same data
}


class Drawn(NamedTuple):
    """A panel with what its queries gave."""

    panel: Panel
    found: Found


def draw(
    board: Board, path: Path, *, prometheus: Prometheus, filling: Filling, span: Span, width: int
) -> None:
    """Draw a board from what Prometheus holds.

    Args:
        board: the board.
        path: where to; its ending says as what: ``.png`` or ``.html``.
        prometheus: is asked.
        filling: of the board's variables.
        span: the time that is shown.
        width: of the picture, in pixels.

    Raises:
        KeyError: nothing is drawn for such an ending.
        VllmObserveError: Prometheus does not answer or holds nothing of the board, or the file cannot be
            written.
    """
    make = FORMS[path.suffix.lower()]
    shown = f"{span} · {filling}"
    cell = (width - 2 * _EDGE) / GRID

    def asked(panel: Panel) -> Drawn:
        if panel.kind not in KINDS or panel.kind in SILENT:
            return Drawn(panel, Found([], span))
        return Drawn(panel, ask(panel, prometheus, filling, span, pixels=panel.place.width * cell))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        drawn = list(pool.map(asked, board.panels))
    if not any(one.found.series or one.found.error for one in drawn) and any(
        one.panel.targets for one in drawn
    ):
        raise VllmObserveError(
            "Prometheus holds nothing of this board in that time: check --since, --until and --variable"
        )
    try:
        with _looks():
            make(board, shown, drawn, path, width)
    except OSError as error:
        raise VllmObserveError(f"--output {path} cannot be written: {error.strerror or error}") from None


@contextmanager
def _looks() -> Iterator[None]:
    with mpl.rc_context(_LOOKS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a model's name in another script
        yield


def _picture(board: Board, shown: str, drawn: list[Drawn], path: Path, width: int) -> None:
    height = board.height * _CELL + _HEAD + 2 * _EDGE
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=BACKGROUND)
    whole = Canvas(figure, _EDGE, _EDGE, width - 2 * _EDGE, height - 2 * _EDGE)
    whole.text(0, _NAME_HEIGHT / 2, cut(board.title, whole.width, 18, bold=True), size=18, bold=True)
    whole.text(0, _NAME_HEIGHT + 6, cut(shown, whole.width, 12), size=12, colour=FAINT)
    cell = whole.width / GRID
    for one in drawn:
        place = one.panel.place
        _panel(
            one,
            whole.part(
                place.x * cell + (_GAP / 2 if place.x else 0),
                _HEAD + place.y * _CELL,
                place.width * cell
                - (_GAP / 2 if place.x else 0)
                - (_GAP / 2 if place.x + place.width < GRID else 0),
                place.height * _CELL - _GAP,
            ),
        )
    written = BytesIO()
    figure.savefig(written, format="png")
    # 256 colours are plenty for lines and letters, and a third of the size.
    Image.open(written).convert("RGB").quantize(256).save(path, format="PNG", optimize=True)


def _page(board: Board, shown: str, drawn: list[Drawn], path: Path, width: int) -> None:
    cell = (width - 2 * _EDGE) / GRID
    path.write_text(
        page(board, shown, [(one.panel, _svg(one, cell)) for one in drawn], width=width), encoding="utf-8"
    )


FORMS = {".png": _picture, ".html": _page}


def _svg(one: Drawn, cell: float) -> bytes:
    place = one.panel.place
    width, height = place.width * cell - _GAP, place.height * _CELL - _GAP
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
    figure.patch.set_alpha(0)
    _panel(one, Canvas(figure, 0, 0, width, height))
    written = BytesIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def _panel(one: Drawn, canvas: Canvas) -> None:
    panel, found = one
    if panel.kind == "row":
        folded = panel.options["collapsed"]
        held = f"  ({panel.options['held']} panels)" if folded else ""
        title = cut(f"{'▸' if folded else '▾'} {panel.title}{held}", canvas.width, 14, bold=True)
        canvas.text(2, canvas.height / 2, title, size=14, bold=True, colour=FAINT if folded else TEXT)
        return
    canvas.card()
    title = cut(panel.title, canvas.width - 2 * _INNER, _TITLE, bold=True)
    canvas.text(_INNER, _TITLE_ROOM / 2 + 2, title, size=_TITLE, bold=True)
    inner = canvas.part(
        _INNER, _TITLE_ROOM, canvas.width - 2 * _INNER, canvas.height - _TITLE_ROOM - _INNER / 2
    )
    if panel.kind not in KINDS:
        inner.say(f"a panel of type {panel.kind or '?'} cannot be drawn here")
    elif found.error:
        inner.say(found.error, size=12, colour=colour("red"))
    elif not found.series and panel.kind not in SILENT:
        inner.say(str(panel.defaults.get("noValue") or "No data"))
    else:
        KINDS[panel.kind](panel, found, inner)
