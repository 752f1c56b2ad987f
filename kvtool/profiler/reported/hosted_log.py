"""Detect a log of hosted models, whose own cache rules then apply by default."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.caches.dated_rules import is_hosted
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

    A model is hosted if a dated rule applies to it: names of open weights have no provider, unless the log names the API. A model
    of which neither rules nor weights are known says nothing.
    """
    hosted = own = 0
    for turn in turns:
        if is_hosted(turn):
            hosted += 1
        elif turn.call.model is not None:
            own += models.find(turn.call.model) is not None
    return hosted > own and all(turn.hashed is None for turn in turns)
