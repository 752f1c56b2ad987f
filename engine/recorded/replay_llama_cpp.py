"""Compare recorded runs of llama.cpp's own server with its rules here: each request's cached tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.llama_cpp import LlamaCppCache, LlamaCppRequest
from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions

Case = dict[str, Any]


def is_llama_cpp(case: Case) -> bool:
    """Return whether a file was recorded with llama.cpp: its slots have a context."""
    return isinstance(engine := case.get("engine"), dict) and "n_ctx_slot" in engine


def llama_cpp_differences(case: Case) -> Iterator[str]:
    """Return every request that reuses another number of tokens."""
    expected = case["expected"]["cached_tokens"]
    if len(expected) != len(case["requests"]):
        yield f"{len(case['requests'])} requests, llama.cpp has {len(expected)} results"
    cache = LlamaCppCache(_options(case["engine"]))
    for index, (request, want) in enumerate(zip(case["requests"], expected, strict=False)):
        got = _cached(cache, request)
        if got != want:
            yield f"requests[{index}]: cached tokens are {got}, llama.cpp has {want}"


def _options(engine: dict[str, Any]) -> LlamaCppOptions:
    """Return a shared pool was recorded with the context of all its slots."""
    return LlamaCppOptions(
        parallel=engine["slots"],
        ctx_size=engine["n_ctx_slot"] * engine["slots"],
        kv_unified=engine["kv_unified"],
        kv_unified_per_slot=engine["n_ctx_slot"] if engine["kv_unified"] else None,
        cache_ram=engine["cache_ram_mib"],
        cache_idle_slots=engine["cache_idle_slots"],
        slot_prompt_similarity=engine["slot_prompt_similarity"],
        cache_reuse=engine["n_cache_reuse"],
    )


def _cached(cache: LlamaCppCache, request: dict[str, Any]) -> int | None:
    """None where llama.cpp refuses the request. The answer is one token over and over: the bias left no other."""
    asked = LlamaCppRequest(
        np.asarray(request["prompt"], dtype=np.int32),
        np.full(request["n_predict"], request["force"], dtype=np.int32),
        id_slot=request.get("id_slot"),
        cache_prompt=request.get("cache_prompt", True),
    )
    try:
        return cache.serve(asked).cached
    except EngineError:
        return None
