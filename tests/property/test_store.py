"""The store against a list in Python: filters, pages and bounds, whatever is stored and in which order."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from support.joins import T
from support.stores import ROOMY, listed, open_store, put, replaced, request
from vllm_observe.model import Cause, JoinedRequest, Outcome
from vllm_observe.store import session_sums
from vllm_observe.store.protocol import RequestFilter, RequestReader, SessionSummary

NAMES = st.sampled_from(["a", "b", "ab", "ä\0", None])
ENDS = st.sampled_from([0.0, 1.0, 1.5, 2.0, 500.0])

REQUESTS = st.lists(
    st.fixed_dictionaries(
        {
            "session_id": NAMES,
            "profile": NAMES,
            "client": NAMES,
            "model": NAMES,
            "outcome": st.sampled_from([Outcome.OK, Outcome.OK, Outcome.ERROR]),
            "cause": st.sampled_from([None, Cause.QUEUE_KV, Cause.PREEMPTED]),
            "took": st.sampled_from([None, 0.5, 1.0, 4.0]),
            "start": ENDS,
            "prompt_tokens": st.sampled_from([None, 0, 7, 2**40]),
            "completion_tokens": st.sampled_from([None, 1]),
            "engine_part": st.just(value=False),
        }
    ),
    max_size=12,
)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "session_id": NAMES,
        "profile": NAMES,
        "client": NAMES,
        "model": NAMES,
        "outcome": st.sampled_from(Outcome),
        "cause": st.sampled_from(Cause),
        "slower_than": st.sampled_from([0.0, 0.5, 1.0, 3.0]),
        "since": ENDS.map(lambda end: T + end),
        "until": ENDS.map(lambda end: T + end + 1.0),
    },
)


def passes(one: JoinedRequest, where: dict) -> bool:
    """What RequestFilter says of itself, word by word."""
    cause = one.evidence.cause if one.evidence is not None else None
    told = {
        "session_id": one.session_id,
        "profile": one.profile,
        "client": one.client,
        "model": one.model_name,
        "outcome": one.outcome,
        "cause": cause,
    }
    equal = all(where.get(name) in (None, value) for name, value in told.items())
    slower = "slower_than" not in where or (one.duration_s or 0.0) > where["slower_than"]
    return equal and slower and where.get("since", T) <= one.ended_at < where.get("until", T + 10**6)


@settings(max_examples=60)
@given(
    made=REQUESTS,
    wheres=st.lists(FILTERS, min_size=1, max_size=5),
    limit=st.integers(1, 5),
    walked=st.sampled_from([2, 5, 1000]),
)
def test_every_filter_lists_what_a_plain_search_finds(made, wheres, limit, walked):
    requests = [request(str(number), **values) for number, values in enumerate(made)]
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(session_sums, "_MOST_WALKED", walked):
        store = open_store(Path(folder) / "requests.db")
        put(store, *requests)
        for where in wheres:
            # The latest end first; of those that ended at once, the one that was stored last.
            found = [one for one in reversed(requests) if passes(one, where)]
            found.sort(key=lambda one: one.ended_at, reverse=True)
            assert listed(store, limit=limit, **where) == [one.request_id for one in found]
            names = {one.session_id for one in found} - {None}
            places = sorted(((_last(found, name), name) for name in names), reverse=True)
            of = {name: [one for one in found if one.session_id == name] for name in names}
            summed = _sessions(store, limit, where)
            assert [one.session_id for one in summed] == [name for _, name in places]
            for one in summed:
                _check_sums(one, of[one.session_id])
        store.close()


def _sessions(store: RequestReader, limit: int, where: dict) -> list[SessionSummary]:
    """All sessions that a filter lets pass, page after page."""
    summed: list[SessionSummary] = []
    cursor = None
    while True:
        page = store.sessions(RequestFilter(**where), limit=limit, cursor=cursor)
        summed += page.sessions
        cursor = page.next_cursor
        if cursor is None:
            return summed


def _check_sums(summed: SessionSummary, requests: list[JoinedRequest]) -> None:
    """What SessionSummary says of itself, word by word; the requests are its own, the newest first."""
    ends = [one.ended_at for one in requests]
    assert summed == SessionSummary(
        session_id=summed.session_id,
        profile=requests[0].profile,
        client=requests[0].client,
        requests=len(requests),
        first_ended_at=min(ends),
        last_ended_at=max(ends),
        outcomes=Counter(one.outcome for one in requests),
        causes=Counter(one.evidence.cause for one in requests if one.evidence is not None),
        prompt_tokens=_known_sum(one.prompt_tokens for one in requests),
        cached_tokens=None,
        completion_tokens=_known_sum(one.completion_tokens for one in requests),
        slowest=summed.slowest,
    )
    longest = max((one.duration_s for one in requests if one.duration_s is not None), default=None)
    if summed.slowest is None:
        assert longest is None
    else:  # any of those that took as long
        told = (summed.slowest.request_id, summed.slowest.duration_s)
        assert told in {(one.request_id, longest) for one in requests if one.duration_s == longest}


def _known_sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _last(found: list[JoinedRequest], session_id: str) -> float:
    return max(one.ended_at for one in found if one.session_id == session_id)


@settings(max_examples=30)
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=6), max_size=6),
    rows=st.integers(1, 5),
)
def test_the_newest_are_kept_of_whatever_is_told_and_amended(batches, rows):
    model: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "requests.db", bounds=ROOMY._replace(rows=rows))
        for index, batch in enumerate(batches):
            told = []
            for number, amends in batch:
                start = 10.0 * index if amends else 0.0
                told.append(replaced(request(f"id-{number}", start=start), uid=str(number), amends=amends))
                if amends or str(number) not in model:
                    model[str(number)] = start
            put(store, *told)
            kept = sorted(model.items(), key=lambda one: one[1], reverse=True)[:rows]
            assert store.rows == len(kept)
            listing = store.requests(RequestFilter(), limit=1000).requests
            assert sorted(one.ended_at - T - 4.0 for one in listing) == sorted(end for _, end in kept)
            model = {one.uid: one.ended_at - T - 4.0 for one in listing}
        store.close()
