from __future__ import annotations

from vllm_observe.join.sessions import Sessions


def test_a_session_is_active_for_a_while_after_its_latest_request():
    sessions = Sessions(active_for=300, limit=10)
    sessions.ended("s1", 100, now=100)
    sessions.ended("s2", 200, now=200)
    sessions.ended("s1", 250, now=250)
    sessions.ended(None, 250, now=250)
    assert sessions.active(250) == 2
    assert sessions.active(500) == 1
    assert sessions.active(550) == 0


def test_requests_that_are_told_out_of_order_do_not_age_a_session():
    sessions = Sessions(active_for=300, limit=10)
    sessions.ended("s1", 1000, now=1000)
    sessions.ended("s1", 100, now=1000)
    assert sessions.active(1000) == 1


def test_a_log_of_yesterday_makes_no_session_active():
    sessions = Sessions(active_for=300, limit=10)
    sessions.ended("s1", 100, now=100_000)
    assert sessions.active(100_000) == 0


def test_another_hosts_clock_cannot_keep_a_session_active_for_longer():
    sessions = Sessions(active_for=300, limit=10)
    sessions.ended("s1", 10_000, now=100)
    assert sessions.active(399) == 1
    assert sessions.active(400) == 0


def test_a_flood_of_sessions_is_bounded_and_counted():
    sessions = Sessions(active_for=300, limit=3)
    for i in range(10):
        sessions.ended(f"s{i}", 100, now=100)
    assert sessions.active(100) == 3
    assert sessions.overflowed == 7


def test_a_forgotten_session_that_was_over_anyway_is_no_overflow():
    sessions = Sessions(active_for=300, limit=1)
    sessions.ended("s1", 100, now=100)
    sessions.ended("s2", 500, now=500)
    assert (sessions.active(500), sessions.overflowed) == (1, 0)
