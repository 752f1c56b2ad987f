"""Hits for every block size from one pass, against a cache of blocks of that size; and the edit that gains a block."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.boundary import SIZES, BoundaryBook, GroupBoundary
from kvtool.accounting.prefix_tree import RadixTree
from kvtool.report.terminal.profile_blocks.boundary import print_boundaries
from kvtool.report.views.boundaries import edit_sentence, histogram
from kvtool.results.report import Boundary
from kvtool.text.terminal.console import make_console


def filled(*requests: tuple[int, int], block_size: int = 16) -> GroupBoundary:
    """Requests of (prompt tokens, shared tokens)."""
    book = BoundaryBook(block_size)
    for prompt_tokens, shared in requests:
        book.add("g", prompt_tokens, shared)
    (group,) = book
    return group


def test_counted_by_hand() -> None:
    group = filled((100, 0), (100, 40), (100, 100), (20, 12))
    assert (group.requests, group.prompt_tokens, group.nothing) == (4, 320, 1)
    found = {size: (t.hit_tokens, t.hit_requests, t.short_requests) for size, t in group.sizes.items()}
    assert found[16] == (32 + 96, 2, 1)  # 12 tokens are shared, but no block; of 100 equal tokens 99 may hit
    assert found[32] == (32 + 96, 2, 1)
    assert found[64] == (64, 1, 2)
    assert found[128] == (0, 0, 3)
    assert group.remainders == {0: 1, 8: 1, 3: 1, 12: 1}


def test_a_few_tokens_of_a_template_are_nothing_shared() -> None:
    group = filled((50, 7), (50, 8))
    assert group.nothing == 1
    assert group.sizes[16].short_requests == 1


def test_the_smallest_edit_that_gains_a_block() -> None:
    """380 of 400 requests share 36 tokens: 12 short of the third block of 16. The other 20, and the first, share nothing."""
    group = filled(*[(500, 0)] * 20, *[(500, 36)] * 380)
    edit = group.padding()
    assert edit is not None
    assert (edit.add_tokens, edit.requests_gained, edit.tokens_saved) == (12, 380, 16 * 380 - 12 * 400)
    assert edit_sentence(group.boundary()) == (
        "add 12 tokens of shared text at the front: 380 of 400 requests then hit one more block "
        "(reuses 6,080 tokens more, adds 4,800: saves 1,280 tokens)"
    )


def test_no_edit_where_it_costs_more_than_it_gains() -> None:
    group = filled((100, 32), (100, 48))
    assert group.padding() is None
    assert edit_sentence(group.boundary()) == "Padding at the front saves nothing with blocks of 16 tokens."


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 60)), min_size=1, max_size=12),
    st.sampled_from([2, 5, 16, 20]),
)
def test_the_edit_against_trying_every_one(requests: list[tuple[int, int]], block_size: int) -> None:
    requests = [(n, min(shared, n)) for n, shared in requests]

    def computed(added: int) -> int:
        usable = [(n + added, min(shared + added, n + added - 1)) for n, shared in requests]
        n, shared = requests[0]  # the first shares text with other groups alone, and has the addition before it
        usable[0] = n + added, min(shared, n - 1)
        return sum(n - shared // block_size * block_size for n, shared in usable)

    tried = {added: computed(0) - computed(added) for added in range(1, block_size)}
    best = max(tried.values(), default=0)
    edit = filled(*requests, block_size=block_size).padding()
    if best <= 0:
        assert edit is None
    else:
        assert edit is not None
        assert edit.tokens_saved == best == tried[edit.add_tokens]
        assert edit.add_tokens == min(added for added, saved in tried.items() if saved == best)


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=150), min_size=1, max_size=8))
def test_every_size_equals_a_cache_of_such_blocks(prompts: list[list[int]]) -> None:
    tree, book = RadixTree(), BoundaryBook(16)
    caches: dict[int, set[tuple[int, ...]]] = {size: set() for size in SIZES}
    hits = dict.fromkeys(SIZES, 0)
    for number, tokens in enumerate(prompts):
        tokens = [token for token in tokens for _ in range(13)]  # long enough for large blocks
        ids = np.array(tokens, np.int32)
        match = tree.match(ids)
        tree.insert(ids, number, match)
        book.add("g", len(ids), match.length)
        for size, cache in caches.items():
            at = 0
            while at + size < len(tokens) and tuple(tokens[: at + size]) in cache:
                at += size
            hits[size] += at
            cache.update(tuple(tokens[:stop]) for stop in range(size, len(tokens) + 1, size))
    (group,) = book
    assert {size: group.sizes[size].hit_tokens for size in SIZES} == hits


def test_a_trace_tells_only_multiples_of_its_own_blocks() -> None:
    book = BoundaryBook(64, whole_prompt_may_hit=True)
    book.add("trace", 640, 640, unit=64)
    (group,) = book
    assert list(group.sizes) == [64, 128, 256, 1600]
    assert group.sizes[128].hit_tokens == 640


def test_the_histogram_covers_the_block() -> None:
    group = filled((900, 0), (900, 527), (900, 33), block_size=528)
    bins = histogram(group.boundary())
    assert bins[0] == (0, 32, 1)
    assert bins[1] == (33, 65, 1)
    assert bins[-1] == (495, 527, 1)
    assert [first for first, _, _ in bins[1:]] == [last + 1 for _, last, _ in bins[:-1]]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_report_fits(width: int, encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console = make_console(file=stream, width=width, color="never")
    hostile = GroupBoundary("[/red]\x1b[31m" + "long name " * 9, 16)
    hostile.requests, hostile.prompt_tokens, hostile.remainders[3] = 1, 10, 1
    print_boundaries(console, [filled(*[(50_000, 36_004)] * 12_345).boundary(), hostile.boundary()])
    stream.flush()
    text = raw.getvalue().decode(encoding)
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= width
    assert "16*" in text
    assert "12,345" in text
    assert "add 12 tokens" in " ".join(text.split())


def test_json_has_counts_only() -> None:
    found = filled((500, 0), *[(500, 36)] * 4).boundary()
    document = found.model_dump()
    assert Boundary.model_validate_json(json.dumps(document)) == found
    assert document["edit"] == {"add_tokens": 12, "requests_gained": 4, "tokens_saved": 4}
    assert document["sizes"][0] == {
        "block_size": 16,
        "hit_tokens": 128,
        "hit_requests": 4,
        "shared_too_short_requests": 0,
    }
    assert document["left_over"] == [{"tokens": 0, "requests": 1}, {"tokens": 4, "requests": 4}]
