"""SGLang's own unified radix cache with windows or states, on cases from standard input: run with the Python of an environment that
has it.

Each line is a case, each line of the output the cached tokens of its requests, or {"error": …}. No GPU or model
is needed. Requests run one at a time: SGLang's tree, its pools, the steps at which it frees windows, and the choice of
states of a prefill are its own code; the states of an answer are noted here as its scheduler notes them without overlap.
"""

from __future__ import annotations

import json
import logging
import sys
from array import array
from math import lcm
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt import runtime_context
from sglang.srt.managers import schedule_batch
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.mem_cache import common
from sglang.srt.mem_cache.allocator.mamba import MambaSlotAllocator
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_swa_memory_pool import BaseSWAKVPool
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool, ReqToTokenPool, get_mamba_tracking_slots
from sglang.srt.mem_cache.unified_cache.components import ComponentType, mamba
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.sampling.sampling_params import SamplingParams

READERS = ("get_memory", "get_disagg", "get_serving", "get_spec", "get_exec", "get_schedule", "get_parallel")


class Settings(SimpleNamespace):
    """What SGLang reads of its options; all that a case does not say is off."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def publish(settings: Settings, chunk: int) -> None:
    """Let SGLang's modules read these settings: no server is there to publish any."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("sglang.srt"):
            for name in READERS:
                if name in vars(module):
                    setattr(module, name, lambda: settings)
    for module in (mamba, schedule_batch, runtime_context):
        vars(module).update(mamba_cache_chunk_size=lambda: chunk, mamba_checkpoint_grid=lambda page: lcm(chunk, page))


class WindowPool(BaseSWAKVPool):
    """KV that nobody reads."""

    full_kv_pool = swa_kv_pool = None

    def __init__(self) -> None:
        self.full_to_swa_index_mapping: torch.Tensor | None = None

    def register_mapping(self, mapping: torch.Tensor) -> None:
        self.full_to_swa_index_mapping = mapping

    def translate_loc_from_full_to_swa(self, slots: torch.Tensor) -> torch.Tensor:
        return self.full_to_swa_index_mapping[slots]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)


WindowPool.__abstractmethods__ = frozenset()


class StateRows(HybridReqToTokenPool):
    """Rows of requests with slots for states that nobody reads."""

    def __init__(self, size: int, longest: int, states: int, extra: bool) -> None:
        ReqToTokenPool.__init__(self, size, longest, "cpu", False)
        self.mamba_ping_pong_track_buffer_size = get_mamba_tracking_slots(extra_buffer=True, overlap=True)
        self.mamba_initial_tracking_slots = get_mamba_tracking_slots(extra_buffer=extra, overlap=True, lazy=False)
        self.enable_mamba_extra_buffer, self.enable_mamba_extra_buffer_lazy = extra, False
        self.mamba_allocator = MambaSlotAllocator(size=states, device="cpu")
        self.mamba_ckpt_pool, self.device = None, "cpu"
        self.mamba_pool = Settings(size=states, copy_from=lambda *_: None)
        self.short_conv_pool = self.ngram_pool = Settings(enabled=False, copy_from=lambda *_: None)
        count = self.req_to_token.shape[0]
        self.req_index_to_mamba_index_mapping = torch.zeros(count, dtype=torch.int32)
        self.req_index_to_mamba_ping_pong_track_buffer_mapping = torch.zeros(
            (count, self.mamba_ping_pong_track_buffer_size), dtype=torch.int64
        )


class Server:
    """One cache, and the requests that it serves."""

    def __init__(self, case: dict[str, Any]) -> None:
        engine, requests = case["engine"], case["requests"]
        self.page, self.chunk = engine["page_size"], engine.get("chunk")
        strategy = engine.get("mamba_radix_cache_strategy")
        self.extra = strategy == "extra_buffer"
        grid = max(engine.get("mamba_chunk_size", 64), self.page)
        self.interval = lcm(grid, self.page, engine.get("mamba_track_interval", 256))
        states = Settings(mamba_max_states_per_path=-1, enable_mamba_extra_buffer=self.extra)
        states.mamba_track_interval, states.enable_mamba_extra_buffer_lazy = self.interval, False
        publish(
            Settings(mamba=states, disaggregation_mode="null", disaggregation_decode_retraction_backup="none"), grid
        )
        longest = max(len(each["prompt"]) + len(each["output"]) for each in requests) + 2 * self.page + 8
        size = 2 * self.page * sum(3 + (len(each["prompt"]) + len(each["output"])) // self.page for each in requests)
        if strategy is None:
            kind, self.rows = ComponentType.SWA, ReqToTokenPool(2, longest, "cpu", False)
            pool = WindowPool()
            self.allocator = SWATokenToKVPoolAllocator(size, size, self.page, torch.float16, "cpu", pool, False)
        else:
            count = 40 * len(requests) + sum(len(each["prompt"]) for each in requests) // (self.chunk or 1 << 30)
            kind, self.rows = ComponentType.MAMBA, StateRows(2, longest, count, self.extra)
            make, more = (TokenToKVPoolAllocator, ()) if self.page == 1 else (PagedTokenToKVPoolAllocator, (self.page,))
            self.allocator = make(size, *more, torch.float16, "cpu", None, False)
        self.tree = UnifiedRadixCache(
            CacheInitParams(
                disable=False,
                req_to_token_pool=self.rows,
                token_to_kv_pool_allocator=self.allocator,
                page_size=self.page,
                sliding_window_size=engine.get("window"),
                enable_mamba_extra_buffer=self.extra,
                tree_components=(ComponentType.FULL, kind),
            )
        )

    def serve(self, number: int, spec: dict[str, Any]) -> int:
        sampling = SamplingParams(max_new_tokens=len(spec["output"]))
        sampling.stop_token_ids, sampling.stop_strs, sampling.stop_regex_strs = None, [], []
        more = {"vocab_size": 1 << 31, "eos_token_ids": set(), "cache_salt": spec.get("cache_salt")}
        req = Req(str(number), "", array("q", spec["prompt"]), sampling, **more)
        req.init_next_round_input(self.tree)
        hit = req.prefix_len
        req.lock = self.tree.lock(req.last_node)
        self.rows.alloc([req])
        held = self.tree.path_device_indices(req.last_node)
        self.rows.write((req.kv.req_pool_idx, slice(0, hit)), held[:hit].int())
        self.prefill(req, hit, len(spec["prompt"]), spec["output"])
        while not req.finished():
            self.decode(req, spec["output"])
        common.release_kv_cache(req, self.tree, checkpoint=True)
        return hit

    def prefill(self, req: Req, done: int, total: int, answer: list[int]) -> None:
        batch = SimpleNamespace(
            model_config=SimpleNamespace(hf_text_config=SimpleNamespace(mamba_chunk_size=64)),
            tree_cache=self.tree,
            req_to_token_pool=self.rows,
        )
        while done < total:
            end = min(total, done + self.chunk) if self.chunk else total
            self.take(req, done, end)
            req.extend_end = end
            if self.extra:
                ScheduleBatch._mamba_radix_cache_v2_req_prepare_for_extend(batch, req)
            if end == total:
                req.output_ids.append(answer[0])
                req.update_finish_state()
            if not req.finished():
                common.checkpoint_kv_cache(req, self.tree)
            done = end

    def decode(self, req: Req, answer: list[int]) -> None:
        batch = SimpleNamespace(
            tree_cache=self.tree,
            token_to_kv_pool_allocator=self.allocator,
            reqs=[req],
            forward_mode=SimpleNamespace(is_decode=lambda: True, is_extend=lambda: False),
        )
        batch._swa_eviction_trigger = lambda *a: ScheduleBatch._swa_eviction_trigger(batch, *a)
        batch._evict_swa = lambda *a, **k: ScheduleBatch._evict_swa(batch, *a, **k)
        ScheduleBatch.maybe_evict_swa(batch)
        at = req.kv.kv_committed_len
        self.take(req, at, at + 1, decodes=True)
        req.decode_batch_idx += 1
        if self.extra and req.kv.kv_committed_len % self.interval == 0:
            req.kv.mamba_last_track_idx = req.kv.mamba_next_track_idx
            req.kv.mamba_prev_track_seqlen = req.kv.mamba_last_track_seqlen
            req.kv.mamba_last_track_seqlen = req.kv.kv_committed_len
            req.kv.mamba_next_track_idx = self.rows.get_mamba_ping_pong_other_idx(req.kv.mamba_next_track_idx)
        req.output_ids.append(answer[len(req.output_ids)])
        req.update_finish_state()

    def take(self, req: Req, start: int, end: int, *, decodes: bool = False) -> None:
        row = req.kv.req_pool_idx
        if self.page == 1:
            slots = self.allocator.alloc(end - start)
        else:
            last = self.rows.req_to_token[row, start - 1 : start].long() if start else torch.tensor([-1])
            begin, stop = torch.tensor([start]), torch.tensor([end])
            slots = (
                self.allocator.alloc_decode(stop, stop, last)
                if decodes
                else self.allocator.alloc_extend(begin, begin, stop, stop, last, end - start)
            )
        self.rows.write((row, slice(start, end)), slots.int())
        req.kv.kv_allocated_len = req.kv.kv_committed_len = end


def answer(line: str) -> str:
    """Serve the requests of a case."""
    logging.disable(logging.CRITICAL)
    case = json.loads(line)
    try:
        server = Server(case)
        result: dict[str, Any] = {
            "cached_tokens": [server.serve(number, spec) for number, spec in enumerate(case["requests"])]
        }
    except Exception as error:  # whatever SGLang says of a case is its answer
        if "-v" in sys.argv:
            raise
        result = {"error": repr(error)}
    return json.dumps(result)


def main() -> None:
    """Give each case a process of its own: SGLang's modules keep the grid of the settings that they first saw."""
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for said in pool.imap(answer, sys.stdin):
            print(said, flush=True)


if __name__ == "__main__":
    main()
