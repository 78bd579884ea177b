"""Whatever clients ask and whatever befalls the server: nothing is lost, nothing is counted twice."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from support.asgi import CHAT, COMPLETIONS, Ask, Stage
from support.sims import deployment
from vllm_observe.sim.cost import Cost
from vllm_observe.sim.requests import End

STEPS = Cost(overhead=0.5, per_prompt_token=0.01, per_decode=0.05, per_context_token=0.001, jitter=0.3)

words = st.integers(1, 12).map(lambda count: " ".join(f"w{number % 5}" for number in range(count)))
common = {
    "max_tokens": st.integers(1, 20),
    "ignore_eos": st.booleans(),
    "n": st.integers(1, 3),
    "stream": st.booleans(),
    "priority": st.integers(0, 2),
}
bodies = st.one_of(
    st.tuples(
        st.just(CHAT),
        st.fixed_dictionaries(
            {
                **common,
                "messages": st.lists(words, min_size=1, max_size=2).map(
                    lambda texts: [{"role": "user", "content": text} for text in texts]
                ),
            }
        ),
    ),
    st.tuples(
        st.just(COMPLETIONS),
        st.fixed_dictionaries({**common, "prompt": words | st.lists(words, min_size=1, max_size=2)}),
    ),
)
asks = st.lists(st.tuples(bodies, st.sampled_from([0.0, 0.7, 2.5, 9.0, 150.0])), min_size=1, max_size=10)
deeds = st.lists(
    st.tuples(
        st.floats(0.0, 20.0),
        st.sampled_from(
            [
                lambda control: control.hang(),
                lambda control: control.sleep(),
                lambda control: control.serve(),
                lambda control: control.slow_down(3.0),
                lambda control: control.crash(),
                lambda control: control.crash(200),
                lambda control: control.restart(),
                lambda control: control.restart(2.0),
                lambda control: control.swap(),
                lambda control: control.forget_prefixes(),
                lambda control: control.fail_share(0.5),
            ]
        ),
    ),
    max_size=4,
)
servers = st.builds(
    deployment,
    cost=st.just(STEPS),
    engines=st.integers(1, 3),
    max_num_seqs=st.integers(1, 4),
    max_num_batched_tokens=st.sampled_from([8, 64]),
    num_gpu_blocks=st.sampled_from([16, 24]),
    priority_scheduling=st.booleans(),
    max_num_queued_reqs=st.none() | st.integers(2, 8),
)


class Books(Stage):
    """A stage that notes every request that ended, and every process there was."""

    def __init__(self, server):
        super().__init__(server, release="0.32.0")
        self.ended, self.engines, self.tallies = [], {}, {}
        told = self.conductor.watch

        def watch(ended):
            self.ended += ended
            self.note()
            told(ended)

        self.conductor.watch = watch
        self.note()

    def note(self):
        self.engines |= {id(engine): engine for engine in self.server.engines}
        self.tallies |= {id(self.server.http): self.server.http}


@settings(max_examples=60)
@given(servers, asks, deeds)
def test_no_block_token_or_request_is_lost_or_counted_twice(server, asked, befalls):
    stage = Books(server)
    for at, act in befalls:
        # Its process is noted before it, too: nothing may have come between.
        stage.conductor.at(at, lambda act=act: (stage.note(), act(stage.vllm.control), stage.note()))
    got = stage.ask_all(
        *(
            Ask(path, body, headers={"X-Request-Id": f"r{number}"}, leaves_after=leaves)
            for number, ((path, body), leaves) in enumerate(asked)
        )
    )
    engines, edges = stage.engines.values(), stage.records.of("edge")

    # Every request over HTTP was answered, or left, once.
    assert Counter(edge["request_id"] for edge in edges) == Counter(
        f"r{number}" for number in range(len(asked))
    )
    assert sum(sum(tally.answers.values()) for tally in stage.tallies.values()) == len(asked)
    # Every answer that was wanted ended once, and no engine has anything of it any more.
    wanted = sum(
        body["n"] * (len(body["prompt"]) if isinstance(body.get("prompt"), list) else 1)
        for (_, body), _ in asked
    )
    assert len(stage.ended) == wanted
    for engine in engines:
        assert not engine.scheduler.has_work
        assert (engine.scheduler.pool.used, engine.unfinished) == (0, 0)
        assert engine.scheduler.pool.free == engine.scheduler.pool.total
    # Every token was counted once, and told to the client once.
    assert sum(engine.tally.generation_tokens for engine in engines) == sum(
        one.output_tokens for one in stage.ended
    )
    assert sum(engine.tally.finished.total() for engine in engines) == sum(
        one.finished for one in stage.ended
    )
    for number, (answer, ((_, body), _)) in enumerate(zip(got, asked, strict=True)):
        if answer.complete and answer.status == 200 and "error" not in answer.text:
            told = next(edge for edge in edges if edge["request_id"] == f"r{number}")
            assert len(said(answer, stream=body["stream"])) == told["completion_tokens"]
    # The engines told the plugin of all that they finished, but for what a process swapped out finished.
    finished = Counter(one.arrival.request_id for one in stage.ended if one.finished)
    assert not Counter(record["request_id"] for record in stage.records.of("engine")) - finished
    assert {one.end for one in stage.ended} <= set(End)


def said(answer, *, stream):
    """The words of all choices."""
    if not stream:
        return [
            word
            for choice in answer.json["choices"]
            for word in (choice.get("message") or {"content": choice.get("text")})["content"].split()
        ]
    events = [event for event in answer.events if event != "[DONE]"]
    return [
        word
        for event in events
        for choice in event["choices"]
        for word in (choice["delta"]["content"] if "delta" in choice else choice["text"]).split()
    ]
