"""The class that vLLM finds, against a stand-in for vLLM's own; tests/real_vllm has the real one."""

from __future__ import annotations

import importlib
import sys
from abc import ABC, abstractmethod
from types import ModuleType, SimpleNamespace

import pytest

from vllm_observe.plugin import process as shared_process

MODULE = "vllm_observe.plugin.stat_logger"


class StatLoggerBase(ABC):
    @abstractmethod
    def __init__(self, vllm_config, engine_index=0): ...
    @abstractmethod
    def record(self, scheduler_stats, iteration_stats, mm_cache_stats=None, engine_idx=0): ...
    @abstractmethod
    def log_engine_initialized(self): ...
    def log(self): ...  # noqa: B027  # as in vLLM


@pytest.fixture
def logger_class(monkeypatch, process):
    parents = ("vllm", "vllm.v1", "vllm.v1.metrics")
    for name in parents:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    loggers = ModuleType("vllm.v1.metrics.loggers")
    loggers.StatLoggerBase = StatLoggerBase
    monkeypatch.setitem(sys.modules, "vllm.v1.metrics.loggers", loggers)
    monkeypatch.setattr(shared_process, "shared", lambda: process)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield importlib.import_module(MODULE).EngineRecordLogger
    sys.modules.pop(MODULE, None)


def config():
    return SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=8))


STEP = SimpleNamespace(finished_requests=[SimpleNamespace(request_id="cmpl-a-0")])


@pytest.mark.parametrize(
    "call",
    [
        lambda logger: logger.record(None, STEP),
        lambda logger: logger.record(None, STEP, 0),
        lambda logger: logger.record(
            scheduler_stats=None, iteration_stats=STEP, mm_cache_stats=None, engine_idx=0
        ),
        lambda logger: logger.record(None, STEP, something="new"),
    ],
    ids=["0.8.5", "0.10.0", "0.11.1", "to come"],
)
def test_it_is_vllms_kind_and_takes_what_each_release_tells(logger_class, records, call):
    assert issubclass(logger_class, StatLoggerBase)
    logger = logger_class(config(), 0)
    logger.log_engine_initialized()
    call(logger)
    logger.log()
    assert [record["kind"] for record in records] == ["limits", "engine"]


def test_a_fault_in_it_stops_neither_vllm_nor_its_start(logger_class, process, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError

    monkeypatch.setattr(f"{MODULE}.EngineWatch", fail)
    logger = logger_class(config(), 0)
    logger.log_engine_initialized()
    logger.record(None, STEP)
    logger.log()
    assert process.fuse.blown
    assert len(caplog.messages) == 1
