"""What a store keeps: deliveries and amendments, progress, and nothing beyond its bounds."""

from __future__ import annotations

import pytest

from support.joins import T, arrival, edge, engine
from support.stores import NOW, ROOMY, everything, listed, open_store, put, replaced, request
from vllm_observe.clock import ManualClock
from vllm_observe.config import Settings
from vllm_observe.model import Limits, LimitsSource, Outcome
from vllm_observe.pipeline.keeping import Keeping
from vllm_observe.records.position import Mark, Position, Positions
from vllm_observe.serve.instruments import Instruments
from vllm_observe.store.protocol import Progress
from vllm_observe.store.rows import read_record, write_record

MIB = 1024 * 1024


def positions(offset: int) -> Positions:
    """One log that was read so far."""
    end = Mark(offset, "0123456789abcdef")
    return Positions(
        sources=("/app.jsonl",), files=(Position(path="/app.jsonl", device=1, inode=2, end=end),)
    )


# --- Deliveries ----------------------------------------------------------------------------------


def test_what_was_added_is_there_after_the_next_start(path):
    store = open_store(path)
    put(store, request("a"))
    store.close()
    again = open_store(path)
    assert listed(again) == ["a"]
    assert again.rows == 1
    again.close()


def test_closing_writes_what_was_added(path):
    store = open_store(path)
    store.add([request("a")])
    store.close()
    assert listed(store) == ["a"]


def test_a_request_that_is_told_twice_is_stored_once(store):
    put(store, request("a"), request("a"))
    put(store, request("a"))
    assert listed(store) == ["a"]
    assert store.rows == 1


def test_an_amendment_takes_the_place_of_what_it_amends(store):
    first = request("a", engine_part=False)
    put(store, first, request("b", start=10))
    amended = replaced(request("a"), uid=first.uid, amends=True, outcome=Outcome.ERROR)
    put(store, amended)
    assert listed(store) == ["b", "a"]
    assert listed(store, outcome=Outcome.ERROR) == ["a"]
    assert store.rows == 2


def test_an_amendment_in_the_same_batch_takes_its_place_too(store):
    first = request("a", engine_part=False)
    put(store, first, replaced(request("a"), uid=first.uid, amends=True))
    (found,) = everything(store)
    assert len(found.engines) == 1


def test_an_amendment_of_what_was_told_by_another_id_leaves_one_request(store):
    told = replaced(request("chatcmpl-a"), uid="first")
    other = replaced(request("chatcmpl-a2"), uid="second")
    put(store, told, other)
    put(store, replaced(request("a"), uid="first", amends=True, absorbs=("second",)))
    assert listed(store) == ["a"]
    assert store.rows == 1


def test_an_amendment_of_what_is_not_there_any_more_is_stored(store):
    put(store, replaced(request("a"), amends=True))
    assert listed(store) == ["a"]


def test_how_it_was_delivered_is_not_kept(store):
    put(store, replaced(request("a"), amends=True, absorbs=("other",)))
    (found,) = everything(store)
    assert (found.amends, found.absorbs) == (False, ())


def test_the_latest_are_those_stored_last_whenever_they_ended(store):
    put(store, request("a", start=50), request("b", start=10))
    put(store, request("c", start=0))
    assert [one.request_id for one in store.latest(2)] == ["b", "c"]


# --- Progress ------------------------------------------------------------------------------------


def test_a_new_store_knows_of_no_progress(store):
    assert store.resume() is None


def test_progress_is_resumed_as_it_was(path):
    store = open_store(path)
    made = Progress(
        positions=positions(7),
        waiting=(edge("a", session_id="s", stream=False), engine("chatcmpl-a", preemptions=0)),
        limits=(Limits(source=LimitsSource.PLUGIN, engine="0", max_num_seqs=8),),
    )
    store.add([request("b")], made)
    store.close()
    again = open_store(path)
    assert again.resume() == made
    again.close()


def test_what_waits_no_longer_is_not_resumed(path):
    a, b, c = edge("a"), edge("b"), edge("c")
    for waiting in ((a, b), (b,), (b, c), (c,)):
        store = open_store(path)
        store.add([], Progress(positions=positions(1), waiting=(a, c)))  # by one life
        store.flush()
        store.add([], Progress(positions=positions(2), waiting=waiting))
        store.close()
        again = open_store(path)
        resumed = again.resume()
        assert resumed is not None
        assert set(resumed.waiting) == set(waiting)
        again.close()


def test_the_last_progress_counts(path):
    store = open_store(path)
    for offset in (1, 2, 3):
        store.add([], Progress(positions=positions(offset)))
    store.close()
    again = open_store(path)
    assert again.resume() == Progress(positions=positions(3))
    again.close()


def test_a_waiting_record_that_utf_8_cannot_hold_is_kept(path):
    store = open_store(path)
    store.add([], Progress(positions=positions(1), waiting=(edge("a-\ud800"),)))
    store.close()
    again = open_store(path)
    resumed = again.resume()
    assert resumed is not None
    assert [record.request_id for record in resumed.waiting] == ["a-?"]
    again.close()


# --- Bounds --------------------------------------------------------------------------------------


def test_the_oldest_of_too_many_go(path):
    store = open_store(path, bounds=ROOMY._replace(rows=3))
    put(store, *(request(str(number), start=number) for number in (4, 0, 3, 1, 2)))
    assert listed(store) == ["4", "3", "2"]
    assert store.rows == 3
    store.close()


def test_those_that_are_too_old_go(path):
    clock = ManualClock(wall=T + 100)
    store = open_store(path, bounds=ROOMY._replace(age_s=60.0), clock=clock)
    put(store, request("at 40", start=36), request("at 41", start=37), request("at 90", start=86))
    assert listed(store) == ["at 90", "at 41", "at 40"]
    clock.advance(0.5)
    store.flush()
    assert listed(store) == ["at 90", "at 41"]
    clock.advance(1000)
    store.flush()
    assert listed(store) == []
    store.close()


def test_what_is_too_old_when_it_comes_is_counted_and_told_once(path, caplog):
    clock = ManualClock(wall=T + 100)
    store = open_store(path, bounds=ROOMY._replace(age_s=60.0), clock=clock)
    put(store, request("at 30", start=26), request("at 39", start=35), request("at 40", start=36))
    assert (listed(store), store.too_old) == (["at 40"], 2)
    put(store, request("at 20", start=16))
    assert store.too_old == 3
    told = [one for one in caplog.records if "store_max_age" in one.getMessage()]
    assert [one.fields for one in told] == [{"requests": 2}]
    clock.advance(1000)
    store.flush()  # what ages out in the store was kept as long as it should be
    assert (listed(store), store.too_old, store.dropped) == ([], 3, 0)
    store.close()


def test_what_is_too_old_is_in_the_metrics(path):
    clock, instruments = ManualClock(wall=NOW), Instruments()
    keeping = Keeping(Settings(store=path, store_max_age=60.0), instruments=instruments, clock=clock)
    keeping.take(request("a"))
    keeping.keep(Progress(positions=positions(7)))
    keeping.flush()
    keeping.measure()
    keeping.measure()
    keeping.close()
    samples = (sample for family in instruments.families() for sample in family.samples)
    dropped = {
        sample.series.text: sample.value for sample in samples if "_dropped_total" in sample.series.text
    }
    assert {series for series, value in dropped.items() if value} == {
        'vllm_observe_dropped_total{reason="too_old"}'
    }
    assert dropped['vllm_observe_dropped_total{reason="too_old"}'] == 1


def test_a_request_that_is_too_old_counts_once_with_its_amendment(path):
    store = open_store(path, bounds=ROOMY._replace(age_s=60.0), clock=ManualClock(wall=T + 100))
    first = request("a", engine_part=False)
    put(store, first)
    put(store, replaced(request("a"), uid=first.uid, amends=True))
    assert (listed(store), store.too_old) == ([], 1)
    store.close()


def test_progress_is_kept_where_no_request_is(path):
    store = open_store(path, bounds=ROOMY._replace(age_s=60.0), clock=ManualClock(wall=T + 100))
    store.add([request("a")], Progress(positions=positions(7)))
    store.close()
    again = open_store(path)
    assert again.resume() == Progress(positions=positions(7))
    again.close()


def test_many_that_are_too_old_go_in_small_steps(path):
    clock = ManualClock(wall=NOW)
    store = open_store(path, bounds=ROOMY._replace(age_s=200_000.0), clock=clock)
    put(store, *(request(str(number)) for number in range(1200)))
    clock.advance(200_000)
    database = store._database
    assert database.prune(ROOMY._replace(age_s=1.0), clock.wall()) is True
    assert store.rows == 700
    assert database.prune(ROOMY._replace(age_s=1.0), clock.wall()) is True
    assert database.prune(ROOMY._replace(age_s=1.0), clock.wall()) is False
    assert store.rows == 0
    store.close()


def test_the_file_stays_under_its_bound(path):
    bound = 20 * MIB  # of which the write-ahead log has 16
    store = open_store(path, bounds=ROOMY._replace(bytes=bound))
    for batch in range(10):
        put(store, *(request(f"{batch}-{number}", start=batch, path="/" * 3000) for number in range(300)))
    store.flush()
    sizes = {one.name: one.stat().st_size for one in path.parent.iterdir()}
    assert sum(sizes.values()) <= bound, sizes
    assert 300 <= store.rows < 3000
    assert listed(store, limit=1)[0].startswith("9-")
    store.close()


def test_a_file_whose_requests_have_gone_becomes_small_again(path):
    clock = ManualClock(wall=NOW)
    store = open_store(path, clock=clock)
    put(store, *(request(str(number)) for number in range(5000)))
    clock.advance(30 * 86_400.0)
    for _ in range(100):
        store.flush()
    store.close()
    assert path.stat().st_size < 3 * MIB  # and was over 5


def test_nothing_old_is_deleted_where_nothing_is(store):
    store.flush()
    assert store.rows == 0


@pytest.mark.parametrize("rows", [1, 2])
def test_a_bound_on_rows_counts_amendments_once(path, rows):
    store = open_store(path, bounds=ROOMY._replace(rows=rows))
    put(store, request("a"), replaced(request("a"), amends=True), request("b", start=1))
    assert listed(store) == ["b", "a"][:rows]
    store.close()


def test_an_arrival_that_waits_is_one_after_a_restart_too():
    waiting = arrival("chatcmpl-a", max_tokens=64)
    assert read_record(*write_record(waiting)) == waiting
    assert read_record(*write_record(waiting)).outcome is None
