"""Accounting speed: 2,000 prompts of 4,096 tokens, half of each shared, blocks of 16, a pool of 20,000 blocks, one core.

Prints requests per second of the scheduler step by step and of the sequential short cut, with 1 and with 128 output tokens, as a
ratio to the work that no manager can leave out: hashing every block of every prompt.

    python benchmarks/accounting.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from timing import machine

from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.blocks.hashing import extend_hashes
from kvtool.engine.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account

REQUESTS, TOKENS, SHARED, BLOCK, POOL = 2_000, 4_096, 2_048, 16, 20_000


def prompts() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shared = rng.integers(0, 128_000, SHARED, dtype=np.int32)
    return [
        np.concatenate([shared, rng.integers(0, 128_000, TOKENS - SHARED, dtype=np.int32)]) for _ in range(REQUESTS)
    ]


def step_by_step(scheduler: Scheduler, request: Request) -> None:
    runner = DryRunner()
    scheduler.add(request)
    while len(scheduler):
        step = scheduler.schedule()
        scheduler.update(step, runner.run(step))


def rate(ids: list[np.ndarray], outputs: int, run: Callable[[Scheduler, Request], None]) -> tuple[float, int]:
    """Requests per second, and all hit tokens (so that the ways can be seen to agree)."""
    config = EngineConfig(block_size=BLOCK, num_blocks=POOL)
    scheduler = Scheduler(config, BlockManager(config))
    hits = 0
    began = time.perf_counter()
    for index, prompt in enumerate(ids):
        request = Request(str(index), TOKENS, prompt_ids=prompt, output_ids=[1] * outputs)
        run(scheduler, request)
        hits += request.num_cached_tokens
    return len(ids) / (time.perf_counter() - began), hits


def hashing_rate(ids: list[np.ndarray]) -> float:
    began = time.perf_counter()
    for index, prompt in enumerate(ids):
        extend_hashes(Request(str(index), TOKENS, prompt_ids=prompt), BLOCK)
    return len(ids) / (time.perf_counter() - began)


def main() -> None:
    print(machine())
    ids = prompts()
    floor = max(hashing_rate(ids) for _ in range(3))
    print(f"hashing alone                     {floor:8,.0f} requests/s  {floor * TOKENS / BLOCK / 1e6:5.2f} M blocks/s")
    for outputs in (1, 128):
        for name, run in (("scheduler, step by step", step_by_step), ("sequential accounting", account)):
            best, hits = max(rate(ids, outputs, run) for _ in range(3))
            blocks = best * TOKENS / BLOCK / 1e6
            print(f"{name:23} {outputs:4} out  {best:8,.0f} requests/s  {blocks:5.2f} M blocks/s  "
                  f"{best / floor:5.2f} x hashing alone  {hits:,} hit tokens")  # fmt: skip


if __name__ == "__main__":
    main()
