"""Engine parts that do not tell how their request ended: never taken for a good end."""

from __future__ import annotations

import pytest

from support.joins import WINDOW, Desk, edge, engine
from vllm_observe.model import Outcome, Parts

UNKNOWN = [None, "a new one"]


@pytest.mark.parametrize("reason", UNKNOWN)
def test_alone_they_are_no_request(reason):
    desk = Desk()
    assert desk.join(engine(finish_reason=reason)) == []
    assert desk.after(WINDOW) == []


@pytest.mark.parametrize("reason", UNKNOWN)
@pytest.mark.parametrize("outcome", Outcome)
def test_beside_an_edge_record_they_tell_the_phases_and_it_tells_the_outcome(reason, outcome):
    part = engine(finish_reason=reason, queue_s=1.0, prefill_s=1.0, decode_s=2.0)
    (request,) = Desk().join(edge(outcome=outcome), part)
    assert (request.outcome, request.parts) == (outcome, Parts.BOTH)
    assert request.phases.queue == 1.0


def test_beside_a_part_that_was_cut_off_they_undo_nothing():
    (request,) = Desk().join(engine(finish_reason="abort"), engine(finish_reason=None, took=3.0))
    assert request.outcome is Outcome.ABORT


def test_a_source_that_tells_of_good_ends_only_needs_no_reason():
    (request,) = Desk().join(engine(finish_reason=None, completed=True))
    assert request.outcome is Outcome.OK
