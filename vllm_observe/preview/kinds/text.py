"""Text panels, without their markup."""

from __future__ import annotations

import re

from vllm_observe.preview.board import Panel
from vllm_observe.preview.canvas import Canvas
from vllm_observe.preview.series import Found

__all__ = ["draw_text"]

_TAG = re.compile(r"<[^>]*>")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"[*_`#>]+")


def draw_text(panel: Panel, _found: Found, canvas: Canvas) -> None:
    """Draw a text panel."""
    text = _TAG.sub("", str(panel.options.get("content", "")))
    canvas.say(_MARKS.sub("", _LINK.sub(r"\1", text)).strip(), size=12)
