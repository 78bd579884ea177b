"""What a person reads: real messages of a real Alertmanager to Slack and PagerDuty, as they take them."""

from __future__ import annotations

import pytest

from support.alertmanager import alertmanager_for, inbox
from support.waiting import eventually
from vllm_observe.alerts.alertmanager import Receivers, alertmanager_files

ANNOTATIONS = {
    "summary": "llama on a:9809, engine 0: every sequence slot is taken and requests wait",
    "description": "New requests wait for a slot. First see who sends the load (vllm-observe sessions).",
    "runbook_url": "https://docs/VLLMSequenceSlotsExhausted.md",
    "dashboard_url": "https://grafana/d/vllm-observe-engine?var-job=vllm",
    "explain": "vllm-observe requests --since 15m --cause queue_slots",
}
LABELS = {"service_class": "interactive", "model_name": "llama", "job": "vllm"}
#: What Slack shows of a text before it folds it away, and what it takes at all.
FOLDED, MOST = 700, 3000


@pytest.fixture
def post(alertmanager, tmp_path):
    """Fire alerts, and give the first message of each kind that they become."""
    with inbox() as box:
        (tmp_path / "slack").write_text(f"{box.url}/slack")
        (tmp_path / "pagerduty").write_text("key")
        receivers = Receivers(
            pager_key_file=str(tmp_path / "pagerduty"), chat_url_file=str(tmp_path / "slack")
        )
        global_ = {"pagerduty_url": f"{box.url}/pagerduty"}
        with alertmanager_for(alertmanager, alertmanager_files(receivers), tmp_path, global_=global_) as real:

            def fire(*alerts, path, annotations=ANNOTATIONS, holds=lambda _: True):
                real.fire(*alerts, annotations=annotations)
                return eventually(
                    lambda: [
                        message.body
                        for message in box.messages
                        if message.path == path and holds(message.body)
                    ],
                    within=20,
                    what=f"a message to {path}",
                )[0]

            fire.real, fire.box = real, box
            yield fire


def engines(number, severity="warning"):
    return [
        {"alertname": "VLLMX", "severity": severity, "instance": f"a{n}:9809", "engine": "0", **LABELS}
        for n in range(number)
    ]


def test_a_chat_message_says_all_at_one_look(post):
    (attachment,) = post(*engines(1), path="/slack")["attachments"]

    assert attachment["title"] == "VLLMX on llama"
    assert attachment["text"].splitlines() == [
        ANNOTATIONS["summary"],
        ANNOTATIONS["description"],
        f"runbook: {ANNOTATIONS['runbook_url']}",
        f"board: {ANNOTATIONS['dashboard_url']}",
        f"which requests: {ANNOTATIONS['explain']}",
    ]
    assert len(attachment["text"]) < FOLDED


def test_a_message_is_one_where_links_are_paths(post):
    paths = {
        "runbook_url": "alerts/runbooks/VLLMX.md",
        "dashboard_url": "/d/vllm-observe-engine?var-job=vllm",
    }
    (attachment,) = post(*engines(1), path="/slack", annotations={**ANNOTATIONS, **paths})["attachments"]

    assert attachment["text"].splitlines()[2:4] == [
        "runbook: alerts/runbooks/VLLMX.md",
        "board: /d/vllm-observe-engine?var-job=vllm",
    ]


def test_many_alerts_are_one_short_message(post):
    """What a busy machine takes in late comes with the next message of the group."""
    title = "VLLMX on llama (60)"
    whole = post(*engines(60), path="/slack", holds=lambda body: body["attachments"][0]["title"] == title)
    (attachment,) = whole["attachments"]

    assert attachment["text"].count(ANNOTATIONS["summary"]) == 5
    assert "and others, all of them on the board" in attachment["text"]
    assert len(attachment["text"]) < MOST


def test_a_page_names_what_to_do(post):
    body = post(*engines(1, severity="critical"), path="/pagerduty")

    assert body["event_action"] == "trigger"
    assert body["payload"]["summary"] == "VLLMX on llama"
    assert ANNOTATIONS["runbook_url"] in body["payload"]["custom_details"]["text"]


def test_the_end_is_told_too(post):
    post(*engines(1), path="/slack")
    post.real.end(*engines(1))

    ended = eventually(lambda: post.box.messages[1:], within=20, what="a second message")[0]
    assert ended.body["attachments"][0]["title"] == "resolved: VLLMX on llama"
    assert ended.body["attachments"][0]["color"] == "good"


def of_server(labels):
    """What Prometheus says of one server that is down, also when it has come back."""
    server = labels["instance"]
    return {
        "summary": f"{server}: vLLM cannot be reached",
        "description": f"First see what {server} says.",
        "runbook_url": "https://docs/VLLMTargetDown.md",
        "dashboard_url": f"https://grafana/d/board?var-instance={server}",
        "explain": f"vllm-observe requests --server {server}",
    }


def down(number):
    return {
        "alertname": "VLLMTargetDown",
        "severity": "critical",
        "service_class": "batch",
        "instance": f"srv{number}",
    }


@pytest.fixture
def servers(post):
    """Fire or end the alerts of some servers, and give the message to the chat with a title."""

    def told(title, *, firing=(), ended=()):
        for tell, numbers in ((post.real.fire, firing), (post.real.end, ended)):
            tell(*map(down, numbers), annotations=of_server)
        (attachment,) = eventually(
            lambda: [
                message.body["attachments"]
                for message in list(post.box.messages)
                if message.path == "/slack" and message.body["attachments"][0]["title"] == title
            ],
            within=20,
            what=f"a message {title}: {post.box.messages}",
        )[-1]
        return attachment["text"].splitlines()

    return told


def test_a_server_that_came_back_is_told_as_such_and_the_links_are_of_one_that_is_down(servers):
    assert servers("VLLMTargetDown (2)", firing=(1, 2))[:3] == [
        "srv1: vLLM cannot be reached",
        "srv2: vLLM cannot be reached",
        "First see what srv1 says.",
    ]
    assert servers("VLLMTargetDown (1 firing, 1 resolved)", ended=(1,)) == [
        "srv2: vLLM cannot be reached",
        "First see what srv2 says.",
        "runbook: https://docs/VLLMTargetDown.md",
        "board: https://grafana/d/board?var-instance=srv2",
        "which requests: vllm-observe requests --server srv2",
        "resolved: srv1: vLLM cannot be reached",
    ]
    # Told once: the next message is of what has happened since.
    assert servers("resolved: VLLMTargetDown", ended=(2,)) == [
        "resolved: srv2: vLLM cannot be reached",
        "board: https://grafana/d/board?var-instance=srv2",
    ]


def test_of_many_that_came_back_three_are_named(servers):
    servers("VLLMTargetDown (9)", firing=range(1, 10))
    text = servers("VLLMTargetDown (1 firing, 8 resolved)", ended=range(1, 9))

    assert text[0] == "srv9: vLLM cannot be reached"
    assert text[-4:] == [
        *(f"resolved: srv{number}: vLLM cannot be reached" for number in (1, 2, 3)),
        "and others are resolved",
    ]
    assert len(text) == 9


def test_all_that_came_back_at_once_are_counted_and_nobody_is_told_what_to_do(servers):
    servers("VLLMTargetDown (2)", firing=(1, 2))

    assert servers("resolved: VLLMTargetDown (2)", ended=(1, 2)) == [
        "resolved: srv1: vLLM cannot be reached",
        "resolved: srv2: vLLM cannot be reached",
        "board: https://grafana/d/board?var-instance=srv1",
    ]


def test_names_that_people_choose_break_nothing(post):
    hostile = '"><script>{{ .Labels }} `$(x)` *b* \u202eüñí\n@channel'
    alert = {**engines(1)[0], "model_name": hostile}
    (attachment,) = post(alert, path="/slack")["attachments"]

    assert attachment["title"].startswith("VLLMX on ")
    assert "{{ .Labels }}" in attachment["title"]  # not expanded a second time
    assert attachment["text"].startswith(ANNOTATIONS["summary"])


def test_a_message_without_annotations_is_a_message(post):
    (attachment,) = post(*engines(1), path="/slack", annotations={"summary": "only this"})["attachments"]

    assert attachment["text"].strip() == "only this"
