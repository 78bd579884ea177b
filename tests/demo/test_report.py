from __future__ import annotations

import pytest

from http_double import http_double, raw, whole
from vllm_observe.demo.report import Page, PageReader
from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.model import Cause

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def page(*lines: str) -> Page:
    body = "\n".join([*lines, "# EOF", ""]).encode()
    return Page(ExpositionParser().parse(body, OPENMETRICS).families)


def engine(number: int = 0, *, running: int = 8, waiting: int = 16, kv_usage: float = 0.681) -> list[str]:
    labels = f'{{model_name="tiny",engine="{number}"}}'
    return [
        f"vllm:num_requests_running{labels} {running}",
        f"vllm:num_requests_waiting{labels} {waiting}",
        f"vllm:kv_cache_usage_perc{labels} {kv_usage}",
    ]


def limits(number: int = 0, *, slots: int = 8, binding: str = "slots") -> list[str]:
    labels = f'model_name="tiny",engine="{number}"'
    return [
        f"vllm_observe_max_num_seqs{{{labels}}} {slots}",
        *(
            f'vllm_observe_binding_limit{{{labels},limit="{limit}"}} {int(limit == binding)}'
            for limit in ("slots", "kv", "none")
        ),
    ]


REQUESTS = [
    "# TYPE vllm_observe_requests counter",
    'vllm_observe_requests_total{model_name="tiny",profile="coder",outcome="ok"} 30',
    'vllm_observe_requests_total{model_name="tiny",profile="assistant",outcome="ok"} 12',
    'vllm_observe_requests_total{model_name="tiny",profile="assistant",outcome="error"} 1',
    'vllm_observe_requests_total{model_name="tiny",profile="assistant",outcome="abort"} 0',
]
SLOW = [
    "# TYPE vllm_observe_slow_requests counter",
    'vllm_observe_slow_requests_total{model_name="tiny",profile="coder",cause="queue_slots"} 20',
    'vllm_observe_slow_requests_total{model_name="tiny",profile="assistant",cause="queue_slots"} 7',
    'vllm_observe_slow_requests_total{model_name="tiny",profile="assistant",cause="client_error"} 1',
    'vllm_observe_slow_requests_total{model_name="tiny",profile="assistant",cause="unknown"} 0',
]
TTFT = [
    "# TYPE vllm_observe_request_ttft_seconds histogram",
    'vllm_observe_request_ttft_seconds_bucket{le="2.0"} 20 # {request_id="r-1",session_id="s-1"} 1.9',
    'vllm_observe_request_ttft_seconds_bucket{le="+Inf"} 28 # {request_id="r-2",session_id="s-2"} 2.34',
    "vllm_observe_request_ttft_seconds_count 28",
]


def test_a_line_tells_of_the_engine_against_its_limits_and_of_the_causes():
    assert page(*engine(), *limits(), *REQUESTS, *SLOW).now == (
        "running 8/8, bound by slots, 16 waiting, KV 68 %; slow or failed 28: 27 queue_slots, 1 client_error"
    )


def test_what_the_page_does_not_tell_is_not_told_as_zero():
    line = page('vllm:num_requests_running{model_name="tiny",engine="0"} 3').now
    assert line == "running 3/?, ? waiting, KV ? %"


def test_engines_are_told_apart():
    line = page(*engine(0), *engine(1, running=2, waiting=0), *limits(0), *limits(1, binding="none")).now
    assert line == (
        "engine 0: running 8/8, bound by slots, 16 waiting, KV 68 %; engine 1: running 2/8, 0 waiting, KV 68 %"
    )


def test_without_an_engine_it_says_why():
    failures = 'vllm_observe_scrape_failures_total{reason="connection"} 3'
    assert page("# TYPE vllm_observe_scrape_failures counter", failures).now == (
        "no engine state: failed scrapes 3: 3 connection"
    )
    assert page("vllm_observe_scrape_success 0").now == "no engine state yet"


def test_the_summary_says_whose_and_why_and_names_one_request():
    assert list(page(*REQUESTS, *SLOW, *TTFT).summary) == [
        "requests 43: 42 ok, 1 error",
        "slow or failed 28: 27 queue_slots, 1 client_error",
        "whose and why: 27 requests (20 coder, 7 assistant) waited while every slot was taken (queue_slots)",
        "one to look at: r-2 of session s-2, whose first token took 2.3 s",
    ]


def test_a_summary_of_nothing_says_so():
    assert list(page("vllm_observe_scrape_success 1").summary) == ["no request has ended yet"]


def test_a_summary_without_trouble_names_none():
    assert list(page(*REQUESTS).summary) == ["requests 43: 42 ok, 1 error", "slow or failed 0"]


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_can_be_told(cause):
    slow = f'vllm_observe_slow_requests_total{{model_name="",profile="",cause="{cause.value}"}} 2'
    told = list(page(*REQUESTS, "# TYPE vllm_observe_slow_requests counter", slow).summary)
    assert told[-1].startswith("whose and why: 2 requests (2 of no profile) ")
    assert told[-1].endswith(f"({cause.value})")


def test_a_profile_cannot_move_the_cursor_nor_fill_the_screen():
    slow = SLOW[1].replace("coder", "\x1b[2J" + "x" * 500)
    (line,) = (line for line in page(*REQUESTS, SLOW[0], slow).summary if "whose" in line)
    assert line.isprintable()
    assert len(line) < 150


def test_the_reader_reads_a_sidecars_page():
    with http_double() as server:
        body = "\n".join([*engine(), "# EOF", ""]).encode()
        server.answers["/metrics"] = whole(body, content_type=OPENMETRICS)
        assert PageReader(f"{server.url}/metrics").read().engines[0].running == 8
    assert "openmetrics" in server.asked[0].headers["accept"]


def test_a_page_that_is_not_there_is_none():
    with http_double() as server:
        reader = PageReader(f"{server.url}/metrics")
        for answer in (whole(b"oops", status=500), whole(b"vllm_x 1\n", content_type=OPENMETRICS), raw(b"")):
            server.answers["/metrics"] = answer
            assert reader.read() is None
    assert reader.read() is None
