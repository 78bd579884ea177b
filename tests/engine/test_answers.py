from __future__ import annotations

import pytest

from support.engines import capture, families, sample
from vllm_observe.engine.answers import AnswerWatch, generation_answers
from vllm_observe.engine.sampling import engine_samples
from vllm_observe.model import Family

CHAT = "/v1/chat/completions"


def http(*rows: tuple[str, str, float], method: str = "POST") -> list[Family]:
    """The answers of a server: handler, status and count."""
    lines = [
        f'http_requests_total{{handler="{handler}",method="{method}",status="{status}"}} {count}'
        for handler, status, count in rows
    ]
    return families("# TYPE http_requests_total counter\n" + "".join(line + "\n" for line in lines))


def verdicts(*scrapes: tuple[dict[str, float], list[Family]]) -> list[bool | None]:
    """What is said after each scrape of an engine's fields and the server's answers."""
    watch, seen = AnswerWatch(), []
    for fields, answers in scrapes:
        watch.observe([sample(**{"running": 0.0, "waiting": 0.0} | fields)], answers)
        seen.append(watch.without_tokens)
    return seen


NOTHING = {"prompt_tokens": 0.0, "generation_tokens": 0.0, "finished": 0.0}


def some(tokens: float) -> dict[str, float]:
    return {"prompt_tokens": tokens, "generation_tokens": tokens, "finished": 1.0}


# --- counting answers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("vllm-0.16.0-engine-dead/metrics.prom", 5.0),
        ("vllm-0.32.0/saturated.prom", 40.0),
        ("vllm-0.32.0/idle.prom", None),  # nothing was answered yet
    ],
)
def test_the_answers_of_a_real_server_are_counted(name, answers):
    assert generation_answers(capture(name)) == answers


def test_only_good_answers_of_the_generating_paths_count():
    found = http(
        (CHAT, "2xx", 3),
        ("/v1/completions", "200", 2),
        (CHAT, "4xx", 50),
        (CHAT, "5xx", 50),
        ("/v1/embeddings", "2xx", 50),
        ("/v1/models", "2xx", 50),
        ("none", "2xx", 50),
    )
    assert generation_answers(found) == 5.0


def test_a_browsers_question_before_its_request_does_not_count():
    assert generation_answers(http((CHAT, "2xx", 3), method="OPTIONS")) == 0.0


def test_a_number_that_no_counter_has_does_not_count():
    assert generation_answers(http((CHAT, "2xx", float("nan")), ("/generate", "2xx", 2))) == 2.0


def test_answers_that_are_not_told_apart_by_path_are_not_known():
    assert generation_answers(http(("none", "2xx", 9))) is None


# --- the verdict --------------------------------------------------------------------------------


def test_a_real_dead_engine_that_answers_is_known_at_the_first_scrape():
    found = capture("vllm-0.16.0-engine-dead/metrics.prom")
    watch = AnswerWatch()
    watch.observe(engine_samples(found, at=0.0), found)
    assert watch.without_tokens is True


@pytest.mark.parametrize(
    "name",
    [
        "vllm-0.32.0/saturated.prom",
        "vllm-0.32.0/data-parallel-2.prom",
        "vllm-0.9.2-v1/after.prom",
    ],
)
def test_a_real_healthy_server_is_not_called_dead(name):
    found = capture(name)
    watch = AnswerWatch()
    for _ in range(3):
        watch.observe(engine_samples(found, at=0.0), found)
        assert watch.without_tokens is False


def test_a_real_server_that_was_not_asked_yet_is_not_judged():
    found = capture("vllm-0.32.0/idle.prom")
    watch = AnswerWatch()
    watch.observe(engine_samples(found, at=0.0), found)
    assert watch.without_tokens is None


def test_an_engine_that_is_dead_from_the_start_is_known_by_its_first_answers():
    assert verdicts((NOTHING, []), (NOTHING, http((CHAT, "2xx", 2))), (NOTHING, http((CHAT, "2xx", 3)))) == [
        None,
        False,
        True,
    ]


def test_an_engine_that_dies_after_it_served_is_known_by_the_answers_since():
    assert verdicts(
        (some(90), http((CHAT, "2xx", 40))),
        (some(95), http((CHAT, "2xx", 41))),
        (some(95), http((CHAT, "2xx", 43))),
        (some(95), http((CHAT, "2xx", 45))),
        (some(95), http((CHAT, "2xx", 46))),
    ) == [False, False, False, False, True]


def test_answers_whose_tokens_were_counted_just_before_them_are_not_held_against_the_engine():
    assert verdicts(
        (some(90), http((CHAT, "2xx", 2))),
        (some(90), http((CHAT, "2xx", 10))),
        (some(90), http((CHAT, "2xx", 10))),
    ) == [False, False, False]


def test_answers_that_leave_after_the_last_request_ran_are_not_held_against_the_engine():
    assert verdicts(
        (some(90) | {"running": 8.0}, http((CHAT, "2xx", 2))),
        (some(90), http((CHAT, "2xx", 10))),
        (some(90), http((CHAT, "2xx", 10))),
    ) == [False, False, False]


def test_one_token_more_clears_the_verdict():
    assert verdicts((NOTHING, http((CHAT, "2xx", 5))), (some(1), http((CHAT, "2xx", 6)))) == [True, False]


def test_answers_while_there_is_work_may_be_those_of_clients_that_left():
    queue = {"waiting": 3.0}
    assert verdicts(
        (some(90), http((CHAT, "2xx", 40))),
        (some(90) | queue, http((CHAT, "2xx", 45))),
        (some(90), http((CHAT, "2xx", 45))),
    ) == [False, False, False]


def test_a_server_that_refuses_everything_is_not_the_engines_fault():
    assert verdicts((NOTHING, http((CHAT, "4xx", 50), (CHAT, "5xx", 50)))) == [False]


def test_a_server_for_embeddings_makes_no_generated_token():
    embedded = {"prompt_tokens": 70.0, "generation_tokens": 0.0, "finished": 9.0}
    assert verdicts((embedded, http(("/v1/embeddings", "2xx", 9)))) == [False]


def test_a_server_that_answered_once_and_whose_client_left_is_not_called_dead():
    assert verdicts((NOTHING, http((CHAT, "2xx", 2)))) == [False]


def test_nothing_is_said_without_counted_answers():
    assert verdicts((NOTHING, []), (some(5), [])) == [None, None]


def test_nothing_is_said_without_token_counters():
    assert verdicts(({}, http((CHAT, "2xx", 50)))) == [None]


def test_answers_that_were_missing_from_a_scrape_are_counted_from_when_they_are_back():
    assert verdicts(
        (some(5), []), (some(6), []), (some(6), http((CHAT, "2xx", 50))), (some(6), http((CHAT, "2xx", 53)))
    ) == [
        None,
        None,
        False,
        True,
    ]


def test_one_rank_that_makes_tokens_speaks_for_the_server():
    watch = AnswerWatch()
    for made in (1.0, 2.0):
        watch.observe(
            [sample(key=("m", "0"), **NOTHING), sample(key=("m", "1"), **some(made))],
            http((CHAT, "2xx", 40 * made)),
        )
    assert watch.without_tokens is False
