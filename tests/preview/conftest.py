"""What the tests of the preview share: a figure to draw on, and panels and series by hand."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from vllm_observe.preview.board import read
from vllm_observe.preview.canvas import DPI, Canvas
from vllm_observe.preview.drawing import Drawn, _panel
from vllm_observe.preview.series import Found, Series
from vllm_observe.preview.span import Span

SPAN = Span(1_728_000_000.0, 1_728_003_600.0)


@pytest.fixture
def panel():
    """Make a panel of its JSON."""

    def make(kind, **told):
        return read({"panels": [{"type": kind, "title": "A panel", **told}]}).panels[0]

    return make


@pytest.fixture
def series():
    """Make a series of values that are the same time apart, over the hour that is shown."""

    def make(name, *values, ref="A", **labels):
        times = np.linspace(SPAN.start, SPAN.end, len(values)) if len(values) > 1 else np.array([SPAN.end])
        return Series(ref, name, labels, times, np.array(values, dtype=float))

    return make


class Picture:
    """What was drawn: its figure's texts and axes."""

    def __init__(self, figure):
        self.axes = figure.axes
        self.texts = [text.get_text() for text in figure.texts]
        self.colours = {text.get_text(): text.get_color() for text in figure.texts}
        self.boxes = [box.get_facecolor() for box in figure.patches]


@pytest.fixture
def drawn():
    """Draw a panel of some series; give what is to be seen."""

    def draw(panel, *series, width=500, height=300, error=""):
        figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
        _panel(Drawn(panel, Found(series, SPAN, error)), Canvas(figure, 0, 0, width, height))
        figure.canvas.draw()
        return Picture(figure)

    return draw
