"""What a store answers: lists and their pages, one request, sessions."""

from __future__ import annotations

import functools
import sqlite3

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis.strategies import from_regex

from support.joins import T
from support.stores import NOW, ROOMY, engine_only, everything, listed, open_store, put, replaced, request
from vllm_observe.clock import ManualClock
from vllm_observe.errors import CursorError, StoreError
from vllm_observe.model import Cause, EdgeRecord, Outcome
from vllm_observe.records.values import bounded
from vllm_observe.store import session_sums
from vllm_observe.store.protocol import RequestFilter, SlowestRequest
from vllm_observe.store.queries import CURSOR
from vllm_observe.store.sqlite_reader import SqliteReader


def test_a_request_comes_back_as_it_was(store):
    made = request("abc", session_id="s", profile="coder", client="c", model="tiny", cause=Cause.QUEUE_SLOTS)
    put(store, made)
    assert store.request("abc") == (made,)
    assert store.requests(RequestFilter()).requests == (made,)


def test_the_newest_comes_first(store):
    put(store, request("old", start=0), request("new", start=20), request("middle", start=10))
    assert listed(store) == ["new", "middle", "old"]


# Ends of the requests below, in seconds after T: a 4, b 14, c 24, d 34.
@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({}, "dcba"),
        ({"session_id": "s1"}, "da"),
        ({"profile": "coder"}, "ba"),
        ({"client": "c1"}, "c"),
        ({"model": "tiny"}, "dc"),
        ({"outcome": Outcome.ERROR}, "b"),
        ({"outcome": Outcome.OK}, "dca"),
        ({"cause": Cause.QUEUE_KV}, "d"),
        ({"slower_than": 3.9}, "cba"),
        ({"slower_than": 4.0}, ""),
        ({"since": T + 14}, "dcb"),
        ({"until": T + 14}, "a"),
        ({"since": T + 14, "until": T + 34}, "cb"),
        ({"profile": "coder", "outcome": Outcome.ERROR, "slower_than": 1.0}, "b"),
        ({"session_id": "s1", "cause": Cause.QUEUE_KV}, "d"),
        ({"session_id": "nobody"}, ""),
        ({"session_id": "\ud800"}, ""),
        ({"since": float("nan")}, ""),
        ({"until": float("inf")}, "dcba"),
    ],
)
def test_a_filter_lets_pass_what_meets_all_its_conditions(store, where, found):
    put(
        store,
        request("a", start=0, session_id="s1", profile="coder"),
        request("b", start=10, session_id="s2", profile="coder", outcome=Outcome.ERROR),
        request("c", start=20, client="c1", model="tiny"),
        request(
            "d", start=34, took=None, engine_part=False, session_id="s1", model="tiny", cause=Cause.QUEUE_KV
        ),
    )
    assert listed(store, **where) == list(found)


def test_pages_follow_each_other_whatever_is_stored_meanwhile(store):
    put(store, *(request(str(number), start=number) for number in range(5)))
    first = store.requests(RequestFilter(), limit=2)
    put(store, request("newer", start=100))
    second = store.requests(RequestFilter(), limit=2, cursor=first.next_cursor)
    third = store.requests(RequestFilter(), limit=2, cursor=second.next_cursor)
    pages = [[one.request_id for one in page.requests] for page in (first, second, third)]
    assert pages == [["4", "3"], ["2", "1"], ["0"]]
    assert third.next_cursor is None


def test_pages_hold_every_request_once_while_others_come_and_the_oldest_go(path):
    clock = ManualClock(wall=NOW)
    store = open_store(path, clock=clock, bounds=ROOMY._replace(rows=10))
    put(store, *(request(str(number), start=number // 2) for number in range(10)))  # two end at once
    found, cursor, new = [], None, 100
    while True:
        page = store.requests(RequestFilter(), limit=3, cursor=cursor)
        found += [one.request_id for one in page.requests]
        cursor = page.next_cursor
        if cursor is None:
            break
        put(store, request(str(new), start=new))  # and 0, then 1 is deleted
        new += 1
    assert found == ["9", "8", "7", "6", "5", "4", "3", "2"]
    store.close()


def test_a_session_that_is_active_again_comes_on_no_second_page(store):
    put(store, *(request(name, start=start, session_id=name) for start, name in enumerate("abcd")))
    first = store.sessions(RequestFilter(), limit=2)
    put(store, request("d again", start=50, session_id="d"), request("a again", start=60, session_id="a"))
    second = store.sessions(RequestFilter(), limit=2, cursor=first.next_cursor)
    assert [[one.session_id for one in page.sessions] for page in (first, second)] == [["d", "c"], ["b"]]
    assert second.next_cursor is None


def test_a_last_page_that_is_full_is_the_last_one(store):
    put(store, request("a", start=0), request("b", start=10))
    assert store.requests(RequestFilter(), limit=2).next_cursor is None


def test_requests_that_ended_at_once_are_all_listed(store):
    put(store, *(request(str(number)) for number in range(7)))
    assert sorted(listed(store, limit=3)) == [str(number) for number in range(7)]


@pytest.mark.parametrize("limit", [-5, 0, 1])
def test_a_page_holds_one_at_the_least(store, limit):
    put(store, request("a"), request("b"))
    assert len(store.requests(RequestFilter(), limit=limit).requests) == 1


def test_a_page_holds_a_thousand_at_most(store):
    put(store, *(request(str(number)) for number in range(1001)))
    assert len(store.requests(RequestFilter(), limit=10**9).requests) == 1000


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "é",
        "a" * 10_001,
        "41da5f1b4c0000",
        "41da5f1b4c0000000",
        "41DA5F1B4C000000",
        "41da5f1b4c000000\n",
        "\ud800",
    ],
)
def test_a_cursor_that_no_page_gave_is_told(store, cursor):
    with pytest.raises(CursorError, match="begin without a cursor"):
        store.requests(RequestFilter(), cursor=cursor)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cursor=from_regex(CURSOR, fullmatch=True))
@example(cursor="7ff8000000000000")  # not a number
@example(cursor="41da5f1b4c000000ff")
def test_whatever_reads_as_a_cursor_names_a_place(store, cursor):
    if not store.requests(RequestFilter()).requests:
        put(store, request("a", session_id="s"), request("b", session_id="t"))
    whole, rest = (store.requests(RequestFilter(), cursor=place).requests for place in (None, cursor))
    assert rest == whole[len(whole) - len(rest) :]
    all_of_them, later = (store.sessions(RequestFilter(), cursor=place).sessions for place in (None, cursor))
    assert later == all_of_them[len(all_of_them) - len(later) :]


def test_a_cursor_can_stand_in_a_url_as_it_is(store):
    put(store, *(request(str(number), start=number / 7) for number in range(50)))
    cursors, cursor = [], None
    while (cursor := store.requests(RequestFilter(), limit=1, cursor=cursor).next_cursor) is not None:
        cursors.append(cursor)
    assert len(cursors) == 49
    assert all(cursor.replace("-", "").replace("_", "").isalnum() for cursor in cursors)


def test_an_end_in_the_future_counts_as_the_time_of_storing(path):
    store = open_store(path)
    put(store, request("clock is wrong", start=10**9), request("old", start=0))
    assert listed(store) == ["clock is wrong", "old"]
    put(store, request("later", start=99_990.0))
    assert listed(store, until=T + 100_000.0) == ["later", "old"]
    store.close()


# --- One request ---------------------------------------------------------------------------------


def test_all_attempts_of_an_id_come_in_the_order_of_their_ends(store):
    second = replaced(request("abc", start=10), attempt=2)
    put(store, second, request("abc", start=0), request("abcd"))
    assert [one.attempt for one in store.request("abc")] == [1, 2]


@pytest.mark.parametrize("asked", ["chatcmpl-abc-9be01f77", "chatcmpl-abc", "abc"])
def test_a_request_is_found_by_every_id_that_vllm_gave_it(store, asked):
    made = request("abc", engine_part=False)
    part = engine_only("chatcmpl-abc-9be01f77").engines
    put(store, replaced(made, engines=part), request("other"))
    assert [one.request_id for one in store.request(asked)] == ["abc"]


@pytest.mark.parametrize(
    "asked", ["chatcmpl-my-req-12345678-9be01f77", "chatcmpl-my-req-12345678", "my-req-12345678"]
)
def test_a_request_of_which_only_the_engine_told_is_found_by_its_clients_id(store, asked):
    put(store, engine_only("chatcmpl-my-req-12345678-9be01f77"), engine_only("chatcmpl-other-9be01f77"))
    assert [one.request_id for one in store.request(asked)] == ["chatcmpl-my-req-12345678-9be01f77"]


def test_an_id_that_is_known_as_it_is_is_not_taken_for_another(store):
    put(store, request("abc"), request("abc-12345678"))
    assert [one.request_id for one in store.request("abc-12345678")] == ["abc-12345678"]
    assert [one.request_id for one in store.request("abc")] == ["abc"]


def test_an_unknown_id_has_no_attempts(store):
    put(store, request("abc"))
    assert [store.request(asked) for asked in ("abd", "", "\ud800", "x" * 100_000)] == [(), (), (), ()]


@pytest.mark.parametrize("name", ["a\0b", "'; DROP TABLE request; --", "日本語", "%", "x" * 256])
def test_any_text_is_an_id_and_a_session(store, name):
    put(store, request(name, session_id=name), request("other"))
    assert [one.session_id for one in store.request(name)] == [name]
    assert listed(store, session_id=name) == [name]


def test_an_id_of_a_megabyte_is_found_by_itself(store):
    sent = "x" * 1_000_000
    put(store, request(bounded(sent)), request("x" * 256))
    assert [len(one.request_id) for one in store.request(sent)] == [256]
    assert store.request(sent) != store.request("x" * 256)


def test_half_of_a_surrogate_pair_is_kept_as_a_question_mark(store):
    put(store, request("id-\ud800", session_id="s-\udfff", model="m"))
    assert listed(store, model="m") == ["id-?"]
    assert [one.session_id for one in store.request("id-\ud800")] == ["s-?"]


def test_numbers_beyond_any_measure_do_not_stop_the_others(store):
    huge = request("huge", prompt_tokens=10**30, completion_tokens=2**63)
    put(store, request("a"), huge, request("b"))
    assert sorted(listed(store)) == ["a", "b", "huge"]
    assert store.errors == 0


def test_no_time_is_an_error_that_is_counted(store):
    lost = request("lost", start=float("nan"))
    put(store, request("a"), lost, request("b"))
    assert sorted(listed(store)) == ["a", "b"]
    assert store.errors == 1


# --- Sessions ------------------------------------------------------------------------------------


def test_a_session_is_summed_up(store):
    put(
        store,
        request("a", start=0, took=4.0, session_id="s", prompt_tokens=10, completion_tokens=1, profile="old"),
        request("b", start=10, took=9.0, session_id="s", prompt_tokens=20, cause=Cause.QUEUE_KV),
        request("c", start=30, took=2.0, session_id="s", outcome=Outcome.ERROR, profile="new", client="me"),
        request("d", start=0, session_id="t"),
        request("e", start=0),
    )
    (summary, other) = store.sessions(RequestFilter()).sessions
    assert (summary.session_id, other.session_id) == ("s", "t")
    assert summary.requests == 3
    assert (summary.first_ended_at, summary.last_ended_at) == (T + 4, T + 32)
    assert summary.outcomes == {Outcome.OK: 2, Outcome.ERROR: 1}
    assert summary.causes == {Cause.QUEUE_KV: 1}
    assert (summary.prompt_tokens, summary.cached_tokens, summary.completion_tokens) == (30, None, 1)
    assert summary.slowest == SlowestRequest(request_id="b", duration_s=9.0)
    assert (summary.profile, summary.client) == ("new", "me")


def test_a_session_sums_up_what_the_filter_lets_pass(store):
    put(
        store,
        request("a", session_id="s", profile="coder"),
        request("b", session_id="s", took=None, engine_part=False),
        request("c", session_id="t", took=None, engine_part=False),
    )
    (summary,) = store.sessions(RequestFilter(profile="coder")).sessions
    assert (summary.session_id, summary.requests) == ("s", 1)
    (summary,) = store.sessions(RequestFilter(session_id="t")).sessions
    assert (summary.requests, summary.slowest) == (1, None)


def test_sessions_come_in_pages(store):
    put(
        store,
        *(
            request(f"{name}{again}", start=index * 10 + again, session_id=name)
            for index, name in enumerate("abcde")
            for again in range(3)
        ),
    )
    pages, cursor = [], None
    while True:
        page = store.sessions(RequestFilter(), limit=2, cursor=cursor)
        pages.append("".join(one.session_id for one in page.sessions))
        cursor = page.next_cursor
        if cursor is None:
            break
    assert pages == ["ed", "cb", "a"]


def test_token_sums_beyond_an_integer_of_sqlites_are_no_error(store):
    put(store, *(request(str(number), session_id="s", prompt_tokens=2**62) for number in range(4)))
    (summary,) = store.sessions(RequestFilter()).sessions
    assert summary.prompt_tokens == 2**64


@pytest.mark.parametrize("walked", [2, 1000], ids=["all sessions are looked at", "the newest suffice"])
@pytest.mark.parametrize(
    "where",
    [
        {},
        {"session_id": "s1"},
        {"profile": "coder"},
        {
            "profile": "coder",
            "client": "c",
            "model": "tiny",
            "outcome": Outcome.OK,
            "cause": Cause.QUEUE_KV,
            "slower_than": 1.0,
            "since": T,
            "until": NOW,
        },
    ],
    ids=["all", "one session", "a profile", "every filter"],
)
def test_sessions_are_summed_up_from_their_index_alone_and_nothing_is_sorted_for_it(
    store, monkeypatch, where, walked
):
    told = {"profile": "coder", "client": "c", "model": "tiny", "cause": Cause.QUEUE_KV}
    put(store, *(request(f"{again}", start=again, session_id=f"s{again % 2}", **told) for again in range(8)))
    plans: list[str] = []

    class Explained(sqlite3.Connection):
        def execute(self, question, values=()):
            if "INDEXED BY by_session" in question:
                plans.extend(row[3] for row in super().execute(f"EXPLAIN QUERY PLAN {question}", values))
            return super().execute(question, values)

    monkeypatch.setattr(session_sums, "_MOST_WALKED", walked)
    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=Explained))
    assert len(store.sessions(RequestFilter(**where)).sessions) == (1 if "session_id" in where else 2)
    used = [plan for plan in plans if "by_session" in plan]
    assert used
    assert [plan for plan in used if "COVERING INDEX by_session" not in plan] == []
    assert [plan for plan in plans if "GROUP BY" in plan] == []


# --- Beside a sidecar ----------------------------------------------------------------------------


def test_a_store_is_read_while_it_is_written(path, store):
    reader = SqliteReader(path)
    put(store, request("a"))
    assert listed(reader) == ["a"]
    put(store, request("b", start=1))
    assert listed(reader) == ["b", "a"]


def test_a_store_whose_sidecar_has_ended_is_read(path):
    store = open_store(path)
    put(store, request("a"))
    store.close()
    assert listed(SqliteReader(path)) == ["a"]


def test_reading_writes_nothing(path):
    store = open_store(path)
    put(store, request("a"))
    store.close()
    before = path.read_bytes()
    listed(SqliteReader(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [None, b"", b"no database\n" * 1000])
def test_what_is_no_store_is_told(path, content):
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError, match=r"requests\.db"):
        SqliteReader(path).requests(RequestFilter())


def test_an_edge_record_of_every_field_is_kept_whole(store):
    values = dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens", "max_tokens"), 7)
    made = request(
        "abc", stream=False, status=200, path="/v1/completions", trace_id="0" * 32, queue_depth=0, **values
    )
    put(store, made)
    (found,) = everything(store)
    assert isinstance(found.edges[0], EdgeRecord)
    assert found == made
