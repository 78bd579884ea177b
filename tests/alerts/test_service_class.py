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
    series = gone(labels, service_class) | {
        f'vllm_observe_target_info{{job="vllm",instance="b:9809",service_class="{other}"}}': f"1x{MINUTES}"
    }
    check(
        rules, promtool, tmp_path, series, by="service_class", expected=[f'service_class="{service_class}"']
    )


@pytest.mark.parametrize("apart", ["cluster", "namespace"])
def test_a_server_of_the_same_name_elsewhere_lends_no_class(rules, promtool, tmp_path, apart):
    """Helm gives each namespace's job, and a StatefulSet each cluster's servers, the same names."""
    same = 'job="vllm",instance="vllm-0:9809"'
    series = gone(f'{apart}="a",{same}', "batch") | gone(f'{apart}="b",{same}', "interactive")
    classes = [f'{apart}="a",service_class="batch"', f'{apart}="b",service_class="interactive"']
    check(rules, promtool, tmp_path, series, by=f"{apart}, service_class", expected=classes)


def gone(labels, service_class):
    """The series of a server with these labels that is gone from the tenth minute on."""
    return {
        f'vllm_observe_target_info{{{labels},service_class="{service_class}"}}': f"1x{MINUTES}",
        f"vllm_observe_scrape_success{{{labels}}}": f"1x10 0x{MINUTES - 10}",
        f'vllm_observe_scrape_failures_total{{{labels},reason="connection"}}': f"0x10 1+4x{MINUTES - 10}",
    }


def check(rules, promtool, folder, series, *, by, expected):
    """Have promtool evaluate the rules: one firing VLLMTargetDown of each of the expected label sets."""
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'group by ({by}) (ALERTS{{alertname="VLLMTargetDown",alertstate="firing"}})',
                "eval_time": f"{MINUTES - 5}m",
                "exp_samples": [{"labels": f"{{{labels}}}", "value": 1} for labels in expected],
            }
        ],
    }
    told = {
        "rule_files": [str(path) for path in sorted((rules.folder / "rules").glob("*.yaml"))],
        "evaluation_interval": "1m",
        "tests": [test],
    }
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump(told))
    ran = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
