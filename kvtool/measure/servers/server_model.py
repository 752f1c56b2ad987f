"""The model of a running server as the engine takes it: its groups, held against the size of the cache that the server reports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvtool.accounting.served_cache import ServedCache
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.model_plan import ServeOptions
from kvtool.engine.groups.planner import Speculation
from kvtool.engine.kv_dtype import AUTO
from kvtool.engine.model.configs.find_served import find_served
from kvtool.engine.model.configs.served_model import ServedModel
from kvtool.engine.vllm_release import LATEST_RELEASE
from kvtool.errors import KvtoolError
from kvtool.measure.servers.server_facts import FactValue, ServerFacts

_HINT = "name the model that it runs: --model NAME|FOLDER|config.json"
_STARTED = "give the model that the server runs, and the options that it was started with"
_WHOLE = 1 << 31
"""Tokens in flight that nobody reports, at most: windows then keep a whole request."""


@dataclass(frozen=True, slots=True)
class ServerModel:
    """The model of a server, and the options that its layers need; `name` is as `--model` takes it."""

    name: str
    options: Mapping[str, FactValue]
    served: ServedCache


def server_model(facts: ServerFacts, given: Mapping[str, object]) -> ServerModel | None:
    """Return the model that a server runs: the user's word goes before the server's; None where it is unknown and nothing shows
    more than one group of full attention. `given` are the user's options by their names.

    KvtoolError where hits depend on a model that is unknown, or that is not the server's.
    """
    asked = given.get("model")
    name = asked or facts.value("model")
    trouble = "the server's model is unknown"
    if isinstance(name, str):
        trouble = f"{name} does not have as much KV cache in as many blocks as this server"
        try:
            for served in _plans(find_served(name), facts, given):
                if _fits(served, facts):
                    _check_drafts(served, facts)
                    return ServerModel(name, _needed(served, facts), served)
        except EngineError as error:
            if asked is not None:
                raise
            if facts.several is not None:
                message = f"the server's model cannot be followed: {error.message}"
                raise KvtoolError(message, hint=error.hint or _HINT) from error
    if asked is not None:
        raise KvtoolError(f"{trouble}{_reported(facts)}", hint=_STARTED)
    if facts.several is not None:
        raise KvtoolError(f"{trouble}, and {facts.several}: kvtool predicts no hits for it", hint=_HINT)
    return None  # another model of that name: its server shows one group of full attention


def _check_drafts(served: ServedCache, facts: ServerFacts) -> None:
    """KvtoolError for a server with drafts of an unknown method."""
    if facts.value("drafts") and served.options.speculation is None:
        hint = "start vLLM with VLLM_SERVER_DEV_MODE=1, or add --speculative-config JSON"
        raise KvtoolError(
            "the server uses speculative decoding of an unknown method: kvtool predicts no hits for it", hint=hint
        )


def _reported(facts: ServerFacts) -> str:
    tokens = facts.value("kv_cache_size_tokens")
    return "" if tokens is None else f" ({tokens:,} tokens)"


def _plans(model: ServedModel, facts: ServerFacts, given: Mapping[str, object]) -> Iterator[ServedCache]:
    """Yield the plans under which the server would start; EngineError where there is none."""
    possible = list(_possible(facts, given))
    problems = []
    for options in possible:
        try:
            yield ServedCache.of(model, options)
        except EngineError as error:
            problems.append(error)
    if len(problems) == len(possible):
        raise problems[0]


def _possible(facts: ServerFacts, given: Mapping[str, object]) -> Iterator[ServeOptions]:
    """Yield the options of the server's planner. Where nobody says whether groups are off, they may be: connectors and CPUs turn
    them off."""
    said: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    said |= {**facts.options(), **facts.group_options()}
    state = said.get("mamba_ssm_cache_dtype")
    off = said.get("disable_hybrid_kv_cache_manager")
    in_flight = said.get("max_num_batched_tokens") if "async_scheduling" in said else None
    for disabled in (None, True) if off is None else (off,):
        yield ServeOptions(
            block_size=said.get("block_size"),
            kv_cache_dtype=said.get("kv_cache_dtype", AUTO),
            tensor_parallel=said.get("tensor_parallel", 1),
            max_model_len=said.get("max_model_len"),
            max_num_batched_tokens=in_flight or _WHOLE,
            concurrent_batches=2 if said.get("async_scheduling") else 1,
            enable_prefix_caching=said.get("enable_prefix_caching"),
            prefix_match_unit=said.get("prefix_match_unit"),
            mamba_ssm_cache_dtype=None if state == AUTO else state,
            disable_hybrid_kv_cache_manager=disabled,
            speculation=_speculation(said.get("speculative_config")),
            release=said.get("release") or LATEST_RELEASE,
        )


def _speculation(config: str | None) -> Speculation | None:
    """Return drafts as the server reports them, or as the user does; the flag's own errors come later."""
    if config is None:
        return None
    try:
        said = json.loads(config)
        return Speculation(
            method=said["method"],
            tokens=said["num_speculative_tokens"],
            disable_lookahead_block_hashes=said.get("disable_lookahead_block_hashes") is True,
            disable_eagle_block_drop=said.get("disable_eagle_block_drop") is True,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _fits(served: ServedCache, facts: ServerFacts) -> bool:
    """Return whether as many blocks hold as many tokens as the server reports; True where it does not report them."""
    plan, length = served.planned.plan, facts.value("max_model_len")
    reported, blocks = facts.value("kv_cache_size_tokens"), facts.value("num_gpu_blocks")
    if not (isinstance(reported, int) and isinstance(blocks, int) and isinstance(length, int)):
        return True
    if facts.value("block_size") not in (None, plan.cache_block_size):
        return False
    least = most = PlannedPool(plan, blocks).tokens(length)
    if plan.max_in_flight_tokens >= _WHOLE:  # nobody reports them
        most = PlannedPool(replace(plan, max_in_flight_tokens=1), blocks).tokens(length)
    return least - 1 <= reported <= most + 1


def _needed(served: ServedCache, facts: ServerFacts) -> dict[str, FactValue]:
    """Return the options that have an effect on this model, with whether groups are off."""
    if served.plan is None and served.planned.one_group is None:
        return {}
    found = facts.group_options()
    if served.options.disable_hybrid_kv_cache_manager:
        found["disable_hybrid_kv_cache_manager"] = True
    if not served.model.states:
        found.pop("mamba_ssm_cache_dtype", None)
    return found
