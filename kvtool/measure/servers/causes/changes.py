"""What to change for a cause, in the flags and settings of the server."""

from __future__ import annotations

from collections.abc import Mapping

from kvtool.results.documents.server_cause import CauseName

_ANY: Mapping[CauseName, str] = {
    "caching off": "Switch the prefix cache of the server on.",
    "short prompts": "Use smaller blocks, or accept it: a prompt shorter than a block cannot hit.",
    "model groups": "Nothing in the prompts: the model's layers keep only some prefixes.",
    "capacity": "Give the KV cache more memory, or send fewer prefixes to this server.",
    "routing": "Route requests with the same prefix, or of the same session, to the same engine.",
    "salts": "Send one `cache_salt` per tenant, not per request.",
    "adapters": "Group requests by adapter: blocks are not shared between adapters.",
    "other tokens": "Use the tokenizer and the chat template of the server wherever prompts are hashed.",
    "chunk size": "Set the same block size in the server, its router and its offloading tier.",
    "request fields": "Remove `prompt_logprobs`, and `echo` with `logprobs`, from requests that should hit.",
    "other traffic": "Send this traffic to a server of its own, or give the cache more room.",
    "restart": "Wait until the cache is warm, or warm it up after each start.",
    "cache reset": "Do not call /reset_prefix_cache while the server has traffic.",
    "concurrency": "Send one request of a prefix first, and the others after its answer begins.",
    "drafts": "Accept it: speculative decoding needs the last block computed again.",
    "prompts": "Move the changing text to the end of the prompt.",
    "slots": "Give each conversation a slot.",
    "context": "Let the model keep its whole context.",
    "several servers": "Pass the URL of each server, not of the load balancer.",
    "expiry": "Ask for a longer time to live, or send the next request sooner.",
    "missing cache breakpoints": "Set `cache_control` on the last block that the requests share.",
    "minimum length": "Make the shared prefix as long as the provider's minimum, or accept it.",
    "cache keys": "Send one `prompt_cache_key`, model and set of parameters for requests with one prefix.",
    "the provider": "Nothing in the prompts: ask the provider, with the request ids of kvtool profile.",
}
_OF_SERVER: Mapping[str, Mapping[CauseName, str]] = {
    "vLLM": {
        "caching off": (
            "Remove --no-enable-prefix-caching, or set --enable-prefix-caching where it is off by default for the model."
        ),
        "short prompts": "Set --block-size 16, where the model allows it. Hybrid models need long blocks.",
        "model groups": "Set --prefix-cache-retention-interval to a multiple of the block size.",
        "capacity": "Raise --gpu-memory-utilization, or set --kv-cache-dtype fp8 or --kv-offloading-size.",
        "concurrency": "Send one request of a prefix first, and the others after its answer begins.",
    },
    "SGLang": {
        "caching off": "Remove --disable-radix-cache.",
        "capacity": "Raise --mem-fraction-static, or set --kv-cache-dtype fp8_e5m2.",
        "routing": "Use the SGLang router with --policy cache_aware.",
        "short prompts": "Set --page-size 1.",
    },
    "llama.cpp": {
        "caching off": 'Send `"cache_prompt": true`.',
        "capacity": "Raise --cache-ram, or lower --parallel.",
        "model groups": (
            "Keep earlier messages as they were, with their reasoning. For windows, set --swa-full."
            " For states (Mamba, Gated DeltaNet), lower --checkpoint-min-step and raise --ctx-checkpoints."
        ),
        "slots": "Raise --parallel, or keep more prompts with --cache-ram.",
        "context": "Raise --ctx-size.",
    },
    "Ollama": {
        "capacity": "Set LLAMA_ARG_CACHE_RAM=16384 (MiB) for `ollama serve`.",
        "prompts": "Keep the beginning of the prompt. Set OLLAMA_NUM_PARALLEL to the number of conversations.",
        "slots": "Set OLLAMA_NUM_PARALLEL to the number of conversations.",
        "model groups": (
            "Keep earlier messages as they were, with their reasoning. For windows, set LLAMA_ARG_SWA_FULL=1 for"
            " `ollama serve`. For states, set LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT=1024."
        ),
        "restart": 'Set `"keep_alive": -1`, so that the model stays loaded.',
        "context": "Set OLLAMA_CONTEXT_LENGTH to the longest conversation.",
    },
}


def change_of(cause: CauseName, server: str | None) -> str:
    """Return what to change on this kind of server; None is an unknown one."""
    return _OF_SERVER.get(server or "", {}).get(cause) or _ANY[cause]


def of_model_groups(*, keeps_ends: bool | None, unit: int | None) -> str | None:
    """Return what to set where vLLM keeps windows and states of a prompt; None where it does not report how.

    `keeps_ends`: only at the end. `unit` is the least interval.
    """
    if keeps_ends is None:
        return None
    if not keeps_ends:
        return _ANY["model groups"]
    shown = "to a multiple of the block size" if unit is None else str(unit)
    return f"Set --prefix-cache-retention-interval {shown}: vLLM then keeps a place to go on from at each multiple."
