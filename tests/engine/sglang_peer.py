"""SGLang's own radix cache, queue and admission on cases from standard input: run with the Python of an environment that has it.

Each line is a recorded case without what was expected; each line of the output says what SGLang did, or {"error": …}. Nothing of
kvtool is imported, and no GPU or model is needed: SGLang's scheduler loop decides, its allocators and its tree keep the tokens, and
a forward pass is what the case says was sampled. With `chunked_prefill_size` among the options, prompts are computed in chunks.
"""

from __future__ import annotations

import json
import logging
import sys
from array import array
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.managers import scheduler
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.managers.schedule_policy import PrefillAdder, SchedulePolicy
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.mem_cache import common, radix_cache
from sglang.srt.mem_cache.allocation import (
    alloc_paged_token_slots_decode,
    alloc_paged_token_slots_extend,
    alloc_token_slots,
)
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.sampling.sampling_params import SamplingParams

READERS = ("get_memory", "get_disagg", "get_serving", "get_spec", "get_exec", "get_schedule", "get_parallel")


class Settings(SimpleNamespace):
    """What SGLang reads of its options; all that a case does not say is off."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def publish(settings: Settings) -> None:
    """Let SGLang's modules read these settings: no server is there to publish any."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("sglang.srt"):
            for name in READERS:
                if name in vars(module):
                    setattr(module, name, lambda: settings)


class Batch(SimpleNamespace):
    """What SGLang's ScheduleBatch is to its scheduler, without the tensors of a forward pass."""

    check_decode_mem = ScheduleBatch.check_decode_mem
    new_tokens_required_next_decode = ScheduleBatch.new_tokens_required_next_decode
    retract_decode = ScheduleBatch.retract_decode
    release_req = ScheduleBatch.release_req
    _get_decode_retraction_order = staticmethod(ScheduleBatch._get_decode_retraction_order)

    def __init__(self, reqs: list[Req] = (), batch_is_full: bool = False, **more: Any) -> None:
        super().__init__(reqs=list(reqs), batch_is_full=batch_is_full, is_prefill_only=False, chunked_req=None, **more)
        self.forward_mode = SimpleNamespace(is_extend=lambda: self.extends)
        self.extends = False
        self.spec_algorithm = SimpleNamespace(is_none=lambda: True)

    @staticmethod
    def init_new(reqs: list[Req], rows: Any, allocator: Any, tree: Any, *_: Any, chunked_req: Req | None) -> Batch:
        made = Batch(reqs, req_to_token_pool=rows, token_to_kv_pool_allocator=allocator, tree_cache=tree)
        made.extends, made.chunked_req = True, chunked_req
        return made

    def batch_size(self) -> int:
        return len(self.reqs)

    def is_empty(self) -> bool:
        return not self.reqs

    def filter_batch(self, reqs_to_exclude: list[Req] = (), keep_indices: list[int] | None = None) -> None:
        if keep_indices is None:
            self.reqs = [req for req in self.reqs if not req.finished() and req not in reqs_to_exclude]
        elif len(keep_indices) < len(self.reqs):
            self.reqs = [self.reqs[index] for index in keep_indices]

    def merge_batch(self, other: Batch) -> None:
        self.reqs += other.reqs

    def prepare_for_extend(self) -> None:
        rows, page = self.req_to_token_pool, self.token_to_kv_pool_allocator.page_size
        held = [
            rows.req_to_token[req.kv.req_pool_idx, : req.prefix_len].long()
            if req.kv.holds_kv
            else self.tree_cache.path_device_indices(req.last_node)
            for req in self.reqs
        ]
        assert [len(each) for each in held] == [req.prefix_len for req in self.reqs]
        rows.alloc(self.reqs)
        ends = [req.extend_end for req in self.reqs]
        new = sum(ends) - sum(map(len, held))
        if page == 1:
            slots = alloc_token_slots(self.tree_cache, new)
        else:
            lens, seq = torch.tensor([len(each) for each in held]), torch.tensor(ends)
            last = torch.cat([each[-1:] if len(each) else torch.tensor([-1]) for each in held])
            slots = alloc_paged_token_slots_extend(self.tree_cache, lens, lens, seq, seq, last, new)
        for req, each, end in zip(self.reqs, held, ends, strict=True):
            own, slots = slots[: end - len(each)], slots[end - len(each) :]
            rows.write((req.kv.req_pool_idx, slice(0, end)), torch.cat([each, own]).int())
            req.kv.kv_allocated_len = req.kv.kv_committed_len = end

    def prepare_for_decode(self) -> None:
        self.extends = False
        rows, page = self.req_to_token_pool, self.token_to_kv_pool_allocator.page_size
        if page == 1:
            slots = alloc_token_slots(self.tree_cache, len(self.reqs))
        else:
            at = [req.kv.kv_committed_len for req in self.reqs]
            last = torch.stack(
                [rows.req_to_token[req.kv.req_pool_idx, n - 1] for req, n in zip(self.reqs, at, strict=True)]
            )
            seq = torch.tensor(at) + 1
            slots = alloc_paged_token_slots_decode(self.tree_cache, seq, seq, last.long())
        for req, slot in zip(self.reqs, slots, strict=True):
            rows.write((req.kv.req_pool_idx, req.kv.kv_committed_len), slot.int())
            req.kv.kv_committed_len += 1
            req.kv.kv_allocated_len += 1


class Loop(Scheduler):
    """SGLang's scheduler with what its loop reads, and no model behind it."""

    def __init__(self, engine: dict[str, Any], longest: int, count: int) -> None:
        page, size = engine["page_size"], engine["capacity"]
        self.page_size = page
        self.max_running = engine.get("max_running", count)
        kind = TokenToKVPoolAllocator if page == 1 else PagedTokenToKVPoolAllocator
        more = () if page == 1 else (page,)
        self.token_to_kv_pool_allocator = kind(size, *more, torch.float16, "cpu", None, False)
        self.req_to_token_pool = ReqToTokenPool(self.max_running, longest + 8, "cpu", False)
        self.tree_cache = radix_cache.RadixCache(
            CacheInitParams(
                disable=False,
                req_to_token_pool=self.req_to_token_pool,
                token_to_kv_pool_allocator=self.token_to_kv_pool_allocator,
                page_size=page,
                eviction_policy=engine["eviction"],
                eviction_policy_config=engine.get("eviction_config"),
            )
        )
        self.evicted = 0
        evict = self.tree_cache.evict

        def counted(params: Any) -> Any:
            result = evict(params)
            self.evicted += result.num_tokens_evicted
            return result

        self.tree_cache.evict = counted
        self.policy = SchedulePolicy(engine.get("policy", "fcfs"), self.tree_cache, False, False, False)
        self.max_prefill_tokens = engine.get("max_prefill_tokens", 16384)
        self.chunked_prefill_size = engine.get("chunked_prefill_size")
        self.new_token_ratio_tracker = SimpleNamespace(
            current=engine.get("new_token_ratio", 0.7), decay_step=lambda: None
        )
        self.waiting_queue: list[Req] = []
        self.chunked_req: Req | None = None
        self.running_batch = Batch()
        self.forward_ct = 0
        for name in OFF:
            setattr(self, name, None)
        self.max_running_requests = self.max_running
        self.max_total_num_tokens, self.max_req_len, self.kv_shard_widening = size, size - 1, 1
        self.grammar_manager = SimpleNamespace(has_waiting_grammars=lambda: False)
        self.beam_coordinator = SimpleNamespace(pending_member_rows=lambda _: 0)
        self.dp_attn_adapter = SimpleNamespace(
            maybe_prepare_mlp_sync_batch=lambda batch, **_: batch, maybe_convert_decode_to_extend=lambda batch: batch
        )
        self.ngram_embedding_manager = SimpleNamespace(prepare_for_forward=lambda batch, **_: batch)
        self.metrics_reporter = SimpleNamespace(enable_metrics=False, num_retracted_reqs=0)
        self.load_inquirer = SimpleNamespace(_get_num_pending_tokens=lambda **_: 0)
        runner = SimpleNamespace(attn_backend=SimpleNamespace(), prefill_aware_swa=False)
        self.tp_worker = SimpleNamespace(model_runner=runner)
        self.prefill_decode_interval = self._prefill_decode_interval_remaining = self.max_prefill_bs = 0
        self.processed_tokens_counter = self.priority_scheduling_preemption_threshold = 0

    def get_prefill_adder_class(self) -> type[PrefillAdder]:
        return PrefillAdder

    def process_pending_chunked_abort(self) -> None:
        pass

    def _process_hicache_events(self) -> None:
        pass

    def _add_request_to_queue(self, req: Req, is_retracted: bool = False) -> None:
        self.retracted += is_retracted
        self.waiting_queue.append(req)

    def run(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        reqs = [self.request(number, spec) for number, spec in enumerate(requests)]
        numbers = {req.rid: number for number, req in enumerate(reqs)}
        answers = {req.rid: spec["output"] for req, spec in zip(reqs, requests, strict=True)}
        cached: dict[int, int] = {}
        batches, evicted = [], []
        self.retracted = 0
        for _, together in groupby(zip(reqs, requests, strict=True), key=lambda pair: pair[1]["arrival"]):
            self.evicted = 0
            self.waiting_queue += [req for req, _ in together]
            last = None
            while True:
                plan = self.get_next_batch_to_run(self.running_batch, last)
                self.running_batch, last = plan.running_batch, plan.batch_to_run
                if last is None:
                    break
                if last.extends:
                    batches.append([numbers[req.rid] for req in last.reqs])
                    for req in last.reqs:
                        cached.setdefault(numbers[req.rid], req.prefix_len)
                self.sampled(last, answers)
            assert not self.waiting_queue, "requests wait and nothing runs"
            evicted.append(self.evicted)
        return {
            "cached_tokens": [cached[number] for number in range(len(reqs))],
            "evicted_tokens": evicted,
            "tree_tokens": self.tree_cache.total_size(),
            "prefill_batches": batches,
            "retracted": self.retracted,
        }

    def request(self, number: int, spec: dict[str, Any]) -> Req:
        sampling = SamplingParams(max_new_tokens=len(spec["output"]))
        sampling.stop_token_ids, sampling.stop_strs, sampling.stop_regex_strs = None, [], []
        req = Req(
            str(number),
            "",
            array("q", spec["prompt"]),
            sampling,
            vocab_size=1 << 31,
            eos_token_ids=set(),
            extra_key=spec.get("extra_key"),
            cache_salt=spec.get("cache_salt"),
            priority=spec.get("priority"),
        )
        self.init_req_max_new_tokens(req)
        return req

    def sampled(self, batch: Batch, answers: dict[str, list[int]]) -> None:
        for req in batch.reqs:
            if req.inflight_middle_chunks > 0:
                req.inflight_middle_chunks -= 1
                continue
            req.output_ids.append(answers[req.rid][len(req.output_ids)])
            req.update_finish_state()
            if req.finished():
                common.release_kv_cache(req, self.tree_cache, checkpoint=True)
            elif batch.extends:
                common.checkpoint_kv_cache(req, self.tree_cache)


OFF = (
    "enable_priority_preemption",
    "is_hybrid_swa",
    "min_free_slots_delayer",
    "is_mixed_chunk",
    "dllm_config",
    "enable_lora",
    "enable_hicache_storage",
    "enable_lmcache",
    "truncation_align_size",
    "enable_overlap",
    "spec_algorithm",
    "model_config",
    "hisparse_coordinator",
    "enable_hierarchical_cache",
    "enable_unified_cache_external_linker",
    "enable_priority_scheduling",
    "prefill_delayer",
    "enable_hisparse",
    "require_mlp_sync",
    "scheduler_stage_metrics",
    "enable_skip_finishing_decode",
    "decode_offload_manager",
    "result_queue",
    "dynamic_chunk_sizer",
    "lora_drainer",
    "max_new_tokens_limit",
    "disaggregation_mode",
    "_pending_chunked_abort_req",
    "sliding_window_size",
)
"""What of SGLang a case does not use."""


def answer(case: dict[str, Any]) -> dict[str, Any]:
    engine, requests = case["engine"], case["requests"]
    if case["mode"] == "sequential":
        requests = [{**request, "arrival": number} for number, request in enumerate(requests)]
    publish(
        Settings(
            radix_eviction_policy=engine["eviction"],
            pp_max_micro_batch_size=engine.get("max_running", len(requests)),
            schedule_policy=engine.get("policy", "fcfs"),
            features=Settings(enable_encoder_swa_bounded_replay=False),
            mamba=Settings(),
            disaggregation_mode="null",
            disaggregation_decode_retraction_backup="none",
        )
    )
    longest = max(len(request["prompt"]) + len(request["output"]) for request in requests)
    return Loop(engine, longest, len(requests)).run(requests)


def main() -> None:
    logging.disable(logging.CRITICAL)
    scheduler.ScheduleBatch = Batch
    scheduler.set_time_batch = scheduler.set_schedule_time_batch = lambda *_: None
    scheduler.PrefillStats = SimpleNamespace(from_adder=lambda *_, **__: None)
    for line in sys.stdin:
        try:
            result = answer(json.loads(line))
        except Exception as error:  # whatever SGLang says of a case is its answer
            if "-v" in sys.argv:
                raise
            result = {"error": repr(error)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
