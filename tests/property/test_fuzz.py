"""A few thousand of the inputs of `make fuzz`, the same each time; and that it finds what it is for."""

from __future__ import annotations

import time

import pytest

import fuzz
from vllm_observe.errors import RecordError, UnparsedReason

TARGETS = {target.name: target for target in fuzz.targets()}


@pytest.mark.parametrize("name", TARGETS)
def test_no_mutated_input_crashes_a_reader(name):
    tally = fuzz.fuzz(TARGETS[name], seed=1, count=250)
    assert tally.crashes == []
    assert tally.read + tally.refused == 250


@pytest.mark.parametrize("name", TARGETS)
def test_every_reader_takes_its_samples_as_they_are(name):
    for sample in TARGETS[name].samples:
        TARGETS[name].feed(sample)


def test_a_crash_and_a_slow_input_are_found_and_told_apart_from_a_refusal(monkeypatch):
    def fragile(content: bytes) -> None:
        if content[:1] == b"c":
            raise KeyError("crash")
        if content[:1] == b"r":
            raise RecordError(UnparsedReason.NOT_JSON, "refused")
        if content[:1] == b"s":
            ticks.append(2.0)

    ticks = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: sum(ticks))
    monkeypatch.setattr(fuzz, "inputs", lambda *_: iter([b"crash", b"refuse", b"slow", b"fine"]))
    tally = fuzz.fuzz(fuzz.Target("fragile", [b""], fragile), seed=0, count=4)
    assert (tally.read, tally.refused) == (2, 1)
    assert [crash.split(":")[0] for crash in tally.crashes] == ["input 0", "input 2"]


def test_the_same_seed_makes_the_same_inputs():
    target = TARGETS["format1"]
    once, again, other = (list(fuzz.inputs(target, seed, 50)) for seed in (1, 1, 2))
    assert once == again != other
