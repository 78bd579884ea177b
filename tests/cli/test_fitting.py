"""A table in a terminal of any width: whole words, whole ids, and word of what is left out."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from vllm_observe.cli.fitting import Column, FittingTable

COLUMNS = (
    Column("when", rank=2),
    Column("id", rank=0, least=8, fold=True),
    Column("name", rank=3, least=4),
    Column("took", rank=1),
)
ROW = ("12:00:00", "ABCDEFGHIJKLMNOP", "somebody", "100 s")
# By hand, each with its gap: least 9 + 9 + 5 + 5 = 28 (``took`` to its longest word), whole 9 + 17 + 9 + 6 = 41.


def drawn(width: int, *rows: tuple[str, ...], columns=COLUMNS) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(FittingTable(columns, [tuple(map(Text, row)) for row in rows]))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_where_all_fits_all_is_whole_on_one_line():
    assert drawn(41, ROW) == [
        "when     id               name     took",
        "12:00:00 ABCDEFGHIJKLMNOP somebody 100 s",
    ]


@pytest.mark.parametrize(
    ("width", "headers"),
    [
        (28, ["when", "id", "name", "took"]),
        (27, ["when", "id", "took"]),
        (23, ["when", "id", "took"]),
        (22, ["id", "took"]),
        (14, ["id", "took"]),
        (13, ["id"]),
    ],
)
def test_what_matters_least_is_left_out_first_and_named(width, headers):
    lines = drawn(width, ROW)
    assert lines[0].split() == headers
    told = " ".join(lines).partition("also shows: ")[2]
    assert [name for name in ("when", "id", "name", "took") if name not in headers] == (
        told.split(", ") if told else []
    )


@pytest.mark.parametrize("width", range(2, 60))
def test_no_line_is_wider_than_the_terminal_and_the_id_is_never_cut_off(width):
    lines = drawn(width, ROW)
    assert max(map(len, lines)) <= width
    assert "".join(filter(str.isupper, "".join(lines))) == "ABCDEFGHIJKLMNOP"


def test_a_table_without_rows_has_its_headers():
    assert drawn(80)[0].split() == ["when", "id", "name", "took"]


def test_wide_characters_take_two_columns():
    lines = drawn(80, ("12:00:00", "\u65e5\u672c", "x", "1 s"))
    assert lines[1] == "12:00:00 \u65e5\u672c x    1 s"
