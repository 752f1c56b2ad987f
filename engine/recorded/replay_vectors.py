"""Recorded values of vLLM that need no scheduler: block hashes (`hash_vectors`) and the sizes of KV caches (`sizing_vectors`, and
`sizing_vectors_hybrid` of models with several groups)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kvtool.engine.blocks.block_keys import Lora
from kvtool.engine.blocks.hashing import extend_hashes
from kvtool.engine.blocks.vllm_hashing import VllmHasher, event_hash
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.planner import plan_cache
from kvtool.engine.groups.recorded_plan import recorded_layers, recorded_options
from kvtool.engine.kv_dtype import find_kv_dtype
from kvtool.engine.prediction.sizing import Pool, bytes_per_block
from kvtool.engine.request import Request

Vectors = dict[str, Any]

LORA = Lora("sql-adapter", "/adapters/sql")
"""The adapter of the vectors called `lora`. They do not give its name; it was searched for until the hashes agreed."""

STORED_AS = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32", "torch.uint8": "fp8_e4m3"}


def _each(
    kind: str, rows: list[Vectors], name: Callable[[Vectors], str], judge: Callable[[Vectors], Iterator[str]]
) -> Iterator[str]:
    """Return the differences of each row. A row that is refused hides no other: EngineError comes after the differences."""
    refused: EngineError | None = None
    for index, row in enumerate(rows):
        where = f"{kind}[{index}] ({name(row)}): "
        try:
            for difference in judge(row):
                yield where + difference
        except EngineError as error:
            refused = refused or EngineError(where + error.message)
    if refused is not None:
        raise refused


def _unequal(got: dict[str, Any], row: Vectors) -> Iterator[str]:
    for name, value in got.items():
        if row[name] != value:
            yield f"{name} is {value}, vLLM has {row[name]}"


def hash_differences(vectors: Vectors) -> Iterator[str]:
    """Return every chain that comes out differently."""
    prompt = np.asarray(vectors["token_ids"], dtype=np.int32)

    def differences(vector: Vectors) -> Iterator[str]:
        seed, variant = _seed(vector["seed"]), vector["variant"]
        hasher = VllmHasher(vector["algo"], seed)
        request = Request(
            "vector",
            len(prompt),
            prompt_ids=prompt,
            cache_salt=variant.removeprefix("cache_salt=") if variant.startswith("cache_salt=") else None,
            lora=LORA if variant == "lora" else None,
        )
        extend_hashes(request, vectors["block_size"], hasher)
        got = {
            "none_hash": hasher.none_hash.hex(),
            "block_hashes": [block_hash.hex() for block_hash in request.block_hashes],
            "event_int64": [event_hash(block_hash) for block_hash in request.block_hashes],
        }
        yield from _unequal(got, vector)

    yield from _each("vectors", vectors["vectors"], lambda row: f"{row['algo']}, {row['variant']}", differences)


def _seed(text: str) -> str | None:
    if text == "default (unset)":
        return None
    if (found := re.fullmatch("PYTHONHASHSEED=(.*)", text)) is None:
        raise EngineError(f"unknown seed `{text}`")
    return found[1]


def sizing_differences(vectors: Vectors) -> Iterator[str]:
    """Return every cache that would have another size."""

    def differences(row: Vectors) -> Iterator[str]:
        dtype, block_size = find_kv_dtype(STORED_AS[row["dtype"]]), row["block_size"]
        heads, head_size = row["kv_heads_per_rank"], row["head_size"]
        pool = Pool.of(
            row["available_bytes"], bytes_per_block(row["layers"], heads, head_size, block_size, dtype), block_size
        )
        got = {
            "page_bytes_per_layer": bytes_per_block(1, heads, head_size, block_size, dtype),
            "bytes_per_block": pool.bytes_per_block,
            "num_gpu_blocks": pool.num_blocks,
            "usable_blocks": pool.usable_blocks,
            "logged_kv_tokens": pool.tokens,
            "max_concurrency": round(pool.max_concurrency(row["max_model_len"]), 4),
        }
        yield from _unequal(got, row)

    yield from _each("rows", vectors["rows"], lambda row: row["name"], differences)


_SPECS = {
    "full": "FullAttentionSpec",
    "mla": "MLAAttentionSpec",
    "sliding": "SlidingWindowSpec",
    "chunked": "ChunkedLocalAttentionSpec",
    "mamba": "MambaSpec",
}


def hybrid_sizing_differences(vectors: Vectors) -> Iterator[str]:
    """Return every cache of several groups that would be planned otherwise, or have another size."""

    def differences(row: Vectors) -> Iterator[str]:
        params = row["params"]
        plan = plan_cache(recorded_layers(params), recorded_options(params))
        pool, longest = PlannedPool.of(row["available_bytes"], plan), params["max_model_len"]
        if pool.holds(longest) == ("error" in row):
            fits = "fits" if pool.holds(longest) else "does not fit"
            yield f"one request of {longest} tokens {fits}, in vLLM it is the other way"
        if "error" in row:  # vLLM did not start, and nothing else was recorded
            return
        got = {
            "groups": [
                {
                    "kind": _SPECS[group.kind],
                    "layers": group.layers,
                    "block_size": group.block_size,
                    "page_bytes": list(group.page_bytes),
                    "eagle": group.eagle,
                }
                for group in plan.groups
            ],
            "bytes_per_block": plan.bytes_per_block,
            "num_gpu_blocks": pool.num_blocks,
            "usable_blocks": pool.usable_blocks,
            "scheduler_block_size": plan.scheduler_block_size,
            "hash_block_size": plan.hash_block_size,
            "blocks_per_request": list(pool.blocks_per_request(longest)),
            "logged_kv_tokens": pool.tokens(longest),
            "max_concurrency": pool.max_concurrency(longest),
        }
        yield from _unequal(got, row)

    yield from _each("rows", vectors["rows"], lambda row: row["name"], differences)


DIFFERENCES: dict[str, Callable[[Vectors], Iterator[str]]] = {
    "hash_vectors": hash_differences,
    "sizing_vectors": sizing_differences,
    "sizing_vectors_hybrid": hybrid_sizing_differences,
}
"""Comparisons by the `kind` of a file."""
