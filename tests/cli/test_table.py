from __future__ import annotations

import msgspec
import pytest

from support.looks import DATA, Looked, page, seen
from vllm_observe.cli.look import as_text
from vllm_observe.cli.table import state_table
from vllm_observe.errors import ScrapeError, ScrapeFailure
from vllm_observe.model import BindingLimit, Limits
from vllm_observe.serve.state import EngineStatus, LoraAdapters, RequestsState, State

SATURATED = "vllm-0.32.0/saturated.prom"
LATER = "vllm-0.32.0/saturated-1s-later.prom"


def shown(state: State, seen_by: str = "asked directly") -> list[str]:
    return as_text(state_table(state, seen_by=seen_by)).splitlines()


def row(lines: list[str], first: str) -> str:
    """The line that begins so, with single blanks."""
    return next(" ".join(line.split()) for line in lines if line.startswith(first))


def with_engines(*engines: dict[str, object]) -> State:
    usual = {"model_name": "m", "engine": "0", "age_s": 1.0, "running": 1.0, "waiting": 0.0}
    return msgspec.structs.replace(seen(SATURATED), engines=tuple(EngineStatus(**usual | e) for e in engines))


def test_the_state_in_words_stands_on_top():
    lines = shown(seen(SATURATED))
    assert lines[0] == "saturated: 8 of 8 slots, 16 waiting"
    assert lines[1] == "vLLM 0.32.0 at http://vllm:8000, scraped in 2 ms"
    assert lines[2] == "asked directly, 14:13:25"  # 1,790,000,005 s after the epoch, in UTC


def test_an_engine_has_one_row_of_figures():
    lines = shown(seen(SATURATED))
    assert "model tiny" in lines
    assert row(lines, "engine") == "engine running used waiting capacity deferred KV cache held back by age"
    assert row(lines, "0 ") == "0 8/8 100 % 16 16 0 68.1 % slots < 1 s"


def test_sixteen_engines_have_sixteen_rows_in_80_columns():
    worst = {"running": 1024.0, "waiting": 99_999.0, "waiting_capacity": 99_999.0, "waiting_deferred": 10_000.0,
             "max_num_seqs": 1024, "utilization": 1.0, "kv_usage": 0.9999, "age_s": 599.0,
             "binding_limit": BindingLimit.TOKEN_BUDGET}  # fmt: skip
    lines = shown(with_engines(*({**worst, "engine": str(rank)} for rank in range(16))))
    assert [line.split()[0] for line in lines if "token budget" in line] == [str(rank) for rank in range(16)]
    assert row(lines, "15 ") == ("15 1,024/1,024 100 % 99,999 99,999 10,000 100 % token budget 599 s")


@pytest.mark.parametrize("capture", sorted(path.name for path in (DATA / "captures").iterdir()))
def test_no_real_server_needs_more_than_80_columns(capture):
    for file in sorted((DATA / "captures" / capture).glob("*.prom")):
        lines = shown(seen(SATURATED, file.read_bytes()))
        assert max(map(len, lines)) <= 80
        assert not [line for line in lines if "…" in line]


def test_each_model_has_a_table_of_its_own():
    lines = shown(with_engines({"model_name": "a"}, {"model_name": "b"}))
    assert [line for line in lines if line.startswith("model ")] == ["model a", "model b"]


@pytest.mark.parametrize(
    ("engine", "cells"),
    [
        ({"running": None}, "0 absent — 0 absent — 1 s"),
        ({"waiting": None}, "0 1/? — absent absent — 1 s"),
        ({"kv_usage": 0.937}, "0 1/? — 0 93.7 % — 1 s"),
        ({"kv_usage": 0.0}, "0 1/? — 0 0 % — 1 s"),
        ({"kv_usage": 6.1e-05, "age_s": 12.4}, "0 1/? — 0 < 0.1 % — 12 s"),
        ({"awake": False}, "0 1/? — 0 absent asleep 1 s"),
        ({"stalled": True, "binding_limit": BindingLimit.SLOTS}, "0 1/? — 0 absent stalled 1 s"),
    ],
)
def test_absent_is_never_zero(engine, cells):
    assert row(shown(with_engines(engine)), "0 ") == cells


def test_an_older_release_has_no_reasons_to_wait_for():
    lines = shown(seen("vllm-0.9.2-v0/saturated.prom"))
    assert row(lines, "engine") == "engine running used waiting KV cache held back by age"
    assert row(lines, "0 ") == "0 8/8 100 % 16 0 % slots < 1 s"


def test_a_limit_that_nobody_knows_is_asked_for():
    server = Looked()
    server.limits = Limits()
    server.sees(SATURATED)
    lines = shown(server.state)
    assert lines[0] == "waiting: 8 running, 16 waiting, max_num_seqs unknown"
    assert row(lines, "0 ").startswith("0 8/? — 16")
    assert row(lines, "unknown") == (
        "unknown max_num_seqs: set --max-num-seqs, or run where /proc shows vLLM"
    )


# --- Latency --------------------------------------------------------------------------------------


def test_a_quantile_in_the_first_bucket_stands_beside_the_mean():
    lines = shown(seen(SATURATED))
    assert "latency since vLLM's start" in lines
    assert row(lines, "prefill") == "prefill 37 11.8 ms < 300 ms < 300 ms < 300 ms"


def test_a_window_says_how_long_it_is():
    lines = shown(seen(SATURATED, LATER))
    assert "latency of the last 5 s" in lines
    assert "latency since vLLM's start" not in lines
    # 12 requests more, that waited 22.07 s for their first tokens; the target is the interactive one
    assert row(lines, "first token").startswith("first token (TTFT) 12 1.84 s")
    assert row(lines, "first token").endswith("2.5 s")


def test_a_window_without_requests_shows_no_figures():
    lines = shown(seen(SATURATED, SATURATED))
    assert row(lines, "whole request") == "whole request 0 — — — —"


def test_a_quantile_beyond_the_last_bucket_is_above_it():
    name = "vllm:e2e_request_latency_seconds"
    slow = f'# TYPE {name} histogram\n{name}_bucket{{le="60.0"}} 0\n{name}_bucket{{le="+Inf"}} 4\n{name}_sum 400\n{name}_count 4\n'
    assert row(shown(seen(slow.encode())), "whole request") == "whole request 4 100 s > 60 s > 60 s > 60 s"


# --- The rest -------------------------------------------------------------------------------------


def test_a_rate_needs_two_looks():
    assert row(shown(seen(SATURATED)), "throughput") == (
        "throughput — (needs two looks: --watch, or a sidecar)"
    )
    later = " ".join(" ".join(shown(seen(SATURATED, LATER))).split())
    # 1256 generated and 5116 prompt tokens and 12 requests, in five seconds
    assert (
        "throughput 251 generated and 1,023 prompt tokens, 2.4 requests and 0 preemptions a second, "
        "over the last 5 s"
    ) in later


def test_the_cache_is_told_with_its_size_and_its_hits():
    lines = shown(seen(SATURATED))
    assert row(lines, "KV cache") == "KV cache 6,144 tokens an engine"
    assert row(lines, "prefix cache") == "prefix cache 85.4 % of prompt tokens hit, since vLLM's start"
    assert (
        row(shown(seen("vllm-0.32.0/idle.prom")), "prefix cache") == "prefix cache — (nothing looked up yet)"
    )
    assert row(shown(seen("vllm-0.9.2-v0/idle.prom")), "prefix cache") == "prefix cache absent"


def test_what_vllm_does_not_expose_is_named():
    assert row(shown(seen("vllm-0.9.2-v1/loaded.prom")), "absent") == (
        "absent vllm:request_time_per_output_token_seconds"
    )
    without = page(SATURATED).replace(b"kv_cache_usage_perc", b"something_else")
    assert row(shown(seen(without)), "absent") == "absent vllm:kv_cache_usage_perc"
    assert not [line for line in shown(seen(SATURATED)) if line.startswith("absent")]


def test_what_is_dropped_of_a_page_is_told():
    assert (
        row(shown(seen(page(SATURATED) + b"?\n?\n")), "dropped") == "dropped of vLLM's page: 2 malformed_line"
    )


def test_adapters_are_listed_where_there_are_any():
    lora = LoraAdapters(max_adapters=4, running=tuple(f"a{n}" for n in range(10)))
    text = " ".join(shown(msgspec.structs.replace(seen(SATURATED), lora=lora)))
    assert "at most 4 at once; running a0, a1, a2, a3, a4, a5, a6, a7 and 2 more; waiting none" in " ".join(
        text.split()
    )
    assert not [line for line in shown(seen("vllm-0.9.2-v0/idle.prom")) if line.startswith("LoRA")]


def test_the_requests_side_of_a_sidecar_is_told():
    requests = RequestsState(
        lines=1240, unparsed=3, lag_s=0.25, pending=2, sessions=5,
        joined={"error": 4, "ok": 1200, "timeout": 0}, slow={"queue_slots": 12, "unknown": 1},
    )  # fmt: skip
    lines = shown(msgspec.structs.replace(seen(SATURATED), requests=requests))
    text = " ".join(" ".join(lines).split())
    assert "requests 1,200 ok, 4 error; slow or failed: 12 queue_slots, 1 unknown" in text
    assert "2 in the join, 5 sessions active" in text
    assert "request log 1,240 lines, 3 of them unparsed; 250 ms behind" in text


def test_a_stale_state_says_so_first_and_tells_its_age():
    server = Looked()
    server.sees(SATURATED)
    server.sees(ScrapeError(ScrapeFailure.CONNECTION, "nothing listens there"), after=12.0)
    lines = shown(server.state)
    assert lines[0] == "stale, all figures are 12 s old; down: nothing listens there"
    assert row(lines, "0 ").endswith("slots 12 s")


def test_nothing_from_the_network_reaches_the_terminal_as_a_command():
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[red]bold[/red]"
    state = msgspec.structs.replace(
        with_engines({"model_name": evil, "engine": evil}),
        vllm_version=evil,
        url=evil,
        found={},
        missing=(evil,),
        lora=LoraAdapters(running=(evil,)),
        requests=RequestsState(joined={evil: 1}),
    )
    text = "".join(shown(state, seen_by=evil))
    assert text.isprintable()
    assert r"\x1b]0;owned\x07" in text
    assert "[red]bold" in text  # no markup of ours either


def test_a_time_that_is_none_breaks_nothing():
    assert shown(msgspec.structs.replace(seen(SATURATED), generated_at=1e300))[2] == "asked directly, —"
