"""SGLang's own RadixCache and allocators as a program: one JSON command a line in, one JSON answer a line out.

`vs_sglang.py` starts it with the interpreter of an environment that has SGLang; it imports nothing of kvtool. Each request runs
alone: looked up, locked, given slots, published after its prefill, decoded, released. Requests and their arrays are made before
the time counts.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import logging
import sys
import time
from array import array
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from sglang.srt.managers import schedule_batch
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.mem_cache import common
from sglang.srt.mem_cache.allocation import (
    alloc_paged_token_slots_decode,
    alloc_paged_token_slots_extend,
    alloc_token_slots,
)
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixCache
from sglang.srt.sampling.sampling_params import SamplingParams

OFF = SimpleNamespace(strip_thinking_cache=False, speculative_algorithm=None)
"""What a release asks of a server's settings."""


class Run:
    """All prompts on a fresh pool."""

    def __init__(self, prompts: np.ndarray, answers: np.ndarray, page: int, pool: int) -> None:
        kind = TokenToKVPoolAllocator if page == 1 else PagedTokenToKVPoolAllocator
        self.page = page
        self.answers = answers.tolist()
        self.allocator = kind(pool, *(() if page == 1 else (page,)), torch.float16, "cpu", None, False)
        self.rows = ReqToTokenPool(1, prompts.shape[1] + answers.shape[1] + 8, "cpu", False)
        self.tree = RadixCache(
            CacheInitParams(
                disable=False,
                req_to_token_pool=self.rows,
                token_to_kv_pool_allocator=self.allocator,
                page_size=page,
            )
        )
        self.evicted = 0
        evict = self.tree.evict

        def counted(params: Any) -> Any:
            result = evict(params)
            self.evicted += result.num_tokens_evicted
            return result

        self.tree.evict = counted
        sampling = SamplingParams(max_new_tokens=answers.shape[1])
        self.requests = [
            Req(str(number), "", array("q", prompt), sampling, vocab_size=1 << 31)
            for number, prompt in enumerate(prompts.tolist())
        ]

    def seconds(self) -> float:
        """CPU seconds of all requests."""
        gc.collect()
        began = time.process_time()
        for request, answer in zip(self.requests, self.answers, strict=True):
            self._serve(request, answer)
        return time.process_time() - began

    def _serve(self, request: Req, answer: list[int]) -> None:
        request.init_next_round_input(self.tree)
        request.lock = self.tree.lock(request.last_node)
        request.found = request.prefix_len
        self._prefill(request, len(request.origin_input_ids))
        request.output_ids.append(answer[0])
        if len(answer) > 1:
            common.checkpoint_kv_cache(request, self.tree)
        for at, token in enumerate(answer[1:], len(request.origin_input_ids)):
            self._decode(request, at)
            request.output_ids.append(token)
        request.finished_reason = "length"
        common.release_kv_cache(request, self.tree, checkpoint=True)

    def _prefill(self, request: Req, prompt: int) -> None:
        """Slots for what is not cached; they and the cached ones become the request's row."""
        found = request.found
        request.extend_end = prompt
        self.rows.alloc([request])
        row = request.kv.req_pool_idx
        held = self.tree.path_device_indices(request.last_node)
        if self.page == 1:
            slots = alloc_token_slots(self.tree, prompt - found)
        else:
            before, end = torch.tensor([found]), torch.tensor([prompt])
            last = held[-1:] if found else torch.tensor([-1])
            slots = alloc_paged_token_slots_extend(self.tree, before, before, end, end, last, prompt - found)
        self.rows.write((row, slice(0, found)), held.int())
        self.rows.write((row, slice(found, prompt)), slots.int())
        request.kv.kv_allocated_len = request.kv.kv_committed_len = prompt

    def _decode(self, request: Req, at: int) -> None:
        row = request.kv.req_pool_idx
        if self.page == 1:
            slots = alloc_token_slots(self.tree, 1)
        else:
            end = torch.tensor([at + 1])
            last = self.rows.req_to_token[row, at - 1 : at].long()
            slots = alloc_paged_token_slots_decode(self.tree, end, end, last)
        self.rows.write((row, at), slots.int())
        request.kv.kv_allocated_len = request.kv.kv_committed_len = at + 1


def main() -> None:
    logging.disable(logging.CRITICAL)
    common.get_serving = common.get_spec = schedule_batch.get_serving = lambda: OFF
    print(json.dumps({"sglang": importlib.metadata.version("sglang")}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        prompts, answers = np.load(command["prompts"]), np.load(command["answers"])
        run = Run(prompts, answers, command["page"], command["pool"])
        seconds = run.seconds()
        found = [request.found for request in run.requests]
        print(
            json.dumps({"seconds": seconds, "seen": [found, run.evicted, int(run.tree.total_size())]}),
            flush=True,
        )


if __name__ == "__main__":
    main()
