"""Detect a log of hosted models, whose own cache rules then apply by default."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.hosted_models import is_hosted
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


def asks_for_engine(options: RunOptions, asked: EngineOptions) -> bool:
    """Return whether an option configures a server of the user's own, which then gets all requests of a log."""
    said = (options.serving, options.caching, asked)
    if not options.all_engines and (options.tracing.rules or asked.rules):
        return True
    if any(getattr(of, name, None) is not None for of in said for name in _ENGINE):
        return True
    measuring = options.measuring
    engine_run = (
        measuring.events is not None
        or measuring.kv_events is not None
        or measuring.audit
        or measuring.load_format != "auto"
    )
    return engine_run or options.caching.use_timestamps or options.predicting.model is not None


def are_hosted(turns: Sequence[Turn], models: LoggedModels) -> bool:
    """Return whether more of these requests went to hosted models than to models of known weights.

    A model is hosted if its name or the log names an API, whether or not that has rules or a price: names of open weights name
    none. A model of which neither an API nor weights are known says nothing.
    """
    hosted = own = 0
    for call in (turn.call for turn in turns if turn.call.model is not None):
        if is_hosted(call):
            hosted += 1
        else:
            own += models.find(call.model or "") is not None
    return hosted > own and all(turn.hashed is None for turn in turns)
