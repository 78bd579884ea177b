from __future__ import annotations

import json
import logging

import pytest

from support.logs import Followed, write
from vllm_observe.clock import ManualClock
from vllm_observe.config import RequestLog
from vllm_observe.errors import UnparsedReason
from vllm_observe.records.formats import decoder
from vllm_observe.records.reader import RecordReader
from vllm_observe.records.source import Source


def record(request_id: str) -> str:
    return json.dumps({"ts": 1772446500, "request_id": request_id, "status": 200}) + "\n"


@pytest.fixture
def reading(tmp_path):
    """A reader of one log, and the follower and the clock behind it."""
    followed = Followed(tmp_path / "app.jsonl", max_line=200)
    yield tmp_path / "app.jsonl", RecordReader(follower=followed.follower, clock=followed.clock), followed
    followed.follower.close()


def test_bad_lines_are_counted_by_reason_and_their_neighbours_are_read(reading):
    path, reader, followed = reading
    bad = ["plain warning\n", "[]\n", '{"ts":1}\n', "x" * 500 + "\n"]
    write(path, record("first") + "".join(line + record(f"after-{n}") for n, line in enumerate(bad)))
    assert [one.request_id for one in reader.poll()] == ["first", "after-0", "after-1", "after-2", "after-3"]
    assert +reader.unparsed == {
        UnparsedReason.NOT_JSON: 1,
        UnparsedReason.NOT_OBJECT: 1,
        UnparsedReason.MISSING_FIELD: 1,
        UnparsedReason.TOO_LONG: 1,
    }
    assert followed.follower.counts.lines == 9
    assert followed.follower.counts.bytes == path.stat().st_size


def test_a_bad_line_is_told_with_its_place_and_its_shape(reading, caplog):
    path, reader, _ = reading
    write(path, record("abc") + '{"ts":1772446500,"request_id":"abc","status":"hunter"}\n')
    with caplog.at_level(logging.WARNING):
        reader.poll()
    (event,) = [entry for entry in caplog.records if entry.levelno == logging.WARNING]
    assert event.fields == {
        "reason": "bad_field",
        "why": "status is no number",
        "path": str(path),
        "byte": len(record("abc")),
        "shape": '{"ts":9999999999,"request_id":"xxx","status":"xxxxxx"}',
    }


def test_a_flood_of_bad_lines_is_told_in_a_few_lines_and_a_number(reading, caplog):
    path, reader, followed = reading
    write(path, "plain warning\n" * 100 + "[]\n")
    with caplog.at_level(logging.WARNING):
        reader.poll()
        followed.clock.advance(60)
        reader.poll()
    told = [entry.fields for entry in caplog.records if entry.levelno == logging.WARNING]
    assert [event["reason"] for event in told] == ["not_json"] * 5 + ["not_object", "not_json"]
    assert told[-1] == {"reason": "not_json", "lines": 95}
    assert reader.unparsed[UnparsedReason.NOT_JSON] == 100


AHEAD = [(-1e9, True), (3600.0, True), (50_000.0, True), (2 * 86_400.0, False), (10 * 365 * 86_400.0, False)]


@pytest.mark.parametrize(("seconds", "believed"), AHEAD)
@pytest.mark.parametrize("kind", ["edge", "engine"])
def test_a_time_that_no_clock_at_work_shows_is_no_record(reading, kind, seconds, believed):
    path, reader, followed = reading
    found = {"kind": kind, "ts": followed.clock.wall() + seconds, "request_id": "a", "status": 200}
    write(path, json.dumps(found) + "\n" + record("after"))
    assert [one.request_id for one in reader.poll()] == ["a"] * believed + ["after"]
    assert reader.unparsed[UnparsedReason.BAD_FIELD] == (not believed)


def test_every_source_has_its_own_field_map(tmp_path):
    log = RequestLog(path=str(tmp_path / "app.jsonl"), fields={"request_id": "x_request_id"})
    mapped = Source(log.path, decoder(log, clock=ManualClock()))
    followed = Followed(mapped, tmp_path / "plugin.jsonl")
    write(tmp_path / "app.jsonl", '{"ts":1772446500,"x_request_id":"mapped","status":200}\n')
    write(tmp_path / "plugin.jsonl", record("plain"))
    records = RecordReader(follower=followed.follower, clock=followed.clock).poll()
    assert {one.request_id for one in records} == {"mapped", "plain"}
    followed.follower.close()
