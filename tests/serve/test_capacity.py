from __future__ import annotations

from support.engines import capture, families
from vllm_observe.serve.capacity import kv_capacities


def test_each_engine_has_the_capacity_that_its_own_series_tells():
    # kv_cache_size_tokens as the page of each rank has it
    assert kv_capacities(capture("vllm-0.32.0/saturated.prom")) == {"0": 6144}
    assert kv_capacities(capture("vllm-0.32.0/data-parallel-2.prom")) == {"0": 2_097_152, "1": 2_097_152}


def test_an_engine_that_does_not_tell_is_left_out():
    told = families('vllm:cache_config_info{engine="0",num_gpu_blocks="None",block_size="16"} 1\n')
    assert kv_capacities(told) == {}
    assert kv_capacities([]) == {}
