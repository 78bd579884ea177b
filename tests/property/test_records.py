from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from support.logs import Followed, write
from vllm_observe.config import FieldRule
from vllm_observe.errors import RecordError
from vllm_observe.model import EdgeRecord, EngineRecord, EngineSample, Limits
from vllm_observe.records.cri import pieces
from vllm_observe.records.fields import FieldMap
from vllm_observe.records.files import OsFiles
from vllm_observe.records.format1 import decode
from vllm_observe.records.schema import FIELDS
from vllm_observe.records.shown import show
from vllm_observe.records.source import Source, Wrapper
from vllm_observe.records.tail import Tail

MAP = FieldMap(
    {
        "request_id": FieldRule(source="id"),
        "session_id": FieldRule(source="a.b.0"),
        "duration_s": FieldRule(source="a.ms", scale=0.001),
    }
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.sampled_from(["", "-", "ok", "engine", "1.5", "2026-03-02T10:15:00Z", "2026-03-02T10:15:00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3),
    max_leaves=5,
)
fields = st.sampled_from(sorted(FIELDS)) | st.sampled_from(["a", "id", "prompt"])
objects = st.fixed_dictionaries(
    {"ts": st.just(1772446500) | json_values, "request_id": st.just("abc") | json_values},
    optional={"kind": st.sampled_from(["edge", "engine", "sample", "limits"]) | json_values},
).flatmap(lambda least: st.dictionaries(fields, json_values, max_size=6).map(lambda more: {**more, **least}))


def outcome(line: bytes, field_map: FieldMap | None = None) -> object:
    """What became of a line: its record, or the reason why there is none."""
    try:
        record = decode(line, field_map)
    except RecordError as error:
        return error.reason
    assert isinstance(record, EdgeRecord | EngineRecord | EngineSample | Limits)
    return record


@given(st.binary(max_size=300))
@example(b"\xef\xbb\xbf")
@example(b'{"kind":{}}')
def test_any_bytes_are_a_record_or_have_a_reason(line):
    outcome(line)
    outcome(line, MAP)


@given(objects)
def test_any_object_is_a_record_or_has_a_reason(fields):
    line = json.dumps(fields).encode()
    outcome(line)
    outcome(line, MAP)


@given(objects, st.data())
def test_any_damage_to_a_line_leaves_a_record_or_a_reason(fields, data):
    line = bytearray(json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(line)))
        line[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    outcome(bytes(line))


@given(objects)
def test_the_quick_way_and_the_thorough_way_agree(fields):
    """Without a field map msgspec checks the types, with one our own converters do."""
    fields.pop("kind", None)
    line = json.dumps(fields).encode()
    assert outcome(line) == outcome(line, FieldMap({}))


@given(objects, st.sampled_from(sorted(FIELDS)), st.sampled_from(["hunter2", ["hunter2"], {"a": "hunter2"}]))
def test_no_error_tells_what_a_line_says(fields, name, secret):
    with pytest.raises(RecordError) as caught:
        decode(json.dumps({**fields, name: secret, "ts": "hunter2"}).encode())
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(deadline=None)
@given(
    lines=st.lists(st.binary(max_size=40).map(lambda text: text.replace(b"\n", b"")), max_size=20),
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=20),
    budget=st.integers(1, 100),
)
def test_however_a_log_is_written_and_read_its_lines_are_the_same(lines, sizes, budget):
    content = b"".join(line + b"\n" for line in lines)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log"
        path.touch()
        source = Source(str(path), wrapper=Wrapper.NONE)
        tail = Tail(OsFiles().open(str(path)), source, str(path), max_line=1000)
        seen = []
        at = 0
        with path.open("ab", buffering=0) as writer:
            while at < len(content):
                size = sizes[at % len(sizes)]
                writer.write(content[at : at + size])
                at += size
                seen += [line.data for line in tail.read(budget)]
        tail.at_end = False
        while not tail.at_end:
            seen += [line.data for line in tail.read(budget)]
        tail.file.close()
    stripped = [line.rstrip(b"\r").lstrip(b"\0") for line in lines]
    assert seen == [line for line in stripped if line.strip()]


@given(
    lines=st.lists(
        st.tuples(
            st.sampled_from(["stdout", "stderr"]), st.binary(max_size=60).map(lambda b: b.hex().encode())
        ),
        min_size=1,
        max_size=8,
    ),
    size=st.integers(1, 20),
    data=st.data(),
)
def test_however_lines_are_cut_into_pieces_they_are_put_together_again(lines, size, data):
    queues = {"stdout": [], "stderr": []}
    for stream, text in lines:
        parts = [text[at : at + size] for at in range(0, len(text), size)] or [b""]
        for number, part in enumerate(parts):
            tag = b"F" if number == len(parts) - 1 else b"P"
            queues[stream].append(b"2026-03-02T12:30:00Z %s %s %s" % (stream.encode(), tag, part))
    written = []
    while any(queues.values()):
        stream = data.draw(st.sampled_from([name for name, queue in queues.items() if queue]))
        written.append(queues[stream].pop(0))
    assert all(pieces(line) for line in written)
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(line + b"\n" for line in written))
        file.flush()
        tail = Tail(OsFiles().open(file.name), Source(file.name), file.name, max_line=1000)
        seen = tail.read(1 << 20)
        tail.file.close()
    assert sorted(line.data for line in seen) == sorted(text for _, text in lines if text)


LINES = st.lists(st.text("ab{}\u00e9 ", max_size=12), max_size=8)


@settings(deadline=None)
@given(lines=st.fixed_dictionaries({"stdout": LINES, "stderr": LINES}), data=st.data())
def test_however_lines_are_packed_into_dockers_entries_each_is_one(lines, data):
    rest = {stream: "".join(line + "\n" for line in texts) for stream, texts in lines.items()}
    seen: dict[str, list[str]] = {"stdout": [], "stderr": []}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "json.log"
        followed = Followed(path)
        while any(rest.values()):
            stream = data.draw(st.sampled_from([name for name, text in rest.items() if text]))
            size = data.draw(st.integers(1, 30))
            entry = {"log": rest[stream][:size], "stream": stream, "time": "2026-03-02T12:30:00Z"}
            rest[stream] = rest[stream][size:]
            write(path, json.dumps(entry, separators=(",", ":")) + "\n")
            seen[stream] += followed.poll()
            if data.draw(st.booleans()):
                followed.restart()
        followed.follower.close()
    assert seen == {stream: [line for line in texts if line.strip()] for stream, texts in lines.items()}


@given(st.text().map(str.encode) | st.binary())
@example("{\"a\": 'Ж𝔘'}".encode())
def test_what_is_shown_is_printable_ascii_without_letters_of_its_own(line):
    shown = show(line)
    assert shown.isascii()
    assert shown.isprintable()
    if not line.startswith(b"{"):
        words = "DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL|Traceback|GET|POST|HTTP|true|false|null|NaN|Infinity"
        rest = re.sub(rf"\\x[0-9a-f]{{2}}|\b({words})\b", "", shown)
        assert set(re.findall(r"[a-zA-Z0-9]", rest)) <= {"x", "9"}
