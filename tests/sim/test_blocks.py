from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vllm_observe.sim.blocks import BlockPool, Holding
from vllm_observe.sim.prompts import Segment, block_keys, length

BLOCKS = 8


def test_prompts_share_keys_as_far_as_their_contents_are_the_same():
    system, question = Segment("system", 10), Segment("question", 7)
    first = block_keys((system, question), 4)
    second = block_keys((system, Segment("other", 7)), 4)
    longer = block_keys((system, question, Segment("answer", 20)), 4)

    assert len(first) == 17 // 4
    assert first[:2] == second[:2]  # 8 of the system's 10 tokens fill two blocks
    assert not set(first[2:]) & set(second[2:])
    assert longer[:4] == first
    assert length((system, question)) == 17


def test_the_same_content_after_another_prefix_is_another_block():
    content = Segment("document", 8)

    assert not set(block_keys((content,), 4)) & set(block_keys((Segment("system", 4), content), 4))


def test_a_block_depends_on_all_that_comes_before_it_and_on_its_lengths():
    middle, end = Segment("middle", 4), Segment("end", 8)

    def last(*before):
        return block_keys((*before, middle, end), 4)[-1]

    assert last(Segment("one", 4)) != last(Segment("two", 4))
    assert last(Segment("one", 3)) != last(Segment("one", 4))
    assert last(Segment("one", 4)) == last(Segment("one", 4))


def test_what_a_request_leaves_is_found_by_the_next():
    pool, one, two = BlockPool(4), Holding(), Holding()
    assert pool.take(one, (), 3)
    pool.publish(one, [11, 12])
    pool.release(one)

    assert pool.free == 4
    assert pool.cached([11, 12, 13]) == 2
    assert pool.take(two, [11, 12], 2)
    assert (pool.free, pool.used, two.blocks) == (0, 4, 4)


def test_a_shared_block_counts_once_and_stays_until_its_last_user_goes():
    pool, one, two = BlockPool(4), Holding(), Holding()
    pool.take(one, (), 1)
    pool.publish(one, [11])
    pool.take(two, [11], 1)

    assert pool.used == 2
    pool.release(one)
    assert (pool.used, pool.cached([11])) == (2, 1)
    pool.release(two)
    assert (pool.used, pool.cached([11])) == (0, 1)


def test_the_block_unused_for_longest_is_given_away_first_and_of_one_request_the_last():
    pool, old, new, want = BlockPool(4), Holding(), Holding(), Holding()
    for holding, keys in ((old, [11, 12]), (new, [21, 22])):
        pool.take(holding, (), 2)
        pool.publish(holding, keys)
        pool.release(holding)

    pool.take(want, (), 1)
    assert (pool.cached([11, 12]), pool.cached([21, 22])) == (1, 2)
    pool.take(want, (), 2)
    assert (pool.cached([11, 12]), pool.cached([21, 22])) == (0, 1)


def test_what_is_revived_is_not_given_away_to_its_own_request():
    pool, one, two = BlockPool(3), Holding(), Holding()
    pool.take(one, (), 2)
    pool.publish(one, [11, 12])
    pool.release(one)

    assert not pool.take(two, [11, 12], 2)
    assert (two.blocks, pool.free) == (0, 3)
    assert pool.take(two, [11, 12], 1)


def test_without_caching_nothing_is_found():
    pool, one = BlockPool(4, caching=False), Holding()
    pool.take(one, (), 2)
    pool.publish(one, [11, 12])
    pool.release(one)

    assert pool.cached([11]) == 0


def test_what_is_forgotten_is_free_and_blank():
    pool, one = BlockPool(4), Holding()
    pool.take(one, (), 2)
    pool.publish(one, [11, 12])
    pool.release(one)

    pool.forget()
    assert (pool.free, pool.cached([11])) == (4, 0)


class Pool(RuleBasedStateMachine):
    """Requests that come, grow and go: no block is lost or held twice."""

    def __init__(self):
        super().__init__()
        self.pool = BlockPool(BLOCKS)
        self.held: list[tuple[Holding, list[int]]] = []

    @rule(family=st.integers(0, 2), shared=st.integers(0, 4), fresh=st.integers(0, 5))
    def come(self, family, shared, fresh):
        keys = [family * 100 + place for place in range(shared)]
        hits = self.pool.cached(keys)
        holding, free = Holding(), self.pool.free
        taken = self.pool.take(holding, keys[:hits], fresh)
        assert holding.blocks == (hits + fresh if taken else 0)
        if not taken:
            assert self.pool.free == free
        else:
            self.held.append((holding, [family * 100 + place for place in range(hits, hits + fresh)]))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def fill(self, data):
        holding, keys = data.draw(st.sampled_from(self.held))
        blocks = holding.blocks
        self.pool.publish(holding, [keys.pop(0) for _ in keys[:2]])
        assert holding.blocks == blocks

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def go(self, data):
        entry = data.draw(st.sampled_from(self.held))
        self.held.remove(entry)
        self.pool.release(entry[0])
        assert entry[0].blocks == 0

    @rule()
    def forget(self):
        self.pool.forget()

    @invariant()
    def every_block_is_free_or_used(self):
        assert self.pool.free + self.pool.used == BLOCKS
        keys = {key for holding, _ in self.held for key in holding.keys}
        assert self.pool.used == len(keys) + sum(holding.private for holding, _ in self.held)


TestPool = Pool.TestCase
