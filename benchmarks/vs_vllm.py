"""kvtool's block manager and scheduler beside vLLM's own, on the same prompts in one run.

2,000 prompts of 4,096 tokens, half of each shared, blocks of 16, a pool of 20,000 blocks; 1 and 128 output tokens. Both sides make
and hash their requests in the time that is measured: ours from int32 arrays, vLLM's from its lists. The sides take turns; the best
round counts. What came out is compared outside of it: hit tokens and the block table of every request, and the free queue.

    python benchmarks/vs_vllm.py [--vllm-python PATH]

PATH is the interpreter of an environment with vLLM (also: $VLLM_PYTHON). Without it, only our own figures are printed.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from peer_process import PeerProcess
from timing import machine

from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account

BLOCK, POOL = 16, 20_000
TOGETHER = "scheduler, all at once"
MODES = ("manager", "scheduler", TOGETHER)
Prompts = npt.NDArray[np.int32]
Outcome = tuple[dict[str, tuple[int, list[int]]], list[int]]
"""For each request its hit tokens and its block table at its end; and the free queue."""


def make_prompts(count: int, tokens: int) -> Prompts:
    """int32[count, tokens]: the first half of each row is the same."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 128_000, (count, tokens), dtype=np.int32)
    ids[:, : tokens // 2] = ids[0, : tokens // 2]
    return ids


class Ours:
    """One run of a mode over all prompts on a fresh pool."""

    def __init__(self, mode: str, outputs: int, prompts: Prompts) -> None:
        self.mode = mode
        self.outputs = [1] * outputs
        self.prompts = prompts
        config = EngineConfig(block_size=BLOCK, num_blocks=POOL)
        self.cache = BlockManager(config)
        self.scheduler = Scheduler(config, self.cache)
        self.runner = DryRunner()
        self.seen: dict[str, tuple[int, list[int]]] | None = None

    def outcome(self) -> Outcome:
        """Run, and note what each request had."""
        self.seen = {}
        self._run()
        return self.seen, list(self.cache.free_queue)

    def seconds(self) -> float:
        """Run, and take the time."""
        gc.collect()
        began = time.perf_counter()
        self._run()
        return time.perf_counter() - began

    def _run(self) -> None:
        for index, prompt in enumerate(self.prompts):
            request = Request(str(index), len(prompt), prompt_ids=prompt, output_ids=self.outputs)
            if self.mode == "manager":
                self._manage(request)
            elif self.mode == "sequential":
                account(self.scheduler, request)
            else:
                self.scheduler.add(request)
                while self.mode != TOGETHER and len(self.scheduler):
                    self._step()
        while len(self.scheduler):
            self._step()

    def _step(self) -> None:
        step = self.scheduler.schedule()
        if self.seen is not None:
            for request, _, _ in step.scheduled:
                self.seen[request.id] = (request.num_cached_tokens, list(request.block_ids))
        self.scheduler.update(step, self.runner.run(step))

    def _manage(self, request: Request) -> None:
        cache = self.cache
        hits = cache.match(request)
        request.num_cached_tokens = len(hits) * BLOCK
        assert cache.allocate(request, request.num_tokens - request.num_cached_tokens, hits)
        for token in self.outputs[:-1]:
            request.num_computed_tokens = request.num_tokens
            request.append_output(token)
            assert cache.allocate(request, 1)
        if self.seen is not None:
            self.seen[request.id] = (request.num_cached_tokens, list(request.block_ids))
        cache.free(request)


class Peer(PeerProcess):
    """vLLM, see peer_vllm.py."""

    def __init__(self, python: str, prompts_file: Path) -> None:
        self.prompts_file = str(prompts_file)
        super().__init__(python, "peer_vllm.py", "vLLM")

    def run(self, mode: str, outputs: int, algorithm: str) -> tuple[float, Outcome]:
        """Seconds, and what came out."""
        command = {"mode": mode, "outputs": outputs, "hash": algorithm, "block": BLOCK, "pool": POOL}
        answer = self.ask({**command, "prompts": self.prompts_file})
        seen = {name: (hits, blocks) for name, (hits, blocks) in answer["seen"].items()}
        return answer["seconds"], (seen, answer["free"])


def difference(ours: Outcome, theirs: Outcome) -> str:
    """Empty where all is the same."""
    wrong = [name for name, had in ours[0].items() if theirs[0].get(name) != had]
    if wrong:
        return f"{len(wrong)} requests differ, the first is {wrong[0]}"
    return "" if ours[1] == theirs[1] else "the free queues differ"


def compare(prompts: Prompts, outputs: int, rounds: int, peer: Peer | None, hashes: list[str]) -> None:
    count = len(prompts)
    for mode in MODES:
        mine: list[float] = []
        theirs: dict[str, list[float]] = {algorithm: [] for algorithm in hashes}
        outcome = Ours(mode, outputs, prompts).outcome()
        verdict = ""
        for _ in range(rounds):
            mine.append(Ours(mode, outputs, prompts).seconds())
            if peer is None:
                continue
            for algorithm in hashes:
                seconds, seen = peer.run(mode, outputs, algorithm)
                theirs[algorithm].append(seconds)
                verdict = verdict or difference(outcome, seen)
        rate = count / min(mine)
        hits = sum(had for had, _ in outcome[0].values())
        line = f"{mode:23} {outputs:4} out {rate:8,.0f} requests/s {hits:12,} hit tokens"
        for algorithm, seconds_of in theirs.items():
            if seconds_of:
                line += f"   {algorithm} {count / min(seconds_of):7,.0f} -> {min(seconds_of) / min(mine):5.1f} x"
        print(line + (f"   {verdict or 'same blocks'}" if peer is not None else ""), flush=True)
    best = min(Ours("sequential", outputs, prompts).seconds() for _ in range(rounds))
    print(f"{'one at a time, at once':23} {outputs:4} out {count / best:8,.0f} requests/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-python", default=os.environ.get("VLLM_PYTHON"), metavar="PATH")
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--tokens", type=int, default=4_096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hash", nargs="+", default=["sha256", "xxhash"], help="vLLM's --prefix-caching-hash-algo")
    options = parser.parse_args()
    print(machine())
    prompts = make_prompts(options.requests, options.tokens)
    with tempfile.TemporaryDirectory() as folder:
        peer = None
        if options.vllm_python is None:
            print("no vLLM to compare with: give --vllm-python PATH")
        else:
            file = Path(folder, "prompts.npy")
            np.save(file, prompts)
            peer = Peer(options.vllm_python, file)
            print(f"beside vLLM {peer.version}, by its prefix-caching hash")
        for outputs in (1, 128):
            compare(prompts, outputs, options.rounds, peer, options.hash if peer is not None else [])
        if peer is not None:
            peer.process.terminate()
            peer.process.wait()


if __name__ == "__main__":
    main()
