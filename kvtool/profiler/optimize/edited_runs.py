"""Runs of a workload whose files are edited in memory, each made once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from kvtool.fixes.fix import Tier
from kvtool.profiler.advice.kept_fixes import Advice
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.profiler.run.run_result import RunResult
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.yaml_source import YamlSource


class EditableWorkload(Protocol):
    """An opened workload that can be read and run again with other texts of its files."""

    @property
    def source(self) -> YamlSource | LogSource:
        """The requests."""
        ...

    def reloaded(self, overlay: Mapping[str, str]) -> YamlSource:
        """Return the workload with the text of some files, by their real paths, replaced."""
        ...

    def profiler(
        self, wanted: ReportOptions, progress: Progress, *, source: YamlSource | LogSource | None = None
    ) -> Profiler:
        """Return the profiler of the workload, or of another source with its settings."""
        ...


class SourceRuns:
    """The runs of one source."""

    def __init__(self, source: YamlSource | LogSource, profiler: Profiler, explained: RunResult | None = None) -> None:
        self.source = source
        self.profiler = profiler
        self._explained = explained
        self._counted = explained

    def counted(self) -> RunResult:
        """Run for the hits alone. Raises TrialInterruptedError, as all do."""
        self._counted = self._counted or self.profiler.counted()
        return self._counted

    def explained(self) -> RunResult:
        """Run with causes, which advice needs."""
        self._explained = self._counted = self._explained or self.profiler.explained()
        return self._explained

    def advised(self, tiers: Collection[Tier], without: frozenset[str] = frozenset()) -> Advice:
        """Return the fixes of these tiers that win, `without` those of some keys."""
        return self.profiler.advising.advised(self.explained(), tiers, without)


class EditedRuns:
    """Runs of a workload with edits in its files, each made once, whichever tiers are allowed."""

    def __init__(
        self, opened: EditableWorkload, progress: Progress, *, known: tuple[Profiler, RunResult] | None = None
    ) -> None:
        """`known` are the profiler of the files as they are, and its run with causes, where there is one."""
        self._opened = opened
        self._progress = progress
        self._of: dict[frozenset[tuple[str, str]], SourceRuns] = {}
        source = opened.source
        self.first = self._of_source(source) if known is None else SourceRuns(source, *known)
        if isinstance(source, YamlSource):
            self._of[frozenset((source.overlay or {}).items())] = self.first

    def with_files(self, overlay: Mapping[str, str]) -> SourceRuns:
        """Return the runs with the text of some files, by their real paths, replaced."""
        key = frozenset(overlay.items())
        if key not in self._of:
            self._of[key] = self._of_source(self._opened.reloaded(overlay))
        return self._of[key]

    def _of_source(self, source: YamlSource | LogSource) -> SourceRuns:
        return SourceRuns(source, self._opened.profiler(ReportOptions(), self._progress, source=source))
