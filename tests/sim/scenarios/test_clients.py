from __future__ import annotations

import math

import pytest

from support.crowds import always, clients, people, profile, worker
from vllm_observe.sim.prompts import Segment, length
from vllm_observe.sim.scenarios.clients import REACTION_S, Heard
from vllm_observe.sim.scenarios.workloads import Manners, Rate


def ask(crowd, at):
    """The one request that is due at a time."""
    (arrival,) = crowd.due(at)
    return arrival


def test_a_chat_grows_by_its_history_and_waits_for_its_answer_and_its_thoughts():
    crowd = clients(worker())
    first = ask(crowd, 0.0)
    assert length(first.prompt) == 130
    assert (crowd.in_flight, crowd.next_at) == (1, math.inf)

    crowd.hear(first, Heard.ANSWERED, 4.0)
    assert (crowd.in_flight, crowd.next_at) == (0, 7.0)
    second = ask(crowd, 7.0)
    assert second.prompt[:4] == (*first.prompt, Segment(first.answer.content, 5))
    assert length(second.prompt) == 145
    assert (second.session_id, second.request_id) == (first.session_id, "w-1-2")

    crowd.hear(second, Heard.ANSWERED, 9.0)
    assert list(crowd.due(100.0)) == []
    assert crowd.sent == 2


def test_a_request_carries_who_sent_it():
    arrival = ask(clients(worker(outside_s=0.2), prefix="run-"), 0.0)

    assert (arrival.client, arrival.profile, arrival.session_id) == ("c", "small", "run-w-1")
    assert (arrival.outside_s, arrival.max_tokens, arrival.goal) == (0.2, 50, 5)


@pytest.mark.parametrize("how", [Heard.FAILED, Heard.TIMED_OUT])
def test_a_failed_request_is_sent_again_with_its_id_after_ever_longer_pauses(how):
    crowd = clients(worker(manners=Manners(retries=2, backoff_s=1.0)))
    first = ask(crowd, 0.0)

    crowd.hear(first, how, 10.0)
    again = ask(crowd, 11.0)
    assert (again.request_id, again.attempt, again.at, again.prompt) == (
        first.request_id,
        2,
        11.0,
        first.prompt,
    )
    crowd.hear(again, how, 12.0)
    assert crowd.next_at == 14.0
    third = ask(crowd, 14.0)
    crowd.hear(third, how, 15.0)  # it gives the session up; the worker has no other
    assert list(crowd.due(1000.0)) == []
    assert crowd.sent == 3


@pytest.mark.parametrize("how", [Heard.LEFT, Heard.INVALID])
def test_what_no_retry_mends_is_not_sent_again(how):
    crowd = clients(worker(manners=Manners(retries=5)))
    crowd.hear(ask(crowd, 0.0), how, 1.0)

    assert list(crowd.due(1000.0)) == []


def test_no_client_reacts_sooner_than_it_can():
    crowd = clients(worker(profile=profile(think=always(0.0)), manners=Manners(retries=1, backoff_s=0.0)))
    crowd.hear(ask(crowd, 0.0), Heard.FAILED, 5.0)
    assert crowd.next_at == 5.0 + REACTION_S

    crowd.hear(ask(crowd, 6.0), Heard.ANSWERED, 8.0)
    assert crowd.next_at == 8.0 + REACTION_S


def test_workers_keep_so_many_in_flight_until_all_are_done_or_their_time_is_over():
    crowd = clients(worker(at_once=3, sessions=5, profile=profile(turns=always(1)), until=50.0))
    asked = list(crowd.due(0.0))
    assert len(asked) == 3

    crowd.hear(asked[0], Heard.ANSWERED, 1.0)
    crowd.hear(asked[1], Heard.ANSWERED, 1.0)
    asked += crowd.due(2.0)
    assert len({arrival.session_id for arrival in asked}) == 5
    crowd.hear(asked[2], Heard.ANSWERED, 3.0)
    assert list(crowd.due(10.0)) == []

    crowd = clients(worker(until=50.0))
    crowd.hear(ask(crowd, 0.0), Heard.ANSWERED, 60.0)
    assert list(crowd.due(100.0)) == []


def test_an_abusive_session_is_one():
    crowd = clients(worker(at_once=4, sessions=4, one_session=True))

    assert {arrival.session_id for arrival in crowd.due(0.0)} == {"w"}


def test_a_chat_that_outgrows_the_model_ends():
    crowd = clients(worker(profile=profile(turns=always(100))), context=160)
    asked, at = [], 0.0
    while crowd.next_at < math.inf:
        at = crowd.next_at
        asked += (found := list(crowd.due(at)))
        for arrival in found:
            crowd.hear(arrival, Heard.ANSWERED, at + 1.0)

    assert [length(arrival.prompt) for arrival in asked] == [130, 145]


def test_sessions_come_as_often_as_their_rate_says_and_only_in_their_time():
    crowd = clients(people(2.0, since=100.0, until=1100.0))
    at = [arrival.at for arrival in crowd.due(5000.0)]

    assert len(at) == pytest.approx(2000, abs=4 * math.sqrt(2000))
    assert min(at) >= 100.0
    assert max(at) < 1100.0


def test_sessions_follow_the_day():
    rate = Rate(per_s=1.0, swing=0.8, day_s=2000.0, peak_s=500.0)
    at = [arrival.at for arrival in clients(people(1.0, rate=rate, until=2000.0)).due(5000.0)]

    busy = sum(when < 1000.0 for when in at)
    # The means of 1 + 0.8 cos over the two halves are 1 + 1.6/pi and 1 - 1.6/pi.
    assert busy / len(at) == pytest.approx((1 + 1.6 / math.pi) / 2, abs=0.04)


def test_some_leave_and_some_send_too_much():
    manners = Manners(timeout_s=60.0, leaving=0.3, patience=always(4.0), oversized=0.1)
    asked = list(clients(people(10.0, manners=manners, until=200.0)).due(1000.0))

    leaving = [arrival for arrival in asked if arrival.leaves_after_s == 4.0]
    assert len(leaving) / len(asked) == pytest.approx(0.3, abs=0.05)
    assert not any(arrival.times_out for arrival in leaving)
    assert all(arrival.times_out for arrival in asked if arrival.leaves_after_s == 60.0)
    oversized = [arrival for arrival in asked if length(arrival.prompt) > 1000]
    assert len(oversized) / len(asked) == pytest.approx(0.1, abs=0.03)


def test_what_the_way_takes_is_asked_for_each_request():
    crowd = clients(worker(), delay=lambda at: 7.0 if at > 5 else 0.0)
    first = ask(crowd, 0.0)
    crowd.hear(first, Heard.ANSWERED, 4.0)

    assert first.outside_s == 0.01
    assert ask(crowd, 7.0).outside_s == 7.01


def test_what_a_session_says_does_not_depend_on_what_others_wait_for():
    def questions(pause):
        crowd = clients(people(5.0, until=20.0), seed=3)
        found = {}
        for arrival in crowd.due(20.0):
            found[arrival.request_id] = arrival.prompt
            crowd.hear(arrival, Heard.ANSWERED, arrival.at + pause)
        found |= {arrival.request_id: arrival.prompt for arrival in crowd.due(1000.0)}
        return found

    assert questions(1.0) == questions(9.0)


def test_two_sources_of_one_name_are_refused():
    with pytest.raises(ValueError, match="same name"):
        clients(worker(), worker())
