"""What a server does that kvtool's engine does not, by its configuration: what forbids a prediction, and what is only said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvtool.measure.servers.metrics.counters import Scrape
from kvtool.measure.servers.metrics.exposition import Exposition
from kvtool.measure.servers.server_values import said_at, said_number, said_text, said_truth

VLLM = "vLLM"
_UNITS = ("hash_block_size", "cache_hit_alignment_tokens", "prefix_match_unit", "effective_attention_block_size")


def refused_for(
    cache: Mapping[str, object], info: object, models: object, exposition: Exposition | None, server: object
) -> Iterator[str]:
    """Why the hits of a server cannot be predicted; nothing where they can be. `server` is its kind, None where nobody says it."""
    if server not in (None, VLLM):
        yield f"it is {server}, whose cache does not follow vLLM's rules"
        return
    if (window := said_text(cache, "sliding_window") or said_number(cache, "sliding_window")) is not None:
        yield f"a sliding window of {window} tokens, outside of which blocks are freed"
    block_size = said_number(cache, "block_size")
    for key in _UNITS:
        unit = said_number(cache, key)
        if unit is not None and block_size is not None and unit != block_size:
            yield f"`{key}` is {unit} beside blocks of {block_size}, as hybrid models have it"
            break
    if said_truth(cache, "is_attention_free") or said_number(cache, "mamba_block_size") is not None:
        yield "a hybrid model, or one without attention, whose states are cached by other rules"
    if _adapters(models) or (exposition is not None and exposition.of("vllm:lora_requests_info")):
        yield "LoRA adapters, each of which has blocks of its own"
    if said_at(info, "vllm_config", "speculative_config") or (
        exposition is not None and exposition.starting("vllm:spec_decode")
    ):
        yield "speculative decoding, which writes blocks ahead"


def _adapters(models: object) -> bool:
    data = models.get("data") if isinstance(models, Mapping) else None
    return isinstance(data, list) and any(isinstance(row, Mapping) and row.get("parent") for row in data)


def not_followed(cache: Mapping[str, object], info: object, scrape: Scrape | None) -> Iterator[str]:
    """What it does in a way that kvtool does not follow."""
    scheduler = said_at(info, "vllm_config", "scheduler_config")
    if said_text(scheduler, "policy") not in (None, "fcfs"):
        yield f"requests are scheduled by {said_text(scheduler, 'policy')}; kvtool takes them in order of arrival"
    if said_truth(scheduler, "enable_chunked_prefill") is False:
        yield "prompts are not split into chunks; kvtool splits them where a step is full"
    for name in ("long_prefill_token_threshold", "max_num_active_seqs"):
        if (value := said_number(scheduler, name)) is not None:
            yield f"`{name}` is {value:,}, which kvtool does not follow"
    if isinstance(watermark := scheduler.get("watermark"), float) and watermark > 0:
        yield f"a watermark of {watermark:g} of its blocks stays free, which kvtool does not follow"
    if said_at(info, "vllm_config", "kv_transfer_config") or said_text(cache, "kv_offloading_size") is not None:
        yield "a second tier holds blocks, too: what it gives is counted apart, and not predicted"
    if scrape is not None and len(scrape.engines) > 1:
        yield f"{len(scrape.engines)} engines share the requests, each with a cache of its own; kvtool has one"
