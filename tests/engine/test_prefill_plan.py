from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.attention.prefill_plan import PrefillPlan, plan_prefill


def plan(
    requests: list[tuple[int, int]],
    *,
    chosen: list[int] | None = None,
    tile_queries: int = 16,
    processors: int = 1,
    block_size: int = 16,
    num_kv_heads: int = 1,
    first_part: int = 0,
) -> tuple[PrefillPlan, list[int]]:
    """A plan of requests with (queries, tokens in all), and where each one's queries start."""
    starts = [0, *itertools.accumulate(count for count, _ in requests)]
    return plan_prefill(
        np.array(range(len(requests)) if chosen is None else chosen, dtype=np.int32),
        np.array(starts, dtype=np.int32),
        np.array([length for _, length in requests], dtype=np.int32),
        tile_queries,
        num_kv_heads=num_kv_heads,
        block_size=block_size,
        processors=processors,
        first_part=first_part,
    ), starts


def test_tiles_of_a_prompt_longest_first() -> None:
    made, _ = plan([(40, 40)])
    assert made.tiles.tolist() == [[0, 32, 0, 40, -1], [0, 16, 0, 32, -1], [0, 0, 0, 16, -1]]
    assert (made.num_parts, made.out_rows.tolist(), made.part_start.tolist()) == (0, [], [0])


def test_a_short_question_on_a_long_document_is_cut_into_parts() -> None:
    made, _ = plan([(3, 2048 + 3)], processors=8, num_kv_heads=2, first_part=10)
    assert made.tiles.tolist() == [
        [0, 0, 0, 640, 10],
        [0, 0, 640, 1280, 13],
        [0, 0, 1280, 1920, 16],
        [0, 0, 1920, 2051, 19],
    ]
    assert made.num_parts == 12
    assert made.out_rows.tolist() == [0, 1, 2]
    assert made.part_start.tolist() == [0, 4, 8, 12]
    assert made.part_index.tolist() == [10, 13, 16, 19, 11, 14, 17, 20, 12, 15, 18, 21]


def test_nothing_to_plan() -> None:
    made, _ = plan([(1, 9), (1, 5)], chosen=[])
    assert made.tiles.shape == (0, 5)
    assert (made.part_start.tolist(), made.part_index.tolist(), made.num_parts) == ([0], [], 0)


@given(
    requests=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9000)), min_size=1, max_size=6),
    tile_queries=st.sampled_from([1, 7, 16, 32]),
    processors=st.sampled_from([1, 8, 132]),
    block_size=st.sampled_from([1, 16, 48, 64]),
    num_kv_heads=st.sampled_from([1, 8]),
    data=st.data(),
)
def test_every_pair_of_a_query_and_a_token_it_sees_is_computed_once(
    requests: list[tuple[int, int]],
    tile_queries: int,
    processors: int,
    block_size: int,
    num_kv_heads: int,
    data: st.DataObject,
) -> None:
    requests = [(count, count + before) for count, before in requests]
    chosen = sorted(data.draw(st.sets(st.integers(0, len(requests) - 1), min_size=1)))
    made, starts = plan(
        requests,
        chosen=chosen,
        tile_queries=tile_queries,
        processors=processors,
        block_size=block_size,
        num_kv_heads=num_kv_heads,
        first_part=5,
    )
    seen: dict[int, list[tuple[int, int]]] = {}  # ranges of tokens, by the query's row
    rows: dict[int, int] = {}  # the query's row, by the partial result's
    for request, first, kv_from, kv_to, part in made.tiles.tolist():
        count, length = requests[request]
        assert kv_from % block_size == 0
        assert kv_from < kv_to <= length
        for index in range(first, min(first + tile_queries, count)):
            row = starts[request] + index
            position = length - count + index
            seen.setdefault(row, []).append((kv_from, min(kv_to, position + 1)))
            if part >= 0:
                assert rows.setdefault(part + index - first, row) == row
            else:
                assert len(seen[row]) == 1
    for request in chosen:
        count, length = requests[request]
        for index in range(count):
            ranges = sorted(range_ for range_ in seen.pop(starts[request] + index) if range_[0] < range_[1])
            assert ranges[0][0] == 0
            assert ranges[-1][1] == length - count + index + 1
            assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
    assert not seen
    assert sorted(rows) == list(range(5, 5 + made.num_parts))
    merged = {
        row: made.part_index[start:stop].tolist()
        for row, (start, stop) in zip(made.out_rows.tolist(), itertools.pairwise(made.part_start), strict=True)
    }
    expected: dict[int, list[int]] = {}
    for part, row in rows.items():
        expected.setdefault(row, []).append(part)
    assert {row: sorted(parts) for row, parts in merged.items()} == {r: sorted(p) for r, p in expected.items()}
