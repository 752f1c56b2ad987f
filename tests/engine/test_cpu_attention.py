"""Attention on a CPU by plans, over random trees of shared blocks, beside attention as it is written down, in float64."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.attention import cpu_planner
from kvtool.engine.attention.cpu_costs import CpuCosts, measure_costs
from kvtool.engine.attention.cpu_plan import ContextPart, CpuPlan
from kvtool.engine.attention.cpu_planner import CpuPlanner
from kvtool.engine.batch import Batch
from kvtool.engine.config import DecodeMode
from kvtool.engine.request import Request
from kvtool.kernels.attention_rule import PLAIN_RULE, AttentionRule

LAYERS = 2
DIM = 16
SHARING_PAYS = CpuCosts(call=0.0, token=1.0, merge=0.0)


@dataclass
class Sequences:
    """Requests of random lengths, each going on from a random number of another one's blocks, and their caches."""

    rng: np.random.Generator
    block_size: int
    kv_heads: int
    dtype: torch.dtype
    in_order: bool
    latent: bool = False  # keys are values, too
    starts: list[int] = field(default_factory=list)  # tokens before the new ones
    lengths: list[int] = field(default_factory=list)
    blocks: list[list[int]] = field(default_factory=list)
    owners: list[tuple[Request, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = list(range(1, 400)) if self.in_order else (1 + self.rng.permutation(399)).tolist()
        shape = (self.kv_heads, 400, self.block_size, DIM)
        # What nobody wrote is no number: it must not be read into a result.
        self.caches = [
            tuple(torch.full(shape, torch.nan, dtype=self.dtype).transpose(0, 1) for _ in "kv") for _ in range(LAYERS)
        ]
        if self.latent:
            self.caches = [(k, k) for k, _ in self.caches]

    def add(self, parent: int | None, shared: int, own: int, new: int) -> None:
        """A request that begins with up to `shared` full blocks of another one, and has `own` tokens more, `new` of them new."""
        common = [] if parent is None else self.blocks[parent][: min(shared, self.lengths[parent] // self.block_size)]
        length = len(common) * self.block_size + own
        self.starts.append(length - min(new, own))
        self.lengths.append(length)
        self.blocks.append([*common])
        self.owners.append((Request(str(len(self.owners)), length), 0))
        self._write(len(self.lengths) - 1, len(common) * self.block_size)

    def grow(self) -> None:
        """Each request gets one token more, which is its only new one."""
        for request, length in enumerate(self.lengths):
            self.starts[request], self.lengths[request] = length, length + 1
            self._write(request, length)

    def _write(self, request: int, start: int) -> None:
        for position in range(start, self.lengths[request]):
            if position // self.block_size == len(self.blocks[request]):
                self.blocks[request].append(self.free.pop(0))
            block = self.blocks[request][position // self.block_size]
            for cache in (cache for layer in self.caches for cache in layer):
                values = torch.from_numpy(self.rng.standard_normal((self.kv_heads, DIM)))
                cache[block, :, position % self.block_size] = values.to(self.dtype)

    def batch(self, *, owners: bool = True) -> Batch:
        counts = np.array(self.lengths) - np.array(self.starts)
        width = max(len(blocks) for blocks in self.blocks)
        table = torch.zeros(len(self.blocks), width, dtype=torch.int32)
        for row, blocks in zip(table, self.blocks, strict=True):
            row[: len(blocks)] = torch.tensor(blocks, dtype=torch.int32)
        slots = [
            self.blocks[request][position // self.block_size] * self.block_size + position % self.block_size
            for request, length in enumerate(self.lengths)
            for position in range(self.starts[request], length)
        ]
        nothing = torch.empty(0, dtype=torch.int64)
        return Batch(
            input_ids=nothing,
            positions=nothing,
            slot_mapping=torch.tensor(slots),
            query_start=torch.tensor([0, *np.cumsum(counts)], dtype=torch.int32),
            seq_lens=torch.tensor(self.lengths, dtype=torch.int32),
            block_table=table,
            logits_at=nothing,
            sampled=(),
            num_blocks=400,
            owners=tuple(self.owners) if owners else (),
        )

    def forget_before(self, window: int) -> None:
        """Blocks that lie before the windows of all of a request's new tokens, and that nobody else needs, are overwritten."""
        needed: set[int] = set()
        for start, blocks in zip(self.starts, self.blocks, strict=True):
            needed.update(blocks[max(start + 1 - window, 0) // self.block_size :])
        for block in {block for blocks in self.blocks for block in blocks} - needed:
            for cache in (cache for layer in self.caches for cache in layer):
                cache[block] = torch.nan

    def expected(self, layer: int, q: torch.Tensor, rule: AttentionRule = PLAIN_RULE) -> torch.Tensor:
        """Attention [T, Hq, D], as it is written down."""
        k_cache, v_cache = self.caches[layer]
        group = q.shape[1] // self.kv_heads
        rows = []
        for request, length in enumerate(self.lengths):
            k, v = (
                torch.cat([cache[block].transpose(0, 1) for block in self.blocks[request]])[:length]
                .double()
                .repeat_interleave(group, dim=1)
                for cache in (k_cache, v_cache)
            )  # [length, Hq, D]
            for position in range(self.starts[request], length):
                query = q[len(rows)].double()
                seen = slice(0 if rule.window is None else max(position + 1 - rule.window, 0), position + 1)
                scores = torch.einsum("hd,lhd->hl", query, k[seen]) * (DIM**-0.5 if rule.scale is None else rule.scale)
                if rule.softcap is not None:
                    scores = rule.softcap * torch.tanh(scores / rule.softcap)
                if rule.sinks is not None:
                    scores = torch.cat([scores, rule.sinks.double()[:, None]], dim=1)
                weights = scores.softmax(-1)[:, : seen.stop - seen.start]
                rows.append(torch.einsum("hl,lhd->hd", weights, v[seen]))
        return torch.stack(rows)


def make_planner(
    block_size: int,
    mode: DecodeMode = "prefix-aware",
    costs: CpuCosts = SHARING_PAYS,
    window: int | None = None,
) -> CpuPlanner:
    return CpuPlanner(block_size, token_bytes=64, mode=mode, measure_costs=lambda: costs, window=window)


def check(sequences: Sequences, plan: CpuPlan, heads: int, rule: AttentionRule = PLAIN_RULE) -> None:
    """All layers of a step are what they should be."""
    count = sum(sequences.lengths) - sum(sequences.starts)
    # A layer's queries are a part of its projection's rows.
    q = torch.from_numpy(sequences.rng.standard_normal((count, heads + 2, DIM))).to(sequences.dtype)[:, :heads]
    for layer, (k_cache, v_cache) in enumerate(sequences.caches):
        found = plan.attend(layer, q, k_cache, v_cache, rule)
        assert found.dtype == sequences.dtype
        tolerance = 2e-5 if sequences.dtype == torch.float32 else 3e-2
        torch.testing.assert_close(found.double(), sequences.expected(layer, q, rule), rtol=0, atol=tolerance)


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[int | None, int, int, int]]]:
    made = {
        "block_size": draw(st.sampled_from([1, 2, 4, 8])),
        "kv_heads": draw(st.sampled_from([1, 2, 3])),
        "dtype": draw(st.sampled_from([torch.float32, torch.float32, torch.bfloat16])),
        "in_order": draw(st.booleans()),
        "latent": draw(st.booleans()),
    }
    requests: list[tuple[int | None, int, int, int]] = []
    single = draw(st.booleans())
    for index in range(draw(st.integers(1, 7))):
        parent = draw(st.none() | st.integers(0, index - 1)) if index else None
        own = draw(st.sampled_from([1, 2, 3, 7, 8, 9, 20]))
        new = 1 if single else draw(st.sampled_from([1, 1, 2, 5, 20]))
        requests.append((parent, draw(st.integers(0, 12)), own, new))
    return made, requests


@given(
    trees(),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["flat", "prefix-aware", "auto"]),
    st.sampled_from([4, 16, 512]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, 1, 2, 3, 5, 8, 13, 30]),
    st.sampled_from([None, None, 1.5]),
    st.booleans(),
    st.booleans(),
)
def test_any_tree_of_requests(
    tree: tuple[dict[str, Any], list[tuple[int | None, int, int, int]]],
    group: int,
    mode: DecodeMode,
    run_tokens: int,
    kept: bool,
    seed: int,
    window: int | None,
    softcap: float | None,
    scaled: bool,
    sinks: bool,
) -> None:
    """Whatever a layer's rule is, and whatever is left in blocks that no window reaches."""
    made, requests = tree
    heads = group * made["kv_heads"]
    rule = AttentionRule(
        scale=0.4 if scaled else None,
        softcap=softcap,
        window=window,
        sinks=torch.linspace(-1.0, 2.0, heads) if sinks else None,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_planner, "RUN_TOKENS", run_tokens)
        patch.setattr(cpu_planner, "SHARED_RUN_TOKENS", run_tokens)
        patch.setattr(cpu_planner, "LEAST_SHARED_TOKENS", 1)
        patch.setattr(cpu_planner, "ROOM_TOKENS", 2)
        patch.setattr(cpu_planner, "QUERY_TILE", 4)
        patch.setattr(cpu_planner, "KEPT_BYTES", 1 << 20 if kept else 0)
        sequences = Sequences(np.random.default_rng(seed), **made)
        for request in requests:
            sequences.add(*request)
        planner = make_planner(made["block_size"], mode, window=window)
        if window is not None:
            sequences.forget_before(window)
        plan = planner.plan(sequences.batch())
        if window is not None:
            reach = [start + 1 - window for start in sequences.starts]
            most = [
                length - max(low, 0) + made["block_size"] - 1
                for length, low in zip(sequences.lengths, reach, strict=True)
            ]
            assert plan.tokens_read <= sum(most)
        check(sequences, plan, heads, rule)
        for _ in range(4):  # decode, which goes on with what it has until there is no room
            sequences.grow()
            if window is not None:
                sequences.forget_before(window)
            check(sequences, planner.plan(sequences.batch()), heads, rule)


def shared_by(count: int, blocks: int, *, own: int = 3, in_order: bool = True) -> Sequences:
    """Decode of requests with a common prefix of so many blocks of 4."""
    sequences = Sequences(np.random.default_rng(1), 4, 2, torch.float32, in_order)
    sequences.add(None, 0, 4 * blocks + own, 1)
    for _ in range(count - 1):
        sequences.add(0, blocks, own, 1)
    return sequences


def test_what_is_shared_is_read_once_and_in_place() -> None:
    sequences = shared_by(3, 32)
    plan = make_planner(4).plan(sequences.batch())
    (context,) = plan.contexts
    assert context.rows == slice(0, 3)
    assert context.runs == ((1, 33),)
    assert not len(context.scattered)
    (tails,) = plan.tails
    assert tails.lengths.tolist() == [3, 3, 3]
    assert tails.mask is None
    assert (plan.tokens_read, plan.flat_tokens) == (128 + 3 * 3, 3 * 131)
    assert not plan.fresh


def test_flat_shares_nothing() -> None:
    plan = make_planner(4, "flat").plan(shared_by(3, 32).batch())
    assert plan.contexts == ()
    assert plan.tokens_read == plan.flat_tokens


def test_blocks_that_are_one_range_in_any_order_are_read_in_place() -> None:
    sequences = shared_by(2, 32)
    order = np.random.default_rng(0).permutation(32)
    for blocks in sequences.blocks:
        blocks[:32] = np.array(blocks[:32])[order].tolist()
    plan = make_planner(4).plan(sequences.batch())
    assert [context.runs for context in plan.contexts] == [((1, 33),)]
    check(sequences, plan, 4)


def test_blocks_that_lie_anywhere_are_put_together() -> None:
    plan = make_planner(4).plan(shared_by(2, 32, in_order=False).batch())
    (context,) = plan.contexts
    assert sum(last - first for first, last in context.runs) + len(context.scattered) == 32
    assert len(context.scattered) > 16


def test_auto_goes_by_costs() -> None:
    batch = shared_by(3, 32).batch()

    def contexts(**costs: float) -> tuple[ContextPart, ...]:
        return make_planner(4, "auto", CpuCosts(**costs)).plan(batch).contexts

    assert len(contexts(call=127.0, token=1.0, merge=0.0)) == 1
    assert not contexts(call=129.0, token=1.0, merge=0.0)  # 128 tokens do not pay for a call
    assert not contexts(call=1.0, token=1.0, merge=128.0)  # nor for a merge
    assert not contexts(call=1.0, token=0.0, merge=0.0)  # what is read costs nothing


def test_costs_are_measured_once_and_only_where_something_is_shared() -> None:
    measured: list[int] = []

    def measure() -> CpuCosts:
        measured.append(1)
        return SHARING_PAYS

    planner = CpuPlanner(4, token_bytes=64, mode="auto", measure_costs=measure)
    planner.plan(shared_by(1, 32).batch())
    assert not measured
    for _ in range(2):
        planner.plan(shared_by(3, 32).batch())
    assert len(measured) == 1


def test_measured_costs_are_numbers() -> None:
    costs = measure_costs(4, 2, 16, torch.float32)
    assert costs.call > 0
    assert costs.least_tokens >= 1
    assert costs.part_tokens >= 0


def test_decode_goes_on_with_its_copies() -> None:
    sequences = shared_by(3, 32)
    planner = make_planner(4)
    first = planner.plan(sequences.batch())
    check(sequences, first, 4)
    copies = dict(first.tails[0].copies)
    assert set(copies) == {0, 1}
    sequences.grow()
    second = planner.plan(sequences.batch())
    assert second.tails[0] is first.tails[0]
    assert second.tokens_read == first.tokens_read + 3
    check(sequences, second, 4)
    assert all(second.tails[0].copies[layer] is copies[layer] for layer in copies)
    check(sequences, planner.plan(sequences.batch()), 4)  # the same step once more


@pytest.mark.parametrize("what", ["preempted", "other order", "unknown", "two tokens more", "room"])
def test_other_requests_are_planned_anew(what: str) -> None:
    sequences = shared_by(3, 32)
    planner = make_planner(4)
    first = planner.plan(sequences.batch(owners=what != "unknown"))
    check(sequences, first, 4)
    sequences.grow()
    if what == "preempted":
        sequences.owners[1] = (sequences.owners[1][0], 1)
    elif what == "other order":
        for values in (sequences.owners, sequences.blocks, sequences.lengths, sequences.starts):
            values.reverse()  # type: ignore[attr-defined]
    elif what == "two tokens more":
        sequences.grow()
    elif what == "room":
        for _ in range(cpu_planner.ROOM_TOKENS):
            planner.plan(sequences.batch())
            sequences.grow()
    second = planner.plan(sequences.batch(owners=what != "unknown"))
    assert second.tails[0] is not first.tails[0]
    check(sequences, second, 4)


def test_a_request_without_tokens_in_the_step() -> None:
    sequences = shared_by(3, 32)
    batch = sequences.batch()
    batch = replace(batch, query_start=torch.tensor([0, 1, 1, 2], dtype=torch.int32))
    plan = make_planner(4).plan(batch)
    q = torch.randn(2, 4, DIM)
    found = plan.attend(0, q, *sequences.caches[0])
    for values in (sequences.lengths, sequences.starts, sequences.blocks):
        del values[1]  # type: ignore[attr-defined]
    torch.testing.assert_close(found.double(), sequences.expected(0, q), rtol=0, atol=2e-5)
