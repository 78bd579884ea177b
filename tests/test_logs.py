from __future__ import annotations

import io
import json

import pytest

from vllm_observe import logs


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def stream():
    return io.StringIO()


def test_an_event_is_one_json_object_a_line_where_no_person_watches(stream):
    logs.configure(stream=stream)
    logs.EventLog("engine").warning("scrape failed", reason="timeout", after_s=4.0)
    event = json.loads(stream.getvalue())
    assert event.pop("ts").endswith("Z")
    assert event == {
        "level": "warning",
        "part": "engine",
        "event": "scrape failed",
        "reason": "timeout",
        "after_s": 4.0,
    }


def test_a_terminal_gets_text():
    terminal = Terminal()
    logs.configure(stream=terminal)
    logs.EventLog("engine").info("engine restarted", engine="0")
    assert terminal.getvalue().endswith('info    engine restarted  engine="0"\n')


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_field_can_neither_begin_a_new_line_nor_move_the_cursor(stream, form):
    logs.configure(form=form, stream=stream)
    logs.EventLog("records").warning("bad line", line="a\nfake event\x1b[2J\r")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()


def test_events_below_the_level_are_not_written(stream):
    logs.configure(level="warning", stream=stream)
    logs.EventLog("x").info("quiet")
    assert stream.getvalue() == ""


def test_a_fault_of_ours_is_told_by_type_and_place_but_not_by_its_text(stream):
    logs.configure(stream=stream)
    try:
        int("a prompt that must not be logged")
    except ValueError as error:
        logs.EventLog("x").exception("fault", error)
    event = json.loads(stream.getvalue())
    assert event["fault"] == "ValueError"
    assert "test_logs.py" in event["at"]
    assert "prompt" not in stream.getvalue()


def test_of_faults_that_repeat_all_are_counted_and_each_is_told_once(stream):
    logs.configure(stream=stream)
    faults = logs.Faults(logs.EventLog("x"))
    for text in ("a", "b", "c"):
        for convert in (int, float):
            try:
                convert(text)
            except ValueError as error:  # noqa: PERF203  # each has a traceback of its own
                faults.survived(error)
    try:
        {}["d"]
    except KeyError as error:
        faults.survived(error, loop="follow")
    assert faults.count == 7
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(event["event"], event["fault"], event.get("loop")) for event in told] == [
        ("fault", "ValueError", None),
        ("fault", "KeyError", "follow"),
    ]
