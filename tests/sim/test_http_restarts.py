from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from support.asgi import CHAT, Ask, Stage
from support.sims import deployment


def answers(stage: Stage) -> float:
    page = stage.get("/metrics").text
    return sum(
        one.value
        for family in text_string_to_metric_families(page)
        for one in family.samples
        if one.name == "http_requests_total"
    )


def test_an_answer_that_a_restart_cut_is_none_of_the_new_process():
    stage = Stage(deployment(load_s=0.0))
    body = {
        "messages": [{"role": "user", "content": "tell"}],
        "max_tokens": 30,
        "ignore_eos": True,
        "stream": True,
    }
    stage.conductor.at(5.0, stage.vllm.control.restart)
    (cut,) = stage.ask_all(Ask(CHAT, body))

    assert cut.status == 200
    assert len(cut.events) < 30
    assert answers(stage) == 0.0
    stage.ask(CHAT, body)
    assert answers(stage) == 1.0
