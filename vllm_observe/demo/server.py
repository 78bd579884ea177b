"""The scenario's server as a program: ``python -m vllm_observe.demo.server NAME LOG``.

It says its address in its first line; the scenario's second 0 is then. It ends with its standard input.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vllm_observe.demo.story import told
from vllm_observe.sim.http.program import serve
from vllm_observe.sim.http.server import Settings, SimulatedVllm

__all__ = ["main"]


def main(name: str, log: str) -> None:
    """Serve a scenario's vLLM and let befall it what befalls it.

    Args:
        name: the scenario.
        log: the plugin's request log.
    """
    scenario = told(name)
    vllm = SimulatedVllm(scenario.deployment(), Settings(log=Path(log)), deeds=scenario.timeline)
    serve(vllm, commands=True, say=_say)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
