from __future__ import annotations

import json
from enum import IntEnum
from types import SimpleNamespace

import pytest

from vllm_observe.plugin.engine_watch import EngineWatch
from vllm_observe.records.format1 import decode

CONFIG = SimpleNamespace(
    model_config=SimpleNamespace(
        served_model_name=["tiny", "alias"], model="/models/tiny", max_model_len=2048
    ),
    scheduler_config=SimpleNamespace(max_num_seqs=8, max_num_active_seqs=None, max_num_batched_tokens=2048),
    cache_config=SimpleNamespace(num_gpu_blocks=20, block_size=16),
)


class Reason(IntEnum):
    """As vLLM's: its first member is 0."""

    STOP = 0
    LENGTH = 1

    def __str__(self):
        return self.name.lower()


def finished(request_id="chatcmpl-a", **fields):
    return SimpleNamespace(
        **{
            "request_id": request_id,
            "finish_reason": Reason.STOP,
            "e2e_latency": 1.0,
            "queued_time": 0.25,
            "prefill_time": 0.25,
            "decode_time": 0.5,
            "mean_time_per_output_token": 0.125,
            "num_prompt_tokens": 30,
            "num_generation_tokens": 5,
            "num_cached_tokens": 16,
            "num_preemptions": 0,
            "max_tokens_param": 5,
            **fields,
        }
    )


def step(*requests, at=None):
    return SimpleNamespace(finished_requests=list(requests), iteration_timestamp=at)


def state(running=0, waiting=0, deferred=0, usage=0.0):
    return SimpleNamespace(
        num_running_reqs=running,
        num_waiting_reqs=waiting,
        num_skipped_waiting_reqs=deferred,
        kv_cache_usage=usage,
    )


@pytest.fixture
def watch(process):
    return EngineWatch(CONFIG, 1, version="0.32.0", process=process)


def of_kind(records, kind):
    return [record for record in records if record["kind"] == kind]


def test_the_limits_are_written_once_when_the_engine_is_ready(watch, records):
    watch.ready()
    watch.ready()
    watch.step(None, None)
    assert records == [
        {
            "kind": "limits",
            "engine": "1",
            "max_num_seqs": 8,
            "max_num_batched_tokens": 2048,
            "max_model_len": 2048,
            "num_gpu_blocks": 20,
            "block_size": 16,
            "vllm_version": "0.32.0",
        }
    ]
    assert decode(json.dumps(records[0]).encode()).slots == 8


def test_the_limits_come_with_the_first_step_where_vllm_does_not_tell_of_the_engines_start(watch, records):
    watch.step(state(), None)
    assert [record["kind"] for record in records] == ["limits", "sample"]


def test_a_finished_request_becomes_an_engine_record(watch, records):
    watch.step(state(7, 3, 1, 0.52631), step(finished(), at=1_799_999_999.5))
    (record,) = of_kind(records, "engine")
    assert record == {
        "kind": "engine",
        "ts": 1_799_999_999.5,
        "request_id": "chatcmpl-a",
        "model": "tiny",
        "engine": "1",
        "finish_reason": "stop",
        "e2e_s": 1.0,
        "queue_s": 0.25,
        "prefill_s": 0.25,
        "decode_s": 0.5,
        "tpot_s": 0.125,
        "prompt_tokens": 30,
        "completion_tokens": 5,
        "cached_tokens": 16,
        "preemptions": 0,
        "max_tokens": 5,
        "state": {
            "running": 7,
            "waiting": 4,
            "kv_usage": 0.5263,
            "waiting_capacity": 3,
            "waiting_deferred": 1,
        },
    }
    assert decode(json.dumps(record).encode()).started_at == 1_799_999_998.5


def test_two_answers_to_one_request_that_end_in_one_step_are_two_records(watch, records):
    watch.step(None, step(finished(), finished(), at=1_799_999_999.5))
    one, other = (decode(json.dumps(record).encode()) for record in of_kind(records, "engine"))
    assert one != other
    assert 0 < other.ts - one.ts < 0.001


def test_a_step_whose_time_cannot_be_true_happened_now(watch, records, clock):
    for at in (None, 12.0, 1_900_000_000.0, "soon"):
        records.clear()
        watch.step(None, step(finished(), at=at))
        assert of_kind(records, "engine")[0]["ts"] == clock.wall()


def test_the_engine_part_of_a_response_bears_its_clients_id(watch, records, process):
    noted = {"request_metadata": SimpleNamespace(request_id="resp_1")}
    process.response_ids.begin(noted, "a")
    watch.step(None, step(finished("resp_1_0"), finished("resp_2_0")))
    assert [record["request_id"] for record in of_kind(records, "engine")] == ["a", "resp_2_0"]


@pytest.mark.parametrize("wrong", [-812_345.6, 812_345.6, float("nan"), float("inf"), None, "soon", True])
def test_a_phase_that_cannot_be_true_is_left_out_and_its_record_stays(watch, records, wrong):
    watch.step(None, step(finished(queued_time=wrong)))
    (record,) = of_kind(records, "engine")
    assert "queue_s" not in record
    assert record["prefill_s"] == 0.25
    decode(json.dumps(record, allow_nan=False).encode())


def test_a_queue_without_any_milestone_is_not_known(watch, records):
    """As with several API servers under --disable-log-stats: nothing was set, and 0 less 0 is no time."""
    watch.step(None, step(finished(queued_time=0.0, prefill_time=812_345.6)))
    watch.step(None, step(finished("chatcmpl-b", queued_time=0.0)))
    unset, quick = of_kind(records, "engine")
    assert not unset.keys() & {"queue_s", "prefill_s"}
    assert unset["decode_s"] == 0.5
    assert quick["queue_s"] == 0.0


def test_a_release_that_lacks_fields_gives_records_without_them(watch, records):
    watch.step(SimpleNamespace(), step(SimpleNamespace(request_id="cmpl-a-0")))
    (record,) = of_kind(records, "engine")
    assert record.keys() == {"kind", "ts", "request_id", "model", "engine"}


def test_a_release_that_names_no_request_gives_no_engine_records_and_says_so_once(watch, records, caplog):
    caplog.set_level("INFO")
    for _ in range(2):
        watch.step(state(), step(finished(None)))
    assert of_kind(records, "engine") == []
    assert len(caplog.records) == 1


def test_samples_are_a_second_apart(watch, records, clock):
    for number in range(25):
        watch.step(state(number, 2, 1, 0.5), None)
        clock.advance(0.125)
    samples = of_kind(records, "sample")
    assert [sample["running"] for sample in samples] == [0, 8, 16, 24]
    assert samples[0] == {
        "kind": "sample",
        "ts": 1_800_000_000.0,
        "model": "tiny",
        "engine": "1",
        "running": 0,
        "waiting": 3,
        "kv_usage": 0.5,
        "waiting_capacity": 2,
        "waiting_deferred": 1,
    }
    assert decode(json.dumps(samples[0]).encode()).waiting == 3


def test_the_last_word_of_an_engine_that_fell_idle_is_written_too(watch, records, clock):
    watch.step(state(8), None)
    clock.advance(0.5)
    watch.step(state(0), None)
    watch.sample()
    assert [sample["running"] for sample in of_kind(records, "sample")] == [8]
    clock.advance(9.5)
    watch.sample()
    watch.sample()
    assert [sample["running"] for sample in of_kind(records, "sample")] == [8, 0]


def test_a_release_that_does_not_tell_why_requests_wait_leaves_it_open(watch, records):
    watch.step(SimpleNamespace(num_running_reqs=1, num_waiting_reqs=4, kv_cache_usage=1.5), None)
    (sample,) = of_kind(records, "sample")
    assert sample["waiting"] == 4
    assert sample["kv_usage"] == 1.0
    assert sample.keys().isdisjoint({"waiting_capacity", "waiting_deferred"})


def test_a_configuration_of_another_form_has_no_limits(process, records):
    watch = EngineWatch(object(), 0, version=None, process=process)
    watch.step(None, step(finished()))
    assert [record["kind"] for record in records] == ["engine"]
    assert "model" not in records[0]
