"""A board as one self-contained HTML page: the panels' pictures, their descriptions behind them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape

from vllm_observe.preview.board import GRID, Board, Panel
from vllm_observe.preview.looks import BACKGROUND, FAINT, TEXT

__all__ = ["page"]

_STYLE = f"""
body {{ background: {BACKGROUND}; color: {TEXT}; font-family: "DejaVu Sans", sans-serif; margin: 12px; }}
main {{ display: grid; gap: 8px; grid-template-columns: repeat({GRID}, minmax(0, 1fr)); }}
figure {{ margin: 0; }}
img {{ display: block; width: 100%; }}
summary, details p {{ color: {FAINT}; font-size: 12px; margin: 2px 0; }}
"""


def page(board: Board, shown: str, pictures: Sequence[tuple[Panel, bytes]], *, width: int) -> str:
    """Return the page.

    Args:
        board: whose panels.
        shown: of which time, and what is picked.
        pictures: each panel with its picture in SVG.
        width: in pixels, at most.
    """
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            f'<head><meta charset="utf-8"><title>{escape(board.title)}</title><style>{_STYLE}</style></head>',
            f'<body style="max-width: {width}px">',
            f"<h1>{escape(board.title)}</h1>",
            f"<p>{escape(shown)}</p>",
            "<main>",
            *(line for panel, picture in pictures for line in _figure(panel, picture)),
            "</main>",
            "</body>",
            "</html>",
            "",
        )
    )


def _figure(panel: Panel, picture: bytes) -> Iterator[str]:
    place = panel.place
    told = escape(panel.description, quote=True)
    column = f"grid-column: {place.x + 1} / span {place.width}"
    line = f"grid-row: {place.y + 1} / span {place.height}"
    # As an image the picture cannot run anything, whatever its series are called.
    source = f"data:image/svg+xml;base64,{b64encode(picture).decode('ascii')}"
    yield f'<figure style="{column}; {line}" title="{told}">'
    yield f'<img src="{source}" alt="{escape(panel.title, quote=True)}">'
    if told:
        yield f"<details><summary>What it says</summary><p>{told.replace(chr(10), '<br>')}</p></details>"
    yield "</figure>"
