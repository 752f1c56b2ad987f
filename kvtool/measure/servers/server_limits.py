"""What a server has that kvtool cannot predict, or does not follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvtool.measure.servers.metrics.counters import Scrape
from kvtool.measure.servers.metrics.exposition import Exposition
from kvtool.measure.servers.server_scheduler import scheduler_notes
from kvtool.measure.servers.server_values import number_at, text_at, value_at

VLLM = "vLLM"


def refused_for(
    cache: Mapping[str, object], info: object, models: object, exposition: Exposition | None, server: object
) -> Iterator[str]:
    """Yield why the hits of a server cannot be predicted, whatever its model is. `server` is its kind; None: unknown."""
    if server not in (None, VLLM):
        yield f"it is {server}, and its cache does not follow vLLM's rules"
        return
    if text_at(cache, "mamba_cache_mode") == "all":
        yield "`mamba_cache_mode` is all, and kvtool follows align"
    ranks = number_at(value_at(info, "vllm_config", "parallel_config"), "decode_context_parallel_size") or 1
    if ranks > 1:
        yield f"{ranks} accelerators share each block (decode context parallelism), which kvtool does not follow"
    if _adapters(models) or (exposition is not None and exposition.of("vllm:lora_requests_info")):
        yield "it has LoRA adapters, and each adapter has its own blocks"


def _adapters(models: object) -> bool:
    data = models.get("data") if isinstance(models, Mapping) else None
    return isinstance(data, list) and any(isinstance(row, Mapping) and row.get("parent") for row in data)


def not_followed(cache: Mapping[str, object], info: object, scrape: Scrape | None) -> Iterator[str]:
    """Yield what the server does in a way that kvtool does not follow."""
    yield from scheduler_notes(info)
    if value_at(info, "vllm_config", "kv_transfer_config") or text_at(cache, "kv_offloading_size") is not None:
        yield "the server has a second cache tier: its hits are counted separately, not predicted"
    if scrape is not None and len(scrape.engines) > 1:
        yield f"{len(scrape.engines)} engines share the requests, each with its own cache; kvtool has one"
