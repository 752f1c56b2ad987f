"""What is known of running servers: their counters over a span, what they say of themselves, and their KV events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvtool.accounting.served_cache import ServedCache
from kvtool.measure.servers.causes.event_losses import LossSums
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.counted_between import Counted, counted_between, since_start
from kvtool.measure.servers.metrics.counters import Scrape
from kvtool.measure.servers.server_facts import ServerFacts
from kvtool.measure.servers.server_layers import retention_at
from kvtool.measure.servers.server_values import number_at, truth_at

_ALIGNMENTS = ("cache_hit_alignment_tokens", "prefix_match_unit", "hash_block_size")
_BLOCKS = ("block_size", "effective_attention_block_size", "mamba_block_size")


@dataclass(frozen=True, slots=True)
class AskedServer:
    """A server. `before` is None where the counts are those since its start; `after` where it hides its counters."""

    source: str
    facts: ServerFacts | None = None
    before: Scrape | None = None
    after: Scrape | None = None
    trouble: str = ""
    settings: Mapping[str, float] = field(default_factory=dict)
    """Settings of llama.cpp's rules, by the names of kvtool's options."""
    several: bool = False
    """Whether looks within moments showed counters of different processes."""
    served: ServedCache | None = None
    """Its model as vLLM plans it; None where it is unknown."""

    @property
    def counted(self) -> Counted:
        """Return the counts of the span."""
        if self.several:
            return Counted(broken="several servers")
        if self.after is None:
            return Counted()
        return since_start(self.after) if self.before is None else counted_between(self.before, self.after)

    @property
    def lifetime(self) -> Counted:
        """Return the counts since the start of the server."""
        return Counted() if self.after is None else since_start(self.after)

    @property
    def kind(self) -> str | None:
        """Return the kind of server."""
        if self.facts is not None and self.facts.server is not None:
            return self.facts.server
        return None if self.after is None else self.after.of.server

    @property
    def models(self) -> frozenset[str]:
        """Return the names under which it has models, by its counters and its list."""
        listed = None if self.facts is None else self.facts.model
        counted = [] if self.after is None else self.after.models
        return frozenset((*counted, *([] if listed is None else [listed])))

    @property
    def labels(self) -> Mapping[str, object]:
        """Return the labels of its configuration; of several engines those of the first."""
        if self.after is None:
            return {}
        return next(iter(self.after.config.values()), {})

    @property
    def engines(self) -> int:
        """Return the number of engines that counted something."""
        return 0 if self.after is None else len(self.after.engines)

    @property
    def hit_unit(self) -> int | None:
        """Return the tokens of which every hit is a multiple; None where neither the server nor its model shows it."""
        if self.served is not None:
            return self.served.planned.plan.hit_alignment
        exact = (number_at(self.labels, key) for key in _ALIGNMENTS)
        return next((size for size in exact if size is not None), self._longest_block)

    @property
    def _longest_block(self) -> int | None:
        sizes = (number_at(self.labels, key) for key in _BLOCKS)
        return max((size for size in sizes if size is not None), default=None)

    @property
    def attention_block(self) -> int | None:
        """Return the tokens of a block of attention, which routers and offloading tiers hash; None where it is not reported."""
        return number_at(self.labels, "effective_attention_block_size") or number_at(self.labels, "block_size")

    @property
    def keeps_ends(self) -> bool | None:
        """Return whether windows and states are kept only at the end of a prompt; None where the configuration is not reported.

        Releases before vLLM 0.29 report no interval, and keep them at each block.
        """
        if not self.labels:
            return None
        return retention_at(self.labels, "prefix_cache_retention_interval") == "0"

    @property
    def kept_unit(self) -> int | None:
        """Return the least interval at which windows and states can be kept."""
        return self._longest_block if self.served is None else self.served.planned.plan.scheduler_block_size

    @property
    def capacity_tokens(self) -> int | None:
        """Return the tokens that one engine keeps; None where it is not reported.

        Block 0 is never used. A model with several groups of layers keeps fewer tokens than its blocks have.
        """
        blocks, size = (number_at(self.labels, key) for key in ("num_gpu_blocks", "block_size"))
        reported = number_at(self.labels, "kv_cache_size_tokens")
        of_blocks = None if blocks is None or size is None else max(blocks - 1, 0) * size
        return min((each for each in (of_blocks, reported) if each is not None), default=None)

    @property
    def caches_prefixes(self) -> bool:
        """Return whether its prefix cache may be on: the server does not report that it is off."""
        return truth_at(self.labels, "enable_prefix_caching") is not False


@dataclass(frozen=True, slots=True)
class ServerEvidence:
    """All servers of one question."""

    servers: tuple[AskedServer, ...]
    losses: LossSums | None = None
    router_block_size: int | None = None

    @property
    def kind(self) -> str | None:
        """Return the kind of the servers; None where they differ or say none."""
        kinds = {server.kind for server in self.servers}
        return kinds.pop() if len(kinds) == 1 else None

    @property
    def models(self) -> frozenset[str]:
        """Return the names under which the servers have their models; empty where one of them names none."""
        named = [server.models for server in self.servers]
        return frozenset().union(*named) if all(named) else frozenset()

    @property
    def counted(self) -> Counted:
        """Return the counts of all servers together."""
        found = Counted()
        for server in self.servers:
            found = found.plus(server.counted)
        return found

    @property
    def looked_up(self) -> int | None:
        """Return the prompt tokens of the span: those looked up, or all where nothing is looked up."""
        counted = self.counted
        queries, prompt = counted.get(names.QUERIES), counted.get(names.PROMPT)
        return queries or prompt

    @property
    def computed(self) -> int | None:
        """Return the prompt tokens that did not hit."""
        looked_up, hits = self.looked_up, self.counted.get(names.HITS)
        return None if looked_up is None else max(looked_up - (hits or 0), 0)

    @property
    def caches(self) -> int:
        """Return the number of separate caches that serve the requests."""
        return sum(max(server.engines, 1) for server in self.servers)
