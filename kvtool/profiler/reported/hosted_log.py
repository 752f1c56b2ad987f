"""Detect a log of hosted models, whose own cache rules then apply by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.accounting.hosted_models import hosted_model
from kvtool.accounting.logged_models import LoggedModels
from kvtool.config.asked_run import RunOptions
from kvtool.results.choices import SIZES
from kvtool.workload.turn import Turn
from kvtool.workload.yaml.schema import EngineOptions

LOOKED_AT = 32
"""Requests at the front of a log that say whose models these are."""
_ENGINE = (
    *SIZES,
    *("block_size", "gpu_memory_utilization", "max_model_len", "max_num_batched_tokens"),
    *(
        "max_num_seqs",
        "enable_prefix_caching",
        "kv_cache_dtype",
        "tensor_parallel",
        "concurrency",
        "replicas",
        "routing",
        "ttl",
    ),
)
"""Options that configure an engine of the user's own."""


@dataclass(frozen=True, slots=True)
class HostedLog:
    """A log of hosted models; `timed` if its requests have times."""

    timed: bool


def hosted_log(
    options: RunOptions, asked: EngineOptions, turns: Sequence[Turn], models: LoggedModels
) -> HostedLog | None:
    """Detect hosted models by a log's first requests. None for an engine's log, or if an engine is requested."""
    said = (options.serving, options.caching, asked)
    if any(getattr(of, name, None) is not None for of in said for name in _ENGINE):
        return None
    measuring = options.measuring
    engine_run = (
        measuring.events is not None
        or measuring.kv_events is not None
        or measuring.audit
        or measuring.load_format != "auto"
    )
    if engine_run or options.caching.use_timestamps or options.predicting.model is not None:
        return None
    return HostedLog(timed=turns[0].arrival is not None) if are_hosted(turns, models) else None


def are_hosted(turns: Sequence[Turn], models: LoggedModels) -> bool:
    """Return whether more of these requests went to hosted models than to models of known weights.

    A model is hosted if its name or the log names an API, whether or not that has rules or a price: names of open weights name
    none. A model of which neither an API nor weights are known says nothing.
    """
    hosted = own = 0
    for call in (turn.call for turn in turns if turn.call.model is not None):
        if hosted_model(call.model or "", call.provider).provider:
            hosted += 1
        else:
            own += models.find(call.model or "") is not None
    return hosted > own and all(turn.hashed is None for turn in turns)
