"""``check-rules`` as a user runs it: its report, its exit code, and what it refuses."""

from __future__ import annotations

import json
import re
import sys

import pytest

from http_double import http_double, raw, whole
from support.linting import PLAIN, TESTS

GATEWAY = str(TESTS / "data" / "rules" / "gateway.yaml")
SOUND = """\
groups:
  - name: g
    rules:
      - alert: A
        expr: up == 0
        for: 5m
        annotations: {summary: It is down., runbook_url: https://example.com}
"""


@pytest.fixture
def sound(tmp_path):
    path = tmp_path / "sound.yaml"
    path.write_text(SOUND)
    return path


def test_each_problem_is_a_line_with_its_place_and_its_check(run):
    ran = run("check-rules", GATEWAY)
    assert ran.code == 1
    assert ran.out.splitlines()[0] == (
        f"{GATEWAY}:5: error: ServingPreemptions: vllm:num_preemptions does not exist: "
        "write vllm:num_preemptions_total [unknown-metric]"
    )
    assert ran.out.splitlines()[-1] == "4 rules: 1 error, 0 warnings, 3 info"


def test_json_tells_the_same(run):
    ran = run("check-rules", GATEWAY, "--json")
    document = json.loads(ran.out)
    assert (ran.code, document["rules"], document["counts"]) == (1, 4, {"error": 1, "warning": 0, "info": 3})
    assert document["problems"][0] == {
        "file": GATEWAY,
        "line": 5,
        "group": "serving.rules",
        "rule": "ServingPreemptions",
        "check": "unknown-metric",
        "level": "error",
        "message": "vllm:num_preemptions does not exist: write vllm:num_preemptions_total",
    }


def test_sound_rules_are_well(run, sound):
    assert run("check-rules", str(sound)) == (0, "1 rule: 0 errors, 0 warnings, 0 info\n", "")


def test_a_warning_fails_only_where_it_is_asked_to(run, sound):
    sound.write_text(SOUND.replace("        for: 5m\n", ""))
    assert run("check-rules", str(sound)).code == 0
    assert run("check-rules", str(sound), "--strict").code == 1
    assert run("check-rules", str(sound), "--strict", "--disable", "missing-for").code == 0


def test_a_for_that_is_no_duration_fails(run, sound):
    sound.write_text(SOUND.replace("for: 5m", "for: banana"))
    ran = run("check-rules", str(sound))
    assert ran.code == 1
    assert "error: A: for: 'banana' is no duration that Prometheus reads" in ran.out


def test_info_never_fails(run):
    assert run("check-rules", GATEWAY, "--strict", "--disable", "unknown-metric").code == 0


@pytest.mark.parametrize(("level", "told"), [("error", {"error"}), ("info", {"error", "info"})])
def test_a_level_keeps_what_is_told_to_what_is_as_bad(run, level, told):
    ran = run("check-rules", GATEWAY, "--level", level)
    *lines, last = ran.out.splitlines()
    assert {line.split(": ")[1] for line in lines} == told
    assert last == "4 rules: 1 error, 0 warnings, 3 info"
    document = json.loads(run("check-rules", GATEWAY, "--level", level, "--json").out)
    assert {problem["level"] for problem in document["problems"]} == told
    assert document["counts"]["info"] == 3


def test_several_pages_are_taken_together(run, sound, tmp_path):
    other = tmp_path / "gateway.prom"
    other.write_text("# TYPE gateway_pending gauge\ngateway_pending 0\n")
    sound.write_text(
        SOUND.replace("up == 0", "sum(gateway_pending) + sum(rate(vllm:num_preemptions_total[5m])) > 0")
    )
    pages = ["--exposition", str(PLAIN)]
    assert run("check-rules", str(sound), *pages, "--strict").code == 1
    assert run("check-rules", str(sound), *pages, "--exposition", str(other), "--strict").code == 0


@pytest.mark.parametrize("end", ["", "/", "/metrics", "/metrics/"])
def test_a_live_page_is_asked(run, sound, end):
    sound.write_text(SOUND.replace("up == 0", "vllm:kv_cache_usage_perc > 90"))
    with http_double() as server:
        server.answers["/metrics"] = whole(PLAIN.read_bytes())
        ran = run("check-rules", str(sound), "--exposition", server.url + end)
    assert [asked.path for asked in server.asked] == ["/metrics"]
    assert "ratio-as-percent" in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument"),
        (["nowhere.yaml"], "nowhere.yaml: cannot be read: No such file"),
        ([GATEWAY, "--disable", "missing-fro"], "did you mean missing-for?"),
        ([GATEWAY, "--level", "notice"], "they are error, warning, info"),
        ([GATEWAY, "--scrape-interval", "often"], "--scrape-interval must be a duration"),
        ([GATEWAY, "--scrape-interval", "0"], "--scrape-interval must be above 0"),
        ([GATEWAY, "--vllm-version", "new"], "names are known from 0.6.6"),
        ([GATEWAY, "--vllm-version", "0.5.0"], "names are known from 0.6.6"),
        ([GATEWAY, "--vllm-version", "0.9.0", "--exposition", str(PLAIN)], "exclude each other"),
        ([GATEWAY, "--exposition", "nowhere.prom"], "--exposition nowhere.prom: cannot be read"),
        ([GATEWAY, "--exposition", GATEWAY], "--exposition"),
        ([GATEWAY, "--exposition", "http://127.0.0.1:9/metrics"], "--exposition: "),
        ([GATEWAY, "--exposition", "http://"], "--exposition is no address of a page"),
    ],
)
def test_wrong_use_is_told_in_one_line(run, arguments, message):
    ran = run("check-rules", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_without_the_parser_it_says_what_to_install(run, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("vllm_observe.alerts.lint")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "promql_parser", None)
    ran = run("check-rules", GATEWAY)
    assert ran.code == 1
    assert "pip install promql-parser" in ran.err


def test_a_page_that_cannot_be_had_is_told_in_the_words_of_this_command(run):
    """Whatever the reason: nobody who asked for --exposition has an option of the sidecar's to mend."""
    with http_double() as server:
        told = {
            "missing": whole(b"", status=404),
            "locked": whole(b"", status=401),
            "broken": whole(b"", status=500),
            "around": whole(b"", status=302, Location="/around"),
            "away": whole(b"", status=302, Location="http://elsewhere.test/"),
            "large": whole(b"#" * (33 * 1024 * 1024)),
            "garbage": raw(b"no HTTP at all\r\n\r\n"),
        }
        server.answers.update({f"/{name}": answer for name, answer in told.items()})
        addresses = [f"{server.url}/{name}" for name in told]
        for address in (
            *addresses,
            server.url.replace("http:", "https:"),
            "http://127.0.0.1:9",
            "http://no.such.invalid",
        ):
            ran = run("check-rules", GATEWAY, "--exposition", address)
            assert ran.code == 2, address
            assert ran.err.startswith("vllm-observe: --exposition: "), ran.err
            assert ran.err.count("\n") == 1
            assert not re.search(r"--vllm-url|--metrics-path|--?scrape|scrape_", ran.err), ran.err
        assert (
            "check the path of --exposition" in run("check-rules", GATEWAY, "--exposition", addresses[0]).err
        )
        assert (
            "save the page, and give its file"
            in run("check-rules", GATEWAY, "--exposition", addresses[1]).err
        )


def test_a_password_in_an_address_is_not_repeated(run):
    with http_double() as server:
        server.answers["/metrics"] = whole(b"no metrics")
        ran = run("check-rules", GATEWAY, "--exposition", server.url.replace("//", "//me:secret@"))
    assert ran.code == 2
    assert "secret" not in ran.err


def test_a_sidecars_page_without_vllm_is_said_once_and_is_no_fault_of_the_rules(run, sound, tmp_path):
    sound.write_text(
        SOUND.replace(
            "up == 0", "vllm:kv_cache_usage_perc > 0.9 and on (instance) vllm_observe_scrape_success == 0"
        )
    )
    page = tmp_path / "down.prom"
    page.write_text("# TYPE vllm_observe_scrape_success gauge\nvllm_observe_scrape_success 0\n")

    ran = run("check-rules", str(sound), "--exposition", str(page), "--level", "error")
    assert (ran.code, ran.out) == (0, "1 rule: 0 errors, 0 warnings, 0 info\n")
    assert ran.err.count("no page given holds metrics of vLLM") == 1

    sound.write_text(SOUND.replace("up == 0", "vllm:kv_cache_usage > 0.9"))
    assert run("check-rules", str(sound), "--exposition", str(page)).code == 1


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("hostile", ["\\e[2J", "\\u009b2J", "\\n0 rules: 0 errors", "\\u202e"])
def test_what_a_rule_is_called_never_reaches_a_terminal_raw(run, sound, form, hostile):
    sound.write_text(SOUND.replace("alert: A", f'alert: "A{hostile}"').replace("up == 0", "up"))
    plain = run("check-rules", str(sound), *form).out

    assert "no-condition" in plain
    assert all(character.isprintable() for character in plain.replace("\n", ""))
    assert not [line for line in plain.splitlines() if line.startswith("0 rules")]
