"""A run with a server's settings: its reported configuration replaces flags that are not given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from kvtool.config.asked_run import RunOptions, given_options_of, of_engine
from kvtool.config.command_line import flag
from kvtool.config.layers import hidden_by
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.measure.servers.server_facts import FactValue, ServerFacts

T = TypeVar("T")
_DEFAULTS: Mapping[str, FactValue | str] = {
    "block_size": EngineConfig.block_size,
    "num_gpu_blocks": "unlimited",
    "enable_prefix_caching": EngineConfig.enable_prefix_caching,
    "max_model_len": "unlimited",
    "max_num_batched_tokens": EngineConfig.max_num_batched_tokens,
    "max_num_seqs": EngineConfig.max_num_seqs,
    "async_scheduling": EngineConfig.async_scheduling,
    "tokenizer": "built in",
}
"""Defaults for settings that a server does not report."""


def requested_server(options: RunOptions, *, offline: bool) -> RunOptions:
    """Return the options with the configuration of the server that `--server` names, where it names one.

    KvtoolError where its hits cannot be predicted, or where it does not answer.
    """
    url = options.mirroring.server
    if url is None:
        return options
    if offline:
        raise KvtoolError("--server needs the network, and --offline forbids it", hint="omit one of the two")
    for name in ("provider", "replicas"):
        if getattr(options.caching, name) is not None:
            raise KvtoolError(f"{flag(name)} describes another cache than --server", hint="omit one of the two")
    from kvtool.measure.engine_extra import need_live
    from kvtool.measure.servers.http_exchange import ServerConnection
    from kvtool.measure.servers.server_address import server_address
    from kvtool.measure.servers.server_facts import ask_server

    need_live(flag("server"))
    with ServerConnection(server_address(url)) as connection:
        facts = ask_server(connection)
        root = connection.address.root
    facts.check()
    taken = as_server(options, facts, hashed=options.measuring.events is not None)
    notes = (*options.notes, *_notes(facts, taken.values, root, model=taken.options.model))
    return replace(taken.options, notes=notes)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of a run with those of a server; `values` are those that the server gave, by name."""

    options: RunOptions
    values: Mapping[str, FactValue]


def as_server(options: RunOptions, facts: ServerFacts, *, hashed: bool = True) -> ServerOptions:
    """Return the options with a server's settings and model for flags that are not given.

    `hashed`: with its hashes, on which no hit depends and which take longer. KvtoolError where its hits cannot be predicted, though
    it is a vLLM.
    """
    from kvtool.measure.servers.server_model import server_model

    model = None
    if facts.other_server is None:
        facts.check()
        model = server_model(
            facts, {**of_engine(options), "async_scheduling": options.mirroring.async_scheduling or None}
        )
    said = {**facts.options(), **({} if model is None else {**model.options, "server_model": model.name})}
    hidden = hidden_by(given_options_of(options)) | {"server_model" if options.predicting.model else ""}
    said = {name: value for name, value in said.items() if name not in hidden}
    if not hashed:
        said.pop("hash_algo", None)
    if options.predicting.calibration is not None:
        said.pop("tensor_parallel", None)  # it was measured on all of them
    taken: dict[str, FactValue] = {}

    def missing(of: T) -> T:
        found = {name: value for name, value in said.items() if getattr(of, name, ...) in (None, False)}
        taken.update(found)
        return replace(of, **found)  # type: ignore[type-var]  # facts have the types of the options they name

    concerns = ("serving", "mirroring", "rendering", "reported", "rule_flags")
    return ServerOptions(replace(options, **{name: missing(getattr(options, name)) for name in concerns}), taken)


def _notes(facts: ServerFacts, taken: Mapping[str, FactValue], root: str, *, model: str | None) -> list[str]:
    version = f" {facts.version}" if facts.version is not None else ""
    serves = f", serves {facts.model}" if facts.model is not None else ""
    kind = facts.scrape.of.server if facts.scrape is not None else "server"
    places: dict[str, list[str]] = {}
    for name, value in taken.items():
        if name not in _DEFAULTS and value == getattr(EngineConfig, name, 1):
            continue  # vLLM's own default
        said = facts.facts[name.removeprefix("server_")]
        place = "/metrics" if said.assumed else said.said_by  # nobody says it, but the size of the KV cache shows it
        places.setdefault(place, []).append(f"{said.name} {_shown(value)}")
    told = [f"{', '.join(named)} ({place})" for place, named in places.items()]
    notes = [f"as {root} ({kind}{version}{serves}): {'; '.join(told) or 'no settings beyond the flags'}"]
    assumed = [
        f"{name} {_shown(value)}"
        for name, value in _DEFAULTS.items()
        if name in facts.facts and facts.facts[name].assumed
    ]
    if model is None and facts.facts["kv_cache_size_tokens"].assumed:
        assumed.append(f"full attention in all layers (change with {flag('model')})")
    if assumed:
        notes.append(f"assumed, because neither a flag nor the server reports it: {', '.join(assumed)}")
    return [*notes, *(f"the server: {note}" for note in facts.notes)]


def _shown(value: FactValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else f"{value:,}"
