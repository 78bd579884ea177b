"""The join under any order, any lateness and any ids."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from support.joins import WINDOW, Desk, edge, engine
from vllm_observe.join.coverage import accounted
from vllm_observe.join.identity import candidates, key, keys
from vllm_observe.model import Outcome
from vllm_observe.plugin.names import bounded

# --- Identity: vLLM's decorations on any client id

NUMBERED = ["cmpl-", "embd-", "pool-", "classify-"]  # these number every prompt
MAY_NUMBER = ["score-", "rerank-"]
ENDPOINTS = [
    *NUMBERED, *MAY_NUMBER, "chatcmpl-", "transcribe-", "translate-", "trsc-", "tokn-", "tokenize-",
    "generate-tokens-", "decision-", "resp-", "",
]  # fmt: skip
hexadecimal = st.text("0123456789abcdef", min_size=8, max_size=8)
numbers = st.integers(0, 4095).map(str)
pieces = st.one_of(
    st.text(max_size=20),
    st.sampled_from([*ENDPOINTS, "-0", "_1", "0_", "-deadbeef", "-", "_", "\n", "\x00", "\ud800", "é"]),
    st.uuids().map(str),
    hexadecimal,
)
client_ids = st.one_of(
    st.lists(pieces, max_size=6).map("".join),
    st.builds(lambda piece, tail: piece * 2000 + tail, st.text(min_size=1, max_size=5), pieces),
)


@st.composite
def decorated(draw, client_id):
    """An engine's id for a client's, as any release and endpoint makes them."""
    endpoint = draw(st.sampled_from(ENDPOINTS))
    child = draw(st.none() | numbers)
    index = draw(
        numbers if endpoint in NUMBERED else st.none() | numbers if endpoint in MAY_NUMBER else st.none()
    )
    turn = (
        None if endpoint else draw(st.none() | numbers)
    )  # of /v1/responses, which puts no word before the id
    suffix = draw(st.none() | hexadecimal)
    return "".join(
        [
            f"{child}_" if child else "",
            endpoint,
            client_id,
            f"-{index}" if index else "",
            f"_{turn}" if turn else "",
            f"-{suffix}" if suffix else "",
        ]
    )


@given(st.data(), client_ids)
def test_a_known_client_id_is_found_under_any_decoration(data, client_id):
    engine_id = data.draw(decorated(client_id))
    found = candidates(bounded(engine_id))
    assert not {*keys(bounded(client_id))}.isdisjoint(found)
    assert found[0] == key(bounded(engine_id))
    assert len(found) <= 32


@given(st.data(), client_ids)
def test_an_engine_part_joins_the_one_id_that_is_known(data, client_id):
    engine_id = data.draw(decorated(client_id))
    (request,) = Desk().join(edge(bounded(client_id)), engine(bounded(engine_id)))
    assert request.request_id == bounded(client_id)


# --- The joiner

IDS = ["job", "job-1", "job-1-0", "cmpl-job", "0_job", "other"]
moments = st.integers(0, 400).map(lambda tenths: tenths / 10)
lengths = st.integers(0, 100).map(lambda tenths: tenths / 10)
edges = st.builds(
    edge,
    st.sampled_from(IDS),
    start=moments,
    took=st.none() | lengths,
    outcome=st.sampled_from(list(Outcome)),
    status=st.none() | st.sampled_from([200, 429, 500]),
)
engines = st.builds(
    engine,
    st.sampled_from(IDS).flatmap(decorated),
    start=moments,
    took=st.none() | lengths,
    queue_s=st.none() | lengths,
    finish_reason=st.sampled_from(["length", "stop", "abort"]),
    completion_tokens=st.none() | st.integers(0, 3),
)
records = st.lists(edges | engines, max_size=14)


def by_name(requests):
    return sorted(requests, key=lambda request: (request.request_id, request.attempt))


def parts(requests):
    """Each record of some requests with how often it is there, without the times that cannot be true."""
    whole = [part for request in requests for part in (*request.edges, *request.engines)]
    return Counter((part.request_id, part.ts, getattr(part, "status", None)) for part in whole)


def distinct(added):
    return Counter((one.request_id, one.ts, getattr(one, "status", None)) for one in dict.fromkeys(added))


@given(st.data(), records)
def test_the_order_of_the_parts_does_not_matter(data, added):
    shuffled = data.draw(st.permutations(added))
    assert by_name(Desk().join(*added)) == by_name(Desk().join(*shuffled))


@given(records)
def test_each_record_is_in_exactly_one_request(added):
    assert parts(Desk().join(*added)) == distinct(added)


@given(
    st.lists(
        st.tuples(edges | engines, st.sampled_from([0.0, 0.0, 1.0, 3.0, WINDOW])),
        max_size=8,  # as many attempts of one id as are remembered
        unique_by=lambda one: one[0],
    )
)
def test_however_late_a_part_is_each_is_in_exactly_one_request_as_it_was_last_told(arrivals):
    desk, told = Desk(), []
    for record, pause in arrivals:
        desk.add(record)
        told += desk.after(pause)
    told += desk.joiner.drain()
    assert desk.joiner.pending == 0
    assert parts(stored(told)) == distinct([record for record, _ in arrivals])


def stored(told):
    """What a store holds in the end that keeps one row for each uid."""
    rows = {}
    for request in told:
        assert request.amends == (request.uid in rows)
        assert request.uid not in request.absorbs
        for uid in request.absorbs:
            del rows[uid]
        rows[request.uid] = request
    return rows.values()


@given(st.lists(st.tuples(edges | engines, st.sampled_from([0.0, 1.0, WINDOW])), max_size=8))
def test_tokens_are_claimed_once_however_often_a_request_is_amended(arrivals):
    desk, told = Desk(), []
    for record, pause in arrivals:
        desk.add(record)
        told += desk.after(pause)
    told += desk.joiner.drain()
    claims = sum(accounted(one).completion - one.claimed.completion for one in told)
    assert claims == sum(accounted(one).completion for one in stored(told))


@given(st.lists(edges | engines, max_size=60, unique=True), st.integers(1, 5))
def test_memory_is_bounded_and_nothing_is_stored_twice(added, most):
    desk, told = Desk(max_pending=most), []
    for record in added:
        desk.add(record)
        assert desk.joiner.pending <= most
        assert sum(group.size for group in desk.joiner._open.groups.values()) <= 4 * most
        assert len(desk.joiner._closed.groups) <= most
        assert sum(group.size for group in desk.joiner._closed.groups.values()) <= 4 * most
        told += desk.after(0.1)
    told += desk.joiner.drain()
    assert parts(stored(told)) <= distinct(added)
    known = [*desk.joiner._open.groups.values(), *desk.joiner._closed.groups.values()]
    assert len(desk.joiner._claims) == sum(len(group.candidates) for group in known)
