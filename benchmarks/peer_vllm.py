"""vLLM's own KVCacheManager and Scheduler as a program: one JSON command a line in, one JSON answer a line out.

`vs_vllm.py` starts it with the interpreter of an environment that has vLLM; it imports nothing of kvtool.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("PYTHONHASHSEED", "0")

import numpy as np
import torch
import vllm
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "intermediate_size": 256,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 128_000,
    "max_position_embeddings": 32_768, "torch_dtype": "float32",
}  # fmt: skip
EarlierPrompt = dict[str, tuple[int, list[int]]]
"""Request id to hit tokens and the block ids it had at its end."""


def kv_config(block: int, pool: int) -> KVCacheConfig:
    spec = FullAttentionSpec(block_size=block, num_kv_heads=2, head_size=32, dtype=torch.float32)
    return KVCacheConfig(num_blocks=pool, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])


def make_manager(block: int, pool: int) -> KVCacheManager:
    return KVCacheManager(
        kv_config(block, pool), max_model_len=32_768, scheduler_block_size=block, hash_block_size=block
    )


def make_scheduler(block: int, pool: int, folder: str) -> Scheduler:
    Path(folder, "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    cache = CacheConfig(block_size=block, enable_prefix_caching=True)
    config = VllmConfig(
        model_config=ModelConfig(model=folder, skip_tokenizer_init=True, max_model_len=32_768, dtype="float32"),
        scheduler_config=SchedulerConfig(
            max_num_batched_tokens=8_192, max_num_seqs=256, max_model_len=32_768, is_encoder_decoder=False,
            enable_chunked_prefill=True, async_scheduling=False,
        ),
        cache_config=cache,
    )  # fmt: skip
    # VllmConfig rounds the CPU's block size up for its kernels; the managers need no kernel.
    cache.block_size, cache.num_gpu_blocks = block, pool
    return Scheduler(
        config, kv_config(block, pool), StructuredOutputManager(config), block_size=block, hash_block_size=block
    )


def drive_manager(manager: KVCacheManager, request: Request, outputs: int) -> tuple[int, list[int]]:
    """One request through the block manager alone: a lookup, an allocation for each step, and the end."""
    blocks, hits, _ = manager.get_computed_blocks(request)
    assert manager.allocate_slots(request, request.num_tokens - hits, hits, blocks) is not None
    for _ in range(outputs - 1):
        request.num_computed_tokens = request.num_tokens
        request.append_output_token_ids(1)
        assert manager.allocate_slots(request, 1) is not None
    ids = list(manager.get_block_ids(request.request_id)[0])
    manager.free(request)
    return hits, ids


def one_step(scheduler: Scheduler, seen: EarlierPrompt) -> None:
    """Schedule, answer with token 1 where a token is due, update."""
    output = scheduler.schedule()
    for new in output.scheduled_new_reqs:
        seen[new.req_id] = (new.num_computed_tokens, list(new.block_ids[0]))
    running = output.scheduled_cached_reqs
    for name, blocks in zip(running.req_ids, running.new_block_ids, strict=True):
        if name in running.resumed_req_ids:
            assert blocks is not None
            seen[name] = (seen[name][0], list(blocks[0]))
        elif blocks is not None:
            seen[name][1].extend(blocks[0])
    names = list(output.num_scheduled_tokens)
    requests = scheduler.requests
    tokens = [[1] if requests[name].num_computed_tokens >= requests[name].num_tokens else [] for name in names]
    places = {name: index for index, name in enumerate(names)}
    scheduler.update_from_output(output, ModelRunnerOutput(names, places, sampled_token_ids=tokens))


def drive(command: dict[str, Any], prompts: list[list[int]], folder: str) -> tuple[float, EarlierPrompt, list[int]]:
    """Seconds, what each request had, and the free queue at the end. Making and hashing the requests is part of the time."""
    block, outputs = command["block"], command["outputs"]
    hasher = get_request_block_hasher(block, get_hash_fn_by_name(command["hash"]))
    init_none_hash(get_hash_fn_by_name(command["hash"]))
    params = SamplingParams(max_tokens=outputs, ignore_eos=True)

    def request(index: int) -> Request:
        return Request(str(index), prompts[index], params, None, block_hasher=hasher)

    seen: EarlierPrompt = {}
    run: Callable[[], None]
    if command["mode"] == "manager":
        manager = make_manager(block, command["pool"])

        def run() -> None:
            for index in range(len(prompts)):
                seen[str(index)] = drive_manager(manager, request(index), outputs)
    else:
        scheduler = make_scheduler(block, command["pool"], folder)
        manager = scheduler.kv_cache_manager
        together = command["mode"] == "scheduler, all at once"

        def run() -> None:
            for index in range(len(prompts)):
                scheduler.add_request(request(index))
                while not together and scheduler.has_unfinished_requests():
                    one_step(scheduler, seen)
            while scheduler.has_unfinished_requests():
                one_step(scheduler, seen)

    gc.collect()
    began = time.perf_counter()
    run()
    seconds = time.perf_counter() - began
    return seconds, seen, [block.block_id for block in manager.block_pool.free_block_queue.get_all_free_blocks()]


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    prompts: dict[str, list[list[int]]] = {}
    print(json.dumps({"vllm": vllm.__version__}), file=answers, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            command = json.loads(line)
            path = command["prompts"]
            if path not in prompts:
                prompts[path] = np.load(path).tolist()
            seconds, seen, free = drive(command, prompts[path], folder)
            print(json.dumps({"seconds": seconds, "seen": seen, "free": free}), file=answers, flush=True)


if __name__ == "__main__":
    main()
