"""Load or compute: worked by hand, then on a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.fleet.break_even import break_even_tokens, load_seconds, recompute_seconds
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator


def linear(prompt_tokens: int, cached_tokens: int) -> float:
    """1 s a pass and 10 ms a token."""
    return 1.0 + 0.01 * (prompt_tokens - cached_tokens)


def test_load_is_latency_and_bytes_over_bandwidth() -> None:
    assert load_seconds(100, 131_072, 13_107_200.0, 0.25) == 1.25


def test_a_pass_that_happens_anyhow_is_no_price_of_the_prefix() -> None:
    assert recompute_seconds(linear, 500, 300, 7) == pytest.approx(3.0)


def break_even(latency: float, token_seconds: float, **options: int) -> int | None:
    return break_even_tokens(
        lambda tokens: load_seconds(tokens, token_seconds, 1.0, latency),
        lambda tokens: recompute_seconds(linear, 0, tokens, 1),
        **options,
    )


def test_worked_by_hand() -> None:
    # A token costs 10 ms to compute and 4 ms to load, a load 300 ms before it begins: 0.3 / (0.010 - 0.004) = 50 tokens are equal.
    assert break_even(0.3, 0.004) == 51
    assert break_even(0.3, 0.004, step=16) == 64
    assert break_even(0.0, 0.004, step=16) == 16
    assert break_even(0.3, 0.010) is None
    assert break_even(0.3, 0.004, most=50) is None
    assert break_even(0.3, 0.004, most=51) == 51


@given(st.floats(0, 2), st.floats(0, 0.02), st.integers(1, 64), st.integers(1, 5000))
def test_it_is_the_first_of_all_multiples(latency: float, token_seconds: float, step: int, most: int) -> None:
    gains = [
        tokens
        for tokens in range(step, most + 1, step)
        if load_seconds(tokens, token_seconds, 1.0, latency) < recompute_seconds(linear, 0, tokens, 1)
    ]
    assert break_even(latency, token_seconds, step=step, most=most) == (gains[0] if gains else None)


def on_h100(bandwidth: float, latency: float = 0.0) -> int | None:
    model = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))

    def prefill(prompt_tokens: int, cached_tokens: int) -> float:
        return model.prefill_seconds(prompt_tokens, cached_tokens, 8192)

    return break_even_tokens(
        lambda tokens: load_seconds(tokens, model.geometry.kv_bytes_per_token(), bandwidth, latency),
        lambda tokens: recompute_seconds(prefill, 0, tokens, 512),
        step=16,
        most=131_072,
    )


def test_on_a_model_slower_links_need_longer_prefixes() -> None:
    # 128 KiB and about 21 us of the peak's part a token: 6.3 GB/s are as fast as the H100, less with attention.
    found = [on_h100(bandwidth, 0.002) for bandwidth in (14e9, 7e9, 5.5e9)]
    assert all(tokens is not None for tokens in found)
    assert sorted(found, key=lambda tokens: tokens or 0) == found
    assert on_h100(14e9) == 16
    assert on_h100(1e9) is None
