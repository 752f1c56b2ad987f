"""vLLM's own scheduler on workloads from standard input: run with the Python of an environment that has vLLM; no GPU is needed.

Each line is a case as recorded ones are, without what is expected; each line of the output is what vLLM did with it, in the words
of recorded cases, or {"error": …}. Nothing of kvtool is imported.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
os.environ.setdefault("PYTHONHASHSEED", "0")

import torch
import vllm.platforms
from vllm.config import CacheConfig, KVEventsConfig, ModelConfig, SchedulerConfig, SpeculativeConfig, VllmConfig
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.platforms.cpu import CpuPlatform
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.kv_cache_utils import (
    generate_scheduler_kv_cache_config,
    get_block_hash,
    get_group_id,
    get_request_block_hasher,
    init_none_hash,
    maybe_convert_block_hash,
    resolve_kv_cache_block_sizes,
)
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_layout import KVCacheLayout
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager
from vllm_layers import layer

try:
    from vllm.v1.core.kv_cache_planning import get_global_kv_cache_groups, get_kv_cache_configs

    HASHED_AHEAD = True
except ImportError:  # vLLM 0.32
    HASHED_AHEAD = False

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "intermediate_size": 256,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 128_000,
    "max_position_embeddings": 32_768, "torch_dtype": "float32",
}  # fmt: skip
MOST_STEPS = 5_000
vllm.platforms._current_platform = CpuPlatform()  # whatever the machine has
Request.has_encoder_inputs = False  # images never delay a step


class Drafts(SimpleNamespace):
    """What the scheduler reads of a SpeculativeConfig, without a draft model."""

    max_num_new_slots_for_drafting = 0
    num_speculative_tokens_per_batch_size = None

    def __getattr__(self, name: str) -> Any:
        value = getattr(SpeculativeConfig, name)
        return value.__get__(self) if hasattr(value, "__get__") else value


def make_config(params: dict[str, Any], folder: str, *, asynchronous: bool) -> VllmConfig:
    cache = CacheConfig(block_size=16, enable_prefix_caching=params["enable_prefix_caching"])
    longest, drafts = params["max_model_len"], params["spec"]
    config = VllmConfig(
        model_config=ModelConfig(model=folder, skip_tokenizer_init=True, max_model_len=longest, dtype="float32"),
        scheduler_config=SchedulerConfig(
            max_num_batched_tokens=8192, max_num_seqs=256, max_model_len=longest, is_encoder_decoder=False,
            enable_chunked_prefill=True, async_scheduling=asynchronous,
        ),
        cache_config=cache,
        kv_events_config=KVEventsConfig(enable_kv_cache_events=True, publisher="null"),
    )  # fmt: skip
    # Past the checks of a real start: pools and blocks may be as small as they like.
    scheduler = config.scheduler_config
    for name in (
        "max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill", "watermark", "scheduler_reserve_full_isl",
        "long_prefill_token_threshold", "long_prefill_token_threshold_adaptive", "prefill_schedule_interval",
        "max_num_active_seqs", "policy", "disable_hybrid_kv_cache_manager",
    ):  # fmt: skip
        setattr(scheduler, name, params[name])
    scheduler.max_num_scheduled_tokens, scheduler.async_scheduling = None, asynchronous
    cache.block_size, cache.num_gpu_blocks = params["block_size"], params["num_blocks"]
    cache.prefix_match_unit = params["prefix_match_unit"]
    cache.mamba_cache_mode = "align" if params["enable_prefix_caching"] else "none"
    cache.prefix_cache_retention_interval = params["prefix_cache_retention_interval"]
    cache.enable_mamba_shared_prefix_checkpoint = params["enable_mamba_shared_prefix_checkpoint"]
    layout = KVCacheLayout[params["kv_cache_layout"]]
    type(cache).get_resolved_kv_cache_layout = lambda _: layout
    config.parallel_config.decode_context_parallel_size = params["dcp"]
    config.speculative_config = drafts and Drafts(
        method=drafts["method"],
        num_speculative_tokens=drafts["num_speculative_tokens"],
        disable_lookahead_block_hashes=drafts.get("disable_lookahead_block_hashes", False),
        disable_eagle_block_drop=drafts.get("disable_eagle_block_drop", False),
        draft_model_config=SimpleNamespace(
            hf_config=SimpleNamespace(num_nextn_predict_layers=drafts.get("mtp_modules", 1))
        ),
    )
    return config


class Run:
    """One case through vLLM's scheduler."""

    def __init__(self, case: dict[str, Any], folder: str, *, asynchronous: bool) -> None:
        self.case, self.asynchronous = case, asynchronous
        params = self.params = case["params"]
        config = make_config(params, folder, asynchronous=asynchronous)
        kinds = params["layers"]["kinds"]
        layers = {f"L{at:03}": layer(kinds[letter], params) for at, letter in enumerate(params["layers"]["order"])}
        if HASHED_AHEAD:
            groups = get_global_kv_cache_groups(config, [layers])
            [own] = get_kv_cache_configs(config, [layers], [1 << 40], groups)
        else:
            [own] = kv_cache_utils.get_kv_cache_configs(config, [layers], [1 << 40])
        kv_config = generate_scheduler_kv_cache_config([own])
        kv_config.num_blocks = params["num_blocks"]
        kv_config.prefix_cache_retention_interval = params["prefix_cache_retention_interval"]
        config.cache_config.num_gpu_blocks = params["num_blocks"]
        if kv_config.kv_cache_groups:  # as vLLM's core does before it starts its scheduler
            config.cache_config.block_size = min(group.kv_cache_spec.block_size for group in kv_config.kv_cache_groups)
        block, self.unit = resolve_kv_cache_block_sizes(kv_config, config)
        hash_fn = get_hash_fn_by_name("sha256_cbor")
        init_none_hash(hash_fn)
        ahead = [config.num_hash_lookahead_tokens] if HASHED_AHEAD else []
        self.hasher = get_request_block_hasher(self.unit, hash_fn, *ahead)
        make = AsyncScheduler if asynchronous else Scheduler
        self.scheduler = make(
            config, kv_config, StructuredOutputManager(config), block_size=block, hash_block_size=self.unit,
            log_stats=True,
        )  # fmt: skip
        self.published: list[Any] = []
        self.scheduler.kv_event_publisher = SimpleNamespace(publish=lambda batch: self.published.extend(batch.events))
        self.specs = {spec["id"]: spec for spec in case["requests"]}
        self.place = {spec["id"]: at for at, spec in enumerate(case["requests"])}
        self.verified = dict(self.place)
        self.step = 0
        self.seen: dict[str, dict[str, Any]] = {}
        self.events: list[list[Any]] = []
        self.finished: list[str] = []
        self.preemptions: list[list[Any]] = []
        self.actions: list[list[Any]] = []
        self.trace: list[dict[str, Any]] = []
        self.labels: dict[Any, str] = {}
        self.lookups: dict[str, int] = {}
        self.copies: list[list[int]] = []
        self.preempted: list[str] = []
        self.totals = dict.fromkeys(
            ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits"), 0
        )
        for spec in case["requests"]:
            whole = self.request(spec)
            whole.append_output_token_ids(spec["output_ids"])
            for at, block_hash in enumerate(whole.block_hashes):
                self.labels.setdefault(bytes(block_hash), f"{spec['id']}:{at}")
                self.labels.setdefault(maybe_convert_block_hash(block_hash), f"{spec['id']}:{at}")
        self._watch()

    def _watch(self) -> None:
        manager, scheduler = self.scheduler.kv_cache_manager, self.scheduler
        record, take_copies, preempt = (
            manager.record_prefix_cache_stats,
            manager.take_kv_cache_block_copies,
            scheduler._preempt_request,
        )

        def recorded(request: Request, hits: int) -> None:
            record(request, hits)
            junction = request.shared_prefix_boundary
            self.seen[request.request_id]["admissions"].append([self.step, hits, *([junction] if junction else [])])
            if request.num_preemptions == 0:
                self.seen[request.request_id]["num_cached_tokens"] = hits
            if manager.prefix_cache_lookup_enabled(request):
                kind = "preempted_" if request.num_preemptions else ""
                self.totals[f"{kind}requests"] += 1
                self.totals[f"{kind}queries"] += request.num_tokens
                self.totals[f"{kind}hits"] += hits

        def taken() -> Any:
            copies, held = take_copies()
            self.copies = [[copy.src_block_id, copy.dst_block_id] for copy in copies]
            return copies, held

        def preempted(request: Request, *args: Any, **named: Any) -> None:
            self.preempted.append(request.request_id)
            self.preemptions.append([self.step, request.request_id])
            self.seen[request.request_id]["num_preemptions"] += 1
            preempt(request, *args, **named)

        manager.record_prefix_cache_stats = recorded
        manager.take_kv_cache_block_copies = taken
        scheduler._preempt_request = preempted

    def request(self, spec: dict[str, Any]) -> Request:
        lora, embeds = spec.get("lora"), spec.get("embeds")
        params = SamplingParams(
            max_tokens=len(spec["output_ids"]),
            ignore_eos=True,
            prompt_logprobs=0 if spec.get("prompt_logprobs") else None,
        )
        images = [
            MultiModalFeatureSpec(
                None, "image", item["id"], PlaceholderRange(offset=item["offset"], length=item["length"])
            )
            for item in spec.get("mm", ())
        ]
        return Request(
            spec["id"],
            None if embeds else list(spec["token_ids"]),
            params,
            None,
            arrival_time=float(getattr(self, "step", 0)),
            prompt_embeds=torch.tensor(embeds, dtype=torch.float32)[:, None] if embeds else None,
            lora_request=LoRARequest(lora[0], 1, lora[1]) if lora else None,
            cache_salt=spec.get("cache_salt"),
            priority=spec.get("priority", 0),
            mm_features=images or None,
            block_hasher=self.hasher,
        )

    def run(self) -> dict[str, Any]:
        waiting = sorted(self.case["requests"], key=lambda spec: spec["step"])
        actions = list(self.case["actions"])
        scheduler = self.scheduler
        flight = None
        while waiting or actions or self.has_work(flight):
            if self.step > MOST_STEPS:
                raise RuntimeError("never ends")
            while actions and actions[0]["step"] <= self.step:
                self.act(actions.pop(0))
            while waiting and waiting[0]["step"] <= self.step:
                spec = waiting.pop(0)
                self.seen[spec["id"]] = {
                    "id": spec["id"], "num_cached_tokens": 0, "admissions": [], "num_preemptions": 0,
                    "submitted_step": self.step,
                }  # fmt: skip
                scheduler.add_request(self.request(spec))
            if self.has_work(flight):
                flight = self.one_step(flight)
            self.step += 1
        return self.outcome()

    def has_work(self, flight: Any) -> bool:
        """With two batches in flight, vLLM's core goes on until it has said who ended and the last batch is back."""
        if not self.asynchronous:
            return self.scheduler.has_unfinished_requests()
        return self.scheduler.has_requests() or flight is not None

    def act(self, action: dict[str, Any]) -> None:
        running = action["action"] == "reset_prefix_cache_running" or action.get("reset_running_requests", False)
        done = self.scheduler.reset_prefix_cache(running)
        self.actions.append([self.step, action["action"], bool(done)])
        self.note(self.scheduler.kv_cache_manager.take_events())

    def one_step(self, flight: Any) -> Any:
        scheduler = self.scheduler
        if not (self.scheduler.has_requests() if self.asynchronous else True):
            self.update_later(*flight)
            return None
        self.preempted, self.copies = [], []
        output = scheduler.schedule()
        self.note(scheduler.kv_cache_manager.take_events())
        counts = output.num_scheduled_tokens
        drafts = {name: len(tokens) for name, tokens in output.scheduled_spec_decode_tokens.items() if tokens}
        self.trace.append(
            {
                "t": self.step,
                "sched": {n: [scheduler.requests[n].num_computed_tokens - c, c] for n, c in counts.items()},
                "preempted": list(self.preempted),
                "free_blocks": scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
                "waiting": len(scheduler.waiting) + len(scheduler.kv_holding_waiting),
                **({"drafts": drafts} if drafts else {}),
                **({"copies": self.copies} if self.copies else {}),
            }
        )
        for name in counts:
            self.seen[name]["block_ids"] = [list(ids) for ids in scheduler.kv_cache_manager.get_block_ids(name)]
        real = {name: -1 not in tokens for name, tokens in output.scheduled_spec_decode_tokens.items()}
        sampled = (
            {name: self.sample(name, drafts.get(name, 0), real.get(name, False)) for name in counts}
            if not self.asynchronous
            else None
        )
        if not self.asynchronous:
            self.update(output, sampled)
            return None
        samples = [name for name in counts if not scheduler.requests[name].is_prefill_chunk]
        if flight is not None:
            self.update_later(*flight)
        return output, samples

    def sample(self, name: str, drafts: int, real: bool) -> list[int]:
        """No token is -1, so that placeholders are never accepted."""
        request, outputs = self.scheduler.requests[name], self.specs[name]["output_ids"]
        if request.num_computed_tokens - drafts < request.num_tokens:
            return []
        first = request.num_output_tokens
        if not real:
            return [outputs[first]]
        accept = self.params["spec"]["accept"]
        accepted = min(accept[self.verified[name] % len(accept)], drafts)
        self.verified[name] += 1
        return outputs[first : first + accepted + 1]

    def update_later(self, output: Any, samples: list[str]) -> None:
        sampled = {}
        for name in output.num_scheduled_tokens:
            request = self.scheduler.requests.get(name)
            due = name in samples and request is not None
            sampled[name] = [self.specs[name]["output_ids"][request.num_output_tokens]] if due else []
        self.update(output, sampled)

    def update(self, output: Any, sampled: dict[str, list[int]]) -> None:
        scheduler = self.scheduler
        names = list(output.num_scheduled_tokens)
        before = {name: scheduler.requests[name] for name in names if name in scheduler.requests}
        outputs = scheduler.update_from_output(
            output,
            ModelRunnerOutput(
                names, {name: at for at, name in enumerate(names)}, sampled_token_ids=[sampled[name] for name in names]
            ),
        )
        self.note(self.published)
        self.published.clear()
        for each in outputs[0].outputs if 0 in outputs else ():
            if each.prefill_stats is not None:
                self.seen[each.request_id]["first_token_step"] = self.step
                self.seen[each.request_id]["num_cache_creation_tokens"] = each.prefill_stats.num_cache_creation_tokens
        for name, request in before.items():
            if request.is_finished():
                self.seen[name]["finish_step"] = self.step
                self.finished.append(name)
        if self.params["spec"] and not self.asynchronous:
            count = self.params["spec"]["num_speculative_tokens"]
            alive = [name for name in names if name in scheduler.requests]
            scheduler.update_draft_token_ids(DraftTokenIds(alive, [[0] * count for _ in alive]))

    def note(self, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, BlockStored):
                labels = [self.labels[block] for block in event.block_hashes]
                parent = None if event.parent_block_hash is None else self.labels[event.parent_block_hash]
                keys = [None if keys is None else [_plain(key) for key in keys] for keys in event.extra_keys or ()]
                row = ["S", self.step, event.group_idx, labels, parent, event.block_size]
                self.events.append([*row, keys] if any(keys) else row)
            elif isinstance(event, BlockRemoved):
                self.events += [["R", self.step, event.group_idx, self.labels[block]] for block in event.block_hashes]
            elif isinstance(event, AllBlocksCleared):
                self.events.append(["C", self.step])

    def outcome(self) -> dict[str, Any]:
        pool = self.scheduler.kv_cache_manager.block_pool
        stored = sum(len(event[3]) for event in self.events if event[0] == "S")
        evictions = [event[1:] for event in self.events if event[0] == "R"]
        return {
            "requests": list(self.seen.values()),
            "kv_events": self.events,
            "evictions": evictions,
            "preemptions": self.preemptions,
            "finish_order": self.finished,
            "actions": self.actions,
            "trace": self.trace,
            "final_free_queue": [[b.block_id, self.contents(b)] for b in pool.free_block_queue.get_all_free_blocks()],
            "totals": {
                **self.totals,
                "engine_steps": self.step,
                "evictions": len(evictions),
                "stored_blocks": stored,
                "preemptions": sum(each["num_preemptions"] for each in self.seen.values()),
                "cached_blocks_end": sum(block.block_hash is not None for block in pool.blocks),
            },
        }

    def contents(self, block: Any) -> list[Any] | None:
        pool = self.scheduler.kv_cache_manager.block_pool
        if block.block_hash is None:
            return None
        others = sorted(pool.cached_block_hashes_by_block.get(block.block_id, ()))
        return [[get_group_id(k), self.labels[bytes(get_block_hash(k))]] for k in (block.block_hash, *others)]


def _plain(key: Any) -> Any:
    if isinstance(key, tuple):
        return list(key)
    return key.hex() if isinstance(key, bytes) else key


def tried(case: dict[str, Any], folder: str, *, asynchronous: bool) -> dict[str, Any]:
    try:
        return {"expected": Run(case, folder, asynchronous=asynchronous).run()}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def answers() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
        for line in sys.stdin:
            case = json.loads(line)
            answer = tried(case, folder, asynchronous=False)
            if case["params"]["spec"] is None and "error" not in answer:
                later = tried(case, folder, asynchronous=True)
                if "error" not in later:
                    totals = {name: later["expected"][name] for name in ("requests", "totals")}
                    answer["expected_async_scheduling"] = totals
            yield answer


def main() -> None:
    logging.disable(logging.CRITICAL)
    out, sys.stdout = sys.stdout, sys.stderr
    for answer in answers():
        print(json.dumps(answer), file=out, flush=True)


main()
