"""An hour of traffic at twenty requests a second, simulated: how many seconds it takes."""

from __future__ import annotations

from support.judged import chats
from vllm_observe.sim.cost import H100_70B
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.play import play
from vllm_observe.sim.requests import Ended
from vllm_observe.sim.scheduler import EngineLimits

HOUR = 3600.0


def test_an_hour_at_20_requests_a_second_takes_less_than_a_minute(benchmark):
    def hour():
        server = Deployment(model="llama", limits=EngineLimits(num_gpu_blocks=30_000), cost=H100_70B)
        told = play(server, chats(lambda _: 20.0, seconds=HOUR, seed=1), until=HOUR)
        return sum(isinstance(one, Ended) for one in told)

    ended = benchmark.pedantic(hour, rounds=1)

    assert ended > 0.95 * 20 * HOUR
    assert benchmark.stats.stats.max < 60.0
