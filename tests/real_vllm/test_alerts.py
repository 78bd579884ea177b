"""From a vLLM that is full, thrashes or is gone to the message on the pager, through all real programs.

The rules are those that are rendered, in a hurry: their windows are an eighth, their ``for`` a sixtieth.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from support.alertmanager import Inbox, Message, alertmanager_for, inbox
from support.load import App, Use
from support.programs import free_port, running
from support.prometheus import prometheus_for
from support.rules import write
from support.vllm import VllmServer, install_vllm
from support.waiting import eventually
from vllm_observe.alerts.alertmanager import Receivers, alertmanager_files
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.render import alert_files

FULL, THRASHING, DOWN = "VLLMSequenceSlotsExhausted", "VLLMKVCacheThrashing", "VLLMTargetDown"
UNPARSED = "VLLMObserveUnparsedLines"
WINDOWS, HOLDS = 8, 60
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
#: Eight of them fit into the slots and the blocks; eight of the others outgrow the blocks.
SHORT, LONG = Use("chat", 50, 120, streams=False), Use("writer", 300, 900, streams=False)


class Story(NamedTuple):
    """What the receiver got, and what was muted when vLLM was gone."""

    messages: list[Message]
    instance: str
    muted: set[str]

    def of(self, receiver: str, name: str) -> list[dict]:
        """What a receiver was told of an alert, message by message."""
        return [
            alert
            for message in self.messages
            if message.path == f"/{receiver}"
            for alert in message.body["alerts"]
            if alert["labels"]["alertname"] == name
        ]


def hurried(text: str) -> str:
    """Rules whose spans are shorter."""
    document = yaml.safe_load(text)
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"\b\d+[smhd]\b", _shorter, rule["expr"])
            for key in {"for", "keep_firing_for"} & rule.keys():
                rule[key] = f"{max(1, _span(rule[key]) // HOLDS)}s"
    return yaml.safe_dump(document)


def _shorter(match: re.Match[str]) -> str:
    return f"{max(2, _span(match[0]) // WINDOWS)}s"


def _span(text: str) -> int:
    return int(text[:-1]) * SECONDS[text[-1]]


@contextmanager
def load(app: App, *, at_once: int) -> Iterator[None]:
    """Keep so many requests under way."""
    over = threading.Event()

    def send() -> None:
        for wave in count():
            if over.is_set():
                return
            app.send(at_once, at_once=at_once, name=f"{app.uses[0].profile}-{wave}")

    # Two of them: while one waits for the last of its crowd, the other's is in the queue.
    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pytest.fixture(scope="module")
def story(release, prometheus, alertmanager, tmp_path_factory) -> Story:
    install_vllm(release)
    folder = tmp_path_factory.mktemp("alerts")
    log, listen = folder / "requests.jsonl", f"127.0.0.1:{free_port()}"
    log.touch()
    vllm = VllmServer(
        release, log=folder / "vllm.log", options=["--max-num-seqs=8", "--num-gpu-blocks-override=20"]
    )
    with ExitStack() as stack:
        stack.callback(vllm.stop)
        vllm.start()
        box = stack.enter_context(inbox())
        receivers = Receivers(webhook_url=box.url)
        real = stack.enter_context(alertmanager_for(alertmanager, alertmanager_files(receivers), folder))
        write(
            folder,
            {
                name: hurried(text)
                for name, text in alert_files(RuleOptions(), receivers).items()
                if name.startswith("rules/")
            },
        )
        command = [
            *(Path(sys.executable).with_name("vllm-observe"), "exporter", "--vllm-url", vllm.url),
            *("--request-log", log, "--listen", listen, "--admin-listen", f"127.0.0.1:{free_port()}"),
            *("--scrape-interval", "1s", "--join-window", "5s"),
        ]
        stack.enter_context(running(command, ready=f"http://{listen}/readyz", log=folder / "sidecar.log"))
        server = stack.enter_context(
            prometheus_for(
                prometheus,
                {"vllm": listen},
                folder,
                rules=sorted((folder / "rules").glob("*.yaml")),
                alertmanager=real.url.removeprefix("http://"),
            )
        )

        def seen() -> list[str]:
            names = "ALERTS|vllm:num_(requests|preemptions).*|vllm:kv_cache_usage_perc|vllm_observe_s(crape|equence).*"
            return [f"{point.labels} {point.value}" for point in server.query(f'{{__name__=~"{names}"}}')]

        _comes_and_goes(box, FULL, load(App(vllm.url, log, uses=(SHORT,)), at_once=16), seen)
        _comes_and_goes(box, THRASHING, load(App(vllm.url, log, uses=(LONG,)), at_once=8), seen)
        vllm.stop()
        # Trouble of the same instance that begins with that: lines that are no records.
        with _garbage(log):
            eventually(lambda: DOWN in box.of("pager"), within=60, what=DOWN)
            eventually(lambda: f"{UNPARSED} {listen}" in real.muted(), within=60, what=f"{UNPARSED}, muted")
        return Story(list(box.messages), listen, real.muted())


def _comes_and_goes(
    box: Inbox, name: str, under: AbstractContextManager[None], seen: Callable[[], object]
) -> None:
    with under:
        try:
            eventually(lambda: name in box.of("pager"), within=120, what=f"{name} on the pager")
        except AssertionError as error:
            raise AssertionError(f"{error}; Prometheus has {seen()}") from None
    eventually(lambda: name in box.of("pager", "resolved"), within=120, what=f"the end of {name}")


@contextmanager
def _garbage(log: Path) -> Iterator[None]:
    over = threading.Event()

    def write_it() -> None:
        while not over.wait(0.2):
            with log.open("a", encoding="utf-8") as file:
                file.write("this is no record\n" * 20)

    thread = threading.Thread(target=write_it)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("name", [FULL, THRASHING])
def test_the_page_says_which_engine_of_which_server(story, name):
    fired = story.of("pager", name)[0]

    expected = {"severity": "critical", "service_class": "interactive", "job": "vllm", "model_name": "tiny"}
    assert {key: fired["labels"][key] for key in expected} == expected
    assert fired["labels"]["instance"] == story.instance
    assert fired["labels"]["engine"] == "0"
    assert set(fired["labels"]) == {*expected, "alertname", "instance", "engine"}  # no pid
    assert fired["annotations"]["runbook_url"].endswith(f"/{name}.md")
    assert f"tiny on {story.instance}, engine 0" in fired["annotations"]["summary"]


@pytest.mark.parametrize("name", [FULL, THRASHING])
def test_it_ends_with_the_load(story, name):
    assert [alert["status"] for alert in story.of("pager", name)][-1] == "resolved"


def test_a_server_that_is_gone_is_one_page_and_mutes_the_rest(story):
    assert [alert["status"] for alert in story.of("pager", DOWN)] == ["firing"]
    assert f"{UNPARSED} {story.instance}" in story.muted
    assert not story.of("chat", UNPARSED)
