"""One profiled workload: `kvtool.report/1`.

Token counts are whole numbers, ratios run from 0 to 1, times are seconds. Nothing quotes a prompt, except `Finding.snippet` where
`--show-text` asked for it.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Literal, Protocol

from pydantic import Field

from kvtool.results.choices import TokensBy
from kvtool.results.document_base import Count, Document, Model, Ratio
from kvtool.results.event_reads import EventReads
from kvtool.results.finding import Finding
from kvtool.results.isolation import Isolation
from kvtool.results.misses import CacheMisses
from kvtool.results.money import Money, Predicted, Reported
from kvtool.results.run_times import Decode, Quantiles, Ttft
from kvtool.results.steps import Steps
from kvtool.results.verdict import Check
from kvtool.results.views import Views

SCHEMA: Literal["kvtool.report/1"] = "kvtool.report/1"
Fates = dict[str, Count]
"""Tokens by fate, in words of `kvtool.accounting.ledger.fates`; they sum to the prompt tokens."""


class HitSums(Protocol):
    """Sums over the requests of a group, of a turn, of a line: of anything."""

    @property
    def prompt_tokens(self) -> int: ...
    @property
    def hit_tokens(self) -> int: ...


def lost_tokens(sums: HitSums) -> int:
    """Tokens that were computed, as they did not hit."""
    return sums.prompt_tokens - sums.hit_tokens


class Totals(Model):
    """Sums over all requests. `mean_request_hit_rate` is the mean of the requests' own hit rates."""

    requests: Count
    prompt_tokens: Count
    hit_tokens: Count
    hit_rate: Ratio
    mean_request_hit_rate: Ratio
    reachable_tokens: Count
    reachable_hit_rate: Ratio
    evictions: Count
    preemptions: Count
    refused_requests: Count
    first_refusal: str | None
    skipped_lines: Count
    unpredicted_requests: Count = 0
    """Requests of other servers than those whose rules the run has; no other sum has them."""
    uncached_requests: Count = 0
    """Requests to models that their provider does not cache; no other sum has them."""
    uncounted_requests: Count = 0
    """Requests that look nothing up in the cache (`prompt_logprobs`): the counters of vLLM leave them out."""
    uncounted_tokens: Count = 0
    """Prompt tokens of these."""
    short_requests: Count = 0
    """Requests of which the log has far less text than their reported tokens need: what they could reuse is unknown."""


class TurnSums(Model):
    """The requests that were the n-th turn (from 1) of their conversation."""

    turn: int
    requests: Count
    prompt_tokens: Count
    hit_tokens: Count


class Alignment(Model):
    """The most usual shared prefix of a group, in tokens and blocks; `lost_tokens` stand in blocks that are not full."""

    shared_prefix_tokens: Count
    whole_blocks: Count
    left_over_tokens: Count
    lost_tokens: Count


class CausesLeftOut(Model):
    """What those causes of a group cost that have no row of their own."""

    causes: Count
    blame_tokens: int
    share_tokens: int


class GroupRead(Model):
    """What servers reported that they read of a group's requests, beside what is predicted of the same, with the causes between."""

    requests: Count
    prompt_tokens: Count
    predicted_tokens: Count
    reported_tokens: Count
    difference: dict[str, Count]


class Group(Model):
    name: str
    requests: Count
    prompt_tokens: Count
    hit_tokens: Count
    hit_rate: Ratio
    mean_request_hit_rate: Ratio
    reachable_tokens: Count
    reachable_hit_rate: Ratio
    fates: Fates
    alignment: Alignment
    causes_left_out: CausesLeftOut
    turns: list[TurnSums]
    predicted_ttft: Quantiles | None
    """Of the group's own requests, cache on."""
    provider: GroupRead | None = None


class KvCache(Model):
    """Bytes are null where the size of the model is unknown; `bytes_per_block` also where requests name several models."""

    block_size: int
    bytes_per_block: Count | None
    filled_blocks: Count
    peak_used_blocks: Count
    reused_bytes: Count | None


class KvCacheDtype(Model):
    """A KV cache in a type of its own against the model's, in the same memory."""

    dtype: str
    native_dtype: str
    blocks: Count
    native_blocks: Count
    hit_rate: Ratio
    native_hit_rate: Ratio | None


class Unlock(Model):
    """A kept fix, the `order`-th of its group: hit rates before it, with it on top of those before, and with it alone."""

    order: int
    tier: str
    before: Ratio
    after: Ratio
    alone: Ratio
    predicted: float
    lines: Count = 1
    """Lines that a move takes along, that of the cause among them."""


class Cause(Model):
    group: str
    code: str
    kind: str
    name: str
    part: str
    variable: str | None
    path: str
    line: Count
    column: Count
    line_in_text: int
    place: str = ""
    """Where in a logged request it is, in words, as its finding has it; empty in files that people edit."""
    in_source: bool
    blame_tokens: Count
    share_tokens: Count
    requests: Count
    distinct_values: Count
    volatility_within: float
    volatility_across: float
    confidence: float
    unlock: Unlock | None


class SizeHits(Model):
    block_size: int
    hit_tokens: Count
    hit_requests: Count
    shared_too_short_requests: Count


class LeftOver(Model):
    tokens: Count
    requests: Count


class Edit(Model):
    add_tokens: Count
    requests_gained: Count
    tokens_saved: int


class Boundary(Model):
    """What an unlimited cache would hit with blocks of several sizes."""

    group: str
    block_size: int
    requests: Count
    prompt_tokens: Count
    nothing_shared_requests: Count
    sizes: list[SizeHits]
    left_over: list[LeftOver]
    edit: Edit | None


class SumRow(Model):
    key: str
    requests: Count
    prompt_tokens: Count
    hit_tokens: Count
    hit_rate: Ratio
    lost_tokens: Count
    fates: Fates


class Sums(Model):
    by: TokensBy
    rows: list[SumRow]


class RequestRead(Model):
    """What the rules say that a request reads, and what was reported of it (None: not said), with the causes of the difference."""

    prompt_tokens: Count
    predicted_tokens: Count
    reported_tokens: Count | None
    difference: dict[str, Count]


class RequestRow(Model):
    id: str
    group: str
    prompt_tokens: Count
    hit_tokens: Count
    provider: RequestRead | None = None
    """Where a provider's rules are followed, in its own tokens."""


class Report(Document):
    """A profile of one workload. `config` holds everything that the figures depend on."""

    schema_: Literal["kvtool.report/1"] = Field(default=SCHEMA, alias="schema")
    config: dict[str, str | int | float | bool | None]
    notes: list[str]
    partial: bool
    totals: Totals
    fates: Fates
    absent_fates: list[str]
    sums: Sums | None
    causes: list[Cause]
    kv_cache: KvCache
    kv_cache_dtype: KvCacheDtype | None
    groups: list[Group]
    ttft: Ttft
    decode: Decode | None
    boundaries: list[Boundary]
    findings: list[Finding]
    gates: list[Check]
    notices: list[str] = Field(default_factory=list)
    verdict: str
    views: Views | None = None
    files: list[str] = Field(default_factory=list)
    """The inputs, where there are several."""
    kept_fixes: Count = 0
    """Fixes that the hit rate with fixes is of: the steps that `kvtool optimize` makes in files or, where it edits none, shows."""
    editable: bool = False
    """Whether `kvtool optimize` can write a fix that is kept into the user's own files."""
    below_minimum: Count = 0
    """The fewest tokens that the provider caches, where every prompt has fewer; 0 where one has as many, and on own servers."""
    requests: list[RequestRow] | None = None
    reported: Reported | None = None
    predicted: Predicted | None = None
    difference: dict[str, Count] | None = None
    """Tokens by cause of what was read beside what the rules say, in words of `kvtool.results.money`."""
    money: Money | None = None
    misses: CacheMisses | None = None
    """Where the log reports usage: what was cached and not read, by cause."""
    isolation: Isolation | None = None
    steps: Steps | None = None
    """Requests of sessions, where any goes on with another one."""
    kv_events: EventReads | None = None
    """What the KV events of a server say of these requests."""

    @property
    def hosted(self) -> bool:
        """Return whether the rules of a provider were followed, not those of an own engine."""
        return bool(self.config.get("rules_by_day") or self.config.get("provider"))

    @property
    def minimum_in_words(self) -> str:
        """Return that no prompt is long enough for the provider's cache; empty where one is."""
        least = self.below_minimum
        return f"all prompts are shorter than {least:,} tokens, the provider's minimum" if least else ""

    def reported_share(self, group: str | None = None) -> Fraction | None:
        """Return the reported hit rate of the predicted requests of a group, or of all; None where nothing is reported.

        Where no request with a report is predicted, it is the rate of all requests with a report.
        """
        if group is not None:
            read = next((each.provider for each in self.groups if each.name == group), None)
            if read is not None and read.prompt_tokens:
                return min(Fraction(read.reported_tokens, read.prompt_tokens), Fraction(1))
            money = None if self.money is None else self.money.by_group.get(group)
            known = None if money is None else money.reported_hit_rate
            return None if known is None else Fraction(Decimal(repr(known)))
        found, same = self.misses, self.predicted
        if found is None or not found.prompt_tokens:
            return None
        if same is not None and same.reported_tokens is not None and 0 < same.requests < found.requests:
            return min(Fraction(same.reported_tokens, max(same.prompt_tokens, 1)), Fraction(1))
        return min(Fraction(found.read, found.prompt_tokens), Fraction(1))

    def predicted_rate(self, group: str | None = None) -> float | None:
        """Return the predicted hit rate, in the provider's tokens where these are known; None where nothing can be predicted."""
        if self.misses is not None and not self.misses.predictable:
            return None
        if group is None:
            return self.totals.hit_rate if self.predicted is None else self.predicted.hit_rate
        money = None if self.money is None else self.money.by_group.get(group)
        if money is not None and money.predicted_hit_rate is not None:
            return money.predicted_hit_rate
        return self.group(group).hit_rate

    @property
    def known_hit_rate(self) -> float:
        """Return the reported hit rate, or the predicted one where nothing is reported."""
        reported = self.reported_share()
        return self.totals.hit_rate if reported is None else float(reported)

    @property
    def lacks_prompts(self) -> bool:
        """Return whether the log has too little text of most prompts for any prediction."""
        return 2 * self.totals.short_requests > self.totals.requests

    @property
    def request_count(self) -> int:
        """Return the number of its requests, those included that are not predicted or that no cache serves."""
        return self.totals.requests + self.totals.unpredicted_requests + self.totals.uncached_requests

    @property
    def workload(self) -> str:
        """What reports call the input."""
        return str(self.config.get("input"))

    @property
    def inputs(self) -> list[str]:
        """Return the inputs as a command takes them."""
        return self.files or [self.workload]

    def group(self, name: str) -> Group:
        """Return the group of that name; KeyError where there is none."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(f"no group {name!r}; there are {', '.join(group.name for group in self.groups)}")


Group.model_rebuild()
