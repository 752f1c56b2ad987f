"""Demands: what is asked of a workload or a group, how severely, and where that is written.

The same thing may be demanded in the workload file, in the configuration file and on the command line. A flag takes the place of
what the files demand of the same. Of the files none loosens the other: both hold, so the stricter demand decides. What another
demand of at least its level makes superfluous is left out, so that a slip is told once, at the place that decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvtool.diagnose.codes import codes, similar_code
from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.errors import KvtoolError, Place
from kvtool.results.verdict import CLOCKED, Kind

if TYPE_CHECKING:
    from pydantic import BaseModel

DemandLevel = Literal["off", "warn", "error"]
Locate = Callable[[Sequence[str]], Place]
"""The place of a key within the options that demands are read from (`("findings", "KV1")`)."""
MONEY: tuple[Kind, ...] = ("reported_gap", "cost_per_1k_requests")
"""Limits of logs of hosted models."""
LEAST: tuple[Kind, ...] = ("hit_rate", "goodput")
"""Limits that are the least value, not the most."""
LIMITS: tuple[Kind, ...] = ("hit_rate", "reachable_gap", *MONEY, "ttft_p50", "ttft_p90", "ttft_p99", *CLOCKED)
SEVERITIES = ("error", "warning", "info")
_STRICT: tuple[DemandLevel, ...] = ("off", "warn", "error")
_GATES = "KV4"


@dataclass(frozen=True, slots=True)
class Demand:
    """A limit, or (`findings`) a pattern of findings of which there must be none.

    `limit` is a ratio, seconds, dollars, accelerators or requests per second; of `LEAST` it is the least value, else the most.
    `group` None is the whole workload. `flag` is set where it comes from the command line. The level `off` only occurs with
    `findings`: it makes an exception.
    """

    kind: Kind
    limit: float
    level: DemandLevel
    group: str | None
    place: Place
    flag: str = ""
    pattern: str = ""

    @property
    def source(self) -> str:
        """Return the place of the demand, in words."""
        if self.flag:
            return self.flag
        return self.place.path if self.place.line is None else f"{self.place.path}:{self.place.line}"

    def covers(self, other: Demand) -> bool:
        """Return whether what meets this demand meets the other, and a failure of the other is no worse than one of this."""
        if _STRICT.index(self.level) < _STRICT.index(other.level):
            return False
        return self.limit >= other.limit if self.kind in LEAST else self.limit <= other.limit


def stated(
    options: BaseModel, locate: Locate, *, group: str | None = None, level: DemandLevel = "error"
) -> list[Demand]:
    """Return the demands that `options` (the shape of `[gate]` or of a group's `gate:`) make; KvtoolError for an unknown pattern.

    `level` is for options that do not say their own. It is the most severe level that any of them can have.
    """
    values: Mapping[str, object] = options.model_dump()
    if "level" in options.model_fields_set:
        level = _level(values["level"])
    if level == "off":
        return []
    found: list[Demand] = []
    for kind in LIMITS:
        limit = values.get(kind)
        if isinstance(limit, float | int):
            found.append(Demand(kind, float(limit), level, group, locate((kind,))))
    patterns = values.get("findings")
    if isinstance(patterns, Mapping):
        for written, asked in patterns.items():
            place = locate(("findings", str(written)))
            most = min(level, _level(asked), key=_STRICT.index)
            found.append(Demand("findings", 0, most, group, place, pattern=pattern_of(str(written), place=place)))
    return found


def _level(value: object) -> DemandLevel:
    for level in _STRICT:
        if value == level:
            return level
    raise AssertionError(f"{value!r} is no level")


def pattern_of(written: str, *, place: Place | None = None, flag: str = "") -> str:
    """Return a code, the beginning of one, or a severity, as it is compared; KvtoolError where it is none of them."""
    where = f"{flag}: " if flag else ""
    word = written.strip()
    if word.lower() in SEVERITIES:
        return word.lower()
    code = word.upper() if word.upper().startswith("KV") else f"KV{word}"
    if code.startswith(_GATES):
        raise KvtoolError(
            f"{where}`{written}` is a code of gates, not of findings",
            hint=f"name the code of a finding: {KV101.code}, KV1…",
            place=place,
        )
    if len(code) < 3 or not any(known.startswith(code) for known in codes()):
        close = similar_code(written) or next(
            (name for name in SEVERITIES if name.startswith(word.lower()[:3] or "-")), ""
        )
        hint = f"did you mean {close}?" if close else "a code, its beginning (KV1), or error, warning, info"
        raise KvtoolError(f"{where}`{written}` is neither a code nor a severity", hint=hint, place=place)
    return code


def held(demands: Iterable[Demand]) -> list[Demand]:
    """Return the demands that decide, in their order; see above for those that are stated several times."""
    families: dict[tuple[Kind, str | None, str], list[Demand]] = {}
    for demand in demands:
        families.setdefault((demand.kind, demand.group, demand.pattern), []).append(demand)
    return [demand for family in families.values() for demand in _deciding(family)]


def _deciding(family: Sequence[Demand]) -> Iterator[Demand]:
    """Return the demands that no other one covers; of two that cover each other the first stays."""
    family = [demand for demand in family if demand.flag] or family
    for number, demand in enumerate(family):
        others = [(at, other) for at, other in enumerate(family) if at != number and other.covers(demand)]
        if not any(at < number or not demand.covers(other) for at, other in others):
            yield demand
