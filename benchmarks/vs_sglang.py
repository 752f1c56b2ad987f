"""SGLang's rules here beside SGLang's own RadixCache, on the same requests in one run.

2,000 prompts of 4,096 tokens, half of each shared, 8 tokens of answer, one at a time; a pool of 320,000 tokens and one in which
all fits. What is timed is CPU: ours from int32 arrays, SGLang's tree and allocator from its own requests, made before. The
sides take turns; the best round counts. What came out is compared outside of it: the cached tokens of each request, the evicted
ones, and the tree's. Pages of 64 are ours alone: without a GPU, SGLang's allocator of pages runs other code. So are the prompts at
the end, which are hard for a radix tree, in two sizes.

    python benchmarks/vs_sglang.py [--sglang-python PATH]

PATH is the interpreter of an environment with SGLang (also: $SGLANG_PYTHON). Without it, only our own figures are printed.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from peer_process import PeerProcess
from timing import machine

from kvtool.engine.rules.rule_set import RuleRequest
from kvtool.engine.rules.sglang import SglangCache
from kvtool.engine.rules.sglang_options import SglangOptions

POOL = 320_000
ANSWER = 8
Ids = npt.NDArray[np.int32]
Outcome = tuple[list[int], int, int]
"""The cached tokens of each request, the evicted ones of all, and the tree's at the end."""


def half_shared(count: int, tokens: int) -> Ids:
    """int32[count, tokens]: the first half of each row is the same."""
    ids = np.random.default_rng(0).integers(0, 128_000, (count, tokens), dtype=np.int32)
    ids[:, : tokens // 2] = ids[0, : tokens // 2]
    return ids


def one_token_differs(count: int, tokens: int) -> Ids:
    """int32[count, tokens]: all rows are the same but for one token, which stands anywhere."""
    chance = np.random.default_rng(0)
    ids = np.tile(chance.integers(0, 128_000, tokens, dtype=np.int32), (count, 1))
    ids[np.arange(count), chance.integers(0, tokens, count)] = 200_000 + np.arange(count)
    return ids


def served(options: SglangOptions, prompts: Ids, answers: Ids) -> tuple[float, Outcome]:
    """CPU seconds, and what came out."""
    cache = SglangCache(options)
    asked = [RuleRequest(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]
    gc.collect()
    began = time.process_time()
    found = [cache.serve(each) for each in asked]
    seconds = time.process_time() - began
    return seconds, ([each.cached for each in found], sum(each.evicted for each in found), cache.num_tokens)


class Peer(PeerProcess):
    """SGLang, see peer_sglang.py."""

    def __init__(self, python: str) -> None:
        super().__init__(python, "peer_sglang.py", "SGLang")

    def run(self, page: int, pool: int, files: Sequence[Path]) -> tuple[float, Outcome]:
        """CPU seconds, and what came out."""
        prompts, answers = map(str, files)
        answer = self.ask({"page": page, "pool": pool, "prompts": prompts, "answers": answers})
        found, evicted, held = answer["seen"]
        return answer["seconds"], (found, evicted, held)


def compare(prompts: Ids, rounds: int, peer: Peer | None, folder: Path) -> None:
    answers = np.random.default_rng(1).integers(0, 128_000, (len(prompts), ANSWER), dtype=np.int32)
    files = folder / "prompts.npy", folder / "answers.npy"
    for file, ids in zip(files, (prompts, answers), strict=True):
        np.save(file, ids)
    fits = prompts.size + answers.size + 64 * len(prompts)
    for page in (1, 64):
        for pool in (POOL, -(-fits // 64) * 64):
            options = SglangOptions(page_size=page, max_total_tokens=pool)
            mine, theirs, same = [], [], True
            for _ in range(rounds):
                seconds, outcome = served(options, prompts, answers)
                mine.append(seconds)
                if peer is not None and page == 1:
                    seconds, seen = peer.run(page, pool, files)
                    theirs.append(seconds)
                    same = same and seen == outcome
            cached, evicted, _ = outcome
            line = f"page {page:2}, pool {pool:10,}: {len(prompts) / min(mine):8,.0f} requests/s"
            line += f" {sum(cached):10,} cached {evicted:10,} evicted"
            if theirs:
                line += f"   SGLang {len(prompts) / min(theirs):6,.0f} -> {min(theirs) / min(mine):5.1f} x   "
                line += "the same came out" if same else "DIFFERENT"
            print(line, flush=True)


def hard(rounds: int) -> None:
    """CPU for each million prompt tokens, in two sizes: what grows more than the text would show."""
    for name, make, sizes in (
        ("all but one token shared", one_token_differs, ((5_000, 1_000), (10_000, 1_000))),
        ("long prompts, half shared", half_shared, ((50, 100_000), (100, 100_000))),
    ):
        for pool in (None, 200_064):
            each = []
            for count, tokens in sizes:
                prompts = make(count, tokens)
                answers = np.zeros((count, 1), np.int32)
                best = min(served(SglangOptions(max_total_tokens=pool), prompts, answers)[0] for _ in range(rounds))
                each.append(f"{count:,} x {tokens:,}: {best / prompts.size * 1e9:6.1f} ms")
            print(f"{name}, pool {pool or 'without end'}, CPU for each million tokens: {', '.join(each)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sglang-python", default=os.environ.get("SGLANG_PYTHON"), metavar="PATH")
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--tokens", type=int, default=4_096)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(machine())
    peer = None
    if options.sglang_python is None:
        print("no SGLang to compare with: give --sglang-python PATH")
    else:
        peer = Peer(options.sglang_python)
        print(f"beside SGLang {peer.version}'s RadixCache")
    with tempfile.TemporaryDirectory() as folder:
        compare(half_shared(options.requests, options.tokens), options.rounds, peer, Path(folder))
    if peer is not None:
        peer.process.terminate()
        peer.process.wait()
    hard(options.rounds)


if __name__ == "__main__":
    main()
