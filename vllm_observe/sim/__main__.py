"""``python -m vllm_observe.sim``: serve a simulated vLLM by hand, or as another program's child."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vllm_observe.sim.cost import H100_70B, TINY_CPU
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.http.program import serve
from vllm_observe.sim.http.server import Settings, SimulatedVllm
from vllm_observe.sim.pages import Flavour, releases
from vllm_observe.sim.scheduler import EngineLimits

_HARDWARE = {"h100-70b": H100_70B, "tiny-cpu": TINY_CPU}
_DEFAULTS = EngineLimits()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    told = _parser().parse_args(arguments)
    try:
        deployment = Deployment(
            model=told.model,
            limits=EngineLimits(
                max_num_seqs=told.max_num_seqs,
                max_num_batched_tokens=told.max_num_batched_tokens,
                max_model_len=told.max_model_len,
                num_gpu_blocks=told.num_gpu_blocks,
                block_size=told.block_size,
                priority_scheduling=told.scheduling_policy == "priority",
                max_num_queued_reqs=told.max_num_queued_reqs,
            ),
            cost=_HARDWARE[told.hardware],
            engines=told.data_parallel_size,
            seed=told.seed,
            load_s=told.load_s,
        )
        settings = Settings(
            release=told.release,
            flavour=Flavour(told.engine),
            development=told.development,
            request_id_headers=told.enable_request_id_headers,
            api_servers=told.api_server_count,
            log=told.log,
        )
        vllm = SimulatedVllm(deployment, settings)
        serve(vllm, host=told.host, port=told.port, commands=told.commands, say=_say)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _port(word: str) -> int:
    if not word.isdecimal() or (port := int(word)) >= 1 << 16:
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return port


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vllm_observe.sim", description="A simulated vLLM.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=_port, default=8000, help="0 takes any free one; it is printed")
    parser.add_argument("--release", default=releases()[-1], help="of vLLM, whose words it speaks")
    parser.add_argument("--engine", choices=[one.value for one in Flavour], default=Flavour.V1.value)
    parser.add_argument("--model", default="simulated", help="the served model's name")
    parser.add_argument("--hardware", choices=sorted(_HARDWARE), default="h100-70b")
    parser.add_argument("--max-num-seqs", type=int, default=_DEFAULTS.max_num_seqs)
    parser.add_argument("--max-num-batched-tokens", type=int, default=_DEFAULTS.max_num_batched_tokens)
    parser.add_argument("--max-model-len", type=int, default=_DEFAULTS.max_model_len)
    parser.add_argument("--num-gpu-blocks", type=int, default=_DEFAULTS.num_gpu_blocks)
    parser.add_argument("--block-size", type=int, default=_DEFAULTS.block_size)
    parser.add_argument("--max-num-queued-reqs", type=int)
    parser.add_argument("--scheduling-policy", choices=("fcfs", "priority"), default="fcfs")
    parser.add_argument("--data-parallel-size", type=int, default=1)
    parser.add_argument("--api-server-count", type=int, default=1, help="as far as /metrics shows")
    parser.add_argument("--enable-request-id-headers", action="store_true")
    parser.add_argument("--development", action="store_true", help="as VLLM_SERVER_DEV_MODE=1")
    parser.add_argument("--load-s", type=float, default=0.0, help="seconds that a start takes")
    parser.add_argument("--log", type=Path, help="the plugin's request log; without it, no plugin")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--commands",
        action="store_true",
        help="obey commands on standard input, such as `hang`, `slow_down 3` or `restart 20`, until its end",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
