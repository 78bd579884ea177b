"""The pipeline through its real parts: a vLLM's page over HTTP, request logs on disk, the page it serves."""

from __future__ import annotations

import json
import lzma
from datetime import datetime
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from http_double import http_double, raw, silence, whole
from vllm_observe.clock import ManualClock
from vllm_observe.config import RequestLog, Settings
from vllm_observe.errors import ConfigError
from vllm_observe.join.joiner import SETTLE_S
from vllm_observe.pipeline import Pipeline
from vllm_observe.records.otlp import Encoding
from vllm_observe.serve.render import Format

CAPTURES = Path(__file__).parent / "data" / "captures"
CASES = Path(__file__).parent / "data" / "cases"
SATURATED = (CAPTURES / "vllm-0.32.0" / "saturated.prom").read_bytes()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def vllm():
    with http_double() as server:
        server.answers["/metrics"] = whole(SATURATED, content_type="text/plain; version=1.0.0")
        yield server


@pytest.fixture
def log(tmp_path):
    return tmp_path / "app.jsonl"


@pytest.fixture
def observe(vllm, log, clock):
    made = []

    def make(**settings) -> Pipeline:
        settings = {"vllm_url": vllm.url, "request_logs": [RequestLog(path=str(log))], **settings}
        pipeline = Pipeline(Settings(**settings), clock=clock)
        made.append(pipeline)
        return pipeline

    yield make
    for pipeline in made:
        pipeline.stop_scraping()
        pipeline.drain(within=1)


def samples(pipeline: Pipeline) -> dict[str, float]:
    """The page as prometheus_client's strict parser reads it."""
    page = pipeline.page(Format.OPENMETRICS_1_0).decode()
    return {
        sample.name
        + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def follow(pipeline: Pipeline, clock: ManualClock) -> None:
    """Read the logs, and wait as long as a request without an engine's record waits for another part."""
    pipeline.follow()
    clock.advance(SETTLE_S)
    pipeline.follow()


def write(log: Path, *records: dict) -> None:
    with log.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def test_engine_state_and_requests_meet_on_one_page(observe, log, clock):
    pipeline = observe(max_num_seqs=8)
    pipeline.scrape()
    clock.advance(4)
    write(
        log,
        {
            "ts": clock.wall(),
            "request_id": "a-1",
            "session_id": "s",
            "profile": "assistant",
            "status": 200,
            "stream": True,
            "duration_s": 3.9,
            "ttft_s": 3.1,
            "prompt_tokens": 12,
            "completion_tokens": 20,
        },
    )
    follow(pipeline, clock)
    page = samples(pipeline)
    assert page["vllm:num_requests_running engine=0 model_name=tiny"] == 8
    assert page["vllm_observe_sequence_utilization_ratio engine=0 model_name=tiny"] == 1.0
    assert page["vllm_observe_binding_limit engine=0 limit=slots model_name=tiny"] == 1
    assert page["vllm_observe_requests_total model_name=tiny outcome=ok profile=assistant"] == 1
    assert page["vllm_observe_slow_requests_total cause=queue_slots model_name=tiny profile=assistant"] == 1
    assert page["vllm_observe_request_tokens_total kind=completion model_name=tiny profile=assistant"] == 20
    assert page["vllm_observe_active_sessions"] == 1
    assert page["vllm_observe_log_lines_total"] == 1


def test_no_request_or_session_id_is_ever_a_label_value(observe, log, clock):
    pipeline = observe()
    pipeline.scrape()
    write(
        log,
        {"ts": clock.wall(), "request_id": "id-7f", "session_id": "sess-7f", "status": 200, "duration_s": 1},
    )
    follow(pipeline, clock)
    page = pipeline.page(Format.TEXT_0_0_4).decode()
    assert "id-7f" not in page
    assert "sess-7f" not in page


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (whole((CASES / "06-up-but-nothing" / "a_python_only_200.prom").read_bytes()), "no_vllm_metrics"),
        (whole(b"", status=401), "auth"),
        (whole(b"", status=302, location="http://elsewhere.example/metrics"), "redirect"),
        (whole(b"oops", status=500), "http_server"),
        (whole(b"<html>hello</html>"), "malformed"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n# TYPE a gauge\na 1\n"), "truncated"),
        (silence, "timeout"),
        (whole(b"x" * 3000), "too_large"),
    ],
)
def test_each_failure_of_a_scrape_is_counted_by_its_reason_and_takes_nothing_else_along(  # noqa: PLR0917
    observe, vllm, log, clock, answer, reason
):
    pipeline = observe(scrape_timeout=0.3, scrape_max_bytes=2000)
    vllm.answers["/metrics"] = answer
    pipeline.scrape()
    write(log, {"ts": clock.wall(), "request_id": "r", "model": "m", "status": 200, "duration_s": 0.1})
    follow(pipeline, clock)
    page = samples(pipeline)
    assert page["vllm_observe_scrape_success"] == 0
    assert page[f"vllm_observe_scrape_failures_total reason={reason}"] == 1
    assert sum(value for name, value in page.items() if "scrape_failures_total" in name) == 1
    assert page["vllm_observe_requests_total model_name=m outcome=ok profile="] == 1
    assert not any(name.startswith("vllm:") for name in page)
    assert pipeline.not_ready() is not None


def test_a_stale_engine_is_absent_and_comes_back(observe, vllm, clock):
    pipeline = observe()
    pipeline.scrape()
    good = vllm.answers["/metrics"]
    vllm.answers["/metrics"] = whole(b"", status=503)
    for _ in range(2):
        clock.advance(5)
        pipeline.scrape()
    page = samples(pipeline)
    assert page["vllm_observe_scrape_success"] == 0
    assert "vllm:num_requests_running engine=0 model_name=tiny" in page
    clock.advance(5)
    pipeline.scrape()
    page = samples(pipeline)
    assert not [name for name in page if name.startswith(("vllm:", "http_", "process_"))]
    assert not [name for name in page if "engine=0" in name]
    vllm.answers["/metrics"] = good
    pipeline.scrape()
    assert "vllm:num_requests_running engine=0 model_name=tiny" in samples(pipeline)


def test_a_log_that_cannot_be_read_stops_no_scrape(observe, log, clock):
    log.mkdir()
    pipeline = observe()
    follow(pipeline, clock)
    pipeline.scrape()
    assert samples(pipeline)["vllm_observe_scrape_success"] == 1


def test_a_bad_line_is_counted_and_its_neighbours_are_not_lost(observe, log, clock):
    pipeline = observe()
    record = json.dumps({"ts": clock.wall(), "request_id": "a", "model": "m", "status": 200, "duration_s": 1})
    other = record.replace('"a"', '"b"')
    log.write_text(f'{record}\nnot json\n[1]\n{{"ts": 1}}\n{{"request_id": "c", "ts": "soon"}}\n{other}\n')
    follow(pipeline, clock)
    page = samples(pipeline)
    assert page["vllm_observe_requests_total model_name=m outcome=ok profile="] == 2
    assert page["vllm_observe_log_lines_total"] == 6
    unparsed = {name: value for name, value in page.items() if "log_unparsed_total" in name and value}
    assert unparsed == {
        "vllm_observe_log_unparsed_total reason=not_json": 1,
        "vllm_observe_log_unparsed_total reason=not_object": 1,
        "vllm_observe_log_unparsed_total reason=missing_field": 1,
        "vllm_observe_log_unparsed_total reason=bad_field": 1,
    }


def test_a_limits_record_is_believed_before_the_setting(observe, log, clock):
    pipeline = observe(max_num_seqs=64)
    pipeline.scrape()
    assert samples(pipeline)["vllm_observe_max_num_seqs engine=0 model_name=tiny"] == 64
    write(log, {"kind": "limits", "max_num_seqs": 8, "vllm_version": "0.32.0"})
    follow(pipeline, clock)
    page = samples(pipeline)
    assert page["vllm_observe_max_num_seqs engine=0 model_name=tiny"] == 8
    assert any("limits_source=plugin" in name and "vllm_version=0.32.0" in name for name in page)


def test_what_the_plugin_told_after_the_last_scrape_explains_a_wait(observe, vllm, log, clock):
    idle = (CAPTURES / "vllm-0.32.0" / "idle.prom").read_bytes()
    vllm.answers["/metrics"] = whole(idle, content_type="text/plain; version=1.0.0")
    pipeline = observe(max_num_seqs=8)
    pipeline.scrape()
    told = {"kind": "sample", "model": "tiny", "engine": "0", "running": 8, "waiting": 4, "kv_usage": 0.2}
    request = {"request_id": "a", "status": 200, "stream": True, "duration_s": 3.9, "ttft_s": 3.5}
    request |= {"profile": "assistant"}
    write(log, told | {"ts": clock.wall() + 2.0}, request | {"ts": clock.wall() + 4.0})
    clock.advance(4.0)
    follow(pipeline, clock)
    page = samples(pipeline)
    assert page["vllm_observe_slow_requests_total cause=queue_slots model_name=tiny profile=assistant"] == 1
    assert page["vllm:num_requests_running engine=0 model_name=tiny"] == 0  # of the scrape


def test_vllms_own_log_tells_the_limit(observe, tmp_path, clock):
    engine_log = tmp_path / "vllm.log"
    engine_log.write_text(
        "INFO 11-29 21:31:59 [cli_args.py:325] non-default args: {'model': '/m', 'max_num_seqs': 16}\n"
    )
    pipeline = observe(engine_log=engine_log)
    pipeline.scrape()
    follow(pipeline, clock)
    page = samples(pipeline)
    assert page["vllm_observe_max_num_seqs engine=0 model_name=tiny"] == 16
    assert any("limits_source=engine_log" in name for name in page)


def test_without_a_limit_there_is_no_utilization(observe, vllm):
    vllm.answers["/metrics"] = whole((CASES / "05-dp-engines" / "scrape.prom").read_bytes())
    pipeline = observe()
    pipeline.scrape()
    page = samples(pipeline)
    assert not [name for name in page if "utilization" in name or "max_num_seqs" in name]


def test_utilization_is_each_engines_own(observe, vllm):
    vllm.answers["/metrics"] = whole((CASES / "05-dp-engines" / "scrape.prom").read_bytes())
    pipeline = observe(max_num_seqs=64)
    pipeline.scrape()
    page = samples(pipeline)
    ratios = [
        page[f"vllm_observe_sequence_utilization_ratio engine={engine} model_name=acme/falcon-mini"]
        for engine in range(4)
    ]
    assert ratios == [60 / 64, 1.0, 2 / 64, 0.0]


def test_lora_adapters_are_told_apart_within_a_bound(observe, vllm):
    pipeline = observe(max_adapters=3)
    for first in range(0, 500, 2):
        running = f"tax-{first},tax-{first + 1}"
        vllm.answers["/metrics"] = whole(
            b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n"
            b"# TYPE vllm:lora_requests_info gauge\n"
            + f'vllm:lora_requests_info{{max_lora="4",running_lora_adapters="{running}",'
            f'waiting_lora_adapters=""}} {first}\n'.encode()
        )
        pipeline.scrape()
        assert "," not in "".join(name for name in samples(pipeline) if "lora" in name)
    page = samples(pipeline)
    assert page["vllm_observe_lora_max_adapters"] == 4
    assert page["vllm_observe_lora_adapters state=running"] == 2
    assert page["vllm_observe_lora_adapter_active adapter=other state=running"] == 1
    assert not any(name.startswith("vllm:lora") for name in page)


def test_a_restart_is_counted_once_and_no_counter_of_the_page_is_negative(observe, vllm, clock):
    pipeline = observe()
    pipeline.scrape()
    clock.advance(5)
    idle = (CAPTURES / "vllm-0.32.0" / "idle.prom").read_bytes()
    vllm.answers["/metrics"] = whole(idle)
    pipeline.scrape()
    clock.advance(5)
    pipeline.scrape()
    page = samples(pipeline)
    assert page["vllm_observe_engine_restarts_total"] == 1
    assert min(value for name, value in page.items() if "_total" in name) >= 0


def test_a_dead_engine_that_answers_is_told(observe, vllm):
    vllm.answers["/metrics"] = whole((CAPTURES / "vllm-0.16.0-engine-dead" / "metrics.prom").read_bytes())
    pipeline = observe()
    pipeline.scrape()
    assert samples(pipeline)["vllm_observe_engine_answers_without_tokens"] == 1


class Ending:
    """A vLLM that ends requests and a log that may speak of them, a minute a step."""

    def __init__(self, pipeline: Pipeline, vllm, log: Path, clock: ManualClock) -> None:
        self.pipeline, self.vllm, self.log, self.clock = pipeline, vllm, log, clock
        self.finished, self.told = 37, 0

    def goes_on(self, scrapes: int = 1, *, tells: bool = False, ends: int = 1) -> None:
        """Let requests end before each scrape, and the log tell of them or not."""
        for _ in range(scrapes):
            self.clock.advance(60)
            self.finished += ends
            counted = b'"length",model_name="tiny"} %d'
            self.vllm.answers["/metrics"] = whole(SATURATED.replace(counted % 37, counted % self.finished))
            if tells:
                self.told += 1
                write(self.log, {"ts": self.clock.wall(), "request_id": f"a-{self.told}", "e2e_s": 1.0})
            self.pipeline.follow()
            self.pipeline.scrape()

    @property
    def silent_s(self) -> float | None:
        return self.pipeline.state().requests.silent_s


@pytest.fixture
def ending(observe, vllm, log, clock):
    pipeline = observe()
    pipeline.scrape()
    return Ending(pipeline, vllm, log, clock)


def test_a_log_that_stops_while_requests_end_is_silent_until_it_speaks_again(ending):
    ending.goes_on(2, tells=True)
    assert ending.silent_s == 0
    ending.goes_on(3)  # from the first scrape that saw it until the third
    assert ending.silent_s == 120
    ending.goes_on(tells=True)
    assert ending.silent_s == 0


def test_a_log_that_never_spoke_is_silent_from_the_first_request_that_ends(ending):
    ending.goes_on(2, ends=0)
    assert ending.silent_s == 0
    ending.goes_on(2)
    assert ending.silent_s == 60


def test_a_log_that_tells_of_all_that_ends_is_not_silent_however_seldom_that_is(ending):
    for _ in range(3):
        ending.goes_on(tells=True)
        ending.goes_on(20, ends=0)
        assert ending.silent_s == 0


def test_a_restart_of_vllm_is_no_request_that_ends(ending):
    ending.goes_on(tells=True)
    ending.goes_on(ends=-30)
    assert ending.silent_s == 0


def test_without_a_log_nothing_is_silent(observe, vllm, log, clock):
    ending = Ending(observe(request_logs=[]), vllm, log, clock)
    ending.goes_on(3)
    assert ending.silent_s is None


@pytest.mark.parametrize("kind", ["stall", "zombie"])
def test_a_stalled_engine_is_told_within_six_minutes(observe, vllm, clock, kind):
    pipeline = observe()
    stalled = []
    for seconds in range(0, 361, 60):
        page = (CASES / "07-engine-stalled" / f"{kind}_{seconds:03}.prom").read_bytes()
        vllm.answers["/metrics"] = whole(page)
        pipeline.scrape()
        stalled.append(samples(pipeline)["vllm_observe_engine_stalled engine=0 model_name=acme/falcon-mini"])
        clock.advance(60)
    assert stalled[0] == 0
    assert stalled[-1] == 1


def test_other_settings_take_over_while_running(observe, vllm, log, tmp_path, clock):
    pipeline = observe()
    write(log, {"ts": clock.wall(), "request_id": "a", "model": "tiny", "status": 200, "duration_s": 1})
    pipeline.scrape()
    follow(pipeline, clock)
    second = tmp_path / "second.jsonl"
    write(second, {"ts": clock.wall(), "request_id": "b", "model": "tiny", "status": 200, "duration_s": 1})
    pipeline.apply(
        Settings(
            vllm_url=vllm.url,
            request_logs=[RequestLog(path=str(log)), RequestLog(path=str(second))],
            max_num_seqs=8,
            service_class="batch",
        )
    )
    write(log, {"ts": clock.wall(), "request_id": "c", "model": "tiny", "status": 200, "duration_s": 1})
    follow(pipeline, clock)
    pipeline.scrape()
    page = samples(pipeline)
    assert page["vllm_observe_requests_total model_name=tiny outcome=ok profile="] == 3
    assert page["vllm_observe_log_lines_total"] == 3
    assert page["vllm_observe_sequence_utilization_ratio engine=0 model_name=tiny"] == 1.0
    assert any("service_class=batch" in name for name in page)


def test_wrong_other_settings_leave_the_old_ones_at_work(observe, vllm, log, clock):
    pipeline = observe()
    wrong = RequestLog(path=str(log), fields={"modle": "m"})
    with pytest.raises(ConfigError, match="modle"):
        pipeline.apply(Settings(vllm_url=vllm.url, request_logs=[wrong], max_num_seqs=8))
    write(log, {"ts": clock.wall(), "request_id": "a", "model": "m", "status": 200, "duration_s": 1})
    follow(pipeline, clock)
    pipeline.scrape()
    page = samples(pipeline)
    assert page["vllm_observe_log_lines_total"] == 1
    assert "vllm_observe_max_num_seqs engine=0 model_name=tiny" not in page


def test_what_only_a_restart_can_change_is_named_and_the_page_goes_on(observe, log):
    pipeline = observe()
    pipeline.scrape()
    before = samples(pipeline)
    other = Settings(
        vllm_url="http://elsewhere:8000", request_logs=[RequestLog(path=str(log))], max_profiles=3
    )
    assert sorted(pipeline.apply(other)) == ["max_profiles", "vllm_url"]
    assert samples(pipeline).keys() == before.keys()
    assert pipeline.not_ready() is None


def test_a_scraping_that_hangs_is_told_though_no_scrape_has_failed(observe, clock):
    pipeline = observe()
    pipeline.scrape()
    clock.advance(100)
    page = samples(pipeline)
    assert page["vllm_observe_scrape_success"] == 0
    assert "vllm_observe_scrape_duration_seconds" not in page
    (info,) = [name for name in page if name.startswith("vllm_observe_target_info")]
    assert "vllm_version= " in info + " "


def test_adapters_beyond_the_bound_are_counted(observe, vllm):
    vllm.answers["/metrics"] = whole(
        b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n"
        b"# TYPE vllm:lora_requests_info gauge\n"
        b'vllm:lora_requests_info{max_lora="9",running_lora_adapters="a,b,c,d",waiting_lora_adapters=""} 1\n'
    )
    pipeline = observe(max_adapters=3)
    pipeline.scrape()
    assert samples(pipeline)["vllm_observe_dropped_total reason=label_cap"] == 1


def test_a_restart_goes_on_where_the_checkpoint_says(observe, log, clock, tmp_path):
    checkpoint = tmp_path / "state" / "positions.json"
    checkpoint.parent.mkdir()
    record = {"ts": clock.wall(), "model": "m", "status": 200, "duration_s": 1}
    write(log, {**record, "request_id": "a"})
    first = observe(checkpoint_file=checkpoint)
    first.follow()
    write(log, {**record, "request_id": "b"})
    first.drain(within=1)
    log.rename(log.with_suffix(".1"))
    write(log, {**record, "request_id": "c"})
    second = observe(checkpoint_file=checkpoint, request_logs=[RequestLog(path=f"{log.parent}/app.*")])
    follow(second, clock)
    assert samples(second)["vllm_observe_log_lines_total"] == 1
    assert list(checkpoint.parent.iterdir()) == [checkpoint]


def test_after_a_kill_no_line_that_was_kept_is_read_again(observe, log, clock, tmp_path):
    checkpoint = tmp_path / "positions.json"
    record = {"ts": clock.wall(), "model": "m", "status": 200, "duration_s": 1}
    write(log, {**record, "request_id": "a"})
    killed = observe(checkpoint_file=checkpoint)
    killed.follow()
    write(log, {**record, "request_id": "b"})
    second = observe(checkpoint_file=checkpoint)
    follow(second, clock)
    assert samples(second)["vllm_observe_log_lines_total"] == 1


@pytest.mark.parametrize(
    ("left", "reason"),
    [(None, "gone"), (lzma.compress(b"{}\n"), "compressed")],
    ids=["gone", "compressed"],
)
def test_a_log_that_is_lost_with_what_was_not_read_is_counted(observe, log, clock, left, reason):
    checkpoint = log.parent / "positions.json"
    record = {"ts": clock.wall(), "model": "m", "status": 200, "duration_s": 1}
    write(log, {**record, "request_id": "a"})
    first = observe(checkpoint_file=checkpoint)
    first.follow()
    first.drain(within=1)
    log.unlink()
    if left is not None:
        (log.parent / "app.jsonl.1.xz").write_bytes(left)
    write(log, {**record, "request_id": "b"})
    second = observe(checkpoint_file=checkpoint)
    expected = {f"vllm_observe_log_unread_total reason={known}": 0 for known in ("compressed", "gone")}
    assert expected.items() <= samples(second).items()
    for _ in range(3):
        follow(second, clock)
        clock.advance(60)
    assert {**expected, f"vllm_observe_log_unread_total reason={reason}": 1}.items() <= samples(
        second
    ).items()


def test_a_damaged_checkpoint_costs_no_start(observe, log, clock, tmp_path):
    checkpoint = tmp_path / "positions.json"
    checkpoint.write_bytes(b"\x00{")
    write(log, {"ts": clock.wall(), "request_id": "a", "model": "m", "status": 200, "duration_s": 1})
    pipeline = observe(checkpoint_file=checkpoint)
    follow(pipeline, clock)
    assert samples(pipeline)["vllm_observe_log_lines_total"] == 1


def test_a_checkpoint_that_cannot_be_written_stops_nothing(observe, log, clock, tmp_path):
    checkpoint = tmp_path / "positions.json"
    (tmp_path / "positions.json.new").mkdir()
    pipeline = observe(checkpoint_file=checkpoint)
    write(log, {"ts": clock.wall(), "request_id": "a", "model": "m", "status": 200, "duration_s": 1})
    follow(pipeline, clock)
    assert samples(pipeline)["vllm_observe_log_lines_total"] == 1


def test_a_checkpoint_in_no_folder_is_refused(observe, tmp_path):
    with pytest.raises(ConfigError, match="--checkpoint-file"):
        observe(checkpoint_file=tmp_path / "missing" / "positions.json")


def test_the_end_counts_what_still_waits(observe, log, clock):
    pipeline = observe()
    write(
        log,
        {"kind": "engine", "ts": clock.wall(), "request_id": "chatcmpl-x", "finish_reason": "stop"},
        {"ts": clock.wall(), "request_id": "y", "model": "m", "status": 200, "duration_s": 1},
    )
    pipeline.drain(within=1)
    page = samples(pipeline)
    assert page["vllm_observe_join_closed_total parts=engine"] == 1
    assert page["vllm_observe_join_closed_total parts=edge"] == 1


# --- Spans that vLLM sends ----------------------------------------------------------------------------


def test_spans_are_joined_with_the_apps_log_and_counted(observe, log, clock):
    clock.advance(1795983000 - clock.wall())  # a moment after these spans had ended
    pipeline = observe()
    body = (CAPTURES / "vllm-0.32.0" / "otlp-body.bin").read_bytes()
    export = pipeline.take_traces(body, Encoding.PROTOBUF)
    for record in export.records:
        sent = record.request_id.removeprefix("chatcmpl-")
        write(log, {"ts": record.ts, "request_id": sent, "status": 200, "duration_s": record.e2e_s})
    follow(pipeline, clock)
    page = samples(pipeline)
    assert page["vllm_observe_spans_total result=record"] == 2
    assert page["vllm_observe_join_closed_total parts=both"] == 2


def test_a_hostile_span_is_counted_and_told(observe, caplog):
    pipeline = observe()
    spans = b'{"name":"llm_request","endTimeUnixNano":"1"},{"name":"other"}'
    pipeline.take_traces(b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + spans + b"]}]}]}", Encoding.JSON)
    page = samples(pipeline)
    assert page["vllm_observe_log_unparsed_total reason=missing_field"] == 1
    assert page["vllm_observe_spans_total result=unparsed"] == 1
    assert page["vllm_observe_spans_total result=other"] == 1
    assert "a span is no record" in caplog.text


def test_the_logs_of_a_proxy_and_of_vllm_are_read_by_their_formats(observe, tmp_path, clock):
    at = datetime.fromtimestamp(clock.wall())  # noqa: DTZ006  # vLLM writes its host's own time
    logs = {"nginx": tmp_path / "nginx.jsonl", "vllm": tmp_path / "vllm.log"}
    logs["nginx"].write_text(
        '{"msec":"1790000000.5","request_id":"a","status":"499","request_time":"2.000"}\n'
    )
    logs["vllm"].write_text(
        "INFO:     Started server process [411]\n"
        f"(APIServer pid=411) INFO {at:%m-%d %H:%M:%S} [async_llm.py:578] Request chatcmpl-a aborted.\n"
    )
    pipeline = observe(request_logs=[RequestLog(path=str(path), format=form) for form, path in logs.items()])
    follow(pipeline, clock)
    page = samples(pipeline)
    assert page["vllm_observe_join_closed_total parts=both"] == 1
    assert sum(value for name, value in page.items() if name.startswith("vllm_observe_log_unparsed")) == 0


def test_a_field_map_for_a_text_log_is_a_wrong_setting(observe):
    with pytest.raises(ConfigError, match="a field map is for JSON"):
        observe(request_logs=[RequestLog(path="vllm.log", format="vllm", fields={"ts": "t"})])
