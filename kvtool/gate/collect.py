"""Demands from the workload file, the configuration file, and flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kvtool.errors import KvtoolError, Place, ProblemsError
from kvtool.gate.demand import Demand, DemandLevel, Locate, pattern_of, stated
from kvtool.text.comma_list import comma_list
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.validate import did_you_mean

if TYPE_CHECKING:
    from kvtool.config.file_model import WorkloadGate
    from kvtool.workload.yaml.yaml_source import YamlSource


def workload_demands(source: YamlSource | LogSource) -> list[Demand]:
    """Return the demands of a workload file on its groups that are run; a log has none."""
    if isinstance(source, LogSource):
        return []
    chosen = {group.name for group in source.groups}
    found: list[Demand] = []
    for number, group in enumerate(source.spec.groups):
        if group.gate is None or group.name not in chosen:
            continue

        def locate(keys: Sequence[str], number: int = number) -> Place:
            return source.document.place(("groups", number, "gate", *keys))

        found += stated(group.gate, locate, group=group.name)
    return found


def config_demands(gate: WorkloadGate, locate: Locate, groups: Iterable[str]) -> list[Demand]:
    """Return the demands of the configuration file on a workload with these groups; `locate` finds a key in its `gate`.

    A group that does not say its level has that of the whole.
    """
    found = stated(gate, locate)
    for name in groups:
        options = gate.groups.get(name)
        if options is not None:
            found += stated(options, _within(locate, name), group=name, level=gate.level)
    return found


def _within(locate: Locate, group: str) -> Locate:
    return lambda keys: locate(("groups", group, *keys))


def check_groups(gate: WorkloadGate, locate: Locate, known: Sequence[str]) -> None:
    """ProblemsError or KvtoolError for groups in the configuration that no workload has: they would check nothing."""
    problems = [
        KvtoolError(
            f"no workload has a group `{name}`", hint=did_you_mean(name, list(known)), place=locate(("groups", name))
        )
        for name in gate.groups
        if name not in known
    ]
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ProblemsError(problems)


def flag_demands(
    path: str,
    *,
    min_hit_rate: float | None = None,
    max_cost_per_1k: float | None = None,
    error_on: Sequence[str] = (),
    places: Sequence[Place] = (),
) -> list[Demand]:
    """Return the demands of the command line on a workload, whose first file is `path`. Raises KvtoolError for an unknown code.

    `places` are those of `error_on` where the configuration file says it.
    """
    found: list[Demand] = []
    if min_hit_rate is not None:
        found.append(Demand("hit_rate", min_hit_rate, "error", None, Place(path), flag="--min-hit-rate"))
    if max_cost_per_1k is not None:
        flag = "--max-cost-per-1k"
        found.append(Demand("cost_per_1k_requests", max_cost_per_1k, "error", None, Place(path), flag=flag))
    flag = "" if places else "--error-on"
    for number, text in enumerate(error_on):
        place = places[number] if places else Place(path)
        for word in comma_list(text):
            pattern = pattern_of(word, flag=flag, place=place if places else None)
            found.append(Demand("findings", 0, "error", None, place, flag=flag, pattern=pattern))
    return found


def levels(gate: WorkloadGate) -> Mapping[str | None, DemandLevel]:
    """Return the level of a fall below the baseline: for all requests (None), and for groups with a level of their own."""
    found: dict[str | None, DemandLevel] = {None: gate.level}
    for name, options in gate.groups.items():
        if "level" in options.model_fields_set:
            found[name] = options.level
    return found
