"""The same prompts through one engine: `python generate_with.py kvtool|transformers|vllm MODEL PROMPTS.npy OUTPUTS`.

PROMPTS.npy is int64[2, n, tokens]: two sets of n prompts with one long prefix each. The first prompts of the first set run
alone and one after the other for one token each: a cold start, then hits. The second set is submitted at once, its prefix new.
Prints one line of JSON. `vs_transformers.py` starts this with the interpreter that has the engine.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

BLOCK = 32  # vLLM's kernels for CPUs take multiples of 32
WARM_RUNS = 5
Ids = list[list[int]]
Generate = Callable[[Ids, int], Ids]
"""Prompts and a number of output tokens to the output tokens of each prompt; greedy, with a prefix cache that stays."""


def with_kvtool(folder: str) -> Generate:
    import numpy as np

    from kvtool.engine.clock import WallClock
    from kvtool.engine.config import EngineConfig
    from kvtool.engine.engine import Engine
    from kvtool.engine.model.model_runner import ModelRunner
    from kvtool.engine.model.weights import load_model
    from kvtool.engine.request import Request

    engine = Engine(
        EngineConfig(block_size=BLOCK), ModelRunner(load_model(folder, dtype="float32"), BLOCK), WallClock()
    )

    def generate(prompts: Ids, outputs: int) -> Ids:
        requests = [
            Request(str(index), len(ids), prompt_ids=np.array(ids, dtype=np.int32), max_tokens=outputs)
            for index, ids in enumerate(prompts)
        ]
        for request in requests:
            engine.add(request)
        while engine.busy:
            engine.step()
        return [request.outputs for request in requests]

    return generate


def with_transformers(folder: str) -> Generate:
    import torch
    from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig, logging

    logging.set_verbosity_error()
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    batching = ContinuousBatchingConfig(page_size=BLOCK, num_blocks=512, max_batch_tokens=2048)

    def generate(prompts: Ids, outputs: int) -> Ids:
        done = model.generate_batch(
            prompts,
            generation_config=GenerationConfig(max_new_tokens=outputs, do_sample=False, eos_token_id=-1),
            continuous_batching_config=batching,
            persistent_manager=True,  # its prefix cache lives as long
        )
        by_prompt = {tuple(output.prompt_ids): output for output in done.values()}
        failed = [output.error for output in done.values() if output.error]
        if failed:
            sys.exit(f"transformers: {failed[0]}")
        return [list(by_prompt[tuple(ids)].generated_tokens) for ids in prompts]

    return generate


def with_vllm(folder: str) -> Generate:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # one process less in the way
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    from vllm import LLM, SamplingParams

    llm = LLM(
        folder, skip_tokenizer_init=True, dtype="float32", max_model_len=4096, block_size=BLOCK,
        enable_prefix_caching=True, max_num_seqs=64, disable_log_stats=True,
    )  # fmt: skip

    def generate(prompts: Ids, outputs: int) -> Ids:
        params = SamplingParams(max_tokens=outputs, temperature=0.0, ignore_eos=True, detokenize=False)
        done = llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
        return [list(output.outputs[0].token_ids) for output in done]

    return generate


def main() -> None:
    import numpy as np

    name, folder, prompts_file, outputs = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an engine prints goes to stderr
    one_by_one, at_once = np.load(prompts_file).tolist()
    generate = {"kvtool": with_kvtool, "transformers": with_transformers, "vllm": with_vllm}[name](folder)
    generate([[7] * (3 * BLOCK)], 2)  # whatever is made or compiled at the first use

    def timed(prompts: Ids, count: int) -> tuple[float, Ids]:
        began = time.perf_counter()
        got = generate(prompts, count)
        return time.perf_counter() - began, got

    cold, _ = timed(one_by_one[:1], 1)
    warm = statistics.median(timed([ids], 1)[0] for ids in one_by_one[1 : 1 + WARM_RUNS])
    total, tokens = timed(at_once, int(outputs))
    assert all(len(ids) == int(outputs) for ids in tokens)
    print(json.dumps({"cold": cold, "warm": warm, "total": total, "tokens": tokens}), file=answers, flush=True)
    os._exit(0)  # engines leave threads behind


if __name__ == "__main__":
    main()
