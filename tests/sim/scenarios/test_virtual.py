from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import pytest

from support.crowds import always, profile, worker
from support.sims import SECOND, limits
from support.staged import play
from vllm_observe.records.format1 import decode
from vllm_observe.sim.scenarios.hurry import hurried
from vllm_observe.sim.scenarios.incidents import Deed, Incident
from vllm_observe.sim.scenarios.registry import SCENARIOS
from vllm_observe.sim.scenarios.scenario import Scenario
from vllm_observe.sim.scenarios.virtual import Told, play_scenario
from vllm_observe.sim.scenarios.workloads import Manners

SHORT = hurried(SCENARIOS["retry-storm"], before=10.0, during=20.0, after=5.0)
DIGEST = """
import hashlib
from vllm_observe.sim.labels import label_line
from vllm_observe.sim.scenarios.hurry import hurried
from vllm_observe.sim.scenarios.registry import SCENARIOS
from vllm_observe.sim.scenarios.virtual import Told, play_scenario
short = hurried(SCENARIOS["retry-storm"], before=10.0, during=20.0, after=5.0)
told = [label_line(one.label) for one in play_scenario(short, seed=5) if isinstance(one, Told)]
print(len(told), hashlib.sha256(b"".join(told)).hexdigest())
"""


def scenario(*sources, seconds=60.0, incidents=(), **values) -> Scenario:
    """One engine with steps of a second, four slots, and little room."""
    return Scenario(
        name="small",
        summary="",
        shows="",
        limits=limits(
            **{"max_model_len": 200, "max_num_batched_tokens": 256, "num_gpu_blocks": 400, **values}
        ),
        cost=SECOND,
        workload=sources,
        seconds=seconds,
        incidents=incidents,
        load_s=5.0,
    )


def requests(*sources, **values):
    """What becomes of each attempt: its id, when it was sent, and when it ended."""
    told = play_scenario(scenario(*sources, **values), epoch=0.0, release=None)
    return [
        (one.ended.arrival.request_id, one.ended.arrival.at, one.ended.at)
        for one in told
        if isinstance(one, Told)
    ]


def test_a_client_thinks_from_the_moment_of_its_answer():
    """Steps of a second: an answer of five tokens ends after five steps, the thought takes three."""
    assert requests(worker(outside_s=0.0)) == [("w-1-1", 0.0, 5.0), ("w-1-2", 8.0, 13.0)]


def test_a_client_that_gives_up_tries_again_at_once_where_nothing_else_happens():
    manners = Manners(timeout_s=2.5, retries=2, backoff_s=1.0)

    assert requests(worker(manners=manners, outside_s=0.0)) == [
        ("w-1-1", 0.0, 2.5),
        ("w-1-1", 3.5, 6.0),
        ("w-1-1", 8.0, 10.5),
    ]


def test_a_refused_client_reacts_to_that_too():
    deeds = (Deed(1.0, lambda it: it.restart()),)  # which loads for five seconds
    incident = Incident(name="restart", start=1.0, end=2.0, deeds=deeds)
    one_turn = worker(
        profile=profile(turns=always(1)), manners=Manners(retries=3, backoff_s=2.0), outside_s=0.0
    )

    assert requests(one_turn, incidents=(incident,)) == [
        ("w-1-1", 0.0, 1.0),
        ("w-1-1", 3.0, 3.0),
        ("w-1-1", 7.0, 12.0),
    ]


def test_a_delay_holds_requests_up_while_its_incident_lasts():
    incident = Incident(name="slow app", start=7.0, end=9.0, delay_s=4.0)

    assert requests(worker(outside_s=0.0), incidents=(incident,))[1] == ("w-1-2", 8.0, 17.0)


@pytest.mark.parametrize("release", [None, "0.32.0"])
def test_the_same_seed_plays_the_same_and_another_does_not(release):
    first, again, other = (play(SHORT, seed=seed, release=release) for seed in (1, 1, 2))

    def told(stage):
        return [
            (one.label, one.lines) if isinstance(one, Told) else (one.at, one.page, one.samples)
            for one in stage.told
        ]

    assert told(first) == told(again)
    assert told(first) != told(other)


def test_another_process_plays_the_same():
    def digest(hash_seed):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True
        )
        return run.stdout

    assert digest("1") == digest("2")
    assert int(digest("1").split()[0]) > 20


def test_what_is_told_is_in_the_order_of_time_and_scraped_on_time():
    stage = play(SHORT)
    ends = [one.ended.at for one in stage.part().ends]

    assert all(one <= other for one, other in pairwise(ends))
    assert [scrape.at for scrape in stage.part().scrapes] == [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0]


def test_the_lines_are_records_that_the_product_reads():
    stage = play(SHORT)
    for one in stage.part().ends:
        app, middleware = decode(one.lines.app.rstrip()), decode(one.lines.middleware.rstrip())
        assert app.request_id == middleware.request_id == one.label.request_id
        assert app.duration_s >= middleware.duration_s
        assert app.client == middleware.client
        if one.lines.engine is not None:
            inside = decode(one.lines.engine.rstrip())
            assert inside.request_id.removeprefix("chatcmpl-") == app.request_id
            assert inside.e2e_s <= middleware.duration_s + 1e-6


def test_a_time_limit_is_the_app_s_word_and_for_the_server_one_that_left():
    manners = Manners(timeout_s=2.5)
    told = play_scenario(scenario(worker(manners=manners)), release=None)
    (one,) = [found for found in told if isinstance(found, Told)]

    assert decode(one.lines.app.rstrip()).outcome.value == "timeout"
    assert decode(one.lines.middleware.rstrip()).outcome.value == "abort"
    assert one.lines.engine is None


def test_a_page_is_there_only_while_a_process_serves_it():
    loading = replace(scenario(worker(), seconds=12.0), starting=True)
    told = [one for one in play_scenario(loading, epoch=0.0) if not isinstance(one, Told)]

    assert [(one.at, one.answers, bool(one.page)) for one in told] == [(5.0, True, True), (10.0, True, True)]
    loading = replace(loading, load_s=6.0)
    told = [one for one in play_scenario(loading, epoch=0.0) if not isinstance(one, Told)]
    assert [(one.at, one.answers, one.limits is None) for one in told] == [
        (5.0, False, True),
        (10.0, True, False),
    ]
