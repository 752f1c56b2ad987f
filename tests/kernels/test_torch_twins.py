from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvtool.kernels import paged_attention as paged_attention_module
from kvtool.kernels.attention_rule import PLAIN_RULE, AttentionRule
from kvtool.kernels.paged_attention import paged_attention
from kvtool.kernels.store_kv import store_kv

NAN = float("nan")


class Paged:
    """Sequences of random K/V, in scattered blocks of a cache that is NaN everywhere else."""

    def __init__(self, lengths: list[int], *, kv_heads: int, dim: int, page: int, seed: int = 0) -> None:
        random = torch.Generator().manual_seed(seed)
        counts = [-(-length // page) for length in lengths]
        free = (1 + torch.randperm(sum(counts) + 3, generator=random)).tolist()
        self.k_cache = torch.full((len(free) + 1, kv_heads, page, dim), NAN)
        self.v_cache = self.k_cache.clone()
        self.block_table = torch.zeros(len(lengths), max(counts) + 1, dtype=torch.int32)
        self.k, self.v = ([torch.randn(n, kv_heads, dim, generator=random) for n in lengths] for _ in range(2))
        for row, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            blocks = [free.pop() for _ in range(count)]
            self.block_table[row, :count] = torch.tensor(blocks, dtype=torch.int32)
            for token in range(length):
                block, offset = blocks[token // page], token % page
                self.k_cache[block, :, offset] = self.k[row][token]
                self.v_cache[block, :, offset] = self.v[row][token]
        self.seq_lens = torch.tensor(lengths, dtype=torch.int32)

    def attend(
        self, queries: list[torch.Tensor], scale: float | None = None, rule: AttentionRule = PLAIN_RULE
    ) -> torch.Tensor:
        query_start = torch.tensor([0, *itertools.accumulate(len(q) for q in queries)], dtype=torch.int32)
        q = torch.cat(queries)
        return paged_attention(
            q, self.k_cache, self.v_cache, self.block_table, query_start, self.seq_lens, scale, rule=rule
        )

    def forget_before(self, window: int, counts: list[int]) -> None:
        """Blocks that lie before the windows of all queries of their sequence are no numbers."""
        page = self.k_cache.shape[2]
        for row, count in enumerate(counts):
            reached = max(len(self.k[row]) - count + 1 - window, 0) // page
            for block in self.block_table[row, :reached].tolist():
                self.k_cache[block] = self.v_cache[block] = NAN

    def reference(
        self, queries: list[torch.Tensor], scale: float | None = None, rule: AttentionRule = PLAIN_RULE
    ) -> torch.Tensor:
        """Token by token, head by head, in float64."""
        scale = rule.scale if scale is None else scale
        out = []
        for q, k, v in zip(queries, self.k, self.v, strict=True):
            group = q.shape[1] // k.shape[1]
            for row in range(len(q)):
                seen = len(k) - len(q) + row + 1
                for head in range(q.shape[1]):
                    first = max(seen - rule.window, 0) if rule.window else 0
                    keys, values = (x[first:seen, head // group].double() for x in (k, v))
                    scores = keys @ q[row, head].double() * (scale or 1 / math.sqrt(q.shape[2]))
                    if rule.softcap is not None:
                        scores = rule.softcap * torch.tanh(scores / rule.softcap)
                    if rule.sinks is not None:
                        scores = torch.cat([scores, rule.sinks[head : head + 1].double()])
                    out.append(scores.softmax(0)[: len(values)] @ values)
        return torch.stack(out).view(-1, *queries[0].shape[1:])


def random_queries(counts: list[int], heads: int, dim: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(99)
    return [torch.randn(count, heads, dim, generator=random) for count in counts]


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=2e-6)


def test_attention_over_poisoned_pages() -> None:
    """Whole prompt, chunk after a prefix, one token, a page that is just full, no queries; every unwritten slot is NaN."""
    for heads, kv_heads in [(4, 4), (8, 2), (6, 1)]:
        paged = Paged([13, 21, 30, 16, 9], kv_heads=kv_heads, dim=8, page=8)
        queries = random_queries([13, 6, 1, 5, 0], heads, 8)
        assert_close(paged.attend(queries), paged.reference(queries))


@pytest.mark.parametrize("window", [None, 1, 7, 8, 9, 16, 40])
@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("sinks", [False, True])
def test_rules_of_layers(
    window: int | None, softcap: float | None, sinks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows, softcaps and sinks, each with and without the others; no block before a window is read."""
    monkeypatch.setattr(paged_attention_module, "_QUERY_TILE", 5)
    counts = [13, 6, 1, 5, 0, 1]
    paged = Paged([13, 21, 30, 16, 9, 1], kv_heads=2, dim=8, page=8)
    queries = random_queries(counts, 6, 8)
    rule = AttentionRule(
        scale=0.6, softcap=softcap, window=window, sinks=torch.linspace(-2.0, 3.0, 6) if sinks else None
    )
    expected = paged.reference(queries, rule=rule)
    if window is not None:
        paged.forget_before(window, counts)
    assert_close(paged.attend(queries, rule=rule), expected)


@pytest.mark.parametrize("rule", [{"scale": 0.0}, {"scale": math.inf}, {"softcap": -1.0}, {"window": 0}])
def test_rules_that_make_no_sense(rule: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be above 0 and finite"):
        AttentionRule(**rule)  # type: ignore[arg-type]  # of whatever type


def test_a_long_chunk_is_cut_into_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged_attention_module, "_QUERY_TILE", 4)
    paged = Paged([30], kv_heads=2, dim=4, page=16)
    queries = random_queries([19], 4, 4)
    assert_close(paged.attend(queries), paged.reference(queries))


def test_scale_is_the_callers() -> None:
    paged = Paged([7, 7], kv_heads=1, dim=4, page=4)
    queries = random_queries([7, 1], 2, 4)
    assert_close(paged.attend(queries, scale=0.9), paged.reference(queries, scale=0.9))


def test_strided_queries_and_caches() -> None:
    """Queries that are a slice of a fused projection, caches that are one layer of a larger tensor."""
    paged = Paged([11], kv_heads=2, dim=4, page=4)
    queries = random_queries([5], 4, 4)
    expected = paged.attend(queries)
    fused = torch.cat([queries[0], torch.full((5, 3, 4), NAN)], dim=1)
    paged.k_cache = torch.stack([paged.k_cache, paged.k_cache], dim=1)[:, 0]
    torch.testing.assert_close(paged.attend([fused[:, :4]]), expected, rtol=0, atol=0)


@given(
    sequences=st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1)), min_size=1, max_size=4),
    page=st.sampled_from([1, 4, 16]),
    group=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_attention_equals_the_reference(sequences: list[tuple[int, float]], page: int, group: int, seed: int) -> None:
    lengths = [length for length, _ in sequences]
    paged = Paged(lengths, kv_heads=2, dim=4, page=page, seed=seed)
    queries = random_queries([1 + round(part * (length - 1)) for length, part in sequences], 2 * group, 4)
    assert_close(paged.attend(queries), paged.reference(queries))


def test_store_writes_the_slots_and_nothing_else() -> None:
    k, v = torch.randn(5, 2, 3), torch.randn(5, 2, 3)
    k_cache, v_cache = torch.full((4, 2, 4, 3), 7.0), torch.full((4, 2, 4, 3), 8.0)
    slots = torch.tensor([6, -1, 15, 4, -1])
    store_kv(k, v, k_cache, v_cache, slots)
    expected_k, expected_v = torch.full_like(k_cache, 7.0), torch.full_like(v_cache, 8.0)
    for token, (block, offset) in {0: (1, 2), 2: (3, 3), 3: (1, 0)}.items():
        expected_k[block, :, offset] = k[token]
        expected_v[block, :, offset] = v[token]
    assert torch.equal(k_cache, expected_k)
    assert torch.equal(v_cache, expected_v)


def test_store_of_padding_only_writes_nothing() -> None:
    cache = torch.zeros(2, 1, 4, 2)
    store_kv(torch.ones(3, 1, 2), torch.ones(3, 1, 2), cache, cache, torch.full((3,), -1))
    assert not cache.any()


def test_store_casts_to_the_caches_type() -> None:
    k = torch.tensor([[[1.0, 1 / 3]]])
    cache = torch.zeros(1, 1, 1, 2, dtype=torch.bfloat16)
    store_kv(k, k, cache, cache.clone(), torch.tensor([0]))
    assert torch.equal(cache[0, 0, 0], k[0, 0].bfloat16())


@pytest.mark.parametrize("by_head", [False, True])
@pytest.mark.parametrize("slots", [[], [5], [4, 5, 6, 7, 8], [4, 5, 7, 6, 8], [8, 7, 6], [4, 6, 8], [-1, 5, 6]])
def test_stores_into_either_order_of_memory(slots: list[int], by_head: bool) -> None:
    """A cache may have each block's heads, or each head's blocks, one behind the other."""
    count = len(slots)
    k, v = torch.randn(count, 3, 8), torch.randn(count, 3, 8)
    caches = [torch.full((3, 4, 4, 8), torch.nan).transpose(0, 1) for _ in "kv"]
    caches = caches if by_head else [cache.contiguous() for cache in caches]
    store_kv(k, v, *caches, torch.tensor(slots, dtype=torch.int64))
    for x, cache in zip((k, v), caches, strict=True):
        for slot in range(16):
            stored = cache[slot // 4, :, slot % 4]
            if slot in slots:
                assert torch.equal(stored, x[slots.index(slot)])
            else:
                assert stored.isnan().all()
