"""Whose alert it is: the class that a rule's template asks Prometheus for, as promtool evaluates it."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from support.rules import rendered

MINUTES = 40


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    return rendered("sidecar", tmp_path_factory.mktemp("rules"))


@pytest.mark.parametrize("instance", ["a:9809", "[2001:db8::7]:9809", 'odd".*\\name'])
@pytest.mark.parametrize("service_class", ["batch", "interactive"])
def test_a_servers_alert_has_its_own_class_whatever_its_name(
    rules, promtool, tmp_path, instance, service_class
):
    labels = f'job="vllm",instance={yaml.safe_dump(instance, default_style=chr(34)).strip()}'
    other = {"batch": "interactive", "interactive": "batch"}[service_class]
    told = {
        "rule_files": [str(path) for path in sorted((rules.folder / "rules").glob("*.yaml"))],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": series, "values": values}
                    for series, values in {
                        f'vllm_observe_target_info{{{labels},service_class="{service_class}"}}': f"1x{MINUTES}",
                        f'vllm_observe_target_info{{job="vllm",instance="b:9809",service_class="{other}"}}': (
                            f"1x{MINUTES}"
                        ),
                        f"vllm_observe_scrape_success{{{labels}}}": f"1x10 0x{MINUTES - 10}",
                        f'vllm_observe_scrape_failures_total{{{labels},reason="connection"}}': f"0x10 1+4x{MINUTES - 10}",
                    }.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": 'group by (service_class) (ALERTS{alertname="VLLMTargetDown",alertstate="firing"})',
                        "eval_time": f"{MINUTES - 5}m",
                        "exp_samples": [{"labels": f'{{service_class="{service_class}"}}', "value": 1}],
                    }
                ],
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(told))
    ran = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
