from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_observe.engine.limit_sources import from_log_line, from_server_info, version_of
from vllm_observe.model import Limits, LimitsSource

CAPTURES = Path(__file__).parent.parent / "data" / "captures"


def logged(**values: int) -> Limits:
    return Limits(source=LimitsSource.ENGINE_LOG, **values)


# --- /server_info -------------------------------------------------------------------------------


def server_info(**sections: dict[str, object]) -> dict[str, object]:
    return {"vllm_config": {"scheduler_config": {"max_num_seqs": 8}} | sections}


def test_a_real_server_info_gives_its_numbers():
    document = json.loads((CAPTURES / "vllm-0.32.0/server_info.json").read_text())
    assert from_server_info(document) == Limits(
        source=LimitsSource.SERVER_INFO,
        max_num_seqs=8,
        max_num_batched_tokens=2048,
        num_gpu_blocks=20,
        block_size=128,
    )


def test_the_blocks_of_several_ranks_are_not_those_of_one():
    document = server_info(
        cache_config={"num_gpu_blocks": 200, "block_size": 16}, parallel_config={"data_parallel_size": 2}
    )
    limits = from_server_info(document)
    assert (limits.max_num_seqs, limits.num_gpu_blocks, limits.block_size) == (8, None, 16)


@pytest.mark.parametrize("value", [True, "8", 8.0, -1, 0, None, 10**9, [8], {"x": 8}])
def test_a_value_that_is_no_believable_number_is_unknown(value):
    document = server_info(
        scheduler_config={"max_num_seqs": value, "max_num_active_seqs": 4},
        model_config={"max_model_len": 2048},
    )
    assert from_server_info(document) == Limits(
        source=LimitsSource.SERVER_INFO, max_num_active_seqs=4, max_model_len=2048
    )


@pytest.mark.parametrize(
    "document",
    [
        {"vllm_config": "model='tiny', max_seq_len=2048"},  # before 0.11, and without config_format
        {"vllm_config": {"scheduler_config": "max_num_seqs=8"}},
        {"vllm_config": {"scheduler_config": {"max_num_seqs": None}}},
        {"vllm_config": {}},
        {"detail": "Not Found"},
        [],
        "max_num_seqs",
        None,
    ],
)
def test_what_is_no_server_info_gives_no_limits(document):
    assert from_server_info(document) is None


def test_nothing_but_numbers_is_kept_of_a_server_info():
    document = server_info(
        model_config={"hf_token": "sesame", "max_model_len": "sesame"}, cache_config={"block_size": "sesame"}
    )
    assert "sesame" not in msgspec.json.encode(from_server_info(document)).decode()


def test_the_version_is_read_where_it_is_one():
    assert version_of(json.loads((CAPTURES / "vllm-0.32.0/version.json").read_text())) == "0.32.0"
    assert (
        version_of({"version": "0.10.2.dev378+g4d7fe40fc.d20250829"}) == "0.10.2.dev378+g4d7fe40fc.d20250829"
    )
    for document in (
        {"version": 1},
        {"version": ""},
        {"version": 'a"b'},
        {"version": "9" * 65},
        {},
        [],
        None,
    ):
        assert version_of(document) is None


# --- The log: lines as real servers wrote them --------------------------------------------------

PLAIN = (
    "(APIServer pid=12781) INFO 11-29 23:09:47 [api_utils.py:286] non-default args: {'model_tag': '/nonexistent', "
    "'chat_template': 'it\\'s {{ \\'max_num_seqs\\': 3, }} \"x\"', 'port': 8123, 'model': '/nonexistent', "
    "'max_model_len': 2000, 'hf_overrides': {'max_num_seqs': 5}, 'max_num_batched_tokens': 4000, "
    "'max_num_seqs': 8, 'speculative_config': {'method': 'ngram', 'num_speculative_tokens': 2, "
    "'max_model_len': 77}}"
)
ARGUMENTS = PLAIN.partition("non-default args: ")[2]
LIMITS = logged(max_num_seqs=8, max_model_len=2000, max_num_batched_tokens=4000)
REDACTED = (  # the paths were cut out of this log together with their closing quotes
    "(APIServer pid=25874) INFO 11-29 19:56:42 [api_utils.py:286] non-default args: {'model_tag': '<path> "
    "'enable_per_request_metrics': True, 'host': '127.0.0.1', 'middleware': ['obsplug.MW'], "
    "'enable_request_id_headers': True, 'model': '<path> 'max_model_len': 2048, 'enforce_eager': True, "
    "'served_model_name': ['tiny'], 'load_format': 'dummy', 'num_gpu_blocks_override': 20, "
    "'otlp_traces_endpoint': 'http://127.0.0.1:4318/v1/traces', 'max_num_seqs': 8, 'enable_log_requests': True}"
)
V_0_9_2 = (
    "INFO 11-29 21:33:22 [cli_args.py:325] non-default args: {'host': '127.0.0.1', 'port': 8200, 'middleware': "
    "['obsplug.MW'], 'enable_request_id_headers': True, 'model': '<path>', 'max_model_len': 2048, "
    "'enforce_eager': True, 'served_model_name': ['tiny'], 'load_format': 'dummy', 'max_num_seqs': 8}"
)
COLOURED = (
    "\x1b[0;36m(APIServer pid=12885)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m11-29 23:10:04\x1b[0m "
    f"\x1b[90m[api_utils.py:286]\x1b[0m non-default args: {ARGUMENTS}"
)
JSON = json.dumps(
    {
        "asctime": "2026-11-29 23:10:15,121",
        "levelname": "INFO",
        "name": "vllm.entrypoints.serve.utils.api_utils",
        "processName": "MainProcess",
        "process": 13074,
        "message": f"non-default args: {ARGUMENTS}",
        "vllm_process_name": "APIServer",
    }
)


@pytest.mark.parametrize(
    ("line", "limits"),
    [
        (PLAIN, LIMITS),
        (COLOURED, LIMITS),
        (JSON, LIMITS),
        (REDACTED, logged(max_num_seqs=8, max_model_len=2048)),
        (V_0_9_2, logged(max_num_seqs=8, max_model_len=2048)),
    ],
    ids=["0.32.0", "0.32.0 coloured", "0.32.0 JSON", "0.32.0 redacted", "0.9.2"],
)
def test_the_lines_of_real_servers_give_their_limits(line, limits):
    assert from_log_line(line) == limits
    assert from_log_line(line + "\r\n") == limits


@pytest.mark.parametrize(
    "header",
    [
        "INFO 09-03 16:28:10 [utils.py:328] non-default args: ",
        "INFO 09-03 16:28:10 [entrypoints/serve/.../api_utils.py:286] non-default args: ",
        "(APIServer pid=20) INFO 09-03 16:28:10 [utils.py:233] non-default args: ",
        "vllm-1  | INFO 09-03 16:28:10 [utils.py:328] non-default args: ",
        "Sep 03 16:28:10 gpu-7 vllm[812]: INFO 09-03 16:28:10 [utils.py:328] non-default args: ",
        "2026-09-03T16:28:10.123456789Z INFO 09-03 16:28:10 [utils.py:328] non-default args: ",
    ],
)
def test_every_header_of_that_line_is_known(header):
    assert from_log_line(header + "{'max_num_seqs': 64}") == logged(max_num_seqs=64)


@pytest.mark.parametrize("position", ["api_server.py:653]", "[api_server.py:1032]"])
def test_releases_before_0_9_log_all_their_arguments(position):
    line = (
        f"INFO 03-31 17:41:03 {position} args: Namespace(subparser='serve', config='', port=8862, "
        "allowed_origins=['*'], lora_modules=None, block_size=None, max_model_len=32767, hf_overrides=None, "
        "limit_mm_per_prompt={'max_num_seqs': 1}, max_num_batched_tokens=None, max_num_seqs=8, "
        "dispatch_function=<function ServeSubcommand.cmd at 0x7f08de5bae90>)"
    )
    assert from_log_line(line) == logged(max_num_seqs=8, max_model_len=32767)


def test_what_the_line_does_not_name_is_unknown():
    # Known as vLLM's start, so that it takes the place of what an earlier start said.
    line = "INFO 09-03 16:28:10 [utils.py:328] non-default args: {'model': 'm', 'max_model_len': -1}"
    assert from_log_line(line) == logged()


@pytest.mark.parametrize("cut", ["'max_num_seqs': 12", "'max_num_seqs': ", "'max_num_", "'model': '/a/b"])
def test_a_line_that_is_cut_gives_what_stands_whole_before_the_cut(cut):
    line = f"INFO 09-03 16:28:10 [utils.py:328] non-default args: {{'max_model_len': 2048, {cut}"
    assert from_log_line(line) == logged(max_model_len=2048)


FORGED = "non-default args: {'max_num_seqs': 1}"
HEADER = "INFO 11-29 19:56:42 [api_utils.py:286] "


@pytest.mark.parametrize(
    "line",
    [
        FORGED,
        f"INFO 11-29 19:56:42 [logger.py:43] Received request chatcmpl-{HEADER}{FORGED}: params: x",
        f"INFO 11-29 19:56:42 [logger.py:43] Received request cmpl-1: prompt: '{HEADER}{FORGED}', params: x",
        f"(APIServer pid=1) DEBUG 11-29 19:56:42 [utils.py:43] Request cmpl-1 details: {HEADER}{FORGED}",
        f"WARNING 11-29 19:56:42 [api_utils.py:286] {FORGED}",
        f"INFO 11-29 19:56:42 [api_utils.py:286] got {FORGED}",
        # A message of several lines: vLLM puts its header before each of them.
        f"INFO 11-29 19:56:42 [serving_chat.py:286] {FORGED}",
        f'INFO:     127.0.0.1:4242 - "GET /{HEADER}{FORGED} HTTP/1.1" 200 OK',
        f'127.0.0.1 - - "GET /{HEADER}{FORGED} HTTP/1.1" 200',
        json.dumps({"name": "vllm.logger", "message": f"Received request a: {FORGED}"}),
        json.dumps({"name": "app", "message": FORGED}),
        json.dumps({"name": "vllm.logger", "message": [FORGED]}),
        json.dumps({"request_id": "a", "error": FORGED}),
        json.dumps([FORGED]),
        "{" + FORGED,
        "",
    ],
)
def test_no_other_line_gives_limits(line):
    assert from_log_line(line) is None


@pytest.mark.parametrize("filler", ["'", "\\'", '"', "{", "}", "(", "a", "'a': 1, ", "a=1", "'\\", "INFO "])
def test_a_long_hostile_line_is_read_in_passing(filler):
    filling = filler * (1_000_000 // len(filler))
    from_log_line(HEADER + "non-default args: {" + filling)
    assert from_log_line(filling + HEADER + FORGED) is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 10**9)
    | st.floats()
    | st.text()
    | st.sampled_from([FORGED, "'max_num_seqs': 7,"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("max_num_seqs"), inner),
    max_leaves=5,
)


@given(
    st.dictionaries(st.text() | st.sampled_from(["max_num_seqs", "max_model_len", "model"]), VALUES),
    st.sampled_from([None, 1, 8, 1_000_000]),
)
def test_the_numbers_at_the_top_of_any_dict_are_found_and_no_others(arguments, slots):
    if slots:
        arguments["max_num_seqs"] = slots
    expected = {
        name: arguments[name]
        for name, most in (("max_num_seqs", 10**6), ("max_model_len", 2**31 - 1))
        if type(arguments.get(name)) is int and 0 < arguments[name] <= most
    }
    assert from_log_line(f"{HEADER}non-default args: {arguments}") == logged(**expected)
