"""kvtool's scheduler with groups of layers like Qwen3-Next's beside vLLM's own, on the same prompts in one run.

Three groups with states and one with full attention, blocks of 544 tokens (Qwen3-Next's in bf16) or 16, a pool of 20,000 blocks,
2,000 prompts of 4,096 tokens, half of each shared. Seconds are those of the processor, making and hashing requests included. The
sides take turns; the best round counts. What came out is compared outside of it: hit tokens, all tables and the free queue.

    python benchmarks/vs_vllm_groups.py [--vllm-python PATH]

PATH is the interpreter of an environment with vLLM 0.33 (also: $VLLM_PYTHON). Without it, only our own figures are printed.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from peer_process import PeerProcess
from timing import machine
from vs_vllm import Prompts, make_prompts

from kvtool.engine.blocks.make_cache import make_cache
from kvtool.engine.config import EngineConfig
from kvtool.engine.groups.kv_group import CachePlan, KVGroup
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler

POOL = 20_000
EarlierPrompt = dict[str, list[Any]]


def plan(block: int) -> CachePlan:
    states = tuple(KVGroup(kind="mamba", block_size=block, ckpt_align=None) for _ in range(3))
    return CachePlan(
        groups=(*states, KVGroup(kind="full", block_size=block, spec_id=3)),
        bytes_per_block=1,
        scheduler_block_size=block,
        hash_block_size=block,
        hit_alignment=block,
    )


def ours(
    prompts: Prompts, block: int, outputs: int, *, together: bool, look: bool
) -> tuple[float, EarlierPrompt, list[int]]:
    """Seconds, what each request had where one looks, and the free queue."""
    config = EngineConfig(block_size=block, num_blocks=POOL, max_model_len=32_768, plan=plan(block))
    cache = make_cache(config)
    scheduler, runner = Scheduler(config, cache), DryRunner()
    seen: EarlierPrompt = {}

    def one_step() -> None:
        step = scheduler.schedule()
        if look:
            for request, _, _ in step.scheduled:
                seen[request.id] = [request.num_cached_tokens, [list(table.blocks) for table in request.tables]]
        scheduler.update(step, runner.run(step))

    answer = [1] * outputs
    gc.collect()
    began = time.process_time()
    for index, prompt in enumerate(prompts):
        scheduler.add(Request(str(index), len(prompt), prompt_ids=prompt, output_ids=answer))
        while not together and len(scheduler):
            one_step()
    while len(scheduler):
        one_step()
    return time.process_time() - began, seen, list(cache.free_queue)


class Peer(PeerProcess):
    """vLLM, see peer_vllm_groups.py."""

    def __init__(self, python: str, prompts_file: Path) -> None:
        self.prompts_file = str(prompts_file)
        super().__init__(python, "peer_vllm_groups.py", "vLLM")

    def run(self, block: int, outputs: int, algorithm: str, *, together: bool, look: bool) -> dict[str, Any]:
        command = {
            "prompts": self.prompts_file, "block": block, "pool": POOL, "outputs": outputs, "hash": algorithm,
            "together": together, "look": look,
        }  # fmt: skip
        return self.ask(command)


def compare(prompts: Prompts, block: int, outputs: int, rounds: int, peer: Peer | None, algorithm: str) -> None:
    for together in (False, True):
        mine: list[float] = []
        theirs: list[float] = []
        for _ in range(rounds):
            mine.append(ours(prompts, block, outputs, together=together, look=False)[0])
            if peer is not None:
                theirs.append(peer.run(block, outputs, algorithm, together=together, look=False)["seconds"])
        _, seen, free = ours(prompts, block, outputs, together=together, look=True)
        hits = sum(had for had, _ in seen.values())
        line = f"blocks of {block:3}, {'all at once' if together else 'one at a time':13} {outputs:4} out "
        line += f"{len(prompts) / min(mine):8,.0f} requests/s {hits:11,} hit tokens"
        if peer is not None:
            answer = peer.run(block, outputs, algorithm, together=together, look=True)
            same = answer["seen"] == seen and answer["free"] == free
            line += f"   vLLM {len(prompts) / min(theirs):6,.0f} -> {min(theirs) / min(mine):5.1f} x   "
            line += "same blocks" if same else "OTHER BLOCKS"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-python", default=os.environ.get("VLLM_PYTHON"), metavar="PATH")
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--tokens", type=int, default=4_096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outputs", type=int, nargs="+", default=[1, 128])
    parser.add_argument("--hash", default="sha256", help="vLLM's --prefix-caching-hash-algo")
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
            print(f"beside vLLM {peer.version}, hashing by {options.hash}")
        for block in (544, 16):
            for outputs in options.outputs:
                compare(prompts, block, outputs, options.rounds, peer, options.hash)
        if peer is not None:
            peer.process.terminate()
            peer.process.wait()


if __name__ == "__main__":
    main()
