"""Demands that take a clock: how many accelerators today's settings may need, and how many requests they serve in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvtool.config.file_model import CheckOptions
from kvtool.config.loading import ConfigFile
from kvtool.config.option import check_values
from kvtool.config.options.clock_options import parse_objectives
from kvtool.config.options.judged_options import Judging
from kvtool.engine.fleet.fleet_figures import Slo
from kvtool.errors import KvtoolError, Place
from kvtool.gate.demand import Demand
from kvtool.gate.facts import FleetFacts
from kvtool.profiler.opening import Opened
from kvtool.results.verdict import Kind
from kvtool.text.terminal.progress import Progress


@dataclass(frozen=True, slots=True)
class _Limit:
    kind: Kind
    limit: float
    flag: str
    """Empty where the configuration file says it."""
    place: Place | None


@dataclass(frozen=True, slots=True)
class ClockDemands:
    """The limits, and the objectives that they are about, as they were said and as numbers."""

    limits: tuple[_Limit, ...]
    said: str
    slo: Slo

    def demands(self, path: str) -> Iterator[Demand]:
        """Those on a workload, whose first file is `path`."""
        for each in self.limits:
            yield Demand(each.kind, float(each.limit), "error", None, each.place or Place(path), flag=each.flag)

    def fleet_of(self, opened: Opened, progress: Progress) -> FleetFacts:
        """What today's settings come to. KvtoolError where requests have no times, or a clock does not follow the model."""
        from kvtool.profiler.what_if.table_clock import today_on_clock

        found = today_on_clock(opened, self.slo, progress)
        return FleetFacts(found.gpus, found.goodput, self.said)


def clock_demands(judging: Judging, options: CheckOptions, file: ConfigFile | None) -> ClockDemands | None:
    """What flags demand over what the file does; None where neither does. KvtoolError for a limit without an objective."""
    check_values(judging)
    asked: tuple[tuple[Kind, str, float | None, float | None], ...] = (
        ("gpus", "max_gpus", judging.max_gpus, options.max_gpus),
        ("goodput", "min_goodput", judging.min_goodput, options.min_goodput),
    )
    limits: list[_Limit] = []
    for kind, key, flag, kept in asked:
        if flag is not None:
            limits.append(_Limit(kind, flag, f"--{key.replace('_', '-')}", None))
        elif kept is not None and file is not None:
            limits.append(_Limit(kind, kept, "", file.place("check", key)))
    if not limits:
        return None
    said = judging.slo or options.slo
    if said is None:
        first = limits[0]
        raise KvtoolError(
            f"{first.flag or first.place} is about an objective, and none is said",
            hint="--slo ttft=2s,tpot=50ms, or slo in the table [check]",
        )
    return ClockDemands(tuple(limits), said, parse_objectives("--slo", said))
