"""The profile of a workload: one document that every report is a view of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtool.accounting import RequestRow
from kvtool.boundary import GroupBoundary
from kvtool.decode_traffic import DecodeTraffic
from kvtool.diagnose.findings import Finding
from kvtool.ledger.sums import By, SumRow
from kvtool.ledger.totals import GroupTotals, Totals
from kvtool.unlock import GroupCauses

if TYPE_CHECKING:
    from kvtool.measure import Measured

QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """p50, p90 and p99 of a set of times, in seconds."""

    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Quantiles | None:
        """None where there are none."""
        if not len(seconds):
            return None
        return cls(*(float(value) for value in np.quantile(np.asarray(seconds), QUANTILES)))


@dataclass(frozen=True, slots=True)
class Gate:
    """A demand on a hit rate and how it fared; `group` None is the whole workload."""

    group: str | None
    minimum: float
    actual: float

    @property
    def passed(self) -> bool:
        return self.actual >= self.minimum


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
    measured: Measured | None
    findings: list[Finding]
    gates: list[Gate]
    rows: list[RequestRow] | None
    dtype_gain: DtypeGain | None = None
    refused: int = 0
    first_refusal: str = ""
    skipped_lines: int = 0
    partial: bool = False
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
    def failed(self) -> bool:
        """Whether anything that was demanded does not hold."""
        return bool(self.failed_gates or self.audit_verdict)

    @property
    def failed_gates(self) -> list[Gate]:
        return [gate for gate in self.gates if not gate.passed]

    @property
    def verdict(self) -> str:
        """`partial` (interrupted: no judgement), `fail`, `pass`, or `none` where nothing was demanded."""
        if self.partial:
            return "partial"
        demanded = self.gates or self.audit_verdict is not None
        return "fail" if self.failed else "pass" if demanded else "none"


@dataclass(frozen=True, slots=True)
class Demands:
    """What is asked of the profile beside the numbers."""

    min_hit_rate: float | None = None
    group_gates: dict[str, float] = field(default_factory=dict)
    advice: bool = True
    per_request: bool = False
    by: By | None = None
