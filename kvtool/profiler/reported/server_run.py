"""A run with a server's settings: its reported configuration replaces flags that are not given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.config.asked_run import RunOptions, given_options_of
from kvtool.config.command_line import flag
from kvtool.config.layers import hidden_by
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.measure.servers.server_facts import FactValue, ServerFacts

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
    return as_server(options, facts, root)


def as_server(options: RunOptions, facts: ServerFacts, root: str) -> RunOptions:
    """Return the options with a server's settings for flags that are not given; notes list these and the assumed ones."""
    hidden = hidden_by(given_options_of(options))
    said = {name: value for name, value in facts.options().items() if name not in hidden}
    if options.measuring.events is None:
        said.pop("hash_algo", None)  # no hit depends on it, and its hashes take longer
    serving, mirroring, rendering = options.serving, options.mirroring, options.rendering
    taken: dict[str, FactValue] = {}

    def missing(of: object) -> dict[str, FactValue]:
        found = {name: value for name, value in said.items() if getattr(of, name, ...) in (None, False)}
        taken.update(found)
        return found

    return replace(
        options,
        serving=replace(serving, **missing(serving)),  # type: ignore[arg-type]  # facts have the types of the options they name
        mirroring=replace(mirroring, **missing(mirroring)),  # type: ignore[arg-type]  # likewise
        rendering=replace(rendering, **missing(rendering)),  # type: ignore[arg-type]  # likewise
        notes=(*options.notes, *_notes(facts, taken, root)),
    )


def _notes(facts: ServerFacts, taken: Mapping[str, FactValue], root: str) -> list[str]:
    version = f" {facts.version}" if facts.version is not None else ""
    serves = f", serves {facts.model}" if facts.model is not None else ""
    kind = facts.scrape.of.server if facts.scrape is not None else "server"
    places: dict[str, list[str]] = {}
    for name, value in taken.items():
        places.setdefault(facts.facts[name].said_by, []).append(f"{name} {_shown(value)}")
    told = [f"{', '.join(named)} ({place})" for place, named in places.items()]
    notes = [f"as {root} ({kind}{version}{serves}): {'; '.join(told) or 'no settings beyond the flags'}"]
    assumed = [
        f"{name} {_shown(value)}"
        for name, value in _DEFAULTS.items()
        if name in facts.facts and facts.facts[name].assumed
    ]
    if assumed:
        notes.append(f"assumed, because neither a flag nor the server reports it: {', '.join(assumed)}")
    return [*notes, *(f"the server: {note}" for note in facts.notes)]


def _shown(value: FactValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else value
