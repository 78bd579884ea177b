"""Limits of the queue: of all ranks together, whatever waits or runs."""

from __future__ import annotations

import pytest

from support.sims import arrival, deployment, limits
from vllm_observe.sim.requests import End


def ends(server, *arrivals):
    """How requests end that come one after the other."""
    ended = []
    for one in arrivals:
        ended += server.advance(one.at)
        server.submit(one)
    return {one.arrival.request_id: one.end for one in ended + server.advance(1000.0)}


def test_more_requests_than_may_be_unfinished_are_turned_away_over_all_ranks():
    server = deployment(engines=2, max_num_seqs=1, max_num_queued_reqs=3)
    ended = ends(server, *(arrival(name, output=5) for name in "abcd"), arrival("late", at=50.0))

    assert {name for name, end in ended.items() if end is End.REFUSED} == {"d"}
    assert server.admission.rejections == {"max_num_queued_reqs": 1}


def test_more_prompt_tokens_than_may_wait_turn_away_what_comes_next():
    # 8 tokens are fewer than 9, so the second is let in; 16 are not, until the first two have a token.
    server = deployment(max_num_seqs=1, max_num_queued_tokens=9)
    ended = ends(server, *(arrival(name, prompt=8) for name in "abc"), arrival("late", at=50.0))

    assert {name for name, end in ended.items() if end is End.REFUSED} == {"c"}
    assert server.admission.rejections == {"max_num_queued_tokens": 1}


def test_requests_that_come_as_one_are_let_in_or_turned_away_together():
    server = deployment(max_num_queued_reqs=3)
    server.submit_all([arrival("a"), arrival("b")])
    server.submit_all([arrival("c"), arrival("d")])
    server.submit(arrival("e"))

    ended = {one.arrival.request_id: one.end for one in server.advance(100.0)}
    assert {name for name, end in ended.items() if end is End.REFUSED} == {"c", "d"}
    assert server.admission.rejections == {"max_num_queued_reqs": 1}


def test_a_new_process_has_turned_nobody_away():
    server = deployment(max_num_queued_reqs=0)
    server.submit(arrival("a"))
    server.restart()

    assert server.admission.rejections == {}


def test_active_requests_can_be_fewer_than_slots():
    server = deployment(max_num_seqs=4, max_num_active_seqs=2)
    for name in "abc":
        server.submit(arrival(name, output=9))
    server.advance(1.5)

    assert (server.samples()[0].running, server.samples()[0].waiting) == (2, 1)
    assert server.engine_limits().max_num_active_seqs == 2


@pytest.mark.parametrize(("active", "message"), [(0, "every limit"), (5, "max_num_active_seqs")])
def test_active_requests_are_at_least_one_and_at_most_the_slots(active, message):
    with pytest.raises(ValueError, match=message):
        limits(max_num_seqs=4, max_num_active_seqs=active)
