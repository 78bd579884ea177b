"""Whatever a page holds, its state can be written, read back and shown."""

from __future__ import annotations

import math

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from support.looks import page, seen
from vllm_observe.cli.look import as_document, as_text
from vllm_observe.cli.table import state_table
from vllm_observe.serve.state import State
from vllm_observe.serve.verdict import verdict

_KEPT = ("num_requests", "cache", "tokens_total", "success", "first_token", "prefill_time", "http_requests")
LINES = [
    line
    for line in page("vllm-0.32.0/saturated.prom").decode().splitlines()
    if any(word in line for word in _KEPT) and not line.startswith("# HELP")
]
VALUES = st.sampled_from(["NaN", "+Inf", "-Inf", "-1", "0", "1e308", "-1e308", "5e-324", "1e19", "8", ""])
NAMES = st.text(st.characters(exclude_characters='\n"\\', exclude_categories=["Cs"]), max_size=5)


@st.composite
def pages(draw) -> bytes:
    """A real page with some values replaced, some lines gone or twice, and any name for the model."""
    lines = list(LINES)
    for at in draw(st.lists(st.integers(0, len(lines) - 1), max_size=12)):
        series, _, _ = lines[at].rpartition(" ")
        lines[at] = draw(st.sampled_from([f"{series} {draw(VALUES)}", "", f"{lines[at]}\n{lines[at]}"]))
    return "\n".join([*lines, ""]).replace('"tiny"', f'"{draw(NAMES)}"').encode()


def _numbers(content: object) -> list[float]:
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list | tuple):
        return [number for part in content for number in _numbers(part)]
    return [content] if isinstance(content, float) else []


@settings(max_examples=100, deadline=None)
@given(st.lists(pages(), min_size=1, max_size=2))
def test_whatever_a_page_holds_its_state_can_be_written_read_back_and_shown(looks):
    state = seen(*looks)
    assert all(math.isfinite(number) and number >= 0 for number in _numbers(msgspec.to_builtins(state)))
    document = as_document(state)
    assert document.isascii()
    assert msgspec.json.decode(document, type=State) == state
    assert verdict(state).text
    assert as_text(state_table(state, seen_by="a test")).replace("\n", "").isprintable()
