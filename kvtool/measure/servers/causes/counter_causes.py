"""Causes that the counters and the configuration of servers show, each by a test of its own."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.measure.servers.causes.changes import change_of
from kvtool.measure.servers.causes.server_evidence import AskedServer, ServerEvidence
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.server_values import number_at, truth_at
from kvtool.results.documents.server_cause import Basis, CauseName, ServerCause
from kvtool.text.terminal.numbers import plural


def cause(
    name: CauseName, basis: Basis, tokens: int | None, why: str, server: str | None, source: str = "/metrics"
) -> ServerCause:
    """Return a cause with what to change on this kind of server."""
    return ServerCause.model_validate(
        {
            "cause": name,
            "basis": basis,
            "tokens": tokens,
            "why": why,
            "change": change_of(name, server),
            "source": source,
        }
    )


def counter_causes(evidence: ServerEvidence) -> Iterator[ServerCause]:
    """Yield what each server shows by itself, then what they show together."""
    for server in evidence.servers:
        for find in (_several, _restart, _caching_off, _short_prompts, _preemptions, _chunks, _not_looked_up):
            yield from find(server)
    yield from _router_size(evidence)
    yield from _possible(evidence)


def _several(server: AskedServer) -> Iterator[ServerCause]:
    if server.counted.broken == "several servers":
        why = (
            f"The counters at {server.source} are not those of one server: several servers or versions share this URL."
        )
        yield cause("several servers", "shown", None, why, server.kind)


def _restart(server: AskedServer) -> Iterator[ServerCause]:
    """A restart within the span empties the cache."""
    if server.counted.broken == "restart":
        why = f"The counters of {server.source} began anew within the span, so the cache began empty."
        yield cause("restart", "shown", None, why, server.kind)


def _caching_off(server: AskedServer) -> Iterator[ServerCause]:
    if truth_at(server.labels, "enable_prefix_caching") is False:
        tokens = server.counted.get(names.PROMPT) or server.counted.get(names.QUERIES)
        yield cause("caching off", "counted", tokens, "The server reports that prefix caching is off.", server.kind)


def _not_looked_up(server: AskedServer) -> Iterator[ServerCause]:
    """Prompts that were computed without a lookup: of vLLM, requests with `prompt_logprobs`."""
    prompt, queries = server.counted.get(names.PROMPT), server.counted.get(names.QUERIES)
    if server.kind != "vLLM" or truth_at(server.labels, "enable_prefix_caching") is not True:
        return
    if prompt is None or queries is None or queries >= prompt:
        return
    why = f"{prompt - queries:,} of {plural(prompt, 'prompt token')} were never looked up in the cache."
    yield cause("request fields", "counted", prompt - queries, why, server.kind)


def _short_prompts(server: AskedServer) -> Iterator[ServerCause]:
    """Prompts of at most one unit cannot hit: the last token is always computed."""
    unit, sizes = server.hit_unit, server.counted.histograms.get(names.PROMPT_SIZES)
    if unit is None or sizes is None or not sizes.count:
        return
    bounds = [(bound, int(count)) for bound, count in zip(sizes.bounds, sizes.counts, strict=True) if bound <= unit]
    if not bounds or not bounds[-1][1]:
        return
    bound, count = bounds[-1]
    below = f"at most {bound:g} tokens, and a hit needs a block of {unit:,}"
    if count >= sizes.count:
        why = f"All {plural(count, 'prompt')} have {below}."
        yield cause("short prompts", "counted", int(sizes.total), why, server.kind)
        return
    why = f"{count:,} of {plural(int(sizes.count), 'prompt')} have {below}."
    yield cause("short prompts", "at most", int(min(count * bound, sizes.total)), why, server.kind)


def _preemptions(server: AskedServer) -> Iterator[ServerCause]:
    if preemptions := server.counted.get(names.PREEMPTIONS):
        why = f"{plural(preemptions, 'preemption')}: the cache was too small for the requests that ran together."
        yield cause("capacity", "shown", None, why, server.kind)


def _chunks(server: AskedServer) -> Iterator[ServerCause]:
    """A second tier that is asked and never has anything."""
    asked, found = server.counted.get(names.EXTERNAL_QUERIES), server.counted.get(names.EXTERNAL_HITS)
    chunk, size = chunk_size(server), number_at(server.labels, "block_size")
    if chunk is not None and size is not None and chunk % size:
        why = f"The offloading tier has chunks of {chunk:,} tokens, the server blocks of {size:,}."
        yield cause("chunk size", "shown", None, why, server.kind, "server")
    elif asked and not found:
        size_text = "" if chunk is None else f" Its chunks have {chunk:,} tokens."
        why = f"The offloading tier was asked for {plural(asked, 'token')}, and had none.{size_text}"
        yield cause("chunk size", "at most", asked, why, server.kind)


def chunk_size(server: AskedServer) -> int | None:
    """Return the tokens of a chunk of the server's offloading tier, where it reports them."""
    said = None if server.facts is None else server.facts.value("lmcache_chunk_size")
    return said if isinstance(said, int) else None


def _router_size(evidence: ServerEvidence) -> Iterator[ServerCause]:
    size = evidence.router_block_size
    if size is None:
        return
    for server in evidence.servers:
        theirs = number_at(server.labels, "block_size") or (evidence.losses and evidence.losses.block_size)
        if theirs and theirs != size:
            why = f"The router hashes blocks of {size:,} tokens, {server.source} blocks of {theirs:,}."
            yield cause("chunk size", "shown", None, why, server.kind, "server")


def _possible(evidence: ServerEvidence) -> Iterator[ServerCause]:
    """Yield what the configuration makes possible and no counter excludes, with the largest bound that holds."""
    computed = evidence.computed
    if not computed:
        return
    if evidence.caches > 1:
        why = (
            f"{plural(evidence.caches, 'cache')} share the requests. The counters do not show which one a prefix is in."
        )
        yield cause("routing", "possible", computed, why, evidence.kind)
    for server in evidence.servers:
        yield from _model_groups(server, computed)
        yield from _evictions(server)
        if spec := _drafts(server):
            yield cause("drafts", "possible", None, spec, server.kind)


def _model_groups(server: AskedServer, computed: int) -> Iterator[ServerCause]:
    labels = server.labels
    size, blocks = number_at(labels, "block_size"), number_at(labels, "num_gpu_blocks")
    tokens, window = number_at(labels, "kv_cache_size_tokens"), number_at(labels, "sliding_window")
    if window is not None:
        why = f"The model has a sliding window of {window:,} tokens."
    elif number_at(labels, "mamba_block_size") is not None:
        why = f"The model has layers with states, kept every {server.hit_unit or 0:,} tokens at most."
    elif tokens is not None and size is not None and blocks is not None and tokens < (blocks - 1) * size:
        why = f"The cache keeps {tokens:,} tokens in {blocks:,} blocks of {size:,}: the model has several groups of layers."
    else:
        return
    why += " By default it keeps only the end of each prompt."
    yield cause("model groups", "possible", computed, why, server.kind)


def _evictions(server: AskedServer) -> Iterator[ServerCause]:
    """More was stored than one cache keeps, so blocks were evicted; what was stored later again is not counted."""
    room, lifetime = server.capacity_tokens, server.lifetime
    stored = (lifetime.get(names.COMPUTED) or 0) + (lifetime.get(names.GENERATED) or 0)
    room = None if room is None else room * max(server.engines, 1)
    if room is None or stored <= room:
        return
    computed = server.counted.get(names.COMPUTED) or 0
    why = f"Since its start the server computed {stored:,} tokens, and its cache keeps at most {room:,}."
    yield cause("capacity", "possible", min(computed, stored - room), why, server.kind)


def _drafts(server: AskedServer) -> str | None:
    refused = () if server.facts is None else server.facts.refused
    return next((f"The server reports: {each}." for each in refused if "speculative" in each), None)
