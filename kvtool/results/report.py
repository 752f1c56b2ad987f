"""One profiled workload: `kvtool.report/1`.

Token counts are whole numbers, ratios run from 0 to 1, times are seconds. Nothing quotes a prompt, except `Finding.snippet` where
`--show-text` asked for it.
"""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import Field

from kvtool.results.choices import By, Severity
from kvtool.results.model import Count, Document, Model, Ratio, Seconds
from kvtool.results.verdict import Check
from kvtool.results.views import Views

SCHEMA: Literal["kvtool.report/1"] = "kvtool.report/1"
_RANK: dict[Severity, int] = {"info": 0, "warning": 1, "error": 2}
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


def as_severe(severity: Severity, least: Severity) -> bool:
    """Whether a finding is of that severity, or a worse one."""
    return _RANK[severity] >= _RANK[least]


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


class Quantiles(Model):
    """Of times, in seconds."""

    p50: Seconds
    p90: Seconds
    p99: Seconds


class OnOff(Model):
    """With the prefix cache and without."""

    on: Quantiles | None
    off: Quantiles | None


class Flip(Model):
    """A token that reuse of KV would have changed."""

    request: str
    position: int
    expected: int
    actual: int
    margin: float | None
    difference: float | None


class Logits(Model):
    """Two sets of logits compared; what is infinite or unknown is None."""

    requests: Count
    tokens: Count
    max_difference: float | None
    relative_error: float | None
    least_margin: float | None
    flips: list[Flip]


class Measured(OnOff):
    """TTFT of real forward passes on the machine where the profile was made."""

    requests: Count
    prompt_tokens: Count
    hit_tokens: Count
    complete: bool
    exact: bool
    audit: Logits | None
    kv_cache_dtype_error: Logits | None
    device: str
    reason: str
    kernels: str
    shortfall: str
    too_large_requests: Count


class Ttft(Model):
    measured: Measured | None
    predicted: OnOff


class PredictedTpot(Model):
    flat: Seconds
    prefix_aware: Seconds


class MeasuredTpot(Model):
    requests: Count
    tokens_mean: float
    steps: Count
    flat: Seconds
    prefix_aware: Seconds | None


class Tpot(Model):
    predicted: PredictedTpot
    measured: MeasuredTpot | None


class Decode(Model):
    """Of a decode step: bytes of keys and values that it reads, and seconds that it takes."""

    batch: float
    tokens_mean: float
    sampled: Literal["steps", "windows"]
    samples: Count
    sampled_of: Count
    flat_bytes_per_step: Count
    prefix_aware_bytes_per_step: Count
    decode_attention: str
    chosen: str
    prefix_aware_share: Ratio
    tpot: Tpot


class KvCache(Model):
    block_size: int
    bytes_per_block: Count
    filled_blocks: Count
    peak_used_blocks: Count
    reused_bytes: Count


class KvCacheDtype(Model):
    """A KV cache in a type of its own against the model's, in the same memory."""

    dtype: str
    native_dtype: str
    blocks: Count
    native_blocks: Count
    hit_rate: Ratio
    native_hit_rate: Ratio | None


class Rerun(Model):
    """Hit rates before and after a fix, measured by running again; `group_alone` with nothing else fixed."""

    group_before: Ratio
    group_after: Ratio
    total_before: Ratio
    total_after: Ratio
    group_alone: Ratio | None
    group_predicted: float | None


class Snippet(Model):
    """The line of a prompt that a finding is about, and which of its characters are meant; only where text was asked for."""

    text: str
    start: Count
    stop: Count

    @classmethod
    def of(cls, text: str, start: int, stop: int) -> Snippet | None:
        """None where there is no text."""
        return cls(text=text, start=start, stop=stop) if text else None


class Finding(Model):
    """One diagnosis. `line` is 0 where there is no place in a file; `group` is empty where it was seen in a file, not measured."""

    code: str
    severity: Severity
    group: str
    path: str
    line: Count
    column: Count
    width: Count
    in_source: bool
    """Whether the place is in a file that people edit (a template), not in a log."""
    message: str
    tokens_lost: Count
    points: float
    share_tokens: float | None
    ttft_seconds: float | None
    confidence: float
    fix: str
    tier: str | None
    fix_key: str = ""
    """Names the fix that was tried; findings that one fix mends share it, and it is empty where there was none."""
    rerun: Rerun | None
    tried: Rerun | None
    warnings: list[str]
    snippet: Snippet | None = None
    patch: str | None = None
    """The edit of the file that makes the fix, as a unified diff; only where text was asked for."""

    @classmethod
    def of(
        cls,
        code: str,
        severity: Severity,
        group: str,
        path: str,
        line: int,
        column: int,
        message: str,
        tokens_lost: int,
        fix: str,
        *,
        width: int = 1,
        in_source: bool = False,
        points: float = 0.0,
        confidence: float = 1.0,
        tier: str | None = None,
        snippet: Snippet | None = None,
    ) -> Finding:
        """One that was just found: no fix of it was tried. `snippet` is the line as it was sent, until it is shown or saved."""
        return cls(
            code=code,
            severity=severity,
            group=group,
            path=path,
            line=line,
            column=column,
            width=width,
            in_source=in_source,
            message=message,
            tokens_lost=tokens_lost,
            points=points,
            share_tokens=None,
            ttft_seconds=None,
            confidence=confidence,
            fix=fix,
            tier=tier,
            rerun=None,
            tried=None,
            warnings=[],
            snippet=snippet,
        )

    @property
    def identity(self) -> tuple[str, str, str, int, int, str]:
        """What tells it from the others of its result."""
        return self.code, self.group, self.path, self.line, self.column, self.message


class Unlock(Model):
    """A kept fix, the `order`-th of its group: hit rates before it, with it on top of those before, and with it alone."""

    order: int
    tier: str
    before: Ratio
    after: Ratio
    alone: Ratio
    predicted: float


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
    by: By
    rows: list[SumRow]


class RequestRow(Model):
    id: str
    group: str
    prompt_tokens: Count
    hit_tokens: Count


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
    editable: bool = False
    """Whether `kvtool optimize` can write a fix that is kept into the user's own files."""
    requests: list[RequestRow] | None = None

    @property
    def workload(self) -> str:
        """What reports call the input."""
        return str(self.config.get("input"))

    def group(self, name: str) -> Group:
        """The group of that name; KeyError where there is none."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(f"no group {name!r}; there are {', '.join(group.name for group in self.groups)}")


Group.model_rebuild()
