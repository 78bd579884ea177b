from __future__ import annotations

import json

import pytest

from vllm_observe.dashboards import render
from vllm_observe.errors import ConfigError
from vllm_observe.preview.board import Place, load, read


def test_one_of_our_boards_is_found_by_its_name():
    board = load("overview")

    told = render()["overview"]
    assert board.title == told["title"]
    assert [panel.title for panel in board.panels] == [panel["title"] for panel in told["panels"]]


def test_a_misspelt_name_is_answered_with_the_near_one():
    with pytest.raises(ConfigError, match="did you mean overview"):
        load("overvew")


@pytest.mark.parametrize("wrap", [lambda board: board, lambda board: {"dashboard": board, "meta": {}}])
def test_any_board_is_read_from_its_file(tmp_path, wrap):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(wrap({"title": "Mine", "panels": [{"type": "stat", "title": "One"}]})))

    board = load(str(file))
    assert (board.title, [panel.title for panel in board.panels]) == ("Mine", ["One"])


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"panels": 3}', "\ud800", "[" * 100_000])
def test_a_file_that_holds_no_board_is_one_clear_line(tmp_path, text):
    file = tmp_path / "mine.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))

    with pytest.raises(ConfigError, match=r"mine\.json"):
        load(str(file))


def test_what_is_missing_or_of_another_type_is_left_at_its_default():
    board = read(
        {
            "title": 3,
            "templating": {"list": "x"},
            "panels": [
                None,
                3,
                {"type": "stat", "gridPos": {"x": 90, "w": "wide", "h": -3}, "targets": [7, {"expr": 1}]},
            ],
        }
    )

    (panel,) = board.panels
    assert panel.place == Place(12, 0, 12, 1)
    assert [target.expr for target in panel.targets] == [""]
    assert board.title == ""
