"""A store of a million requests: to write them, and to ask for one, for pages and for sessions.

Run ``pytest tests/bench/test_bench_store.py``; it takes three minutes and 1.6 GB. ``STORE_ROWS=100000``
makes it shorter. What is limited is the time on a processor: other programs run meanwhile.
"""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
import time

import pytest

from support.joins import T
from support.stores import ROOMY, open_store, put, replaced, request
from vllm_observe.model import Cause, Outcome
from vllm_observe.store.protocol import MOST_PER_PAGE, RequestFilter

ROWS = int(os.environ.get("STORE_ROWS", "1000000"))
BATCH = 5000
ID = "3f0c9a52-7d1e-4b8a-9c55-{:012x}"
#: What one request, a page of a filter, and any question of any shape may take.
LOOK_UP_S, PAGE_S, ANSWER_S = 0.005, 0.1, 1.0

FILTERS = {
    "everything": {},
    "session": {"session_id": "session-7"},
    "profile": {"profile": "coder"},
    "client": {"client": "client-7"},
    "cause": {"cause": Cause.QUEUE_KV},
    "errors": {"outcome": Outcome.ERROR},
    "slow": {"slower_than": 5.0},
    "slower than any": {"slower_than": 1e6},
    "profile, slower than any": {"profile": "coder", "slower_than": 1e6},
    "in the middle": {"until": T + ROWS / 20},
    "a minute": {"since": T + 60.0, "until": T + 120.0},
    "no such model": {"model": "none"},
}
#: Filters that select most of the requests, or none of very many: alone, in pairs, and all at once.
BROAD = {
    "model": {"model": "tiny"},
    "profile": {"profile": "coder"},
    "ok": {"outcome": Outcome.OK},
    "slower": {"slower_than": 0.2},
    "since": {"since": T + ROWS / 50},
    "until": {"until": T + ROWS / 12},
    "none is as slow": {"slower_than": 1e6},
    "cause": {"cause": Cause.QUEUE_KV},
    "client": {"client": "client-7"},
}
COMBINED = {
    **BROAD,
    **{f"{a}, {b}": BROAD[a] | BROAD[b] for a, b in itertools.combinations(BROAD, 2)},
    "all of them": {name: value for where in BROAD.values() for name, value in where.items()},
    "one session": {"session_id": "session-7"},
    "everything": {},
}
#: The session of each request, in SQL, where ``seq`` is its number.
SHAPES = {
    "sessions of 20": "'session-' || (seq / 20)",
    "sessions of 13,000 at once": "'session-' || (seq % max(1, (SELECT count(*) FROM detail) / 13000))",
    "sessions of 13,000 one by one": "'session-' || (seq / 13000)",
    "one session": "'session-7'",
    "no session": "NULL",
    "a long session, then one for each request": f"'session-' || CASE WHEN seq > {ROWS} - 30000 THEN 7 ELSE seq END",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    chance = random.Random(7)
    store = open_store(tmp_path_factory.mktemp("store") / "requests.db", bounds=ROOMY._replace(age_s=1e9))
    causes = list(Cause)
    for first in range(0, ROWS, BATCH):
        put(
            store,
            *(
                replaced(
                    request(
                        ID.format(number),
                        start=number / 10,
                        took=chance.expovariate(1.0),
                        session_id=f"session-{number // 20}",
                        profile=("assistant", "coder", "summarizer")[number % 3],
                        client=f"client-{number % 50}",
                        model="tiny",
                        cause=causes[number // 20 % len(causes)] if number % 20 == 0 else None,
                        outcome=Outcome.ERROR if number % 200 == 0 else Outcome.OK,
                    ),
                    uid=f"{number:024x}",
                )
                for number in range(first, min(first + BATCH, ROWS))
            ),
        )
    assert store.rows == ROWS
    yield store
    store.close()


@pytest.mark.benchmark(group="a store of a million")
@pytest.mark.parametrize("asked", [ID, "chatcmpl-" + ID], ids=["client's id", "vLLM's id"])
def test_one_request(benchmark, store, asked):
    assert len(benchmark(store.request, asked.format(ROWS // 2))) == 1
    assert benchmark.stats.stats.median < LOOK_UP_S


@pytest.mark.benchmark(group="a store of a million")
@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS)
def test_a_page(benchmark, store, where):
    benchmark.pedantic(store.requests, (RequestFilter(**where),), rounds=5)
    assert benchmark.stats.stats.min < PAGE_S  # the least: other programs run meanwhile


@pytest.mark.benchmark(group="a store of a million")
@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS)
def test_sessions(benchmark, store, where):
    benchmark.pedantic(store.sessions, (RequestFilter(**where),), rounds=3)
    assert benchmark.stats.stats.min < ANSWER_S


@pytest.mark.benchmark(group="a store of a million")
def test_writing_a_batch(benchmark, store):
    batches = iter(range(10))

    def batch():
        number = next(batches)
        return tuple(request(f"late-{number}-{again}", start=ROWS / 10) for again in range(1000)), {}

    benchmark.pedantic(lambda *requests: put(store, *requests), setup=batch, rounds=5)


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES)
def shaped(request, store):
    """The store, with its requests in other sessions."""
    connection = sqlite3.connect(store._path)  # through the store, a million writes would take minutes
    (index,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'by_session'").fetchone()
    connection.execute("DROP INDEX by_session")
    connection.execute(f"UPDATE request SET session_id = {request.param}")
    connection.execute(index)
    connection.commit()
    connection.close()
    return store


@pytest.mark.parametrize("question", ["sessions", "requests"])
def test_any_question_of_any_shape(shaped, question):
    ask, slow = getattr(shaped, question), {}
    for name, where in COMBINED.items():
        chosen = RequestFilter(**where)
        if (spent := cpu(ask, chosen)) > ANSWER_S and (spent := cpu(ask, chosen)) > ANSWER_S:
            slow[name] = spent
    assert slow == {}


def cpu(ask, where):
    """The processor time of the largest page and of the one behind it, whichever takes longer."""
    began = time.process_time()
    cursor = ask(where, limit=MOST_PER_PAGE).next_cursor
    first = time.process_time()
    if cursor is not None:
        ask(where, limit=MOST_PER_PAGE, cursor=cursor)
    return max(first - began, time.process_time() - first)
