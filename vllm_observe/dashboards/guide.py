"""The users' guide: a page for each board, made from what its panels say of themselves."""

from __future__ import annotations

from vllm_observe.dashboards.boards import BOARDS
from vllm_observe.dashboards.panels import Board, Panel, Row

__all__ = ["pages"]

_WRITTEN = "<!-- Written by scripts/render_docs.py from vllm_observe/dashboards. Change it there. -->"


def pages() -> dict[str, str]:
    """Return the pages in Markdown, by file name; README.md lists the others."""
    return {"README.md": _index(), **{f"{board.name}.md": _page(board) for board in BOARDS}}


def _index() -> str:
    lines = [f"- [{board.title}]({board.name}.md): {board.summary}" for board in BOARDS]
    return "\n".join(
        (
            "# The boards",
            "",
            _WRITTEN,
            "",
            "What each board answers, row by row.",
            "[dashboards/README.md](../../dashboards/README.md) says how to import and provision them.",
            "",
            *lines,
            "",
            "[releases.md](releases.md) says what of each board is there on which release of vLLM.",
            "",
        )
    )


def _page(board: Board) -> str:
    parts = [f"# {board.title}", _WRITTEN, board.summary, *map(_row, board.rows)]
    return "\n\n".join(parts) + "\n"


def _row(row: Row) -> str:
    folded = " *Folded: open it where it applies.*" if row.collapsed else ""
    return "\n\n".join((f"## {row.title}", row.answers + folded, *map(_panel, row.panels)))


def _panel(panel: Panel) -> str:
    return "\n".join(
        (
            f"**{panel.title}.** {panel.shows}",
            f"- {panel.means}",
            f"- First: {panel.first}",
        )
    )
