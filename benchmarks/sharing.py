"""What prefix-aware attention wins on this machine: a decode step with it, and with each request reading its own context.

The Llama of `vs_transformers.py` (27.7 M parameters, fp32, random from a seed), requests of 2,048 tokens of which a part is shared.
Both ways run in turn on caches of their own: seconds are medians of steps by the wall clock and in CPU time of all threads, and
the gain is flat over prefix-aware, once for each. `reads` is tokens of K and V that flat reads over those that prefix-aware reads.
All steps' tokens must be the same.

    python benchmarks/sharing.py [--requests 8 16 32 64] [--shares 0 25 50 75 95] [--busy]

With --busy, a program that computes without end runs beside it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field

import numpy as np

from kvtool.engine.clock import WallClock
from kvtool.engine.config import DecodeMode, EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.request import Request

from timing import beside_a_busy_program, machine  # isort: skip  # beside this file

CONTEXT, BLOCK = 2_048, 32
WARM_UP = 2
LLAMA = ModelConfig(
    vocab_size=8_640,
    hidden_size=512,
    intermediate_size=1_536,
    num_hidden_layers=6,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=64,
    tie_word_embeddings=False,
    name="llama of 27.7 M parameters",
)


@dataclass
class Way:
    """One way to attend, and what its steps took."""

    engine: Engine
    requests: list[Request]
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @classmethod
    def prefilled(cls, model: Decoder, mode: DecodeMode, prompts: np.ndarray, outputs: int) -> Way:
        runner = ModelRunner(model, BLOCK, decode_attention=mode)
        runner.kv.reserve(len(prompts) * (CONTEXT + outputs) // BLOCK + len(prompts) + 2)
        engine = Engine(EngineConfig(block_size=BLOCK), runner, WallClock())
        requests = [
            Request(str(index), CONTEXT, prompt_ids=ids, max_tokens=outputs) for index, ids in enumerate(prompts)
        ]
        for request in requests:
            engine.add(request)
        while any(request.first_token_at is None for request in requests):
            engine.step()
        return cls(engine, requests)

    def step(self, *, counts: bool) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        self.engine.step()
        if counts:
            self.wall.append(time.perf_counter() - wall)
            self.cpu.append(time.process_time() - cpu)


def make_prompts(requests: int, share: int) -> tuple[np.ndarray, int]:
    """int32[requests, CONTEXT], and how many of their first tokens are the same: whole blocks."""
    shared = CONTEXT * share // 100 // BLOCK * BLOCK
    ids = np.random.default_rng(0).integers(3, LLAMA.vocab_size, (requests, CONTEXT), dtype=np.int32)
    ids[:, :shared] = ids[0, :shared]
    return ids, shared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--shares", type=int, nargs="+", default=[0, 25, 50, 75, 95], help="percent")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--busy", action="store_true")
    options = parser.parse_args()
    print(machine())
    model = Decoder.random(LLAMA)
    print(
        f"{'requests':>8} {'shared':>7} {'reads':>7} {'flat ms':>9} {'aware ms':>9} {'gain':>6}"
        f" {'flat CPU ms':>12} {'aware CPU ms':>13} {'gain':>6}"
    )
    with beside_a_busy_program(wanted=options.busy):
        for count in options.requests:
            for share in options.shares:
                row(model, count, share, options.steps)


def row(model: Decoder, count: int, share: int, steps: int) -> None:
    prompts, shared = make_prompts(count, share)
    modes: tuple[DecodeMode, ...] = ("flat", "prefix-aware")
    ways = [Way.prefilled(model, mode, prompts, steps + 2 * WARM_UP + count) for mode in modes]
    for number in range(WARM_UP + steps):
        for way in ways if number % 2 else reversed(ways):
            way.step(counts=number >= WARM_UP)
    flat, aware = ways
    length = min(len(request.outputs) for way in ways for request in way.requests)
    for one, other in zip(flat.requests, aware.requests, strict=True):
        assert one.outputs[:length] == other.outputs[:length], "the answers differ"
    reads = count * CONTEXT / (shared + count * (CONTEXT - shared))
    wall, cpu = ([1e3 * statistics.median(getattr(way, name)) for way in ways] for name in ("wall", "cpu"))
    print(
        f"{count:8} {100 * shared / CONTEXT:6.0f}% {reads:6.1f}x {wall[0]:9.1f} {wall[1]:9.1f} {wall[0] / wall[1]:5.2f}x"
        f" {cpu[0]:12.1f} {cpu[1]:13.1f} {cpu[0] / cpu[1]:5.2f}x",
        flush=True,
    )


if __name__ == "__main__":
    main()
