"""Compare records of SGLang's own cache, queue and admission with its rules here: tokens, evictions and batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import numpy as np

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import RuleRequest
from kvtool.engine.rules.sglang import SglangCache
from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_queue import SglangQueue

_OPTIONS: Final = {
    "page_size": "page_size",
    "eviction": "radix_eviction_policy",
    "capacity": "max_total_tokens",
    "policy": "schedule_policy",
    "max_running": "max_running_requests",
    "max_prefill_tokens": "max_prefill_tokens",
    "new_token_ratio": "new_token_ratio",
    "chunked_prefill_size": "chunked_prefill_size",
}
"""SGLang's options by their names in a recorded case."""


def recorded(case: dict[str, Any]) -> bool:
    """Return whether a case is a run of SGLang."""
    return "sglang" in case.get("recorded_with", {}) or {"engine", "mode"} <= case.keys()


def differences(case: dict[str, Any]) -> Iterator[str]:
    """Return every difference from SGLang's record, the most informative first."""
    options, expected = _options(case["engine"]), case["expected"]
    got = _queue(options, case["requests"]) if case["mode"] == "queue" else _sequential(options, case["requests"])
    for name in ("prefill_batches", "cached_tokens", "evicted_tokens"):
        yield from _sequence(name, got[name], expected[name])
    for name in ("tree_tokens", "retracted"):
        if expected.get(name, got[name]) != got[name]:
            yield f"{name} is {got[name]}, SGLang has {expected[name]}"


def _options(engine: dict[str, Any]) -> SglangOptions:
    values: dict[str, Any] = {**engine}
    values |= values.pop("eviction_config", {})
    if unknown := sorted(values.keys() - _OPTIONS.keys() - {"protected_threshold"}):
        raise EngineError(f"the rules of SGLang know no {unknown[0]!r}")
    return SglangOptions(**{_OPTIONS.get(name, name): value for name, value in values.items()})


def _make_request(request: dict[str, Any]) -> RuleRequest:
    apart = request.get("extra_key"), request.get("cache_salt")
    return RuleRequest(
        prompt=np.asarray(request["prompt"], np.int32),
        answer=np.asarray(request["output"], np.int32),
        scope=None if apart == (None, None) else apart,
        priority=request.get("priority") or 0,
    )


def _sequential(options: SglangOptions, requests: list[dict[str, Any]]) -> dict[str, Any]:
    cache = SglangCache(options)
    asked = list(map(_make_request, requests))
    served = list(map(cache.serve, asked))
    computed = [len(one.prompt) - each.cached for one, each in zip(asked, served, strict=True)]
    chunk = options.chunked_prefill_size or max(computed, default=1)
    return {
        "prefill_batches": [[number] for number, tokens in enumerate(computed) for _ in range(0, tokens, chunk)],
        "cached_tokens": [each.cached for each in served],
        "evicted_tokens": [each.evicted for each in served],
        "tree_tokens": cache.num_tokens,
        "retracted": 0,
    }


def _queue(options: SglangOptions, requests: list[dict[str, Any]]) -> dict[str, Any]:
    together = groupby(requests, key=lambda request: int(request["arrival"]))
    run = SglangQueue(options).serve([_make_request(request) for request in group] for _, group in together)
    return {
        "prefill_batches": run.prefill_batches,
        "cached_tokens": run.cached,
        "evicted_tokens": run.evicted,
        "tree_tokens": run.num_tokens,
        "retracted": run.num_retracted,
    }


def _sequence(name: str, got: list[Any], want: list[Any]) -> Iterator[str]:
    for index, (mine, theirs) in enumerate(zip(got, want, strict=False)):
        if mine != theirs:
            yield f"{name}[{index}] is {mine}, SGLang has {theirs}"
            return
    if len(got) != len(want):
        yield f"{name} has {len(got)} entries, SGLang has {len(want)}"
