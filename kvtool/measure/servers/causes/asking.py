"""Asks running servers, or reads what was recorded of them: counters over a span, configuration, KV events."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.measure.servers.causes.event_losses import EventLosses
from kvtool.measure.servers.causes.server_evidence import AskedServer, ServerEvidence
from kvtool.measure.servers.http_exchange import ServerConnection, ServerError
from kvtool.measure.servers.kv_events.event_batches import EventBatch, read_event_file
from kvtool.measure.servers.kv_events.event_listener import publishers
from kvtool.measure.servers.kv_events.event_subscriber import EventSubscriber
from kvtool.measure.servers.metrics.counted_between import counted_between
from kvtool.measure.servers.metrics.counters import Scrape, scrape_of
from kvtool.measure.servers.metrics.exposition import MOST_BYTES, parse_exposition, read_exposition
from kvtool.measure.servers.server_address import is_url, server_address
from kvtool.measure.servers.server_facts import MOST_JSON, ServerFacts, ask_server, recorded_facts, scraped_facts
from kvtool.measure.servers.server_limits import VLLM
from kvtool.measure.servers.server_model import server_model
from kvtool.measure.servers.server_values import number_at, text_at, value_at
from kvtool.measure.servers.session_recording import EVENTS, METRICS_AFTER, METRICS_BEFORE, recorded_file

_METRICS = "/metrics"
_LOOKS = 2
"""Looks after the first one: a load balancer that takes turns shows another server at one of these."""
_PATIENCE = 30.0
"""Seconds for a page: vLLM collects what /server_info shows when it is asked."""
_SLICE = 0.2
"""Seconds of listening to one server before the next."""
_HIDDEN = "nothing is counted: no /metrics is saved"
_UNCOUNTED = {
    "Ollama": (
        "Ollama has no /metrics. Pass a log of its answers, which report cached tokens since 0.33.3,"
        " or its own log (server.log, or journalctl -u ollama)"
    )
}
"""Servers that count nothing by design."""
_OF_OLLAMA = {"parallel": 1, "batch_size": 512, "ubatch_size": 512}
"""What Ollama 0.30 and later start llama-server with, unless OLLAMA_NUM_PARALLEL or the model's options change it."""
OF_OLLAMA_RUNNER = {"parallel": 1, "cache_ram": 0, "slot_prompt_similarity": 1e-9}
"""How llama.cpp's rules are those of Ollama's own runner before 0.30: the slot with the longest common start, no host memory.

Read in its source, not run: runner/ollamarunner/cache.go. Without OLLAMA_MULTIUSER_CACHE.
"""
_LLAMA_SERVER = (0, 30)
"""The release of Ollama that replaced its runner by llama-server."""
_OTHER = "/metrics belongs to another process: it does not count the model that /v1/models lists"
_SAVED = (".prom", ".txt", ".metrics", ".prom.gz", ".txt.gz")


def ask_servers(
    sources: Sequence[str], *, seconds: float | None, kv_events: Sequence[str] = (), model: str | None = None
) -> ServerEvidence:
    """Return the evidence of the servers at these URLs or in these files of /metrics. `model` is what they run, as for `--model`.

    `seconds` is the span to watch; None: the counts since the start of each. A server that does not answer hides no other one.
    KvtoolError where none answers.
    """
    with ExitStack() as stack:
        listeners = [
            stack.enter_context(EventSubscriber(publishers(source, given).sources))
            for source, given in zip(sources, kv_events, strict=False)
        ]
        asked: list[AskedServer] = []
        errors: list[KvtoolError] = []
        for source in sources:
            try:
                asked.append(_first_look(source))
            except KvtoolError as error:
                errors.append(error)
                asked.append(AskedServer(source, trouble=error.message))
        if errors and len(errors) == len(sources):
            raise errors[0]
        losses = None
        if listeners:
            losses = EventLosses()
            _listen(listeners, losses, seconds)
        elif seconds:
            time.sleep(seconds)
        if seconds:
            asked = [_last_look(server) for server in asked]
    asked = [with_model(server, model) for server in _by_process(asked)]
    return ServerEvidence(tuple(asked), None if losses is None else losses.sums())


def _first_look(source: str) -> AskedServer:
    """Ask a server for all that it says; several looks show whether it is one server."""
    if not is_url(source):
        exposition = read_exposition(source)
        scrape = scrape_of(exposition, shown=source, at=time.time())
        return _checked(AskedServer(source, scraped_facts(exposition, scrape), after=scrape))
    with ServerConnection(server_address(source), timeout=_PATIENCE) as connection:
        missed: list[str] = []
        facts = ask_server(connection, uncounted=True, missed=missed)
        settings = _slot_settings(connection, facts.server)
        if facts.scrape is None:
            trouble = _UNCOUNTED.get(facts.server or "", f"nothing is counted: {missed[0]}")
            return AskedServer(source, facts, trouble=trouble, settings=settings)
        looks = [facts.scrape]
        several = _look_again(connection, looks)
    begun = looks[0] if any(counted_between(*each).broken for each in pairwise(looks)) else None
    server = AskedServer(source, facts, begun, looks[-1], "; ".join(missed), settings, several or _are_several(looks))
    return _checked(server)


def _look_again(connection: ServerConnection, looks: list[Scrape]) -> bool:
    """Add looks; return whether a page came that counts nothing, which is that of another process."""
    try:
        looks.extend(_look(connection) for _ in range(_LOOKS))
    except ServerError:
        return False  # what was counted until then is known
    except KvtoolError:
        return True
    return False


def _are_several(looks: Sequence[Scrape]) -> bool:
    """Return whether looks one after the other show counters of several processes: such as fall and return."""
    for at, each in enumerate(pairwise(looks), 1):
        broken = counted_between(*each).broken
        returned = any(counted_between(*spanning).broken is None for spanning in product(looks[:at], looks[at:]))
        if broken == "several servers" or (broken and returned):
            return True
    return False


def ask_model(source: str, model: str) -> AskedServer:
    """Return a server or a file of /metrics with the layers of its model; KvtoolError where it is another model."""
    return with_model(_first_look(source), model)


def with_model(server: AskedServer, model: str | None) -> AskedServer:
    """Return a vLLM with the layers of the model that the user or the server names.

    KvtoolError where the user names one that does not fit the size of its KV cache.
    """
    if server.kind != VLLM or server.facts is None:
        return server
    try:
        found = server_model(server.facts, {"model": model})
    except KvtoolError:
        if model is not None:
            raise
        return server
    return server if found is None else replace(server, served=found.served)


def _by_process(asked: Sequence[AskedServer]) -> list[AskedServer]:
    """Read several files of one process as its counters over time: a replica has a start of its own."""
    found: list[AskedServer] = []
    for server in asked:
        at = next((at for at, each in enumerate(found) if _is_same_process(each, server)), None)
        if at is None:
            found.append(server)
        else:
            found[at] = _spanning(found[at], server)
    return found


def _is_same_process(one: AskedServer, other: AskedServer) -> bool:
    """Return whether two files are of one process: the same starts and the same configuration."""
    first, second = one.after, other.after
    if first is None or second is None or is_url(one.source) or is_url(other.source):
        return False
    same = first.of is second.of and first.engines.keys() == second.engines.keys() and first.config == second.config
    return same and bool(first.created) and first.created == second.created


def _spanning(server: AskedServer, other: AskedServer) -> AskedServer:
    """Return the longest span of three scrapes of one process; its counters never fall, so the order is theirs."""
    scrapes = [each for each in (server.before, server.after, other.after) if each is not None]
    scrapes.sort(key=lambda each: sum(sum(engine.counts.values()) for engine in each.engines.values()))
    return replace(server, source=f"{server.source} {other.source}", before=scrapes[0], after=scrapes[-1])


def _slot_settings(connection: ServerConnection, server: str | None) -> dict[str, float]:
    """Return how many slots a llama.cpp server has, and the context of all together; of Ollama what it starts llama-server with."""
    if server == "Ollama":
        return _of_ollama(_page(connection, "/api/version"), _page(connection, "/api/ps"))
    props = _page(connection, "/props") if server == "llama.cpp" else None
    slots = number_at(value_at(props), "total_slots")
    length = number_at(value_at(props, "default_generation_settings"), "n_ctx")
    found = {"parallel": slots, "ctx_size": None if slots is None or length is None else slots * length}
    return {name: value for name, value in found.items() if value is not None}


def _of_ollama(version: object, loaded: object) -> dict[str, float]:
    release = re.match(r"(\d{1,4})\.(\d{1,4})", text_at(value_at(version), "version") or "")
    is_older = release is not None and (int(release[1]), int(release[2])) < _LLAMA_SERVER
    settings: dict[str, float] = {**(OF_OLLAMA_RUNNER if is_older else _OF_OLLAMA)}
    models = value_at(loaded).get("models")
    lengths = {number_at(each, "context_length") for each in models} if isinstance(models, list) else set()
    context = lengths.pop() if len(lengths) == 1 else None
    return settings if context is None else {**settings, "ctx_size": context}


def _page(connection: ServerConnection, path: str) -> object:
    try:
        return connection.json(path, limit=MOST_JSON)
    except KvtoolError:
        return None


def _look(connection: ServerConnection) -> Scrape:
    shown = connection.address.url(_METRICS)
    text = connection.text(_METRICS, limit=MOST_BYTES)
    return scrape_of(parse_exposition(text, shown=shown), shown=shown, at=time.time())


def _last_look(server: AskedServer) -> AskedServer:
    """Ask again at the end of the span; of a server that is gone, the span has no counts."""
    if server.after is None or server.before is not None or not is_url(server.source):
        return server
    looks, several = [server.after], server.several
    try:
        with ServerConnection(server_address(server.source)) as connection:
            looks.append(_look(connection))
            if counted_between(*looks).broken is not None:
                several = _look_again(connection, looks) or several
    except KvtoolError as error:
        trouble = f"what it counted in the span is unknown: {error.message}"
        return replace(server, before=server.after, after=None, trouble=trouble)
    return replace(server, before=server.after, after=looks[-1], several=several or _are_several(looks))


def _checked(server: AskedServer) -> AskedServer:
    """Leave out counters that count another model than the one that is served."""
    facts, scrape = server.facts, server.after
    model = None if facts is None else facts.model
    if scrape is None or model is None or not scrape.models or model in scrape.models:
        return server
    return replace(server, after=None, trouble=_OTHER)


def _listen(listeners: Sequence[EventSubscriber], losses: EventLosses, seconds: float | None) -> None:
    """Take the events of all servers in, in the order of their clocks.

    First come those that the servers still have from before. With a span, they only show what the caches hold.
    """
    until = time.monotonic() + (seconds or 0.0)
    begun = seconds is None
    while True:
        heard = [(number, batch) for number, each in enumerate(listeners) for batch in each.batches(_SLICE)]
        _take_in_order(heard, losses)
        if not begun:
            losses.begin_span()
            begun = True
        if time.monotonic() >= until:
            return


def _take_in_order(batches: Iterable[tuple[int, EventBatch]], losses: EventLosses) -> None:
    for number, batch in sorted(batches, key=lambda each: each[1].at):  # stable: batches of one server keep their order
        losses.add(number, batch)


def read_recordings(folders: Sequence[str], model: str | None = None) -> ServerEvidence:
    """Return the evidence of recorded sessions or of folders with saved /metrics, one folder for each server.

    `model` is what they run, as for `--model`.
    """
    asked, heard = [], list[tuple[int, EventBatch]]()
    for number, folder in enumerate(folders):
        asked.append(with_model(_recorded(folder), model))
        if (events := recorded_file(folder, EVENTS)) is not None:
            heard += [(number, batch) for batch in read_event_file(events)]
    losses = EventLosses()
    _take_in_order(heard, losses)
    return ServerEvidence(tuple(asked), losses.sums() if heard else None)


def _recorded(folder: str) -> AskedServer:
    if not Path(folder).is_dir():
        raise KvtoolError(
            f"{folder}: not a folder", hint="pass a folder of kvtool replay --record, or of saved /metrics"
        )
    facts = _facts(folder)
    scrapes = list(_scrapes(folder))
    if facts is None and not scrapes:
        raise KvtoolError(f"{folder}: no saved /metrics in it", hint="save /metrics as NAME.prom, before and after")
    before = scrapes[0] if len(scrapes) > 1 else None
    after = scrapes[-1] if scrapes else None
    for each in scrapes[1:-1]:  # a break in between is one of the whole
        if before is not None and counted_between(before, each).broken == "several servers":
            after = each
            break
    return _checked(AskedServer(folder, facts, before, after, trouble="" if scrapes else _HIDDEN))


def _facts(folder: str) -> ServerFacts | None:
    try:
        return recorded_facts(Path(folder))
    except KvtoolError:
        return None  # no recording: only scrapes


def _scrapes(folder: str) -> Iterator[Scrape]:
    named = [recorded_file(folder, name) for name in (METRICS_BEFORE, METRICS_AFTER)]
    paths = [path for path in named if path is not None] or sorted(
        str(path) for path in Path(folder).iterdir() if path.name.endswith(_SAVED) and path.is_file()
    )
    for path in paths:
        yield scrape_of(read_exposition(path), shown=path)
