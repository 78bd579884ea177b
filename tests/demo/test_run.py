"""When the demo's time begins, by a clock that the test sets; no process runs."""

from __future__ import annotations

import pytest

from vllm_observe.clock import ManualClock
from vllm_observe.demo.alerting import Programs
from vllm_observe.demo.run import Demo, OwnVllm
from vllm_observe.demo.story import DEFAULT, Story, told


class Slow(Demo):
    """A demo whose simulated vLLM takes three seconds to start, and whose sidecar seven more."""

    def __init__(self, watched: Story | OwnVllm, clock: ManualClock) -> None:
        super().__init__(watched, found=Programs(None, None), clock=clock, ended=lambda _: False)
        self._manual = clock

    def _child(self, *_args, **_options) -> None:
        pass

    def _play(self, *_args) -> tuple[str, ...]:
        self._manual.advance(3.0)
        self._began = self._manual.monotonic()
        return ()

    def _sidecar_answers(self) -> bool:
        self._manual.advance(7.0)
        return True


@pytest.mark.parametrize(
    ("watched", "now"), [(OwnVllm("http://gpu:8000", ()), 0.0), (Story(told(DEFAULT)), 7.0)]
)
def test_a_story_begins_with_its_server_and_the_looking_at_another_when_all_is_there(watched, now):
    with Slow(watched, ManualClock()) as demo:
        demo.start()
        assert demo.now == now
