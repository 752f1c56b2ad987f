"""Whether a log is one of hosted models, whose own cache rules then hold without being asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvtool.accounting.caches.dated_rules import find_rule
from kvtool.accounting.log_clock import day_of
from kvtool.config.asked_run import RunOptions
from kvtool.results.choices import SIZES
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Turn
from kvtool.workload.yaml.schema import EngineOptions

_LOOKED_AT = 32
"""Requests at the front of a log that decide."""
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
"""Options that say how an engine of one's own is to be run."""


@dataclass(frozen=True, slots=True)
class HostedLog:
    """A log of hosted models; `timed` where its requests say when they came."""

    timed: bool


def hosted_log(options: RunOptions, asked: EngineOptions, source: LogSource) -> HostedLog | None:
    """What of its first requests more than half that name a model show; None for a log of an engine's, or where one is asked for.

    A model is hosted where a row of the dated rules is about it: names of open weights are nobody's, unless the log names the API.
    """
    said = (options.serving, options.caching, asked)
    if any(getattr(of, name, None) is not None for of in said for name in _ENGINE):
        return None
    measuring = options.measuring
    engine_run = (
        (options.tracing.rules or asked.rules or "vllm") != "vllm"
        or measuring.events is not None
        or measuring.kv_events is not None
        or measuring.audit
        or measuring.load_format != "auto"
    )
    if engine_run or options.caching.use_timestamps or options.predicting.model is not None:
        return None
    turns = list(_first_turns(source))
    named = [turn for turn in turns if turn.call.model is not None]
    known = sum(_has_rules(turn) for turn in named)
    if not named or 2 * known <= len(named) or any(turn.hashed is not None for turn in turns):
        return None
    return HostedLog(timed=turns[0].arrival is not None)


def _has_rules(turn: Turn) -> bool:
    call = turn.call
    return (
        call.model is not None
        and find_rule(call.model, call.provider, day_of(turn.epoch, turn.arrival or 0.0)) is not None
    )


def _first_turns(source: LogSource) -> Iterator[Turn]:
    """Of the first conversations, the first request each."""
    for number, conversation in enumerate(source.conversations()):
        if number == _LOOKED_AT:
            return
        turn = conversation.next_turn(None)
        if turn is not None:
            yield turn
