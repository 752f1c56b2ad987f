"""Numbers of chains are equal exactly where chained hashes are, and tell what was known."""

from __future__ import annotations

from array import array
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.chain_numbers import ChainNumbers, TraceNumbers, number_runs, run_length
from kvtool.engine.blocks.hashing import hash_ids

HUGE = (1 << 126, -(1 << 126), 1 << 62, (1 << 62) - 1, -(1 << 62), -(1 << 62) - 1, (1 << 63) - 1, -(1 << 63))

ids = st.one_of(st.integers(0, 3), st.integers(0, 3), st.sampled_from([1 << 31, -(1 << 31), -1, (1 << 40) + 1, *HUGE]))
prompts = st.tuples(st.lists(ids, max_size=9), st.sampled_from([None, None, "", "x", "y"]))


@given(st.lists(prompts, max_size=25), st.booleans())
def test_numbers_are_what_hashes_are(workload: list[tuple[list[int], str | None]], answers: bool) -> None:
    numbers = TraceNumbers()
    hashes: dict[int, BlockHash] = {}
    contents: dict[int, BlockHash] = {}
    for blocks, salt in workload:
        before, anybody_before = set(hashes.values()), set(contents.values())
        chain = numbers.number(blocks, salt)
        own, anybody = hash_ids(blocks, salt or None), hash_ids(blocks)
        assert len(chain.numbers) == len(chain.content) == len(blocks)
        assert chain.own == sum(each in before for each in own)
        assert chain.known == sum(each in anybody_before for each in anybody)
        for number, block_hash in zip(chain.numbers, own, strict=True):
            assert hashes.setdefault(number, block_hash) == block_hash
        for number, block_hash in zip(chain.content, anybody, strict=True):
            assert contents.setdefault(number, block_hash) == block_hash
        assert list(chain.numbers) == sorted(set(chain.numbers))
        if answers:
            unnamed = numbers.tenants.unnamed(2)
            assert not hashes.keys() & set(unnamed)
        numbers.tenants.check()
    assert len(set(hashes.values())) == len(hashes)
    assert len(set(contents.values())) == len(contents)


def test_what_a_prompt_adds_is_one_run() -> None:
    numbers = ChainNumbers()
    assert numbers.enter(array("i", [7, 8, 9]), 1) == (array("i", [1, 2, 3]), 0)
    assert numbers.enter(array("i", [7, 8, 5, 6]), 1) == (array("i", [1, 2, 4, 5]), 2)
    assert list(numbers.unnamed(2)) == [6, 7]
    assert numbers.enter(array("i", [7, 8, 9, 0]), 1) == (array("i", [1, 2, 3, 8]), 3), "what is unnamed is nobody's"
    assert len(numbers) == 8


def test_a_copy_numbers_apart() -> None:
    numbers = ChainNumbers()
    numbers.enter(array("i", [1, 2]), 1)
    other = numbers.copy()
    assert numbers.enter(array("i", [1, 3]), 1) == (array("i", [1, 3]), 1)
    assert other.enter(array("i", [1, 4]), 1) == (array("i", [1, 3]), 1)
    assert other.enter(array("i", [1, 3]), 1) == (array("i", [1, 4]), 1)
    numbers.check()
    other.check()


def test_many_runs_are_found_again() -> None:
    """The table grows several times."""
    numbers = ChainNumbers()
    chains = [array("i", [7, n % 50, n]) for n in range(3_000)]
    first = [numbers.enter(chain, 1)[0] for chain in chains]
    assert [numbers.enter(chain, 1) for chain in chains] == [(each, 3) for each in first]
    numbers.check()


@given(st.sets(st.integers(1, 60), min_size=1))
def test_runs_of_rising_numbers(rising: set[int]) -> None:
    numbers = array("i", sorted(rising))
    told = list(number_runs(numbers))
    runs = list(zip(told[::2], told[1::2], strict=True))
    assert [first + at for first, length in runs for at in range(length)] == list(numbers)
    assert all(first + length < other for (first, length), (other, _) in pairwise(runs))
    for stop in range(1, len(numbers) + 1):
        assert run_length(numbers, 0, stop) == min(runs[0][1], stop)


@given(st.lists(st.tuples(prompts, st.booleans()), max_size=40))
def test_what_is_taken_back_was_never_there(workload: list[tuple[tuple[list[int], str | None], bool]]) -> None:
    numbers, without = TraceNumbers(), TraceNumbers()
    for (blocks, salt), stays in workload:
        chain = numbers.number(blocks, salt)
        if stays:
            assert chain == without.number(blocks, salt)
        else:
            numbers.take_back(chain)
        numbers.tenants.check()
        assert len(numbers.tenants) == len(without.tenants)


def test_many_runs_that_are_taken_back() -> None:
    numbers, roots = ChainNumbers(), range(1, 400)
    kept = {root: numbers.enter(array("i", [root, 7]), root)[0] for root in roots}
    for root in roots:
        numbers.take_back(*numbers.enter(array("i", [root, 8, 9]), root))
        numbers.check()
    assert all(numbers.enter(array("i", [root, 7]), root) == (kept[root], 2) for root in roots)
