"""The profile of a workload: one document that every report is a view of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvtool.accounting.boundary import GroupBoundary
from kvtool.accounting.decode_traffic import DecodeTraffic
from kvtool.accounting.ledger.sums import SumRow
from kvtool.accounting.ledger.totals import GroupTotals, Totals
from kvtool.accounting.quantiles import Quantiles
from kvtool.diagnose.findings import Finding
from kvtool.measure.measured_times import MeasuredTimes
from kvtool.profiler.passes import RequestRow
from kvtool.profiler.unlock import GroupCauses
from kvtool.results.choices import By
from kvtool.results.verdict import Check, Verdict
from kvtool.results.verdict_of import verdict_of

if TYPE_CHECKING:
    from kvtool.results.views import Timeline, Views


@dataclass(frozen=True, slots=True)
class DtypeGain:
    """What a KV cache dtype gains over the model's own in the same memory; hit rate None where that was not run."""

    dtype: str
    native: str
    blocks: int
    native_blocks: int
    native_hit_rate: float | None


@dataclass(slots=True)
class Profile:
    """A finished run as data."""

    config: dict[str, str | int | float | bool | None]
    groups: list[GroupTotals]
    fates: dict[str, int]
    evictions: int
    preemptions: int
    filled_blocks: int
    peak_used_blocks: int
    bytes_per_block: int
    block_size: int
    predicted_on: Quantiles | None
    predicted_off: Quantiles | None
    measured: MeasuredTimes | None
    findings: list[Finding]
    rows: list[RequestRow] | None
    dtype_gain: DtypeGain | None = None
    refused: int = 0
    first_refusal: str = ""
    skipped_lines: int = 0
    partial: bool = False
    group_ttft: dict[str, Quantiles] = field(default_factory=dict)
    """Predicted, cache on, by group."""
    gates: list[Check] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """What must not go unseen beside the gates: a baseline that could not be used."""
    notes: list[str] = field(default_factory=list)
    decode: DecodeTraffic | None = None
    """None where no two requests of the workload could decode together."""
    boundaries: list[GroupBoundary] = field(default_factory=list)
    causes: list[GroupCauses] = field(default_factory=list)
    absent: tuple[str, ...] = ()
    """Fates that this input cannot tell, as it has no tokens or no text."""
    by: By | None = None
    """What `sums` are by, where they were asked for."""
    sums: list[SumRow] = field(default_factory=list)
    timelines: list[Timeline] = field(default_factory=list)
    """Hit rates in the course of the run: of all requests together, and of the largest groups."""
    views: Views | None = None
    """What reports draw, with these timelines; None where nobody asked for it."""
    editable: bool = False
    """Whether a fix that is kept can be written into the user's own files."""

    @property
    def total(self) -> Totals:
        """All groups together."""
        return Totals.of(self.groups)

    @property
    def audit_verdict(self) -> str | None:
        """What is wrong with an audit that was asked for (empty: nothing); None where none was asked for, or it may differ.

        Only in fp32, with the cache's native dtype, must reuse change no token.
        """
        measured = self.measured
        if measured is None or measured.reuse is None:
            return None
        if not measured.reuse.tokens:
            return f"nothing was compared: {measured.reason or 'there was nothing to run'}"
        if not measured.exact:
            return None
        return "reuse changed a token" if measured.reuse.flips else ""

    @property
    def verdict(self) -> Verdict:
        """What the gates come to: exit code, last line and every format read this."""
        return verdict_of(self.gates, self.notices, partial=self.partial)


@dataclass(frozen=True, slots=True)
class Demands:
    """What is asked of the profile beside the numbers."""

    advice: bool = True
    per_request: bool = False
    by: By | None = None
    views: bool = False
    """Whether what reports draw is collected, too."""
