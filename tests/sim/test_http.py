"""The simulated vLLM behind its paths: what clients, scrapers and the plugin see of it, step by step.

Steps take a second each, and the clock moves only when nobody can do anything without.
"""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.asgi import CHAT, COMPLETIONS, Ask, Stage
from support.sims import deployment
from vllm_observe.sim.engine import State


def chat(text="tell me", **values):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 3, "ignore_eos": True, **values}


def text(prompt="once upon a time", **values):
    return {"prompt": prompt, "max_tokens": 3, "ignore_eos": True, **values}


def value(stage, sample, **labels):
    """The sum of a metric's samples on the page, as Prometheus's reference parser reads it."""
    page = stage.get("/metrics").text
    return sum(
        one.value
        for family in text_string_to_metric_families(page)
        for one in family.samples
        if one.name == sample and labels.items() <= one.labels.items()
    )


# --- Tokens and their times


def test_a_stream_brings_each_token_when_its_step_ends():
    got = Stage().ask(CHAT, chat(stream=True))

    # The first chunk says who speaks, with the first token; then a token a step; then the end.
    assert [round(at, 3) for at, _ in got.chunks] == [1.0, 1.0, 2.0, 3.0, 3.0]
    assert got.events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert got.events[-2]["choices"][0]["finish_reason"] == "length"
    assert got.events[-1] == "[DONE]"
    assert got.complete


def test_the_text_of_a_stream_is_that_of_a_whole_answer_and_has_a_word_a_token():
    whole, stream = Stage(), Stage()
    headers = {"X-Request-Id": "same"}
    told = whole.ask(CHAT, chat(max_tokens=9), headers=headers).json["choices"][0]["message"]["content"]
    events = stream.ask(CHAT, chat(max_tokens=9, stream=True), headers=headers).events[1:-1]

    assert "".join(event["choices"][0]["delta"]["content"] for event in events) == told
    assert len(told.split()) == 9


def test_all_answers_of_a_chat_begin_with_the_first_token_of_any():
    """As in the recorded 0.32.0; the second of these has to wait for the first one's slot."""
    got = Stage(deployment(max_num_seqs=1)).ask(CHAT, chat(n=2, stream=True))
    told = [(one["index"], "role" in one["delta"]) for event in got.events[:-1] for one in event["choices"]]

    assert told[:3] == [(0, True), (1, True), (0, False)]
    assert sum(begins for _, begins in told) == 2


def test_usage_in_each_chunk_needs_usage_at_all():
    def usages(**options):
        got = Stage().ask(CHAT, chat(stream=True, stream_options=options))
        return [event.get("usage", {}).get("completion_tokens") for event in got.events[:-1]]

    assert usages(continuous_usage_stats=True) == [None, None, None, None]
    assert usages(continuous_usage_stats=True, include_usage=True) == [0, 1, 2, 3, 3]


def test_prompt_tokens_are_the_words_and_the_roles_of_a_chat():
    # A token for the role, two words, a token for the role of the answer.
    assert Stage().ask(CHAT, chat("tell me")).json["usage"]["prompt_tokens"] == 4
    assert Stage().ask(COMPLETIONS, text("once upon a time")).json["usage"]["prompt_tokens"] == 4


def test_a_next_turn_finds_the_blocks_of_the_turn_before():
    stage = Stage()
    words = "one two three four five six seven eight"
    first = stage.ask(CHAT, chat(words, max_tokens=6)).json["choices"][0]["message"]["content"]
    before = stage.server.engines[0].tally.cached_tokens
    turns = [
        {"role": "user", "content": words},
        {"role": "assistant", "content": first},
        {"role": "user", "content": "and then"},
    ]
    stage.ask(CHAT, {"messages": turns, "max_tokens": 1})

    # 10 tokens of the prompt and 5 of the answer's 6 were computed: 3 full blocks of 4.
    assert (before, stage.server.engines[0].tally.cached_tokens) == (0, 12)


def test_texts_that_begin_alike_share_what_is_alike():
    stage = Stage(deployment(max_num_batched_tokens=64, max_model_len=128, num_gpu_blocks=128))
    same = " ".join(f"word{number}" for number in range(32))
    stage.ask(COMPLETIONS, text(f"{same} and one end"))
    stage.ask(COMPLETIONS, text(f"{same} but another"))

    assert stage.server.engines[0].tally.cached_tokens == 32


def test_the_output_is_what_is_asked_for_or_what_the_model_says_the_same_each_time():
    stage = Stage(deployment(max_model_len=4096, num_gpu_blocks=4096))
    free = {"messages": chat()["messages"]}

    def tokens(body):
        got = stage.ask(CHAT, body, headers={"X-Request-Id": "same"}).json
        return got["usage"]["completion_tokens"], got["choices"][0]["finish_reason"]

    assert tokens(free) == tokens(free)
    assert tokens(free)[1] == "stop"
    assert tokens({**free, "vllm_xargs": {"output_tokens": 7}}) == (7, "stop")
    assert tokens({**free, "vllm_xargs": {"output_tokens": 7}, "max_tokens": 5}) == (5, "length")


def test_many_at_once_queue_for_slots():
    stage = Stage(deployment(max_num_seqs=2))
    got = stage.ask_all(*(Ask(CHAT, chat(stream=True)) for _ in range(6)))

    assert [round(one.chunks[0][0], 3) for one in got] == [1.0, 1.0, 4.0, 4.0, 7.0, 7.0]


def test_the_lower_priority_goes_first_in_the_body_or_from_0_28_in_the_header():
    def order(release, *asked):
        stage = Stage(deployment(max_num_seqs=1, priority_scheduling=True), release=release)
        got = stage.ask_all(Ask(CHAT, chat()), *asked)
        return [one.chunks[-1][0] for one in got[1:]]

    late, early = Ask(CHAT, chat(priority=5)), Ask(CHAT, chat(priority=1))
    by_header = Ask(CHAT, chat(priority=9), headers={"X-Vllm-Priority": "0"})
    first, second = order("0.28.0", late, early)
    assert second < first
    first, second = order("0.28.0", early, by_header)
    assert second < first
    first, second = order("0.27.0", early, by_header)
    assert first < second


# --- Clients that leave


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot_at_once(stream):
    stage = Stage(deployment(max_num_seqs=1))
    left, waited = stage.ask_all(
        Ask(CHAT, chat(max_tokens=40, stream=stream), leaves_after=2.5), Ask(CHAT, chat(stream=True))
    )

    assert not left.complete
    assert waited.chunks[0][0] == pytest.approx(4.0)  # after the step that was under way
    assert value(stage, "vllm:request_success_total") == 1.0
    assert stage.server.engines[0].scheduler.pool.used == 0


def test_a_client_that_leaves_while_the_engine_hangs_is_gone():
    stage = Stage()
    stage.vllm.control.hang()
    (got,) = stage.ask_all(Ask(CHAT, chat(), leaves_after=5.0))

    assert got.status == 0
    assert stage.server.idle


# --- States


def test_a_hung_server_is_healthy_and_its_gauges_stand_still():
    stage = Stage()
    got = stage.ask_all(Ask(CHAT, chat(max_tokens=40, stream=True), leaves_after=100.0), at_most=3.5)
    before = value(stage, "vllm:generation_tokens_total")
    stage.vllm.control.hang()
    stage.pass_time(60.0)

    assert got[0].status == 200
    assert stage.get("/health").status == 200
    assert value(stage, "vllm:generation_tokens_total") == before


def test_a_dead_engine_answers_with_errors_and_is_not_healthy():
    stage = Stage(release="0.32.0")
    stage.vllm.control.crash()
    got = stage.ask(CHAT, chat())

    assert (got.status, got.json["error"]["type"], got.json["error"]["code"]) == (
        500,
        "InternalServerError",
        500,
    )
    assert stage.get("/health").status == 503
    assert Stage(release="0.10.2").get("/health").status == 200


def test_health_of_a_dead_engine_was_500_before_0_11():
    stage = Stage(release="0.10.2")
    stage.vllm.control.crash()

    assert stage.get("/health").status == 500


@pytest.mark.parametrize("stream", [True, False])
def test_a_dead_engine_of_some_releases_answers_200_with_an_error_s_body(stream):
    """As in the recorded 0.16.0: HTTP 200 and JSON, for a stream too, and counted as 2xx."""
    stage = Stage(release="0.16.0")
    stage.vllm.control.crash(200)
    got = stage.ask(CHAT, chat(stream=stream))

    assert (got.status, got.headers["content-type"]) == (200, "application/json")
    assert (got.json["error"]["type"], got.json["error"]["code"]) == ("InternalServerError", 500)
    assert stage.records.of("edge")[0]["outcome"] == "error"
    assert value(stage, "http_requests_total", status="2xx") == 1.0
    assert value(stage, "vllm:request_success_total") == 0.0


def test_an_engine_that_dies_ends_a_stream_with_an_error():
    stage = Stage()
    stage.conductor.at(1.5, stage.vllm.control.crash)
    got = stage.ask(CHAT, chat(max_tokens=40, stream=True))

    assert got.status == 200
    assert got.events[-2]["error"]["code"] == 500
    assert got.events[-1] == "[DONE]"
    assert stage.records.of("edge")[0]["outcome"] == "error"


def test_a_bad_deploy_fails_a_share_of_the_requests():
    stage = Stage()
    stage.vllm.control.fail_share(1.0)

    assert stage.ask(CHAT, chat()).status == 500
    stage.vllm.control.fail_share(0.0)
    assert stage.ask(CHAT, chat()).status == 200


def test_a_full_queue_is_unavailable_for_all_answers_to_a_request():
    stage = Stage(deployment(max_num_queued_reqs=2))
    one, three = stage.ask_all(Ask(CHAT, chat()), Ask(CHAT, chat(n=3)))

    assert (one.status, three.status) == (200, 503)
    assert three.json["error"]["type"] == "Service Unavailable"
    assert value(stage, "vllm:admission_rejections_total", reason="max_num_queued_reqs") == 1.0
    assert stage.records.of("edge")[0]["outcome"] == "rejected"


def test_a_scrape_can_fail_or_take_long_while_requests_are_served():
    stage = Stage()
    stage.vllm.control.fail_scrape(fails=True)
    assert stage.get("/metrics").status == 500
    assert stage.ask(CHAT, chat()).status == 200
    stage.vllm.control.fail_scrape(fails=False)
    stage.vllm.control.slow_scrape(20.0)
    before = stage.conductor.now

    assert stage.get("/metrics").status == 200
    assert stage.conductor.now - before == pytest.approx(20.0)


def test_development_mode_sleeps_and_wakes_and_tells_the_limits():
    stage = Stage(deployment(max_num_seqs=3), development=True)
    stage.ask("/sleep?level=1")
    assert stage.get("/is_sleeping").json == {"is_sleeping": True}
    assert value(stage, "vllm:engine_sleep_state", sleep_state="awake") == 0.0
    assert stage.server.engines[0].state is State.SLEEPING
    stage.ask("/wake_up")
    assert stage.ask(CHAT, chat()).status == 200

    told = stage.get("/server_info?config_format=json").json["vllm_config"]
    assert told["scheduler_config"]["max_num_seqs"] == 3
    assert told["model_config"]["max_model_len"] == 64
    assert "max_num_seqs" not in stage.get("/server_info").text


def test_without_development_mode_there_is_none_of_it():
    stage = Stage()

    assert [stage.get(path).status for path in ("/server_info", "/is_sleeping")] == [404, 404]
    assert stage.ask("/sleep").status == 404


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics"])
def test_a_page_is_had_by_get_alone(path):
    got = Stage().ask(path, method="HEAD")

    assert (got.status, got.headers["allow"]) == (405, "GET")


def test_a_browser_may_ask_from_anywhere():
    asks = {"Origin": "https://chat.example.com", "Access-Control-Request-Method": "POST"}
    got = Stage().ask(CHAT, method="OPTIONS", headers=asks)

    assert (got.status, got.headers["access-control-allow-origin"]) == (200, "*")
    assert Stage().ask(CHAT, method="OPTIONS").status == 405


def test_metrics_are_there_with_a_slash_behind_too():
    """No release redirects there: the second is a mount."""
    got = Stage().get("/metrics/")

    assert got.status == 200
    assert "vllm:num_requests_running" in got.text


# --- Releases


def test_an_error_had_no_object_of_its_own_before_0_10_1():
    old, new = (
        Stage(release=release).ask(CHAT, chat(model="gpt-9")).json for release in ("0.10.0", "0.10.1")
    )

    assert (old["object"], old["code"], old["type"]) == ("error", 404, "NotFoundError")
    assert new == {
        "error": {"message": old["message"], "type": "NotFoundError", "param": "model", "code": 404}
    }


def test_a_prompt_and_its_output_must_fit_until_outputs_are_cut():
    long = chat(max_tokens=62)

    assert Stage(release="0.24.0").ask(CHAT, long).status == 400
    assert Stage(release="0.32.0").ask(CHAT, long).json["usage"]["completion_tokens"] == 60


def test_request_ids_are_taken_as_each_release_does():
    def told(release, path, body, **headers):
        return Stage(release=release).ask(path, body, headers=headers).json["id"]

    header = {"X-Request-Id": "abc"}
    assert told("0.32.0", CHAT, chat(), **header) == "chatcmpl-abc"
    assert told("0.32.0", COMPLETIONS, text(), **header) == "cmpl-abc"
    assert told("0.32.0", CHAT, chat(request_id="body"), **header) == "chatcmpl-abc"


def test_the_server_s_own_header_of_ids_knows_nothing_of_the_request_s():
    """Without the middleware in front, which gives each request an id."""
    stage = Stage(request_id_headers=True, release="0.10.0")
    got = stage.ask(CHAT, chat(), headers={"X-Request-Id": "abc"})

    assert got.headers["x-request-id"] == "abc"


def test_a_model_that_is_not_served_is_not_found_and_an_adapter_is_a_model():
    stage = Stage(deployment(max_loras=2), adapters=("tuned",))

    assert stage.ask(CHAT, chat(model="tiny")).status == 200
    assert stage.ask(CHAT, chat(model="tuned")).json["model"] == "tuned"
    assert stage.ask(CHAT, chat(model="other")).status == 404
    assert [card["id"] for card in stage.get("/v1/models").json["data"]] == ["tiny", "tuned"]
    assert value(stage, "vllm:lora_requests_info", running_lora_adapters="tuned") > 1.8e9


# --- What the plugin writes, and what is counted


def test_the_plugin_tells_of_a_request_from_both_sides():
    stage = Stage(release="0.32.0")
    stage.ask(
        COMPLETIONS,
        text(n=1, stream=True),
        headers={"X-Request-Id": "abc", "X-Session-ID": "s", "X-Profile": "coder", "X-Client-Id": "c"},
    )
    (edge,), (inside,), (limits,) = (stage.records.of(kind) for kind in ("edge", "engine", "limits"))

    assert (edge["request_id"], edge["session_id"], edge["profile"], edge["client"]) == (
        "abc",
        "s",
        "coder",
        "c",
    )
    assert (edge["ttft_s"], edge["duration_s"], edge["outcome"]) == (
        pytest.approx(1.0, abs=1e-3),
        pytest.approx(3.0, abs=1e-3),
        "ok",
    )
    assert (edge["prompt_tokens"], edge["completion_tokens"]) == (4, 3)
    assert (inside["request_id"], inside["engine"], inside["model"]) == ("cmpl-abc-0", "0", "tiny")
    assert (inside["prefill_s"], inside["decode_s"], inside["cached_tokens"]) == (1.0, 2.0, 0)
    assert (limits["max_num_seqs"], limits["block_size"], limits["vllm_version"]) == (4, 4, "0.32.0")
    assert stage.records.of("sample")[0]["running"] == 1


def test_the_plugin_knows_what_its_release_tells():
    def engine_records(release):
        stage = Stage(release=release)
        stage.ask(CHAT, chat())
        return stage.records.of("engine"), stage.records.of("limits"), stage.records.of("edge")

    assert [len(each) for each in engine_records("0.11.0.post2")] == [0, 0, 1]
    assert [len(each) for each in engine_records("0.11.1")] == [0, 1, 1]
    assert "preemptions" not in engine_records("0.20.0")[0][0]
    assert engine_records("0.30.0")[0][0]["preemptions"] == 0


@pytest.mark.parametrize(
    ("body", "headers", "session"),
    [
        ({"session_id": "body"}, {"X-Session-ID": "header"}, "body"),
        ({"vllm_xargs": {"session_id": "argument"}}, {"X-Session-ID": "header"}, "header"),
        ({"vllm_xargs": {"session_id": "argument"}}, {}, "argument"),
    ],
)
def test_the_session_is_the_one_that_vllm_finds(body, headers, session):
    stage = Stage(release="0.28.0")
    stage.ask(CHAT, chat(**body), headers=headers)

    assert stage.records.of("edge")[0]["session_id"] == session


def test_a_log_that_stops_loses_what_comes_meanwhile():
    stage = Stage()
    stage.vllm.control.stop_log(stopped=True)
    stage.ask(CHAT, chat(), headers={"X-Request-Id": "lost"})
    stage.vllm.control.stop_log(stopped=False)
    stage.ask(CHAT, chat(), headers={"X-Request-Id": "kept"})

    assert [one["request_id"] for one in stage.records.of("edge")] == ["kept"]


def test_answers_are_counted_once_by_path_and_class():
    stage = Stage()
    stage.ask(CHAT, chat(n=3))
    stage.ask(CHAT, chat(stream=True))
    stage.ask(CHAT, b"{")
    stage.get("/v1/models")
    stage.get("/nowhere")
    stage.get("/health")

    def count(**labels):
        return value(stage, "http_requests_total", **labels)

    assert count(handler=CHAT, status="2xx", method="POST") == 2.0
    assert count(handler=CHAT, status="4xx") == 1.0
    assert count(handler="/v1/models", method="GET") == 1.0
    assert count(handler="none", status="4xx") == 1.0
    assert count() == 5.0
    assert value(stage, "vllm:request_success_total") == 4.0
    assert value(stage, "http_request_duration_seconds_sum", handler=CHAT) == pytest.approx(6.0, abs=0.1)


def test_a_new_process_counts_from_zero_and_writes_its_limits_again():
    stage = Stage()
    stage.ask(CHAT, chat())
    stage.vllm.control.restart()
    stage.ask(CHAT, chat())

    assert value(stage, "http_requests_total", handler=CHAT) == 1.0
    assert len(stage.records.of("limits")) == 2


def test_a_swap_lets_what_runs_end_in_the_process_before():
    stage = Stage()
    stage.conductor.at(1.5, stage.vllm.control.swap)
    got = stage.ask(CHAT, chat(max_tokens=5, stream=True))

    assert got.complete
    assert len(got.events) == 7
    assert value(stage, "vllm:request_success_total") == 0.0  # the process that counted it is gone


# --- Hostile input


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe",
        b"[" * 100_000,
        {"messages": [{"role": "user"}], "max_tokens": 10**30},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": None}, {}]}], "max_tokens": 1},
        {"messages": [{"role": "\u0000", "content": "\ud83d\ude00 \u2028"}], "max_tokens": 1},
        {"messages": [{"role": "user", "content": "x"}], "n": 10**6},
        {
            "messages": [{"role": "user", "content": "x"}],
            "vllm_xargs": {"output_tokens": -1},
            "max_tokens": 1,
        },
        {
            "messages": [{"role": "user", "content": "x"}],
            "vllm_xargs": {"output_tokens": 10**12},
            "max_tokens": 1,
        },
    ],
)
def test_whatever_comes_has_an_answer_and_leaves_nothing_behind(body):
    stage = Stage()
    got = stage.ask(CHAT, body)

    assert got.status in {200, 400}
    assert stage.server.idle
    assert stage.server.engines[0].scheduler.pool.used == 0


@pytest.mark.parametrize("prompt", [[], [[]], [1.5], [None], {"a": 1}, ["a", 1], [[1], "b"], 7])
def test_a_prompt_is_texts_or_token_ids(prompt):
    assert Stage().ask(COMPLETIONS, {"prompt": prompt, "max_tokens": 1}).status in {200, 400}


def test_an_error_never_repeats_what_the_client_wrote():
    got = Stage().ask(CHAT, {"messages": "my secret", "max_tokens": "another secret"})

    assert got.status == 400
    assert "secret" not in got.text
