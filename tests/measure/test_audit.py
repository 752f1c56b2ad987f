"""The comparison of logits: what must be the same is, what was sabotaged is seen, and a smaller cache has its price."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from kvtool.engine.clock import WallClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.model_runner import ModelRunner, OnLogits
from kvtool.engine.request import Request
from kvtool.measure.audit import Audit, AuditResult, to_all

BLOCK = 8
VOCABULARY = 300
ROUNDING = 1e-4
"""More than additions in another order can change a logit by, in fp32."""


@pytest.fixture(scope="module")
def model() -> Decoder:
    return Decoder.random(ModelConfig.tiny(VOCABULARY))


def prompts() -> list[np.ndarray]:
    """Prompts that share their first 40 tokens."""
    random = np.random.default_rng(3)
    base = random.integers(0, VOCABULARY, 40, dtype=np.int32)
    return [np.concatenate([base, random.integers(0, VOCABULARY, 12 + 5 * i, dtype=np.int32)]) for i in range(4)]


def nothing(_runner: ModelRunner) -> None:
    pass


class Bench:
    """Engines that are given the same requests, one after the other, as `kvtool profile` does."""

    def __init__(self, model: Decoder) -> None:
        self.model = model
        self.audit = Audit()
        self.reference = self.engine(caching=False, hook=self.audit.reference)

    def engine(self, *, caching: bool, kv_cache_dtype: str = "auto", hook: OnLogits | None = None) -> Engine:
        config = EngineConfig(block_size=BLOCK, num_blocks=200, enable_prefix_caching=caching)
        runner = ModelRunner(self.model, BLOCK, config.num_blocks, kv_cache_dtype=kv_cache_dtype, on_logits=hook)
        return Engine(config, runner, WallClock())

    def cached(self) -> Engine:
        return self.engine(caching=True, hook=self.audit.candidate)

    def compare(
        self,
        *engines: Engine,
        outputs: list[int] | None = None,
        before_last: Callable[[ModelRunner], None] = nothing,
        also: Audit | None = None,
    ) -> AuditResult:
        """`before_last` is done to the last engine's runner when its cache is full."""
        hits = 0
        for index, ids in enumerate(prompts()):
            if index == 3:
                runner = engines[-1].runner
                assert isinstance(runner, ModelRunner)
                before_last(runner)
            for engine in (self.reference, *engines):
                request = Request(f"r{index}", len(ids), prompt_ids=ids, output_ids=outputs, max_tokens=6)
                engine.add(request)
                while engine.busy:
                    engine.step()
                hits += max(request.num_cached_tokens, 0)
            self.audit.settle()
            if also is not None:
                also.settle()
        assert hits > 100  # the last engine did reuse something
        return self.audit.result


def test_reuse_changes_nothing_in_fp32(model: Decoder) -> None:
    bench = Bench(model)
    result = bench.compare(bench.cached())
    assert (result.requests, result.tokens) == (4, 24)
    assert result.flips == []
    assert result.max_difference < ROUNDING  # nothing at all, where the processor adds in the same order for both
    assert ROUNDING < result.least_margin < 1.0  # so nothing could flip by rounding alone, on any processor
    assert result.relative_error < 1e-5


def test_a_small_error_in_one_block_is_no_rounding(model: Decoder) -> None:
    """Reuse of values that are wrong by a thousandth exceeds the bound of the test above, and is not yet a flip's size."""

    def nudge(runner: ModelRunner) -> None:
        for cache in runner.kv.v:
            cache[2] += 0.001 * cache[2].abs().max()

    bench = Bench(model)
    result = bench.compare(bench.cached(), before_last=nudge)
    assert ROUNDING < result.max_difference < 0.1
    assert result.relative_error > 1e-5


def test_forced_outputs_have_the_first_token_only(model: Decoder) -> None:
    bench = Bench(model)
    result = bench.compare(bench.cached(), outputs=[7, 8, 9])
    assert (result.requests, result.tokens, result.flips) == (4, 4, [])


def corrupt(value: float) -> Callable[[ModelRunner], None]:
    """Spoil one block of the shared prefix."""

    def change(runner: ModelRunner) -> None:
        for cache in (*runner.kv.k, *runner.kv.v):
            cache[2] = value

    return change


def test_a_corrupted_block_is_seen(model: Decoder) -> None:
    bench = Bench(model)
    result = bench.compare(bench.cached(), before_last=corrupt(4.0))
    assert result.max_difference > 0.5
    assert {flip.request for flip in result.flips} == {"r3"}
    [flip] = result.flips  # what follows a flip has other tokens before it and is not compared
    assert 0 <= flip.margin <= 2 * flip.difference
    assert flip.expected != flip.actual
    assert len(prompts()[3]) <= flip.position < len(prompts()[3]) + 6


def test_logits_that_are_not_numbers_are_seen(model: Decoder) -> None:
    bench = Bench(model)
    result = bench.compare(bench.cached(), before_last=corrupt(math.nan))
    assert result.max_difference == math.inf
    assert result.relative_error == math.inf
    assert result.flips
    assert json.loads(json.dumps(result.logits().model_dump(), allow_nan=False))["max_difference"] is None


# Root mean square of the logits' error in parts of their spread: with 3 and 2 bits of mantissa, and with 7 bits in even steps.
@pytest.mark.parametrize(
    ("kv_cache_dtype", "least", "most"),
    [("bf16", 1e-4, 0.01), ("fp8_e4m3", 0.005, 0.1), ("fp8_e5m2", 0.01, 0.2), ("int8", 0.0005, 0.02)],
)
def test_the_price_of_a_smaller_cache(model: Decoder, kv_cache_dtype: str, least: float, most: float) -> None:
    """The uncached run of the smaller type is compared with the native one, and the cached one with the uncached one."""
    bench, reuse = Bench(model), Audit()
    uncached = bench.engine(
        caching=False, kv_cache_dtype=kv_cache_dtype, hook=to_all(bench.audit.candidate, reuse.reference)
    )
    cached = bench.engine(caching=True, kv_cache_dtype=kv_cache_dtype, hook=reuse.candidate)
    price = bench.compare(uncached, cached, outputs=[0], also=reuse)
    assert (price.tokens, reuse.result.tokens) == (4, 4)
    assert least < price.relative_error < most
    assert all(flip.margin <= 2 * flip.difference for flip in price.flips)
    assert reuse.result.relative_error < price.relative_error / 4


def test_margins_and_flips_by_hand() -> None:
    audit = Audit()
    request = Request("one", 3, output_ids=[5, 5])
    for hook, logits in ((audit.reference, [1.0, 4.0, 3.5]), (audit.candidate, [1.0, 3.0, 3.25])):
        hook(request, torch.tensor(logits))
    request.append_output(5)
    for hook, logits in ((audit.reference, [0.0, 0.0, 9.0]), (audit.candidate, [0.0, 0.25, 9.0])):
        hook(request, torch.tensor(logits))
    audit.settle()
    result = audit.result
    assert (result.requests, result.tokens, result.max_difference, result.least_margin) == (1, 2, 1.0, 0.5)
    [flip] = result.flips
    assert (flip.request, flip.position, flip.expected, flip.actual) == ("one", 3, 1, 2)
    assert (flip.margin, flip.difference) == (0.5, 1.0)
    assert result.logits().model_dump()["flips"] == [
        {"request": "one", "position": 3, "expected": 1, "actual": 2, "margin": 0.5, "difference": 1.0}
    ]


def test_only_what_follows_the_same_tokens_is_compared() -> None:
    audit = Audit()
    one, other = (Request("one", 3, max_tokens=4) for _ in range(2))
    one.append_output(1)
    other.append_output(2)
    audit.reference(one, torch.ones(4))
    audit.candidate(other, torch.zeros(4))
    audit.candidate(Request("alone", 2), torch.zeros(4))
    audit.settle()
    assert audit.result == AuditResult()
    audit.candidate(one, torch.ones(4))  # the reference's row is forgotten
    audit.settle()
    assert audit.result == AuditResult()


def test_hooks_keep_a_copy() -> None:
    """A runner may use the memory of its logits again."""
    audit = Audit()
    request = Request("one", 3)
    logits = torch.tensor([1.0, 2.0])
    audit.reference(request, logits)
    audit.candidate(request, logits)
    logits += torch.tensor([5.0, 0.0])
    audit.settle()
    assert (audit.result.max_difference, audit.result.least_margin) == (0.0, 1.0)


def test_nothing_compared_is_said_so() -> None:
    assert AuditResult().logits().model_dump() == {
        "requests": 0,
        "tokens": 0,
        "max_difference": 0.0,
        "relative_error": 0.0,
        "least_margin": None,
        "flips": [],
    }
