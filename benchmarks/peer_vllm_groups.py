"""vLLM's own scheduler with several groups of layers as a program: one JSON command a line in, one JSON answer a line out.

`vs_vllm_groups.py` starts it with the interpreter of an environment that has vLLM; it imports nothing of kvtool.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
os.environ.setdefault("PYTHONHASHSEED", "0")

import numpy as np
import torch
import vllm
import vllm.platforms
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.platforms.cpu import CpuPlatform
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

vllm.platforms._current_platform = CpuPlatform()  # whatever the machine has
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "intermediate_size": 256,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 128_000,
    "max_position_embeddings": 32_768, "torch_dtype": "float32",
}  # fmt: skip
EarlierPrompt = dict[str, list[Any]]
"""Request id to hit tokens and the block ids of each group that it had at its end."""


def make_scheduler(block: int, pool: int, folder: str) -> Scheduler:
    """Three groups with states and one with full attention, one layer each."""
    Path(folder, "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    cache = CacheConfig(block_size=16, enable_prefix_caching=True)
    config = VllmConfig(
        model_config=ModelConfig(model=folder, skip_tokenizer_init=True, max_model_len=32_768, dtype="float32"),
        scheduler_config=SchedulerConfig(
            max_num_batched_tokens=8_192, max_num_seqs=256, max_model_len=32_768, is_encoder_decoder=False,
            enable_chunked_prefill=True, async_scheduling=False,
        ),
        cache_config=cache,
    )  # fmt: skip
    cache.block_size, cache.num_gpu_blocks, cache.mamba_cache_mode = block, pool, "align"
    state = MambaSpec(
        block_size=block,
        shapes=((block, 64),),
        dtypes=(torch.float32,),
        mamba_cache_mode="align",
        page_size_padded=None,
    )
    full = FullAttentionSpec(block_size=block, num_kv_heads=1, head_size=32, dtype=torch.float32)
    groups = [KVCacheGroupSpec([f"state{index}"], state) for index in range(3)] + [KVCacheGroupSpec(["full"], full)]
    kv = KVCacheConfig(num_blocks=pool, kv_cache_tensors=[], kv_cache_groups=groups)
    kv.prefix_cache_retention_interval = 0
    return Scheduler(config, kv, StructuredOutputManager(config), block_size=block, hash_block_size=block)


def one_step(scheduler: Scheduler, seen: EarlierPrompt | None) -> None:
    """Schedule, answer with token 1 where a token is due, update."""
    output = scheduler.schedule()
    names, requests = list(output.num_scheduled_tokens), scheduler.requests
    if seen is not None:
        for new in output.scheduled_new_reqs:
            seen.setdefault(new.req_id, [new.num_computed_tokens, []])
        for name in names:
            seen[name][1] = [list(ids) for ids in scheduler.kv_cache_manager.get_block_ids(name)]
    tokens = [[1] if requests[name].num_computed_tokens >= requests[name].num_tokens else [] for name in names]
    places = {name: index for index, name in enumerate(names)}
    scheduler.update_from_output(output, ModelRunnerOutput(names, places, sampled_token_ids=tokens))


def drive(command: dict[str, Any], prompts: list[list[int]], folder: str) -> dict[str, Any]:
    """Seconds, making and hashing requests included; with `look`, what each request had, and the free queue at the end."""
    block, outputs = command["block"], command["outputs"]
    hasher = get_request_block_hasher(block, get_hash_fn_by_name(command["hash"]))
    init_none_hash(get_hash_fn_by_name(command["hash"]))
    params = SamplingParams(max_tokens=outputs, ignore_eos=True)
    scheduler = make_scheduler(block, command["pool"], folder)
    seen: EarlierPrompt | None = {} if command["look"] else None
    gc.collect()
    began = time.process_time()
    for index, prompt in enumerate(prompts):
        scheduler.add_request(Request(str(index), prompt, params, None, block_hasher=hasher))
        while not command["together"] and scheduler.has_unfinished_requests():
            one_step(scheduler, seen)
    while scheduler.has_unfinished_requests():
        one_step(scheduler, seen)
    seconds = time.process_time() - began
    queue = scheduler.kv_cache_manager.block_pool.free_block_queue.get_all_free_blocks()
    return {"seconds": seconds, "seen": seen, "free": [block.block_id for block in queue] if command["look"] else []}


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
            print(json.dumps(drive(command, prompts[path], folder)), file=answers, flush=True)


if __name__ == "__main__":
    main()
