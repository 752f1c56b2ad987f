"""Findings of what can be run: workloads, logs and prompts, profiled without measuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvtool.accounting.misses.advised_change import is_noticeable
from kvtool.config.asked_run import RunOptions
from kvtool.errors import KvtoolError
from kvtool.lint.findings.ignore_comments import MARK, Ignore
from kvtool.lint.findings.ignored_findings import apply_ignores, read_ignores
from kvtool.lint.lint_inputs import WORKLOAD_SUFFIXES
from kvtool.profiler.opening import open_workload
from kvtool.profiler.profiler import ReportOptions
from kvtool.results.finding import Finding
from kvtool.results.misses import MISS_CAUSES
from kvtool.results.report import Report
from kvtool.text.files.text_files import Overlay, read_text
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.logs.files.plain_text_files import PLAIN_SUFFIXES
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.named_files import named_files

_IGNORE_SUFFIXES = (*PLAIN_SUFFIXES, ".j2", ".jinja", ".jinja2")


@dataclass(frozen=True, slots=True)
class Traffic:
    """The report of a run, and the names of the fixes in it that edits of the workload's files can make.

    `unread` are the files that could not be read to their end, with what is wrong in them.
    """

    report: Report
    fixable: frozenset[str]
    unread: Mapping[str, KvtoolError] = field(default_factory=dict)

    @property
    def problems(self) -> list[KvtoolError]:
        """The problems of the run's files."""
        return list(self.unread.values())


def run_traffic(options: RunOptions, progress: Progress, *, load: Tokenizers) -> Traffic:
    """Run the inputs of `options` as `kvtool profile --dry-run` does; KvtoolError where they cannot be run."""
    options.check()
    opened = open_workload(options, load, keep_going=True)
    profiler = opened.profiler(ReportOptions(edits="first"), progress)
    report = profiler.run()
    unread = dict(opened.source.outcome.failed) if isinstance(opened.source, LogSource) else {}
    edited = () if profiler.edits is None else profiler.edits.edited
    return Traffic(report, frozenset(each.step.fix.name for each in edited), unread)


def not_read_sentence(report: Report) -> str | None:
    """Return a sentence on cached tokens that were not read, with what cost most of them; None where there are hardly any."""
    misses = report.misses
    if misses is None or not is_noticeable(misses):
        return None
    most = MISS_CAUSES[next(iter(misses.by_cause))]
    missed = plural(misses.promised - misses.read, "token")
    return f"{missed} repeat an earlier prompt but were not read, mostly: {most}"


def not_ignored(
    findings: Sequence[Finding], paths: list[str], overlay: Overlay | None = None, *, allow_outside: bool
) -> list[Finding]:
    """The findings of a run that no comment in its inputs ignores."""
    return apply_ignores(findings, traffic_ignores(paths, overlay, allow_outside=allow_outside))[0]


def traffic_ignores(paths: list[str], overlay: Overlay | None = None, *, allow_outside: bool) -> list[Ignore]:
    """The comments of a run's inputs: of a workload file and the text files that it may name, or of prompts."""
    ignores: list[Ignore] = []
    for path in paths:
        suffix = Path(path).suffix.lower()
        if suffix not in (*WORKLOAD_SUFFIXES, *PLAIN_SUFFIXES):
            continue
        text = read_text(Path(path), shown=path, overlay=overlay)
        ignores += read_ignores(path, text, allow_outside=allow_outside)
        if suffix not in WORKLOAD_SUFFIXES:
            continue
        for file in named_files(path, text, allow_outside=allow_outside):
            if Path(file).suffix.lower() not in _IGNORE_SUFFIXES:
                continue
            found = read_text(Path(file), shown=file, overlay=overlay)
            if MARK in found:
                ignores += read_ignores(file, found)
    return ignores
