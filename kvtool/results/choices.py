"""Words of which one is chosen, by options and in documents alike; light to import, as the command line needs them at its start."""

from __future__ import annotations

from typing import Literal

Severity = Literal["error", "warning", "info"]
Rules = Literal["vllm", "sglang", "llamacpp", "trtllm", "block-lru"]
"""Whose rules a run follows: the embedded engine, which has those of vLLM, another engine's, or the LRU list of trace studies."""
RulesOf = Literal["vllm", "vllm@0.32", "vllm@0.33", "sglang", "llamacpp", "trtllm", "block-lru"]
"""The same, where a release of vLLM may be named: each that the engine knows."""
RulesAsked = Literal[RulesOf, "all"]
"""The same, where all engines may be compared."""
RadixEviction = Literal["lru", "lfu", "slru", "priority"]
"""Which leaf of SGLang's tree goes first."""
StateStrategy = Literal["extra_buffer", "no_buffer"]
"""Where SGLang keeps states of linear attention: on a grid, or at the end of each chunk and answer."""
Routing = Literal["round-robin", "random", "sticky", "prefix-aware"]
"""How requests are given to replicas."""
By = Literal["session", "tenant", "line", "event", "project", "model", "day"]
"""What sums go by, beside groups."""
TokensBy = Literal["session", "tenant", "line"]
"""Of these, what the fates of tokens go by."""
MissesBy = Literal["event", "session", "project", "model", "day"]
"""And what misses in reported usage go by."""
OnBadLine = Literal["error", "skip"]
"""A record that cannot be read stops the run, or is left out and counted."""

SchedulePolicy = Literal["fcfs", "lpm", "dfs-weight"]
"""Who of those that wait for SGLang goes first: the first, the longest match, or what most of them share."""
MambaDtype = Literal["auto", "float32", "float16", "bfloat16"]
"""Of the states of linear attention, as vLLM takes it."""

Axis = Literal["capacity", "policy", "ttl", "block-size", "tier", "routing", "replicas", "pd"]
"""What a sweep of `what-if` changes."""
TraceFormat = Literal["mooncake", "bailian"]
"""Whose format an anonymised trace has."""
Policy = Literal["lru", "fifo", "lfu", "slru", "priority", "opt"]
"""Who leaves a full cache, by any rules; `opt` is the bound that knows what comes."""
Sure = Literal["exact", "sampled", "predicted", "bound", "rules"]
"""Counted; told from a sample, with its error; run on a clock that a latency model drives; what nobody can reach for certain; or
by a provider's published rules."""
ChangeKind = Literal[
    "today",
    "prefix-caching",
    "setting",
    "capacity",
    "block-size",
    "policy",
    "ttl",
    "kv-cache-dtype",
    "tensor-parallel",
    "tier",
    "routing",
    "replicas",
    "pd",
    "prompts",
    "clock",
    "marks",
    "cache-key",
    "explicit-cache",
    "model",
]
"""What a row of the table of `what-if` changes, or what is missing there; `clock`: all that takes times."""

SIZES = ("capacity", "num_gpu_blocks", "gpu_memory")
"""The options that say how large the cache is, each in its own way."""


def tokens_by(by: By | None) -> TokensBy | None:
    """Return what the fates of tokens go by, where that was asked for."""
    match by:
        case "session" | "tenant" | "line":
            return by
        case _:
            return None


def misses_by(by: By | None) -> MissesBy | None:
    """Return what misses in reported usage go by, where that was asked for."""
    match by:
        case "session" | "event" | "project" | "model" | "day":
            return by
        case _:
            return None
