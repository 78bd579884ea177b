"""`vllm-observe status` on a real vLLM, without a sidecar."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.load import App, Use
from support.waiting import becomes


def status(url: str) -> dict:
    command = [Path(sys.executable).with_name("vllm-observe"), "status", "--vllm-url", url, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)


@pytest.mark.usefixtures("restarted")  # this loads the same server: the play must be over
def test_status_tells_a_saturated_engine_and_why_without_any_setting(vllm, release, tmp_path):
    def told():
        state = status(vllm.url)
        (engine,) = state["engines"]
        return {
            "version": state["vllm_version"],
            "from": state["limits_source"],
            "running": engine["running"],
            "used": engine["utilization"],
            "held back by": engine["binding_limit"],
        }

    expected = {"version": release, "from": "command_line", "running": 8, "used": 1, "held back by": "slots"}
    # Long outputs hold their slots; streamed by the thousand a second they would hold up /metrics too.
    app = App(vllm.url, tmp_path / "requests.jsonl", uses=[Use("report", 100, 600, streams=False)])
    seen = threading.Event()

    def load():
        while not seen.is_set():
            app.send(24, at_once=24, name="third")

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load)
        try:
            becomes(expected, told, within=120)
        finally:
            seen.set()
        loading.result()
