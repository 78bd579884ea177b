"""The table of metrics against what 36 releases of vLLM expose, and against real expositions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from vllm_observe.model import Kind, ServiceClass
from vllm_observe.signals import (
    BY_KEY,
    NEWEST,
    OLDEST,
    OWN,
    PREFIXES,
    SIGNALS,
    Combine,
    canonical_name,
    resolve,
    signal,
)
from vllm_observe.thresholds import TARGETS, Targets

TESTS = Path(__file__).parent
FACTS = json.loads((TESTS / "data" / "vllm-metrics.json").read_text(encoding="utf-8"))
RELEASES = FACTS["releases"]
AGE = {release: age for age, release in enumerate(RELEASES)}

# vLLM's own words: "Deprecated in 0.9 - Renamed as ...", "DEPRECATED: use ... instead".
RENAMED = {
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
    "vllm:gpu_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
    "vllm:time_in_queue_requests": "vllm:request_queue_time_seconds",
    "vllm:time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
}


def rows(release=None, engine=None, *, hidden=False):
    return [
        row
        for row in FACTS["rows"]
        if (release is None or AGE[row["first"]] <= AGE[release] <= AGE[row["last"]])
        and (engine is None or row["engine"] in (engine, "any"))
        and (hidden or not row.get("hidden"))
    ]


def exposed(release, engine, *, hidden=False):
    return {row["family"] for row in rows(release, engine, hidden=hidden)}


def engines(release):
    return sorted({row["engine"] for row in rows(release)} - {"any"})


FLAVOURS = [(release, engine) for release in RELEASES for engine in engines(release)]


def test_the_facts_hold_36_releases_and_v0_until_it_was_removed():
    assert len(RELEASES) == 36
    assert (RELEASES[0], RELEASES[-1]) == (OLDEST, NEWEST)
    assert [release for release, engine in FLAVOURS if engine == "v0"][-1] == "0.10.2"
    assert len(FLAVOURS) == 36 - 1 + 9  # V1 from 0.7.3 on; V0 in the nine releases up to 0.10.2


@pytest.mark.parametrize(("release", "engine"), FLAVOURS)
def test_every_family_of_a_release_resolves_to_one_signal_and_todays_name_wins(release, engine):
    names = exposed(release, engine)
    expected = {}
    for name in names:
        today = RENAMED.get(name, name)
        expected[today] = today if today in names else name

    served = {BY_KEY[key].name: name for key, name in resolve(names).items()}

    assert served == expected


@pytest.mark.parametrize(("release", "engine"), FLAVOURS)
def test_hidden_metrics_resolve_when_shown_and_change_no_signal_that_was_there(release, engine):
    names = exposed(release, engine, hidden=True)

    served = resolve(names)

    assert resolve(exposed(release, engine)).items() <= served.items()
    assert {RENAMED.get(name, name) for name in names} == {BY_KEY[key].name for key in served}


@pytest.mark.parametrize(("release", "engine"), FLAVOURS)
def test_what_the_sidecar_lives_on_is_there_in_every_release(release, engine):
    always = {
        *("running", "waiting", "kv_usage", "prompt_tokens", "generation_tokens", "step_tokens", "finished"),
        *("ttft", "itl", "e2e", "queue_time", "prefill_time", "decode_time", "inference_time"),
    }

    assert always <= resolve(exposed(release, engine)).keys()


@pytest.mark.parametrize(
    ("release", "engine", "key", "name"),
    [
        ("0.6.6.post1", "v0", "kv_usage", "vllm:gpu_cache_usage_perc"),
        ("0.9.2", "v0", "kv_usage", "vllm:gpu_cache_usage_perc"),
        ("0.9.2", "v1", "kv_usage", "vllm:kv_cache_usage_perc"),  # both are exposed
        ("0.11.2", "v1", "itl", "vllm:inter_token_latency_seconds"),  # both are exposed
        ("0.10.1", "v1", "itl", "vllm:time_per_output_token_seconds"),
        ("0.33.0", "v1", "prefix_hits", "vllm:prefix_cache_hits_total"),
    ],
)
def test_a_renamed_signal_resolves_to_what_is_exposed(release, engine, key, name):
    assert resolve(exposed(release, engine))[key] == name


def test_a_rate_that_became_two_counters_is_not_read_as_either():
    served = resolve(exposed("0.7.3", "v0"))

    assert served["gpu_prefix_hit_rate"] == "vllm:gpu_prefix_cache_hit_rate"
    assert not {"prefix_hits", "prefix_queries"} & served.keys()


def test_two_prefixes_at_once_are_one_signal_under_vllms_own():
    names = ["ray_vllm:num_requests_running", "vllm_num_requests_running", "vllm:num_requests_running"]

    assert resolve(names) == {"running": "vllm:num_requests_running"}
    assert resolve(names[:1]) == {"running": "ray_vllm:num_requests_running"}
    assert resolve(["ray_vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]) == {
        "kv_usage": "ray_vllm:kv_cache_usage_perc"
    }


def test_what_is_not_exposed_does_not_resolve():
    assert resolve([]) == {}
    assert resolve(["python_info", "vllm:not_yet_known", "vllm_observe_requests_total"]) == {}


def unhidden(name):
    return sorted((row for row in rows() if row["family"] == name), key=lambda row: AGE[row["last"]])


@pytest.mark.parametrize("known", SIGNALS, ids=lambda known: known.key)
def test_a_row_says_what_its_last_release_says(known):
    shape = unhidden(known.name)[-1]

    assert known.kind.value == shape["type"]
    assert bool(known.gate) == bool(shape.get("gated_by"))
    if known.more_labels:
        assert set(known.labels) <= set(shape["labels"])
    else:
        assert known.labels == tuple(shape["labels"])


@pytest.mark.parametrize("known", SIGNALS, ids=lambda known: known.key)
def test_a_row_has_the_releases_of_its_names(known):
    def releases(name):
        ages = [AGE[row[end]] for row in unhidden(name) for end in ("first", "last")]
        return RELEASES[min(ages)], RELEASES[max(ages)]

    assert (known.first, known.last or NEWEST) == releases(known.name)
    assert known.last != NEWEST
    assert [(former.first, former.last) for former in known.former] == [
        releases(former.name) for former in known.former
    ]


def test_every_family_ever_exposed_is_in_the_table_once():
    names = [name for known in SIGNALS for name in known.names]

    assert sorted(names) == sorted({row["family"] for row in rows()})
    assert len(BY_KEY) == len(SIGNALS)
    assert {former.name: known.name for known in SIGNALS for former in known.former} == RENAMED


@pytest.mark.parametrize("known", SIGNALS, ids=lambda known: known.key)
def test_a_unit_agrees_with_the_name(known):
    units = {
        r"_seconds": "seconds", r"_milliseconds": "milliseconds", r"_bytes": "bytes", r"_perc": "ratio",
        r"_tokens": "tokens", r"_toks_per_s": "tokens per second", r"_info": "", r"_time": "seconds",
    }  # fmt: skip
    family = known.name.removesuffix("_total")
    told = [unit for suffix, unit in units.items() if family.endswith(suffix)]

    assert told in ([], [known.unit])


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_prefix_is_upgraded_to_todays_names(prefix):
    for name in {row["family"] for row in FACTS["rows"] if row["family"].startswith("vllm:")}:
        today = RENAMED.get(name, name)

        assert canonical_name(prefix + name.removeprefix("vllm:")) == today
        assert signal(today).name == today


def test_the_known_prefixes():
    assert set(PREFIXES) == {
        *("vllm:", "ray_vllm:", "kserve_vllm:", "vllm_omni:"),
        *("vllm_", "ray_vllm_", "kserve_vllm_", "vllm_omni_"),
    }


@pytest.mark.parametrize(
    ("name", "today"),
    [
        ("vllm:not_yet_known_total", "vllm:not_yet_known_total"),
        ("ray_vllm:not_yet_known_total", "vllm:not_yet_known_total"),
        ("kserve_vllm:not_yet_known_total", "vllm:not_yet_known_total"),
        ("vllm_omni:diffusion_pipeline_seconds", "vllm:diffusion_pipeline_seconds"),
    ],
)
def test_a_wrappers_colon_marks_names_that_the_table_does_not_know(name, today):
    assert canonical_name(name) == today


@pytest.mark.parametrize(
    "name",
    [
        *("vllm_observe_requests_total", "vllm_router_requests_total", "ray_vllm_not_yet_known"),
        *("vllm", "vllm_", "vllm:", "ray_vllm", "ray_vllm_", "", ":", "_", "::"),
        *("lmcache:num_requests_running", "sglang:num_running_reqs", "xray_vllm:num_requests_running"),
        *("num_requests_running", "ray_num_requests_running", "VLLM:num_requests_running"),
        *("ray_http_requests_total", "http_requests_total", "python_info", "process_start_time_seconds"),
        *("vllm_num_requests_running_bucket", "job:vllm:num_requests_running:sum", "vllm:é\n"),
    ],
)
def test_other_peoples_names_are_left_alone(name):
    assert canonical_name(name) == name


@given(
    st.builds(
        "".join, st.lists(st.sampled_from([*PREFIXES, *RENAMED, *BY_KEY, ":", "_"]) | st.text(max_size=9))
    )
)
def test_an_upgraded_name_is_not_upgraded_again(name):
    today = canonical_name(name)

    assert canonical_name(today) == today
    assert today == name or today.startswith("vllm:")


@given(st.text().filter(lambda name: "vllm" not in name))
def test_a_name_without_vllm_in_it_is_never_changed(name):
    assert canonical_name(name) == name


CAPTURES = sorted((TESTS / "data" / "captures").glob("*/*.prom"))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_family_of_a_real_exposition_is_in_the_table_with_its_type(capture):
    types = dict(re.findall(r"^# TYPE ((?:vllm:|http_)\S+) (\S+)$", capture.read_text(), re.MULTILINE))
    data = {name: kind for name, kind in types.items() if not name.endswith("_created")}

    assert len(data) >= 20
    for name, kind in data.items():
        assert signal(canonical_name(name)).kind.value == kind


@pytest.mark.parametrize(
    ("kind", "combine"),
    [
        *((kind, Combine.SUM) for kind in (Kind.COUNTER, Kind.HISTOGRAM, Kind.SUMMARY)),
        *((kind, Combine.MAX) for kind in (Kind.GAUGE, Kind.INFO, Kind.UNKNOWN)),
    ],
)
def test_counts_of_several_processes_add_up_and_gauges_do_not(kind, combine):
    assert Combine.of(kind) is combine
    assert {known.combine for known in SIGNALS if known.kind is kind} <= {combine}


# The design's list, with the labels of each.
EXPORTED = """
requests_total{model_name,profile,outcome} request_duration_seconds{model_name,profile}
request_ttft_seconds{model_name,profile} request_phase_seconds{model_name,phase}
slow_requests_total{model_name,profile,cause} request_tokens_total{model_name,profile,kind}
request_retries_total{model_name} active_sessions{} max_num_seqs{model_name,engine}
sequence_utilization_ratio{model_name,engine} binding_limit{model_name,engine,limit}
kv_cache_capacity_tokens{model_name,engine} request_targets_total{model_name,profile,target,met}
target_info{service_class,vllm_version,limits_source} scrape_success{} scrape_failures_total{reason}
scrape_duration_seconds{} scrapes_skipped_total{} engine_restarts_total{} engine_stalled{model_name,engine}
engine_answers_without_tokens{} exposition_dropped_total{reason} lora_max_adapters{} lora_adapters{state}
lora_adapter_active{adapter,state} join_closed_total{parts} join_amended_total{} clock_skew_seconds{source}
join_pending{} unattributed_tokens_total{kind}
log_lines_total{} log_bytes_total{} log_unparsed_total{reason} spans_total{result} log_lag_seconds{} log_files_waiting{}
log_rotations_total{} log_truncations_total{} log_open_errors_total{} log_unread_total{reason} dropped_total{reason} store_rows{} store_errors_total{} build_info{version,python_version}
config_reloads_total{result} faults_total{}
"""


def test_our_own_names_and_labels_are_the_designs():
    ours = {f"{metric.name}{{{','.join(metric.labels)}}}" for metric in OWN}

    assert ours == {f"vllm_observe_{name}" for name in EXPORTED.split()}
    assert len(OWN) == len(ours)


def test_no_request_and_no_session_is_ever_a_label():
    assert not {"request_id", "session_id", "trace_id", "client"} & {
        label for metric in OWN for label in metric.labels
    }


@pytest.mark.parametrize("metric", OWN, ids=lambda metric: metric.name)
def test_an_own_metric_is_well_formed(metric):
    assert re.fullmatch(r"vllm_observe(_[a-z0-9]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
    assert all(low < high for low, high in pairwise(metric.buckets))
    assert set(metric.known) <= set(metric.labels)
    assert all(values and len(set(values)) == len(values) for values in metric.known.values())
    assert canonical_name(metric.name) == metric.name


@pytest.mark.parametrize("service", ServiceClass)
@pytest.mark.parametrize(
    "name", ["vllm_observe_request_duration_seconds", "vllm_observe_request_ttft_seconds"]
)
def test_each_latency_target_is_a_bucket(name, service):
    (metric,) = (metric for metric in OWN if metric.name == name)
    targets = {TARGETS[service].ttft, TARGETS[service].e2e} - {None}

    assert targets <= set(metric.buckets)
    assert {2.0, 3.0} <= set(metric.buckets)
    assert (metric.buckets[0], metric.buckets[-1]) == (0.01, 600.0)


def test_the_kinds_of_target_are_those_of_the_thresholds():
    (metric,) = (metric for metric in OWN if metric.name == "vllm_observe_request_targets_total")

    assert metric.known["target"] == Targets._fields


def openmetrics(families):
    """Write an exposition in which no sample but the metadata's own names matter."""
    for name, kind, unit in families:
        family = name.removesuffix("_total") if kind is Kind.COUNTER else name
        yield f"# TYPE {family} {kind.value}\n"
        yield f"# UNIT {family} {unit}\n" if unit else ""
        yield f"{name} 1\n" if kind in {Kind.COUNTER, Kind.GAUGE} else ""
    yield "# EOF\n"


def test_all_names_and_units_together_are_valid_openmetrics():
    families = [(metric.name, metric.kind, metric.unit) for metric in OWN]
    families += [(known.name, known.kind, "") for known in SIGNALS]

    # The parser refuses clashing names and a unit that is not the end of the name.
    parsed = list(text_string_to_metric_families("".join(openmetrics(families))))

    assert len(parsed) == len(families)


RENDER = [sys.executable, str(TESTS.parent / "scripts" / "render_docs.py")]


def test_the_committed_pages_are_those_that_the_code_makes():
    done = subprocess.run([*RENDER, "--check"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", [None, "# Metrics\n"])
def test_the_check_of_the_page_fails_where_it_differs_and_writing_mends_it(tmp_path, page):
    output = tmp_path / "metrics.md"
    if page is not None:
        output.write_text(page)
    check = [*RENDER, "--check", "--output", str(tmp_path)]

    before = subprocess.run(check, capture_output=True, text=True, check=False)
    subprocess.run([*RENDER, "--output", str(tmp_path)], check=True)
    after = subprocess.run(check, check=False)

    assert before.returncode == 1
    assert f"{output} is out of date: run scripts/render_docs.py" in before.stderr.splitlines()
    assert after.returncode == 0
    assert "| `vllm:kv_cache_usage_perc` |" in output.read_text()
