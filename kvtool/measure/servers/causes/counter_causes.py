"""Causes that the counters and the configuration of servers show, each by a test of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from math import isfinite

from kvtool.measure.servers.causes.changes import change_of, of_model_groups
from kvtool.measure.servers.causes.server_evidence import AskedServer, ServerEvidence
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.exposition import BucketCounts
from kvtool.measure.servers.server_values import number_at, truth_at
from kvtool.results.documents.server_cause import Basis, CauseName, ServerCause
from kvtool.text.terminal.numbers import plural


def cause(
    name: CauseName,
    basis: Basis,
    tokens: int | None,
    why: str,
    server: str | None,
    source: str = "/metrics",
    change: str | None = None,
) -> ServerCause:
    """Return a cause with what to change; None is what this kind of server always needs."""
    return ServerCause.model_validate(
        {
            "cause": name,
            "basis": basis,
            "tokens": tokens,
            "why": why,
            "change": change or change_of(name, server),
            "source": source,
        }
    )


def counter_causes(evidence: ServerEvidence, *, costly: float) -> Iterator[ServerCause]:
    """Yield what each server shows by itself, then what they show together. `costly` is the share of tokens that users notice."""
    for server in evidence.servers:
        found = (_several, _restart, _short_prompts, _chunks, _not_looked_up) if server.caches_prefixes else _CACHELESS
        yield from _each(evidence, server, *(find(server) for find in found))
    yield from _router_size(evidence)
    yield from _possible(evidence, costly)


def _each(evidence: ServerEvidence, server: AskedServer, *found: Iterable[ServerCause]) -> Iterator[ServerCause]:
    """Yield causes of one server with its name, where there are several servers."""
    for each in chain(*found):
        yield each if len(evidence.servers) == 1 else each.model_copy(update={"server": server.source})


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
    tokens = server.counted.get(names.PROMPT) or server.counted.get(names.QUERIES)
    yield cause("caching off", "counted", tokens, "The server reports that prefix caching is off.", server.kind)


_CACHELESS = (_several, _restart, _caching_off)
"""What a server without a prefix cache can show: nothing else takes tokens that no cache has."""


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
    change = _of_short_prompts(server)
    pairs = [(bound, int(count)) for bound, count in zip(sizes.bounds, sizes.counts, strict=True)]
    bound, below = max((each for each in pairs if each[0] <= unit), default=(0.0, 0))
    over, reached = next((each for each in pairs if each[0] > unit), (float("inf"), int(sizes.count)))
    needs = f"and a hit needs a block of {unit:,}"
    if below >= sizes.count:
        why = f"All {plural(below, 'prompt')} have at most {bound:g} tokens, {needs}."
        yield cause("short prompts", "counted", int(sizes.total), why, server.kind, change=change)
        return
    near = (reached - below) * unit  # the bucket does not say which of these prompts are short
    computed = max(int(sizes.total) - (server.counted.get(names.HITS) or 0), 0)
    most = int(min(below * bound + near, sizes.total, computed))
    of = plural(int(sizes.count), "prompt")
    if below * bound >= near and below:
        yield cause(
            "short prompts",
            "at most",
            most,
            f"{below:,} of {of} have at most {bound:g} tokens, {needs}.",
            server.kind,
            change=change,
        )
    elif near:
        why = f"{reached:,} of {of} have at most {over:g} tokens, {needs}."
        yield cause("short prompts", "possible", most, why, server.kind, change=change)


def _of_short_prompts(server: AskedServer) -> str | None:
    """Return what to change where states set the block: --block-size is only a lower bound there. None: blocks of attention."""
    states = (
        bool(server.served and server.served.model.states) or number_at(server.labels, "mamba_block_size") is not None
    )
    if not states or server.hit_unit is None:
        return None
    return (
        f"Hits end at multiples of {server.hit_unit:,} tokens: share that many or more. The model's states set this block,"
        " so --block-size cannot lower it. An fp8 KV cache or float32 states make it longer."
    )


def _chunks(server: AskedServer) -> Iterator[ServerCause]:
    """A second tier that is asked and never has anything."""
    asked, found = server.counted.get(names.EXTERNAL_QUERIES), server.counted.get(names.EXTERNAL_HITS)
    chunk, size = chunk_size(server), server.attention_block
    if chunk is not None and size is not None and chunk % size:
        why = f"The offloading tier has chunks of {chunk:,} tokens, the server blocks of {size:,}."
        change = f"Set the chunk size of the tier to {size:,} tokens, or to a multiple."
        yield cause("chunk size", "shown", None, why, server.kind, "server", change)
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
        theirs = server.attention_block or (evidence.losses and evidence.losses.block_size)
        if theirs and theirs != size:
            why = f"The router hashes blocks of {size:,} tokens, the server blocks of {theirs:,}."
            change = f"Set the router's block size to {theirs:,}."
            yield from _each(evidence, server, [cause("chunk size", "shown", None, why, server.kind, "server", change)])


def _possible(evidence: ServerEvidence, costly: float) -> Iterator[ServerCause]:
    """Yield what the configuration makes possible and no counter excludes, with the largest bound that holds."""
    computed = evidence.computed
    servers = [server for server in evidence.servers if server.caches_prefixes]
    caches = sum(max(server.engines, 1) for server in servers)
    for server in servers:
        yield from _each(evidence, server, _capacity(server, evidence.looked_up, costly))
    if not computed:
        return
    if caches > 1:
        why = f"{plural(caches, 'cache')} share the requests. The counters do not show which one a prefix is in."
        yield cause("routing", "possible", computed, why, evidence.kind, change=_of_routing(evidence))
    for server in servers:
        yield from _each(evidence, server, _model_groups(server, computed), _drafts(server))


def own_change(name: CauseName, evidence: ServerEvidence) -> str | None:
    """Return what to change for a cause in the servers' own numbers; None where they report none."""
    first = evidence.servers[0]
    if name == "short prompts":
        return _of_short_prompts(first)
    if name == "model groups":
        return of_model_groups(keeps_ends=first.keeps_ends, unit=first.kept_unit)
    return _of_routing(evidence) if name == "routing" else None


def _of_routing(evidence: ServerEvidence) -> str:
    """Return what to change in the routing, with the header of engines behind one URL, or the block size that a router needs."""
    change = change_of("routing", evidence.kind)
    if evidence.kind == "vLLM" and any(server.engines > 1 for server in evidence.servers):
        return f"{change} The header X-data-parallel-rank selects an engine of one URL."
    sizes = {server.attention_block for server in evidence.servers}
    if evidence.router_block_size is None and len(sizes) == 1 and (size := sizes.pop()) is not None:
        change += f" A router that hashes prompts needs blocks of {size:,} tokens."
    return change


def _model_groups(server: AskedServer, computed: int) -> Iterator[ServerCause]:
    labels, served = server.labels, server.served
    size, blocks = number_at(labels, "block_size"), number_at(labels, "num_gpu_blocks")
    tokens, window = number_at(labels, "kv_cache_size_tokens"), number_at(labels, "sliding_window")
    if served is not None:
        if served.plan is None:
            return
        groups = plural(len(served.plan.groups), "KV cache group")
        why = f"{served.model.name} has {groups}, and hits end at multiples of {server.hit_unit:,} tokens."
    elif window is not None:
        why = f"The model has a sliding window of {window:,} tokens."
    elif number_at(labels, "mamba_block_size") is not None:
        why = f"The model has layers with states, kept every {server.hit_unit or 0:,} tokens at most."
    elif tokens is not None and size is not None and blocks is not None and tokens < (blocks - 1) * size:
        why = f"The cache keeps {tokens:,} tokens in {blocks:,} blocks of {size:,}: the model has several groups of layers."
    else:
        return
    if server.keeps_ends:
        why += " It keeps only the end of each prompt."
    change = of_model_groups(keeps_ends=server.keeps_ends, unit=server.kept_unit)
    yield cause("model groups", "possible", computed, why, server.kind, change=change)


def _capacity(server: AskedServer, looked_up: int | None, costly: float) -> Iterator[ServerCause]:
    """Preemptions are a fact; whether blocks were evicted before their reuse is only possible.

    A few preemptions prove nothing about the other requests: as a fact counts only what can take a part that users notice.
    """
    preemptions, again = server.counted.get(names.PREEMPTIONS) or 0, _preempted_tokens(server)
    evicted, evictions = _evictions(server)
    happened = f"{plural(preemptions, 'preemption')}: the cache was too small for the requests that ran together."
    computed = server.counted.get(names.COMPUTED) or looked_up
    bound = None if again is None or computed is None else min(computed, again + evicted)
    many = again is None or not looked_up or again >= costly * looked_up
    if preemptions and many:
        yield cause("capacity", "shown", bound, happened, server.kind)
    elif evictions:
        why = f"{evictions} {happened}" if preemptions else evictions
        yield cause("capacity", "possible", bound if preemptions else evicted, why, server.kind)
    elif preemptions:
        yield cause("capacity", "at most", again, happened, server.kind)


def _preempted_tokens(server: AskedServer) -> int | None:
    """Return the most prompt tokens that preempted requests can have computed again; None where nothing bounds them.

    A preempted request computes its own prompt again, which fitted into the cache.
    """
    preemptions, sizes = server.counted.get(names.PREEMPTIONS) or 0, server.counted.histograms.get(names.PROMPT_SIZES)
    if not preemptions:
        return 0
    longest = [server.capacity_tokens, None if server.facts is None else server.facts.value("max_model_len")]
    if sizes is not None:
        longest.append(next((int(bound) for bound, count in _filled(sizes) if count >= sizes.count), None))
    known = [each for each in longest if isinstance(each, int)]
    return preemptions * min(known) if known else None


def _filled(sizes: BucketCounts) -> Iterator[tuple[float, float]]:
    """Yield the finite bounds of a histogram with the counts up to them."""
    return ((bound, count) for bound, count in zip(sizes.bounds, sizes.counts, strict=True) if isfinite(bound))


def _evictions(server: AskedServer) -> tuple[int, str]:
    """Return how many tokens can have been evicted before their reuse, and what shows it; 0 where all that was stored fits.

    More was stored than one cache keeps, so blocks were evicted; what was stored later again is not counted.
    """
    room, lifetime = server.capacity_tokens, server.lifetime
    stored = (lifetime.get(names.COMPUTED) or 0) + (lifetime.get(names.GENERATED) or 0)
    room = None if room is None else room * max(server.engines, 1)
    computed = server.counted.get(names.COMPUTED) or 0
    if room is None or stored <= room or not computed:
        return 0, ""
    why = f"Since its start the server computed {stored:,} tokens, and its cache keeps {room:,}."
    return min(computed, stored - room), why


def _drafts(server: AskedServer) -> Iterator[ServerCause]:
    refused = () if server.facts is None else server.facts.refused
    for each in refused:
        if "speculative" in each:
            yield cause("drafts", "possible", None, f"The server reports: {each}.", server.kind)
            return
