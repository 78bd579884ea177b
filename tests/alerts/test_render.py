"""What is rendered: the files as they are committed, objects for Kubernetes, links that lead somewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from http_double import http_double, whole
from support.rules import FORMS, alerts_of, run, write
from vllm_observe.alerts.alertmanager import Receivers
from vllm_observe.alerts.buckets import check_targets, known_bounds
from vllm_observe.alerts.lint.expression import Aggregation, Selector, walk
from vllm_observe.alerts.lint.parsing import parse
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import JOB, Scope, span
from vllm_observe.alerts.render import alert_files
from vllm_observe.alerts.rules import rule_groups
from vllm_observe.cli import main
from vllm_observe.errors import ConfigError
from vllm_observe.model import ServiceClass
from vllm_observe.thresholds import TARGETS, Targets

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "alerts"
CAPTURES = ROOT / "tests" / "data" / "captures" / "vllm-0.32.0"
FILES = alert_files(RuleOptions(), Receivers())
ALERTS = [alert for name, text in FILES.items() if name.startswith("rules/") for alert in alerts_of(text)]
BOARDS = {
    board["uid"]: board
    for board in (json.loads(file.read_text()) for file in (ROOT / "dashboards").glob("*.json"))
}
#: Alerts that are not about one server: of a service, of a node of GPUs, of a cluster.
WIDER = {
    *("VLLMRequestErrorsHigh", "VLLMClientDisconnectsHigh"),
    *("VLLMTimeToFirstTokenBudgetBurn", "VLLMAllTargetsGone", "VLLMAvailabilityBudgetBurn"),
    *("VLLMGPUXidError", "VLLMGPUHot", "VLLMGPULost", "VLLMGPUUnderusedWhileQueueing"),
}


def render(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["render-alerts", *map(str, arguments)])
    return ended.value.code


def identity(alert):
    return " ".join(
        (alert["alert"], *(str(alert["labels"].get(label, "")) for label in ("severity", "window")))
    )


def test_the_committed_files_are_those_that_are_rendered(capsys):
    assert render("--check", "--output", COMMITTED) == 0, capsys.readouterr().err

    committed = {str(path.relative_to(COMMITTED)) for path in COMMITTED.rglob("*") if path.is_file()}
    assert committed == {*FILES, "README.md"}


def test_a_check_names_what_differs(tmp_path, capsys):
    render("--output", tmp_path)
    (tmp_path / "rules" / "gpu.yaml").write_text("changed")
    (tmp_path / "alertmanager.yml").unlink()

    assert render("--check", "--output", tmp_path) == 1
    checked = capsys.readouterr().out.splitlines()[len(FILES) :]
    assert sorted(checked) == [str(tmp_path / name) for name in ("alertmanager.yml", "rules/gpu.yaml")]


def test_a_check_of_an_empty_folder_names_one_file_a_line(tmp_path, capsys):
    assert render("--check", "--output", tmp_path) == 1
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(str(tmp_path / name) for name in FILES)


def test_what_an_earlier_rendering_left_is_named_and_removed_and_nothing_else_is(tmp_path, capsys):
    mine = {
        "rules/mine.yaml": "groups: []\n# Rendered by `vllm-observe render-alerts`. Change it there.\n",
        "rules/deep/gpu.yaml": FILES["rules/gpu.yaml"],
        "notes.md": "mine",
        "board.yaml": "# Rendered by `vllm-observe render-dashboards`. Change it there.\n",
    }
    render("--output", tmp_path)
    write(tmp_path, mine)
    other = ("--no-gpu", "--tokens-per-second", "50", "--output", tmp_path)
    stale = {"rules/gpu.yaml", *(name for name in FILES if name.startswith(("tests/", "runbooks/VLLMGPU")))}
    capsys.readouterr()

    assert render("--check", *other) == 1
    said = capsys.readouterr().out.splitlines()
    assert {line for line in said if "(of an earlier" in line} == {
        f"{tmp_path / name} (of an earlier rendering)" for name in stale
    }
    assert render(*other) == 0
    assert {line for line in capsys.readouterr().out.splitlines() if line.startswith("removed ")} == {
        f"removed {tmp_path / name}" for name in stale
    }
    assert not [name for name in stale if (tmp_path / name).exists()]
    assert all((tmp_path / name).read_text() == text for name, text in mine.items())
    assert render("--check", *other) == 0


@pytest.mark.parametrize("forms", [(False, True), (True, False)], ids=["objects last", "files last"])
def test_both_forms_may_stand_side_by_side(forms, tmp_path):
    flags = [("--kubernetes",) if kubernetes else () for kubernetes in forms]
    first, last = (alert_files(RuleOptions(), Receivers(), kubernetes=kubernetes) for kubernetes in forms)
    for form in flags:
        assert render(*form, "--output", tmp_path) == 0
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {
        *first,
        *last,
    }
    for form in flags:
        assert render("--check", *form, "--output", tmp_path) == 0


@pytest.mark.parametrize("form", FORMS)
def test_kubernetes_objects_hold_the_same_rules(form, promtool, tmp_path):
    files = alert_files(FORMS[form], Receivers())
    written = alert_files(FORMS[form], Receivers(), kubernetes=True)
    objects = {name: text for name, text in written.items() if "kind: PrometheusRule" in text}
    for name, text in objects.items():
        found = yaml.safe_load(text)
        assert (found["apiVersion"], found["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", found["metadata"]["name"])
        plain = yaml.safe_load(files[f"rules/{Path(name).name}"])
        assert found["spec"] == plain
        write(tmp_path, {name: yaml.safe_dump(found["spec"])})

    done = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *sorted(tmp_path.rglob("*.yaml")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(objects) == len([name for name in files if name.startswith("rules/")])


def test_kubernetes_objects_come_with_the_runbooks_that_they_link_to():
    files, written = (alert_files(RuleOptions(), Receivers(), kubernetes=way) for way in (False, True))
    assert {name: text for name, text in files.items() if name.startswith("runbooks/")} == {
        name: text for name, text in written.items() if not name.startswith("kubernetes/")
    }
    links = re.findall(r"runbook_url: alerts/(\S+)", "".join(written.values()))
    assert links
    assert set(links) <= set(written)


@pytest.mark.parametrize(
    "receivers", [Receivers(), Receivers(webhook_url="http://hook.test")], ids=["usual", "webhook"]
)
def test_alertmanagers_secret_holds_its_configuration_with_the_operators_paths(receivers, amtool, tmp_path):
    """Where the Operator mounts what: its API documentation, at configSecret and at secrets."""
    files, written = (alert_files(RuleOptions(), receivers, kubernetes=way) for way in (False, True))
    found = yaml.safe_load(written["kubernetes/alertmanager.yaml"])
    assert (found["apiVersion"], found["kind"], found["metadata"]["name"]) == (
        "v1",
        "Secret",
        "vllm-observe-alertmanager",
    )
    assert set(found["stringData"]) == {"alertmanager.yaml", "vllm-observe.tmpl"}
    assert found["stringData"]["vllm-observe.tmpl"] == files["vllm-observe.tmpl"]
    write(tmp_path, {"alertmanager.yaml": found["stringData"]["alertmanager.yaml"]})
    done = run(amtool, "check-config", tmp_path / "alertmanager.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    told = found["stringData"]["alertmanager.yaml"]
    assert "- /etc/alertmanager/config/*.tmpl" in told
    mounted = "/etc/alertmanager/secrets/vllm-observe-receivers/"
    assert told.count(mounted) == (0 if receivers.webhook_url else 2)
    plain = told.replace(mounted, "/etc/alertmanager/secrets/").replace(
        "/etc/alertmanager/config/*.tmpl", "vllm-observe.tmpl"
    )
    assert yaml.safe_load(plain) == yaml.safe_load(files["alertmanager.yml"])


def test_what_the_page_says_to_apply_is_what_is_rendered():
    """The names in alerts/README.md are those of the objects, and its Secret's keys those of the paths."""
    page = (COMMITTED / "README.md").read_text()
    secret = alert_files(RuleOptions(), Receivers(), kubernetes=True)["kubernetes/alertmanager.yaml"]
    assert f"configSecret: {yaml.safe_load(secret)['metadata']['name']}\n" in page
    for name, key in re.findall(r"/etc/alertmanager/secrets/([\w-]+)/([\w-]+)", secret):
        assert f"create secret generic {name} " in page
        assert f"secrets: [{name}]" in page
        assert f"--from-file={key}" in page


@pytest.mark.parametrize("alert", ALERTS, ids=identity)
def test_an_alert_says_what_where_and_what_to_do(alert):
    assert set(alert["labels"]) >= {"severity", "service_class"}
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    said = alert["annotations"]
    assert len(said["summary"]) < 300
    assert "{{ $labels.instance }}" in said["summary"] or alert["alert"] in WIDER
    assert re.search(r"\b[Ff]irst\b|Nobody", said["description"])
    assert not re.search(r"\{[a-z]+\}", said["summary"] + said["description"])
    assert "pid" not in alert["expr"]
    # Pods come and go: they may tie what is read together, but no alert is one of a pod.
    assert not re.search(r"\bpod\b", alert["expr"]) or alert["expr"].startswith("min by (cluster) (")


@pytest.mark.parametrize("alert", ALERTS, ids=identity)
def test_a_runbook_is_named_by_its_path_where_nobody_says_who_serves_it(alert):
    assert (ROOT / alert["annotations"]["runbook_url"]).is_file()


#: What Prometheus puts into an alert, by what the alert is about.
_VLLM = {"job": "vllm & co", "instance": "a:9809", "model_name": "org/llama", "engine": "0"}
_LABELS = [_VLLM, {"job": "vllm", "model_name": "llama"}, {"Hostname": "n1", "gpu": "0"}, {"cluster": "eu"}]


@pytest.mark.parametrize("labels", _LABELS)
def test_a_board_link_asks_a_board_for_variables_that_it_has(labels, promtool, tmp_path):
    """Each link as promtool, which expands templates as Prometheus does, gives it for such labels."""
    links = {alert["annotations"]["dashboard_url"] for alert in ALERTS if _can_have(alert, labels)}
    assert links
    for link in expanded(links, labels, promtool, tmp_path):
        address = urlsplit(link)
        board = BOARDS[address.path.removeprefix("/d/")]
        asked = parse_qs(address.query, strict_parsing=bool(address.query))
        assert set(asked) <= {f"var-{variable['name']}" for variable in board["templating"]["list"]}
        told = {"gpu_host" if name == "Hostname" else name: value for name, value in labels.items()}
        assert asked == {f"var-{name}": [told[name]] for name in told if name not in {"gpu", "cluster"}}


def _can_have(alert, labels):
    """GPUs are shown on one board."""
    return "Hostname" not in labels or "Hostname" in alert["expr"]


def expanded(texts, labels, promtool, folder):
    """Annotations as Prometheus expands them for an alert with such labels."""
    series = "up{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
    rules = [
        {"alert": f"A{n}", "expr": "up == 0", "annotations": {"told": text}} for n, text in enumerate(texts)
    ]
    test = {
        "interval": "30s",
        "input_series": [{"series": series, "values": "0 0"}],
        "alert_rule_test": [{"eval_time": "30s", "alertname": rule["alert"]} for rule in rules],
    }
    write(folder, {"rules.yaml": json.dumps({"groups": [{"name": "g", "rules": rules}]})})
    write(folder, {"tests.yaml": json.dumps({"rule_files": ["rules.yaml"], "tests": [test]})})
    done = run(promtool, "test", "rules", folder / "tests.yaml")
    # Nothing is expected: it tells what there is instead.
    found = re.findall(r'told="([^"]*)"', done.stdout + done.stderr)
    assert len(found) == len(rules), done.stdout + done.stderr
    return found


def test_where_runbooks_and_boards_are_served_links_are_whole(tmp_path):
    render(
        "--output", tmp_path, "--runbook-url", "https://docs.test/rb/", "--dashboard-url", "https://g.test/"
    )
    for alert in (alert for file in (tmp_path / "rules").iterdir() for alert in alerts_of(file.read_text())):
        assert alert["annotations"]["runbook_url"] == f"https://docs.test/rb/{alert['alert']}.md"
        assert alert["annotations"]["dashboard_url"].startswith("https://g.test/d/vllm-observe-")


def test_what_an_address_asks_stays_behind_the_path_that_is_put_into_it(promtool, tmp_path):
    """RFC 3986, section 3: the path ends at the first question mark."""
    flags = (
        *(
            "--runbook-url",
            "https://git.test/rb/?ref=main",
            "--dashboard-url",
            "https://g.test/?orgId=2&kiosk",
        ),
        *("--webhook-url", "https://hook.test/in/?team=ml"),
    )
    assert render(*flags, "--output", tmp_path) == 0

    alerts = [alert for file in (tmp_path / "rules").iterdir() for alert in alerts_of(file.read_text())]
    assert {a["annotations"]["runbook_url"] for a in alerts} == {
        f"https://git.test/rb/{a['alert']}.md?ref=main" for a in alerts
    }
    links = {alert["annotations"]["dashboard_url"] for alert in alerts}
    for labels in _LABELS:
        for link in expanded(links, labels, promtool, tmp_path / "expanded"):
            address = urlsplit(link)
            assert address.path.removeprefix("/d/") in BOARDS
            asked = parse_qs(address.query, keep_blank_values=True)
            assert (asked.pop("orgId"), asked.pop("kiosk")) == (["2"], [""])
            assert set(asked) <= {
                *(f"var-{name}" for name in ("job", "instance", "model_name", "engine", "gpu_host"))
            }
            assert asked.get("var-job") == ([labels["job"]] if "job" in labels else None)
    receivers = yaml.safe_load((tmp_path / "alertmanager.yml").read_text())["receivers"]
    assert [hook["url"] for receiver in receivers for hook in receiver.get("webhook_configs", ())] == [
        "https://hook.test/in/pager?team=ml",
        "https://hook.test/in/chat?team=ml",
    ]


def test_an_address_of_the_page_makes_links_of_commands():
    options = RuleOptions(admin_url="https://observe.example.com")
    files = alert_files(options, Receivers())
    explained = [a["annotations"]["explain"] for t in files.values() if "alert:" in t for a in alerts_of(t)
                 if "explain" in a["annotations"]]  # fmt: skip

    assert "https://observe.example.com/api/v1/requests?since=15m&cause=queue_slots" in explained
    assert options.usual


def test_a_scope_stands_in_every_selector_of_ours():
    files = alert_files(RuleOptions(scope=Scope('cluster="eu"')), Receivers())
    for name, text in files.items():
        if not name.startswith("rules/"):
            continue
        for group in yaml.safe_load(text)["groups"]:
            for rule in group["rules"]:
                selectors = re.findall(
                    r"\b(vllm:\w+|vllm_observe_\w+|up\b|http_requests_total)(\{[^}]*\})?", rule["expr"]
                )
                # DCGM's exporter is no target of ours, and neither is its `up`.
                ours = [
                    matchers for name, matchers in selectors if name != "up" or "DCGM" not in rule["expr"]
                ]
                assert all('cluster="eu"' in matchers for matchers in ours), rule["expr"]


def test_without_a_sidecar_a_selector_is_needed(capsys, tmp_path):
    assert render("--max-num-seqs", "8", "--output", tmp_path) == 2
    assert "--selector" in capsys.readouterr().err
    assert render("--max-num-seqs", "8", "--selector", 'job="vllm"', "--output", tmp_path) == 0
    for file in (tmp_path / "rules").glob("*.yaml"):
        assert not [alert for alert in alerts_of(file.read_text()) if "vllm_observe_" in alert["expr"]]


def test_other_promises_have_other_rules_and_no_tests_of_ours():
    options = RuleOptions(targets={**TARGETS, ServiceClass.INTERACTIVE: Targets(ttft=1.0, tpot=0.05)})
    files = alert_files(options, Receivers())

    assert not [name for name in files if name.startswith("tests/")]
    assert 'le=~"1([.]0)?"' in files["rules/service-levels.yaml"]


def test_a_target_that_is_no_bucket_is_refused_and_the_nearest_are_named():
    options = RuleOptions(targets={**TARGETS, ServiceClass.INTERACTIVE: Targets(ttft=2.2, tpot=0.1)})

    with pytest.raises(ConfigError, match=r"the nearest are 2 and 2\.5"):
        check_targets(options, known_bounds(options.ttft_histogram))


def test_a_target_is_checked_against_a_live_page(capsys, tmp_path):
    config = tmp_path / "sidecar.yaml"
    config.write_text("target_ttft: 2.0\n")
    with http_double() as vllm:
        page = (CAPTURES / "saturated.prom").read_bytes()
        vllm.answers["/metrics"] = whole(page, content_type="text/plain; version=0.0.4")
        flags = (
            "--max-num-seqs",
            "8",
            "--selector",
            'job="vllm"',
            "--vllm-url",
            vllm.url,
            "--output",
            tmp_path,
        )
        assert render(*flags) == 0
        assert render(*flags, "--config", config) == 2
    assert "the nearest are 1 and 2.5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "written"), [(300, "5m"), (90, "90s"), (7200, "2h"), (86400, "1d"), (259200, "3d")]
)
def test_a_span_is_written_as_prometheus_writes_it(seconds, written):
    assert span(seconds) == written


def test_gpu_rules_are_left_out_where_nobody_wants_them():
    assert "rules/gpu.yaml" not in alert_files(replace(RuleOptions(), gpu=False), Receivers())


@pytest.mark.parametrize("written", ['job="vllm"', '{job="vllm"}', ' { job="vllm", } '])
def test_a_selector_may_stand_in_its_braces(written, tmp_path):
    assert render("--selector", written, "--output", tmp_path) == 0

    rules = (tmp_path / "rules" / "capacity.yaml").read_text()
    assert re.search(r'vllm:kv_cache_usage_perc\{ ?job="vllm"\}\[', rules)


@pytest.mark.parametrize(
    "written",
    [
        *("job=vllm", "vllm", '{{job="a"}}', 'job=~"("', '__name__="up"', 'a="1" or b="2"'),
        *('job="a"} or up{job="b"', 'job="a"} offset 5m #'),
    ],
)
def test_a_selector_that_would_spoil_every_rule_is_refused(written, capsys, tmp_path):
    assert render("--selector", written, "--output", tmp_path / "made") == 2

    said = capsys.readouterr().err
    assert "--selector" in said
    assert 'job="vllm"\'' in said
    assert not (tmp_path / "made").exists()


#: What cannot work with any of the options that take an address, and a word of the reason.
ADDRESSES = ("--webhook-url", "--runbook-url", "--dashboard-url", "--admin-url")
UNFIT = (
    *((url, "no address") for url in ("notaurl", "ftp://h/x", "http://", "http://h/a b", "http://h:x")),
    *((url, "no address") for url in ("https://h/{{ .x }}", "https://h/<team>", "https://h/`a`")),
    *((url, "'#'") for url in ("https://h/#x", "https://h/?a=1#x")),
    *((f"https://{user}@h/hook", "user") for user in ("someone", "someone:hunter2", ":hunter2")),
    *(
        (f"https://h/?a=1&{name}=hunter2", "secret")
        for name in ("token", "apiKey", "X-Sig", "auth_token", "b=2;pwd")
    ),
)


@pytest.mark.parametrize(
    ("flag", "value", "why"),
    [
        *(("--tokens-per-second", number, "0") for number in ("0", "inf", "nan")),
        *((flag, value, why) for flag in ADDRESSES for value, why in UNFIT if flag != "--admin-url"),
        *(("--admin-url", value, "") for value, _ in UNFIT),
        # It is what --sidecar takes, and that has its own paths and questions.
        ("--admin-url", "https://h/?a=1", "'?'"),
    ],
)
def test_what_is_no_address_and_no_promise_is_refused_in_one_line(flag, value, why, capsys, tmp_path):
    assert render(flag, value, "--output", tmp_path / "made") == 2

    said = capsys.readouterr().err
    assert flag in said
    assert why in said
    assert "hunter2" not in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "made").exists()


def test_a_webhooks_secret_is_refused_and_its_file_is_named(capsys, tmp_path):
    assert render("--webhook-url", "https://user:pass@host/hook?token=1", "--output", tmp_path) == 2
    assert "http_config.basic_auth.password_file" in capsys.readouterr().err


#: What leaves `up` without series, or the page; each for a reason that is told.
CONTRADICTORY = ('job="a",job="b"', 'job="a",job!="a"', 'job=~"a|b",job="c"', 'job="a",job=~"b.*"',
                 'job=""', 'instance=~""', 'job!~".*"', 'instance!~".+"', 'pod="a",pod=""')  # fmt: skip
NOT_OF_TARGETS = ('le="1"', 'le!="1"', 'engine="0"', 'job="a",model_name=~"llama.*"', 'engine=""', 'engine!~".+"',
                  'service_class="batch"', 'outcome!="", job="a"', 'finished_reason="stop"')  # fmt: skip


@pytest.mark.parametrize(
    ("written", "why"),
    [
        *((written, "matches nothing") for written in CONTRADICTORY),
        *((written, "label of what a page says") for written in NOT_OF_TARGETS),
    ],
)
def test_a_selector_that_would_silence_rules_is_refused_and_told_why(written, why, capsys, tmp_path):
    assert render("--selector", written, "--output", tmp_path / "made") == 2

    said = capsys.readouterr().err
    assert said.startswith("vllm-observe: --selector")
    assert why in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("written", CONTRADICTORY)
def test_a_selector_of_gpus_that_matches_nothing_is_refused(written, capsys, tmp_path):
    assert render("--gpu-selector", written, "--output", tmp_path / "made") == 2
    assert "--gpu-selector matches nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "written",
    [
        *('job="a",instance!="b"', 'job=~"a|b",job!="a"', 'job=~"a.b",job!="a.b"', 'job=~"a.*",job=~".*b"'),
        *('tier="gold"', 'backend="x"', 'version="1"', 'pod=""', 'cluster="eu",team=~"ml|"', 'job!~"a.*"'),
        *('model_name!="test"', 'model_name!~"test.*"', 'engine=~"0|"'),
    ],
)
def test_a_selector_that_some_target_and_its_page_can_satisfy_is_taken(written, tmp_path):
    assert render("--selector", written, "--output", tmp_path) == 0


def test_no_label_that_rules_read_of_a_page_is_taken_for_one_of_targets(capsys, tmp_path):
    """A target with such a label would have the page's renamed to exported_…, and rules would not find it."""
    read = {
        label
        for alert in (alert for form in FORMS.values() for group in rule_groups(form) for alert in group.rules)
        for part, _ in walk(parse(alert.expr))
        for label in (
            [matcher.label for matcher in part.matchers] if isinstance(part, Selector)
            else part.labels if isinstance(part, Aggregation) else ()
        )
    } - {*JOB.split(", "), "instance", "Hostname", "gpu", "pod"}  # fmt: skip
    assert {"engine", "model_name", "le", "outcome", "reason"} <= read
    for label in read:
        assert render("--selector", f'{label}="x"', "--output", tmp_path) == 2
        assert f"{label} is a label of what a page says" in capsys.readouterr().err


def test_a_selector_of_gpus_stands_in_all_that_is_read_of_them_and_nowhere_else(tmp_path):
    assert render("--gpu-selector", '{Hostname=~"gpu-.*"}', "--output", tmp_path) == 0

    for file in (tmp_path / "rules").iterdir():
        for alert in alerts_of(file.read_text()):
            found = re.findall(r"\b(DCGM_\w+|vllm:\w+|up\b)(\{[^}]*\})?", alert["expr"])
            assert all(
                (matchers == '{Hostname=~"gpu-.*"}') is name.startswith("DCGM") for name, matchers in found
            )
