"""Which alerts can fire with which release: as vLLM's own pages and the linter see it too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.linting import BEHIND_SIDECAR, ON_VLLM, a_recording, found
from vllm_observe.alerts.guide import page
from vllm_observe.alerts.lint.parsing import parse
from vllm_observe.alerts.lint.tables import release
from vllm_observe.alerts.releases import able, can_fire, releases
from vllm_observe.alerts.rules import rule_groups
from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.signals import NEWEST, OLDEST

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
ON_PAGE = {found.alert: found for found in able(rule_groups(ON_VLLM), behind_sidecar=False)}
ALERTS = [(alert.name, alert.expr) for group in rule_groups(ON_VLLM) for alert in group.alerts]


@pytest.mark.parametrize(
    ("expr", "since"),
    [
        ("vllm:num_requests_running > 1", OLDEST),
        ("vllm:admission_rejections_total > 1", "0.32.0"),
        ("vllm:num_requests_running > 1 and vllm:corrupted_requests_total > 1", "0.11.1"),
        ("vllm:num_requests_waiting_by_reason > 1 or vllm:num_requests_waiting > 1", OLDEST),
        ("vllm:num_requests_running unless vllm:admission_rejections_total", OLDEST),
        ("sum(rate(vllm:inter_token_latency_seconds_sum[5m])) > 1", "0.10.2"),
        ('absent(vllm:admission_rejections_total{instance="a"})', OLDEST),
        ("vllm_observe_engine_answers_without_tokens == 1", "0.8.5"),
        ("DCGM_FI_DEV_GPU_TEMP > 90", OLDEST),
    ],
)
def test_a_rule_can_fire_from_the_release_on_that_has_what_it_needs(expr, since):
    able_with = [version for version in releases() if can_fire(parse(expr), version, behind_sidecar=False)]
    assert able_with == [version for version in releases() if release(version) >= release(since)]


def test_a_sidecar_reads_a_former_name():
    expr = parse("vllm:kv_cache_usage_perc > 0.9")
    assert can_fire(expr, OLDEST, behind_sidecar=True)
    assert not can_fire(expr, OLDEST, behind_sidecar=False)


@pytest.mark.parametrize("capture", ["vllm-0.9.2-v1", "vllm-0.32.0"])
def test_a_real_vllms_page_has_what_the_table_says_and_no_more(capture):
    """The families of a rule that cannot fire are missing there, and those of one that can are there."""
    version = capture.removeprefix("vllm-").partition("-")[0]
    there = {
        family.name
        for file in (CAPTURES / capture).glob("*.prom")
        for family in ExpositionParser().parse(file.read_bytes(), None).families
    }
    names = {"VLLMAdmissionRejections": "vllm:admission_rejections_total", "VLLMKVCacheNearFull": "vllm:kv_cache_usage_perc",
             "VLLMInterTokenLatencyHigh": "vllm:inter_token_latency_seconds",
             "VLLMPrefixCacheHitRateDropped": "vllm:prefix_cache_queries_total"}  # fmt: skip
    for alert, name in names.items():
        can = release(version) >= release(ON_PAGE[alert].since)
        # vLLM makes a counter with a label only when there is something to count.
        assert (name in there) is can or (can and name == "vllm:admission_rejections_total"), (
            alert,
            sorted(there),
        )


@pytest.mark.parametrize("version", [OLDEST, "0.8.5", "0.10.2", NEWEST])
def test_the_linter_finds_what_is_missing_in_each_rule_that_cannot_fire(version):
    for name, expr in ALERTS:
        if can_fire(parse(expr), version, behind_sidecar=False):
            continue
        missing = [p for p in found(a_recording("a:a", expr), version=version) if p.check == "unknown-metric"]
        assert missing, name


def test_the_page_names_each_alert_that_some_release_or_lack_of_an_option_silences():
    rows = dict(
        re.findall(
            r"^\| \[`(\w+)`\]\S+ \| (.+) \|$", page().partition("## Releases of vLLM")[2], re.MULTILINE
        )
    )
    behind = {found.alert: found for found in able(rule_groups(BEHIND_SIDECAR), behind_sidecar=True)}
    hindered = {
        name for found in (behind, ON_PAGE) for name, one in found.items() if one.needs or one.since != OLDEST
    }
    assert set(rows) == hindered
    assert rows["VLLMAdmissionRejections"] == "since 0.32.0 | since 0.32.0 | "
    assert rows["VLLMKVCacheNearFull"] == "all | since 0.9.2 | "
    assert rows["VLLMCorruptedRequests"] == "since 0.11.1 | since 0.11.1 | `VLLM_COMPUTE_NANS_IN_LOGITS=1`"
    assert rows["VLLMLoRASlotsSaturated"].startswith("all | no such alert | `--enable-lora`")


def test_no_alert_is_lost_again_by_a_later_release():
    for options, behind in ((BEHIND_SIDECAR, True), (ON_VLLM, False)):
        for group in rule_groups(options):
            for alert in group.alerts:
                able_with = [can_fire(parse(alert.expr), v, behind_sidecar=behind) for v in releases()]
                assert able_with == sorted(able_with), alert.name
