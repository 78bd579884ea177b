"""The whole joiner against a model that is told which parts belong together.

A few clients send requests at once, some of them twice with one id, for several answers or prompts, under
ids that look like each other's. Their parts come in any order, twice, and with pauses in which requests
close too early. What a store holds in the end must be what the model knows.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from support.joins import Desk, edge, engine
from vllm_observe.model import Cause, Evidence, Outcome

SUFFIX = "-9be01f77"  # as vLLM draws one
LONG = "x" * 199
#: Ids that look like each other's, in families. Where a client sends the whole of what vLLM makes of
#: another's id, or what is left of it without its end, nobody can tell whose a part is.
FAMILIES = [
    ["abc", "abc-0", "abc-1", "0_abc", "abc_0", "abc-deadbeef"],
    [
        "chatcmpl-abc",
        "cmpl-abc-0",
        "3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f",
        "a\x00b\n",
        f"{LONG}1",
        f"{LONG}2",
        "",
    ],
]
#: From the best to the worst, as docs/causes.md and the record format have them.
WORSE = [Outcome.OK, Outcome.ABORT, Outcome.TIMEOUT, Outcome.REJECTED, Outcome.ERROR]
APART_S = 100.0  # between two tries of one id


class Try(NamedTuple):
    """One attempt of a request: its parts, and what is to be known of it."""

    request_id: str
    edges: tuple
    engines: tuple

    @property
    def parts(self):
        return (*self.edges, *self.engines)

    @property
    def outcome(self):
        ends = {"stop": Outcome.OK, "abort": Outcome.ABORT}
        all_ends = [*(one.outcome for one in self.edges), *(ends[one.finish_reason] for one in self.engines)]
        return max(all_ends, key=WORSE.index)

    @property
    def tokens(self):
        told = [one.completion_tokens for one in self.edges if one.completion_tokens is not None]
        return told[0] if told else self.made if self.engines else None

    @property
    def made(self):
        return sum(one.completion_tokens for one in self.engines)


def engine_ids(request_id: str, endpoint: str, answers: int, suffix: str) -> list[str]:
    """vLLM's ids for a client's, as its endpoints make them of it."""
    if endpoint == "chatcmpl":
        base = [f"chatcmpl-{request_id}"]
    else:
        base = [f"cmpl-{request_id}-{prompt}" for prompt in range(2)]
    children = [f"{child}_{one}" for one in base for child in range(answers)] if answers > 1 else base
    return [one + suffix for one in children]


#: A known gap: a request that closes before all of its window is over keeps an engine's part that fits it,
#: though a client whose id is only heard of later would fit better (chatcmpl-abc-deadbeef, where abc closed
#: before abc-deadbeef came).
WITH_PAUSES = [[name for name in family if name != "abc-deadbeef"] for family in FAMILIES]


@st.composite
def tries(draw, families=FAMILIES):
    """All attempts of a few clients' requests."""
    found, family = [], draw(st.sampled_from(families))
    for request_id in draw(st.lists(st.sampled_from(family), min_size=1, max_size=3, unique=True)):
        endpoint, answers = draw(st.sampled_from(["chatcmpl", "cmpl"])), draw(st.integers(1, 2))
        suffix = draw(st.sampled_from(["", SUFFIX]))
        for number in range(draw(st.integers(1, 2))):
            start = APART_S * number + draw(st.integers(0, 8)) / 4
            told = draw(st.none() | st.integers(0, 9))
            edges = [
                edge(
                    request_id,
                    start=start,
                    took=4.0,
                    source="app",
                    outcome=draw(st.sampled_from(WORSE)),
                    completion_tokens=told,
                )
            ]
            if draw(st.booleans()):
                edges.append(edge(request_id, start=start + 0.25, took=3.5, source="middleware"))
            engines = [
                engine(
                    name,
                    start=start + 0.5,
                    took=2.0 + index / 4,
                    source="engine",
                    finish_reason=draw(st.sampled_from(["stop", "stop", "abort"])),
                    completion_tokens=draw(st.integers(0, 5)),
                )
                for index, name in enumerate(engine_ids(request_id, endpoint, answers, suffix))
            ]
            found.append(Try(request_id, tuple(edges), tuple(engines)))
    return found


#: After how many of the parts there is a pause, and how long it is; all of them within the window.
pauses = st.dictionaries(st.integers(0, 12), st.sampled_from([1.0, 2.5, 8.0]), max_size=5)


def classify(request, _around):
    return Evidence(Cause.UNKNOWN, f"{request.outcome.value}, {len(request.engines)}, {request.ended_at}")


def known_of(request):
    parts = (*request.edges, *request.engines)
    return (
        request.request_id,
        frozenset((part.request_id, part.ts, part.source) for part in parts),
        len(parts),
        request.outcome,
        request.completion_tokens,
        request.evidence,
    )


def expected_of(one: Try):
    ended_at = max(part.ts for part in one.parts)
    return (
        one.request_id,
        frozenset((part.request_id, part.ts, part.source) for part in one.parts),
        len(one.parts),
        one.outcome,
        one.tokens,
        Evidence(Cause.UNKNOWN, f"{one.outcome.value}, {len(one.engines)}, {ended_at}"),
    )


def deliver(desk, parts, waits):
    told = []
    for number, part in enumerate(parts):
        desk.add(part)
        told += desk.after(waits.get(number, 0.0))
    told += desk.joiner.drain()
    assert desk.joiner.pending == 0
    return told


def kept(told):
    """What a store holds in the end that keeps a row for each uid."""
    rows = {}
    for request in told:
        assert request.amends == (request.uid in rows)
        for uid in request.absorbs:
            del rows[uid]
        rows[request.uid] = request
    return list(rows.values())


@settings(max_examples=60)
@given(st.data(), tries(WITH_PAUSES), pauses)
def test_any_delivery_within_the_window_ends_in_what_the_model_knows(data, sent, waits):
    parts = [part for one in sent for part in one.parts]
    again = data.draw(st.lists(st.sampled_from(parts), max_size=3))
    told = deliver(Desk(classify=classify), data.draw(st.permutations([*parts, *again])), waits)

    found = kept(told)
    assert Counter(map(known_of, found)) == Counter(map(expected_of, sent))
    # vLLM has counted what its engine made; a client may know of more, where an engine's record is missing.
    claimed = sum(max(one.made, one.tokens or 0) for one in sent)
    assert claimed == sum(claim(one) - one.claimed.completion for one in told)


def claim(request):
    made = sum(part.completion_tokens or 0 for part in request.engines)
    return max(made, request.completion_tokens or 0)


@settings(max_examples=30)
@given(st.data(), tries())
def test_what_comes_at_once_has_its_attempts_in_the_order_of_time(data, sent):
    parts = [part for one in sent for part in one.parts]
    told = deliver(Desk(), data.draw(st.permutations(parts)), {})
    assert not any(request.amends for request in told)
    numbers = {(request.request_id, request.attempt): request.ended_at for request in told}
    in_time = {}
    for one in sorted(sent, key=lambda one: one.edges[0].ts):
        in_time.setdefault(one.request_id, []).append(max(part.ts for part in one.parts))
    assert numbers == {
        (name, number): ended for name, ends in in_time.items() for number, ended in enumerate(ends, 1)
    }
