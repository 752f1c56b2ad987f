from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.batch import Batch
from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep, Scheduled


def make_request(
    prompt: list[int], blocks: list[int], *, outputs: list[int] | None = None, forced: list[int] | None = None
) -> Request:
    request = Request("r", len(prompt), prompt_ids=np.array(prompt, dtype=np.int32), output_ids=forced, max_tokens=9)
    request.block_ids = blocks
    for token in outputs or []:
        request.append_output(token)
    return request


def build(*items: tuple[Request, int, int], block_size: int = 4) -> Batch:
    return Batch.build(EngineStep(0, tuple(Scheduled(*item) for item in items)), block_size)


def test_prefill_chunk_and_decode_in_one_batch() -> None:
    whole = make_request([10, 11, 12, 13, 14], [7, 2])
    chunk = make_request(list(range(20, 33)), [3, 9, 4, 1])
    decode = make_request([40, 41, 42], [5, 8], outputs=[43, 44])
    batch = build((whole, 0, 5), (chunk, 4, 6), (decode, 4, 1))
    assert batch.input_ids.tolist() == [10, 11, 12, 13, 14, 24, 25, 26, 27, 28, 29, 44]
    assert batch.positions.tolist() == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 4]
    assert batch.slot_mapping.tolist() == [28, 29, 30, 31, 8, 36, 37, 38, 39, 16, 17, 32]
    assert batch.query_start.tolist() == [0, 5, 11, 12]
    assert batch.seq_lens.tolist() == [5, 10, 5]
    assert batch.block_table.tolist() == [[7, 2, 0], [3, 9, 4], [5, 8, 0]]
    assert batch.logits_at.tolist() == [4, 11]  # the chunk does not reach the end of its prompt
    assert batch.sampled == (0, 2)
    assert batch.num_blocks == 10
    assert [t.dtype for t in (batch.input_ids, batch.positions, batch.slot_mapping, batch.logits_at)] == [
        torch.int64
    ] * 4
    assert [t.dtype for t in (batch.query_start, batch.seq_lens, batch.block_table)] == [torch.int32] * 3


def test_the_queries_that_get_logits() -> None:
    whole = make_request([10, 11, 12, 13, 14], [7, 2])
    chunk = make_request(list(range(20, 33)), [3, 9, 4, 1])
    decode = make_request([40, 41, 42], [5, 8], outputs=[43, 44])
    full = build((whole, 0, 5), (chunk, 4, 6), (decode, 4, 1))
    batch = full.of_logits()
    assert batch.input_ids.tolist() == [14, 44]
    assert batch.positions.tolist() == [4, 4]
    assert batch.slot_mapping.tolist() == [8, 32]
    assert batch.query_start.tolist() == [0, 1, 2]
    assert batch.seq_lens.tolist() == [5, 5]
    assert batch.block_table.tolist() == [[7, 2, 0], [5, 8, 0]]
    assert batch.logits_at.tolist() == [0, 1]
    assert batch.sampled == (0, 1)
    assert batch.num_blocks == 10
    for field in dataclasses.fields(Batch):
        value = getattr(batch, field.name)
        if isinstance(value, torch.Tensor):
            assert value.dtype == getattr(full, field.name).dtype


def test_no_query_gets_logits() -> None:
    batch = build((make_request([1, 2, 3], [1]), 0, 2)).of_logits()
    assert batch.query_start.tolist() == [0]
    assert batch.seq_lens.tolist() == batch.logits_at.tolist() == []
    assert batch.sampled == ()


def test_a_range_may_cross_from_prompt_to_output() -> None:
    """As after a preemption: prompt and earlier outputs are computed again."""
    request = make_request([1, 2, 3], [6, 5], outputs=[4, 5])
    batch = build((request, 1, 4))
    assert batch.input_ids.tolist() == [2, 3, 4, 5]
    assert batch.logits_at.tolist() == [3]


def test_which_tokens_get_logits() -> None:
    for forced, outputs, wanted in [
        (None, [], True),
        (None, [5], True),
        ([5, 6], [], True),  # the time to the first token is measured, whoever chooses it
        ([5, 6], [5], False),
    ]:
        request = make_request([1, 2], [1], outputs=outputs, forced=forced)
        batch = build((request, 0, request.num_tokens))
        assert batch.logits_at.tolist() == ([request.num_tokens - 1] if wanted else [])
        assert batch.sampled == ((0,) if wanted else ())


def test_the_null_block_is_not_written() -> None:
    with pytest.raises(AssertionError, match="null block"):
        build((make_request([1, 2, 3, 4, 5], [3, 0]), 0, 5))


def test_a_trace_without_token_ids_cannot_become_tensors() -> None:
    request = Request("trace-7", 4)
    request.block_ids = [1]
    with pytest.raises(ValueError, match="trace-7 has no token ids"):
        build((request, 0, 4))


@st.composite
def steps(draw: st.DrawFn) -> tuple[EngineStep, int]:
    """Requests of random lengths and progress over blocks of one pool, in random order."""
    block_size = draw(st.sampled_from([1, 3, 16]))
    shapes = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=5))
    pool = draw(st.permutations(range(1, 1 + sum(-(-(a + b) // block_size) for a, b in shapes))))
    items: list[Scheduled] = []
    for start, count in shapes:
        need = -(-(start + count) // block_size)
        ids = np.arange(start + count, dtype=np.int32) + 100 * len(items)
        request = Request(str(len(items)), start + count, prompt_ids=ids)
        request.block_ids, pool = list(pool[:need]), pool[need:]
        items.append(Scheduled(request, start, count))
    return EngineStep(0, tuple(items)), block_size


@given(steps())
def test_every_token_goes_to_its_own_place(case: tuple[EngineStep, int]) -> None:
    step, block_size = case
    batch = Batch.build(step, block_size)
    expected = [
        (int(item.request.token_ids(at, at + 1)[0]), at, item.request.block_ids[at // block_size], at % block_size)
        for item in step.scheduled
        for at in range(item.start, item.start + item.num_tokens)
    ]
    slots = batch.slot_mapping.tolist()
    assert expected == [
        (token, position, *divmod(slot, block_size))
        for token, position, slot in zip(batch.input_ids.tolist(), batch.positions.tolist(), slots, strict=True)
    ]
    assert len(set(slots)) == len(slots) == step.num_tokens == int(batch.query_start[-1])
