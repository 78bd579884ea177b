from __future__ import annotations

import json
import os
import threading

import pytest

from vllm_observe.plugin.fuse import Fuse
from vllm_observe.plugin.logfile import LogFile
from vllm_observe.plugin.writer import Writer


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def fuse():
    return Fuse()


@pytest.fixture
def make(path, fuse):
    """Makes writers, and ends their threads."""
    made = []

    def writer(open_log=None, max_bytes=10**6, **options):
        def open_file(head):
            return LogFile(path, max_bytes=max_bytes, files=2, head=head)

        made.append(Writer(open_log=open_log or open_file, fuse=fuse, **options))
        return made[-1]

    yield writer
    for each in made:
        each.close()


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_records_are_written_in_their_order_by_the_time_it_is_closed(make, path):
    writer = make()
    for number in range(1000):
        writer.put({"n": number, "s": "für"})
    writer.close()
    assert lines(path) == [{"n": number, "s": "für"} for number in range(1000)]
    assert writer.dropped == 0


def test_no_thread_runs_before_there_is_a_record(make):
    before = threading.active_count()
    make()
    assert threading.active_count() == before


def test_a_full_queue_drops_counts_and_says_so_and_never_waits(make, path, caplog):
    opening = threading.Event()

    def open_slowly(head):
        opening.wait(10)
        return LogFile(path, max_bytes=10**6, files=2, head=head)

    writer = make(open_slowly, most=10)
    for number in range(15):
        writer.put({"n": number})
    assert writer.dropped == 5
    opening.set()
    writer.close()
    assert [record["n"] for record in lines(path)] == list(range(10))
    (warning,) = caplog.messages
    assert "5" in warning


def test_a_record_that_is_no_json_is_dropped_and_its_neighbours_are_not(make, path):
    writer = make()
    for record in ({"n": 1}, {"n": float("nan")}, {"n": {1, 2}}, {"n": 2}):
        writer.put(record)
    writer.close()
    assert lines(path) == [{"n": 1}, {"n": 2}]
    assert writer.dropped == 2


def test_a_full_disk_drops_and_the_writer_goes_on(make, path, monkeypatch):
    calls = []

    class Failing(LogFile):
        def append(self, data):
            calls.append(data)
            if len(calls) == 1:
                raise OSError(28, "No space left on device")
            return super().append(data)

    writer = make(lambda head: Failing(path, max_bytes=10**6, files=2, head=head))
    monkeypatch.setattr("vllm_observe.plugin.writer.BATCH_BYTES", 1)
    writer.put({"n": 1})
    writer.put({"n": 2})
    writer.close()
    assert lines(path) == [{"n": 2}]
    assert writer.dropped == 1


def test_where_no_log_can_be_written_the_plugin_ends_with_one_warning(make, fuse, caplog):
    def fail(_):
        raise PermissionError(13, "Permission denied", "/var/log/x")

    writer = make(fail)
    writer.put({"n": 1})
    writer.close()
    assert fuse.blown
    (warning,) = caplog.messages
    assert "/var/log/x" in warning


def test_what_is_kept_begins_each_later_file_as_well(make, path, monkeypatch):
    monkeypatch.setattr("vllm_observe.plugin.writer.BATCH_BYTES", 1)
    writer = make(max_bytes=30)
    writer.keep("limits", {"limits": 8})
    for number in range(3):
        writer.put({"n": number})
    writer.close()
    assert lines(path.with_name("log.1")) == [{"limits": 8}, {"n": 0}, {"n": 1}]
    assert lines(path) == [{"limits": 8}, {"n": 2}]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 warns of what is tested
def test_a_process_that_is_forked_off_writes_its_own_records_and_not_its_parents(make, path):
    opening = threading.Event()

    def open_log(head):
        opening.wait(10)
        return LogFile(path, max_bytes=10**6, files=2, head=head)

    writer = make(open_log)
    writer.put({"from": "parent"})
    child = os.fork()
    if child == 0:
        opening.set()
        writer.put({"from": "child"})
        writer.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert lines(path) == [{"from": "child"}]
    opening.set()
    writer.close()
    assert lines(path) == [{"from": "child"}, {"from": "parent"}]
