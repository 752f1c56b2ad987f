from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.engine.attention.decode_plan import DecodePlan, Int32
from kvtool.engine.attention.decode_planner import (
    AUTO_MARGIN,
    FLOPS_PER_BYTE,
    LAUNCH_BYTES,
    LEAST_SHARED_TOKENS,
    PROGRAM_BYTES,
    ROOM_TOKENS,
    TILE_TOKENS,
    DecodePlanner,
)
from kvtool.engine.config import DecodeMode
from kvtool.engine.engine_error import EngineError

MODES: list[DecodeMode] = ["flat", "prefix-aware", "auto"]
SIZES = st.sampled_from([1, 4, 16])


@dataclass
class World:
    """Sequences of physical blocks that grow as a tree: some begin with the full blocks of others."""

    block_size: int
    rng: np.random.Generator
    blocks: list[list[int]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    used: int = 0

    def new_blocks(self, count: int) -> list[int]:
        """Never handed out before, in no order."""
        ids = self.used + 1 + self.rng.permutation(count)
        self.used += count
        return [int(block) for block in ids]

    def add(self, most_tokens: int = 400) -> None:
        """A sequence that shares a beginning, perhaps all of it, with one that is there, if there is one."""
        shared: list[int] = []
        if self.blocks and self.rng.random() < 0.8:
            parent = int(self.rng.integers(len(self.blocks)))
            full = self.lengths[parent] // self.block_size
            shared = self.blocks[parent][: full if self.rng.random() < 0.3 else int(self.rng.integers(full + 1))]
        own = int(self.rng.integers(most_tokens))
        if self.rng.random() < 0.3:
            own -= own % self.block_size
        own = max(own, 0 if shared else 1)
        self.blocks.append(shared + self.new_blocks(-(-own // self.block_size)))
        self.lengths.append(len(shared) * self.block_size + own)

    def grow(self, row: int, tokens: int = 1) -> None:
        self.lengths[row] += tokens
        needed = -(-self.lengths[row] // self.block_size)
        self.blocks[row] += self.new_blocks(needed - len(self.blocks[row]))

    def remove(self, row: int) -> None:
        del self.blocks[row], self.lengths[row]

    def move_elsewhere(self, row: int) -> None:
        """As after a preemption: the same tokens, from some block on in other blocks."""
        kept = int(self.rng.integers(len(self.blocks[row])))
        self.blocks[row] = self.blocks[row][:kept] + self.new_blocks(len(self.blocks[row]) - kept)

    def table(self) -> tuple[Int32, Int32]:
        """With garbage behind each sequence's end, ids of others among it."""
        width = max(len(blocks) for blocks in self.blocks) + int(self.rng.integers(3))
        table = self.rng.integers(-9, self.used + 9, (len(self.blocks), width)).astype(np.int32)
        for row, blocks in zip(table, self.blocks, strict=True):
            row[: len(blocks)] = blocks
        return table, np.array(self.lengths, dtype=np.int32)


def world(block_size: int, count: int, seed: int, most_tokens: int = 400) -> World:
    made = World(block_size, np.random.default_rng(seed))
    for _ in range(count):
        made.add(most_tokens)
    return made


def planner(block_size: int, mode: DecodeMode = "prefix-aware", heads: int = 8, **more: int) -> DecodePlanner:
    return DecodePlanner(block_size, heads, 2, 16, vector_bytes=32, mode=mode, **{"processors": 8, **more})


def items_of(plan: DecodePlan) -> Iterator[tuple[int, int, int, int]]:
    for phase in plan.phases:
        yield from phase.items.tolist()


def check(plan: DecodePlan, made: World, planned_by: DecodePlanner, rows: list[int] | None = None) -> None:
    """That the plan reads every token of every sequence exactly once, whole blocks but for the tail, and says what it does."""
    rows = list(range(len(made.blocks))) if rows is None else rows
    size = made.block_size
    read: dict[int, Counter[tuple[int, int]]] = {row: Counter() for row in rows}
    partial_rows: list[int] = []
    for q_off, q_len, blk_off, kv_len in items_of(plan):
        assert q_off == len(partial_rows)
        assert kv_len > 0
        queries = plan.query_index[q_off : q_off + q_len].tolist()
        assert len(queries) == len(set(queries)) == q_len
        count = -(-kv_len // size)
        blocks = plan.block_index[blk_off : blk_off + count].tolist()
        assert len(blocks) == count
        tokens = [size] * (count - 1) + [kv_len - (count - 1) * size]
        for row in queries:
            read[row].update(zip(blocks, tokens, strict=True))
        partial_rows += queries
    assert partial_rows == plan.query_index.tolist()
    for row, blocks, length in zip(rows, made.blocks, made.lengths, strict=True):
        assert read[row] == Counter(
            (block, min(size, length - index * size)) for index, block in enumerate(blocks[: -(-length // size)])
        )

    assert plan.out_rows.tolist() == rows
    assert sorted(plan.part_index.tolist()) == list(range(len(partial_rows)))
    assert plan.part_start[0] == 0
    assert plan.part_start[-1] == len(partial_rows)
    for index, row in enumerate(rows):
        parts = plan.part_index[plan.part_start[index] : plan.part_start[index + 1]]
        assert {partial_rows[part] for part in parts} == {row}

    assert plan.tokens_read == sum(kv_len for *_, kv_len in items_of(plan)) <= plan.flat_tokens == sum(made.lengths)
    most = [phase.most_queries for phase in plan.phases]
    assert most == [int(phase.items[:, 1].max()) for phase in plan.phases]
    assert max(most) <= planned_by.max_queries
    assert plan.shared == (most[0] > 1)
    assert len(most) <= 2
    if plan.shared:
        assert plan.phases[0].items[:, 1].min() > 1
    if len(most) == 2:
        assert most[1] == 1
    for array in (plan.query_index, plan.block_index, plan.part_start, plan.part_index, plan.out_rows):
        assert array.dtype == np.int32
        assert array.flags.c_contiguous


@given(size=SIZES, count=st.integers(1, 12), seed=st.integers(0, 2**32), mode=st.sampled_from(MODES))
def test_every_token_of_every_sequence_is_read_exactly_once(size: int, count: int, seed: int, mode: DecodeMode) -> None:
    made = world(size, count, seed)
    rows = made.rng.permutation(3 * count)[:count].astype(np.int32)
    planned_by = planner(size, mode, heads=int(made.rng.choice([2, 8, 32, 80, 128, 256, 512])))
    plan = planned_by.plan(*made.table(), rows)
    check(plan, made, planned_by, rows.tolist())
    if mode == "flat":
        assert plan.tokens_read == plan.flat_tokens
        assert not plan.shared


def two_levels(size: int, rng: np.random.Generator) -> World:
    """A system prompt for all, a document for each three, a question and some answer for each."""
    made = World(size, rng)
    system = made.new_blocks(-(-256 // size))
    for _ in range(3):
        document = made.new_blocks(-(-320 // size))
        for _ in range(3):
            own = int(rng.integers(1, 100))
            made.blocks.append(system + document + made.new_blocks(-(-own // size)))
            made.lengths.append((len(system) + len(document)) * size + own)
    return made


def test_long_segments_are_read_exactly_once() -> None:
    for size in [1, 4, 16, 48, 64, 128]:
        made = two_levels(size, np.random.default_rng(size))
        planned_by = planner(size)
        plan = planned_by.plan(*made.table())
        check(plan, made, planned_by)
        whole = sum(-(-tokens // size) * size for tokens in (256, 320, 320, 320))
        own = sum(made.lengths) - sum(9 * -(-tokens // size) * size for tokens in (256, 320))
        assert plan.tokens_read == whole + own
        assert plan.flat_tokens == sum(made.lengths)


def test_queries_beyond_a_tile_read_a_segment_once_per_tile() -> None:
    made = World(16, np.random.default_rng(0))
    system = made.new_blocks(32)
    for _ in range(70):
        made.blocks.append(system + made.new_blocks(1))
        made.lengths.append(32 * 16 + 3)
    planned_by = planner(16)  # 4 heads to a group: 32 queries to a tile
    plan = planned_by.plan(*made.table())
    check(plan, made, planned_by)
    assert plan.tokens_read == 3 * 512 + 70 * 3
    assert {q_len for _, q_len, *_ in items_of(plan)} == {23, 24, 1}


def test_what_is_not_worth_a_read_of_its_own_is_read_by_each() -> None:
    def tokens_read(shared_tokens: int, more: int) -> int:
        made = World(1, np.random.default_rng(0))
        shared = made.new_blocks(shared_tokens)
        for _ in range(more + 1):
            made.blocks.append(shared + made.new_blocks(5))
            made.lengths.append(len(made.blocks[-1]))
        return planner(1).plan(*made.table()).tokens_read

    assert tokens_read(LEAST_SHARED_TOKENS - 1, 4) == 5 * (LEAST_SHARED_TOKENS - 1 + 5)
    assert tokens_read(LEAST_SHARED_TOKENS, 4) == LEAST_SHARED_TOKENS + 5 * 5
    assert tokens_read(LEAST_SHARED_TOKENS, 0) == LEAST_SHARED_TOKENS + 5


def test_a_large_branch_takes_its_parents_blocks_over_where_one_stray_query_is_all_that_leaves() -> None:
    made = World(16, np.random.default_rng(0))
    system, document = made.new_blocks(4), made.new_blocks(20)
    for index in range(21):
        made.blocks.append(system + (document if index else []) + made.new_blocks(1))
        made.lengths.append(len(made.blocks[-1]) * 16)
    planned_by = planner(16)  # a partial costs as much as 8.5 tokens
    plan = planned_by.plan(*made.table())
    check(plan, made, planned_by)
    # 64 tokens once more, against 20 partials: the stray one reads the system prompt for itself
    assert plan.tokens_read == 24 * 16 + 20 * 16 + 5 * 16
    lone = [kv_len for q_off, q_len, _, kv_len in items_of(plan) if q_len == 1 and plan.query_index[q_off] == 0]
    assert sum(lone) == 5 * 16


def test_the_largest_branch_is_the_first_to_fold() -> None:
    """34 queries are two tiles however they are divided: 30 may leave for nothing, and the rest stays together."""
    made = World(16, np.random.default_rng(0))
    system = made.new_blocks(40)
    for queries in (2, 30, 2):
        document = made.new_blocks(20)
        for _ in range(queries):
            made.blocks.append(system + document + made.new_blocks(1))
            made.lengths.append(61 * 16)
    planned_by = planner(16)
    plan = planned_by.plan(*made.table())
    check(plan, made, planned_by)
    assert plan.tokens_read == 2 * 40 * 16 + 3 * 20 * 16 + 34 * 16
    assert {q_len for _, q_len, *_ in items_of(plan)} == {30, 4, 2, 1}


def test_blocks_that_only_look_alike_are_not_shared() -> None:
    """The same block behind different ones, tails that are not full in both, and garbage behind the ends."""
    made = World(16, np.random.default_rng(0))
    common, first, second = made.new_blocks(10), made.new_blocks(1), made.new_blocks(1)
    made.blocks = [first + common, second + common]
    made.lengths = [11 * 16, 11 * 16]
    planned_by = planner(16)
    plan = planned_by.plan(*made.table())
    check(plan, made, planned_by)
    assert not plan.shared
    made.blocks, made.lengths = [common, common], [9 * 16 + 1, 10 * 16]
    plan = planned_by.plan(*made.table())
    check(plan, made, planned_by)
    assert plan.tokens_read == 9 * 16 + 1 + 16
    made.lengths = [10 * 16 - 1, 10 * 16 - 2]  # one block that both are still writing to, which no engine does
    plan = planned_by.plan(np.array([common, common], dtype=np.int32), np.array(made.lengths))
    assert plan.tokens_read == 9 * 16 + 15 + 14


def test_no_item_is_longer_than_a_processors_share() -> None:
    for mode in MODES:
        made = world(16, 10, seed=5, most_tokens=3000)
        planned_by = planner(16, mode, processors=40)
        plan = planned_by.plan(*made.table())
        check(plan, made, planned_by)
        for phase in plan.phases:
            share = int(phase.items[:, 3].sum()) / (40 / 2)  # 2 K/V heads, each a program
            assert phase.items[:, 3].max() <= share + TILE_TOKENS
            ends = phase.items[:, 3] % 16 != 0
            assert (phase.items[~ends, 3] % 16 == 0).all()
            assert (
                phase.items[:, 3].tolist() == sorted(phase.items[:, 3].tolist(), reverse=True) or phase.most_queries > 1
            )
        lone = planned_by.plan(np.arange(1, 601, dtype=np.int32)[None], np.array([9590]))
        assert 20 <= len(lone.phases[0].items) <= 320
        starts = lone.phases[0].items[:, 2] * 16
        assert (starts % TILE_TOKENS == 0).all()


def test_auto_shares_where_that_pays_and_reads_flat_where_it_does_not() -> None:
    def ratio(shared: int, own: int, count: int) -> float:
        made = World(16, np.random.default_rng(0))
        system = made.new_blocks(shared // 16)
        for _ in range(count):
            made.blocks.append(system + made.new_blocks(own // 16))
            made.lengths.append(len(made.blocks[-1]) * 16)
        llama = DecodePlanner(16, 32, 8, 128, vector_bytes=256, processors=132)
        plan = llama.plan(*made.table())
        check(plan, made, llama)
        return plan.flat_tokens / plan.tokens_read

    assert ratio(3840, 256, 64) > 10
    assert ratio(2048, 2048, 64) > 1.8
    assert ratio(64, 4032, 64) == 1  # 1.6 % of the reads do not pay for a phase more
    assert ratio(1024, 16, 2) == 1  # so little work that its launches are what takes time


@given(size=SIZES, count=st.integers(2, 10), seed=st.integers(0, 2**32))
def test_the_model_sees_auto_never_lose(size: int, count: int, seed: int) -> None:
    made = world(size, count, seed, most_tokens=4000)
    table, lengths = made.table()
    plans = {mode: planner(size, mode, processors=4).plan(table, lengths) for mode in MODES}
    chosen = plans["auto"]
    assert chosen.tokens_read in (plans["flat"].tokens_read, plans["prefix-aware"].tokens_read)

    def time(plan: DecodePlan) -> float:
        """Graham's bound for the items as they are, in bytes: 2 K/V heads, 4 query heads each, 16 wide, K and V of 32 bytes."""
        total = 0.0
        for phase in plan.phases:
            rows = max(16, 4 * 2 ** int(np.ceil(np.log2(phase.most_queries))))
            token = max(64, 4 * rows * 16 / FLOPS_PER_BYTE)
            costs = phase.items[:, 3] * token + phase.items[:, 1] * (2 * 4 * 17 * 4) + PROGRAM_BYTES
            total += costs.sum() / (4 / 2) + costs.max() + LAUNCH_BYTES
        return total

    times = {mode: time(plan) for mode, plan in plans.items()}
    assert times["auto"] <= times["flat"]
    wins = times["prefix-aware"] * (1 + AUTO_MARGIN) <= times["flat"]
    assert times["auto"] == pytest.approx(times["prefix-aware" if wins else "flat"])


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, float]:
    """float64 [D] of one query and head over [n, D], and the base 2 log of the sum of its weights."""
    scores = k @ q * np.log2(np.e) / np.sqrt(len(q))
    weights = np.exp2(scores - scores.max())
    return weights @ v / weights.sum(), float(scores.max() + np.log2(weights.sum()))


@given(size=SIZES, count=st.integers(1, 6), seed=st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_merged_partials_are_the_attention_over_whole_sequences(size: int, count: int, seed: int) -> None:
    made = world(size, count, seed)
    planned_by = planner(size)
    plan = planned_by.plan(*made.table())
    dim = 4
    cache = made.rng.standard_normal((2, made.used + 10, size, dim))
    queries = made.rng.standard_normal((count, dim))
    partials: list[tuple[np.ndarray, float]] = []
    for q_off, q_len, blk_off, kv_len in items_of(plan):
        blocks = plan.block_index[blk_off : blk_off + -(-kv_len // size)]
        k, v = (part[blocks].reshape(-1, dim)[:kv_len] for part in cache)
        partials += [attention(queries[row], k, v) for row in plan.query_index[q_off : q_off + q_len]]
    for index in range(count):
        parts = [partials[part] for part in plan.part_index[plan.part_start[index] : plan.part_start[index + 1]]]
        weights = np.exp2([lse - max(lse for _, lse in parts) for _, lse in parts])
        merged = sum(weight * out for weight, (out, _) in zip(weights, parts, strict=True)) / weights.sum()
        blocks = np.array(made.blocks[index])
        k, v = (part[blocks].reshape(-1, dim)[: made.lengths[index]] for part in cache)
        np.testing.assert_allclose(merged, attention(queries[plan.out_rows[index]], k, v)[0], rtol=1e-10, atol=1e-12)


@given(size=SIZES, seed=st.integers(0, 2**32), mode=st.sampled_from(MODES))
def test_plans_stay_right_whatever_happens_to_the_sequences(size: int, seed: int, mode: DecodeMode) -> None:
    made = world(size, 4, seed)
    planned_by = planner(size, mode)
    for _ in range(25):
        plan = planned_by.plan(*made.table())
        check(plan, made, planned_by)
        event = made.rng.random()
        row = int(made.rng.integers(len(made.blocks)))
        if event < 0.6:
            for row in range(len(made.blocks)):
                made.grow(row)
        elif event < 0.7:
            made.grow(row, int(made.rng.integers(2 * ROOM_TOKENS)))
        elif event < 0.8:
            made.add()
        elif event < 0.85 and len(made.blocks) > 1:
            made.remove(row)
        elif event < 0.9:
            made.move_elsewhere(row)
        elif event < 0.95:
            made.remove(row)
            made.add()
        else:  # shorter, as when the last tokens of a guess are taken back
            made.lengths[row] = max(1, made.lengths[row] - int(made.rng.integers(1, 3 * size)))
            made.blocks[row] = made.blocks[row][: -(-made.lengths[row] // size)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 16, 128])
def test_growing_moves_ends_and_leaves_earlier_plans_as_they_were(size: int, mode: DecodeMode) -> None:
    made = two_levels(size, np.random.default_rng(3))
    planned_by = planner(size, mode)
    granule = max(size, TILE_TOKENS)
    longest = 0.0
    kept: list[tuple[DecodePlan, World]] = []
    last: DecodePlan | None = None
    anew = 0
    for step in range(3 * ROOM_TOKENS):
        plan = planned_by.plan(*made.table())
        if last is None or plan.query_index is not last.query_index:
            anew += 1
            share = plan.phases[-1].items[:, 3].sum() / (8 / 2)  # 8 processors, 2 K/V heads
            longest = 1.25 * np.ceil(share / granule) * granule
        assert plan.phases[-1].items[:, 3].max() <= longest
        last = plan
        if step % 7 == 0:
            then = replace(made, blocks=[list(blocks) for blocks in made.blocks], lengths=list(made.lengths))
            kept.append((plan, then))
        for row in range(len(made.blocks)):
            made.grow(row)
    for plan, then in kept:
        check(plan, then, planned_by)
    assert 3 <= anew <= 30  # the rest are the same plan with other ends


def test_the_same_again_is_the_same_plan_and_other_rows_are_another() -> None:
    made = two_levels(16, np.random.default_rng(1))
    planned_by = planner(16)
    table, lengths = made.table()
    lengths = lengths.astype(np.int64)
    plan = planned_by.plan(table, lengths)
    assert planned_by.plan(table, lengths) is plan
    rows = np.arange(13)[:3:-1]
    given_rows = rows.copy()
    moved = planned_by.plan(table, lengths, given_rows)
    assert moved.query_index.tolist() == [12 - row for row in plan.query_index]
    check(moved, made, planned_by, rows.tolist())
    for array in (table, lengths, given_rows):
        array -= 1  # the caller's arrays stay the caller's
    assert planned_by.plan(*made.table(), rows) is moved


@given(size=SIZES, count=st.integers(2, 8), seed=st.integers(0, 2**32))
def test_the_order_of_the_sequences_changes_nothing_but_their_numbers(size: int, count: int, seed: int) -> None:
    made = world(size, count, seed)
    order = made.rng.permutation(count)
    other = replace(
        made, blocks=[made.blocks[row] for row in order], lengths=[made.lengths[row] for row in order], rng=made.rng
    )

    def contents(of: World, numbers: list[int]) -> Counter[tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]]:
        """Who reads what; sequences by their blocks and length, since equal ones may stand for each other."""
        plan = planner(size).plan(*of.table())
        return Counter(
            (
                tuple(
                    sorted(
                        (*of.blocks[row], of.lengths[row]) for row in plan.query_index[q_off : q_off + q_len].tolist()
                    )
                ),
                tuple(plan.block_index[blk_off : blk_off + -(-kv_len // size)].tolist()),
            )
            for q_off, q_len, blk_off, kv_len in items_of(plan)
        )

    assert contents(made, list(range(count))) == contents(other, order.tolist())


def test_no_sequences_no_items() -> None:
    plan = planner(16).plan(np.zeros((0, 3), dtype=np.int32), np.zeros(0, dtype=np.int32))
    assert plan.phases == ()
    assert plan.part_start.tolist() == [0]
    assert plan.tokens_read == plan.flat_tokens == len(plan.query_index) == len(plan.block_index) == 0


def test_contradictions_are_refused_with_figures() -> None:
    table, lengths = np.ones((2, 3), dtype=np.int32), np.array([40, 48])
    bad = planner(16)
    with pytest.raises(EngineError, match=r"int64\[2, 3\]"):
        bad.plan(table.astype(np.int64), lengths)
    with pytest.raises(EngineError, match=r"seq_lens is int64\[1\], the block table has 2 rows"):
        bad.plan(table, lengths[:1])
    with pytest.raises(EngineError, match=r"seq_lens is float64\[2\]"):
        bad.plan(table, lengths / 2)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="40 to 49 tokens in a block table of 3 x 16"):
        bad.plan(table, np.array([40, 49]))
    with pytest.raises(EngineError, match="0 to 48"):
        bad.plan(table, np.array([0, 48]))
    with pytest.raises(EngineError, match=r"different and not negative: \[3, 3\]"):
        bad.plan(table, lengths, np.array([3, 3]))
    with pytest.raises(EngineError, match=r"\[-1, 3\]"):
        bad.plan(table, lengths, np.array([-1, 3]))
    with pytest.raises(EngineError, match="block -7"):
        bad.plan(np.array([[1, 2, -7]], dtype=np.int32), np.array([33]))
    bad.plan(np.array([[1, 2, -7]], dtype=np.int32), np.array([32]))
    with pytest.raises(EngineError, match="block -7"):
        bad.plan(np.array([[1, 2, -7]], dtype=np.int32), np.array([33]))
    with pytest.raises(EngineError, match="'tree'"):
        planner(16, mode="tree")  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="block_size=0"):
        planner(0)
    with pytest.raises(EngineError, match="9 query heads"):
        planner(16, heads=9)
