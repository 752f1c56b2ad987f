"""The result of edits: what became of each step, the files before and after, and the runs that prove them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvtool.fixes.fix import Tier
from kvtool.profiler.advice.advisor import KeptFix
from kvtool.profiler.advice.trials import total_rate
from kvtool.profiler.optimize.disk_lines import Place
from kvtool.profiler.run.run_result import RunResult
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.yaml_source import YamlSource


@dataclass(frozen=True, slots=True)
class Done:
    """A step and what came of it in the files: `reason` says why they were not edited; empty where they were.

    `before` and `rate` are hit rates of the step's group, without it and with it: measured on the edited files or, where those
    were not edited, on changed prompts.
    """

    step: KeptFix
    reason: str
    before: float
    rate: float
    place: Place = ("", 0, 0)
    """Where it is in the files on disk, before all edits; no line where an earlier edit wrote the line."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A file's text before and after; `path` is as the user knows it."""

    path: str
    before: str
    after: str


@dataclass(slots=True)
class Optimized:
    """The edits and their proof: the runs of the files as they are and as they would be, and the source of the latter."""

    before: RunResult
    after: RunResult
    source: YamlSource | LogSource
    done: list[Done] = field(default_factory=list)
    files: list[Changed] = field(default_factory=list)
    refused: Mapping[str, str] = field(default_factory=dict)
    """By the keys of fixes that no round made, why."""
    tried: frozenset[Tier] = frozenset()
    """The tiers of all fixes that were tried on the way."""

    @property
    def rates(self) -> tuple[float, float]:
        """Return hit rates of all groups together, before and after."""
        return total_rate(self.before), total_rate(self.after)

    @property
    def edited(self) -> list[Done]:
        """Return the steps that were carried out in files."""
        return [each for each in self.done if not each.reason]
