"""Which requests could never run: one by one and all at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.impossible_requests import all_fitting, check_fits


def passes(prompt: int, outputs: int, config: EngineConfig) -> bool:
    try:
        check_fits("it", prompt, outputs, config)
    except EngineError:
        return False
    return True


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=20),
    st.one_of(st.none(), st.integers(2, 12)),
    st.integers(1, 40),
    st.booleans(),
    st.integers(4, 40),
)
def test_all_at_once_are_those_that_pass_one_by_one(
    asked: list[tuple[int, int]], blocks: int | None, longest: int, chunked: bool, budget: int
) -> None:
    config = EngineConfig(
        block_size=4,
        num_blocks=blocks,
        max_model_len=longest,
        enable_chunked_prefill=chunked,
        max_num_batched_tokens=budget,
        max_num_seqs=4,
    )
    prompts, outputs = (np.array(each, np.int64) for each in zip(*asked, strict=True))
    assert all_fitting(prompts, outputs, config).tolist() == [passes(*each, config) for each in asked]


def test_a_request_of_a_fleet_is_counted_from_one() -> None:
    with pytest.raises(EngineError, match="request 8 needs 3 blocks for 9 tokens; the whole cache has 2"):
        FleetRequest(7, 0.0, [], 0, 8, 2).check_fits(EngineConfig(block_size=4, num_blocks=3))
