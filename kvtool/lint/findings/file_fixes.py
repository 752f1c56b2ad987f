"""Fixes of findings, made in the files: of workloads by edits that were run again, of templates by moving whole lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os.path import realpath
from pathlib import Path

from kvtool.config.asked_run import RunOptions
from kvtool.errors import KvtoolError, Place
from kvtool.fixes.fix import Tier
from kvtool.lint.file_findings import Finder
from kvtool.lint.findings.ignored_findings import apply_ignores, read_ignores
from kvtool.lint.findings.line_moves import TIER, movable, moved
from kvtool.lint.lint_inputs import WORKLOAD_SUFFIXES, Inputs, TextInput, sort_inputs
from kvtool.lint.traffic_findings import not_ignored
from kvtool.profiler.advice.advisor import Advice, KeptFix
from kvtool.profiler.advice.trial_findings import Teller
from kvtool.profiler.opening import Opened, open_workload
from kvtool.profiler.optimize.edit_plans import optimize
from kvtool.profiler.optimize.edited_files import Changed, edit_notes
from kvtool.profiler.optimize.edited_runs import EditedRuns
from kvtool.profiler.optimize.outcome import edit_of
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.documents.parts import PromptEdit
from kvtool.results.finding import Finding
from kvtool.text.files.checkout_links import write_target
from kvtool.text.files.text_files import read_source, read_text
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.named_files import named_files
from kvtool.workload.yaml.yaml_source import YamlSource


@dataclass(slots=True)
class Fixes:
    """The files that change, how many findings that mends, and why others may not be written."""

    files: list[Changed] = field(default_factory=list)
    fixed: int = 0
    refused: list[KvtoolError] = field(default_factory=list)
    edits: list[PromptEdit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What code outside of the files must do after the edits."""

    def take(self, files: list[Changed], fixed: int, edits: Sequence[PromptEdit], notes: Sequence[str] = ()) -> None:
        """All files that change from now on, with `fixed` more findings; those so far where one of them may not be written."""
        errors = [error for file in files if (error := _refused(file.path)) is not None]
        if errors:
            self.refused += errors
        else:
            self.files = files
            self.fixed += fixed
            self.edits += edits
            self.notes += notes


def _refused(path: str) -> KvtoolError | None:
    try:
        write_target(path)
    except KvtoolError as error:
        return KvtoolError(error.message, hint=error.hint, place=Place(path))
    return None


def fix_workloads(
    options: RunOptions,
    load: Tokenizers,
    tiers: Collection[Tier],
    wanted: Callable[[str], bool],
    progress: Progress,
) -> Fixes:
    """The edits of workloads, one after the other, within the tiers; what a comment ignores, or nobody wants, is left.

    `wanted` says it of a code. Raises TrialInterruptedError where Ctrl-C came in between.
    """
    fixes = Fixes()
    for path in _workloads(sort_inputs(options.inputs, options.alone)):
        opened = open_workload(replace(options, inputs=[path]), load)
        choose = _Choice(opened, wanted)
        optimized = optimize(EditedRuns(opened, progress), tiers, choose=choose, given=fixes.files)
        edits = [edit_of(done, opened) for done in optimized.final_steps if not done.reason]
        fixes.take(optimized.files, len(optimized.edited), edits, edit_notes(path, optimized.files, edits))
    return fixes


class _Choice:
    """Chooses the steps whose findings are wanted and not ignored, by the comments in the files as they are by then."""

    def __init__(self, opened: Opened, wanted: Callable[[str], bool]) -> None:
        self._opened = opened
        self._wanted = wanted

    def __call__(
        self, source: YamlSource | LogSource, result: RunResult, advice: Advice
    ) -> Mapping[str, Sequence[KeptFix]]:
        opened = self._opened
        teller = Teller(result, opened.planned.plan, locate=locate, path=opened.name)
        overlay = source.overlay if isinstance(source, YamlSource) else None
        found = [finding for finding in teller.findings(advice) if self._wanted(finding.code)]
        kept = not_ignored(found, [opened.name], overlay, allow_outside=opened.options.reading.allow_outside)
        keys = {finding.fix_key for finding in kept}
        return {name: [step for step in steps if step.fix.name in keys] for name, steps in advice.kept.items()}


def fix_templates(
    options: RunOptions, load: Tokenizers, tiers: Collection[Tier], wanted: Callable[[str], bool], fixes: Fixes
) -> None:
    """Move lines of templates, where the tiers allow it; what is done to the files of workloads is decided by running those."""
    if TIER not in tiers:
        return
    inputs = sort_inputs(options.inputs, options.alone)
    texts = ((path, read_text(Path(path), shown=path)) for path in _workloads(inputs))
    outside = options.reading.allow_outside
    named = {realpath(file) for path, text in texts for file in named_files(path, text, allow_outside=outside)}
    find = Finder(options, load)
    for one in inputs.texts:
        if one.is_template and realpath(one.path) not in named:
            _fix_template(one, find, wanted, fixes)


def _workloads(inputs: Inputs) -> list[str]:
    return [paths[0] for paths in inputs.runs if paths[0].lower().endswith(WORKLOAD_SUFFIXES)]


def _fix_template(one: TextInput, find: Finder, wanted: Callable[[str], bool], fixes: Fixes) -> None:
    """Move the lines of a template's findings to its end, where fewer tokens are after what varies then."""
    findings = [finding for finding in find(one) if wanted(finding.code)]
    kept, _ = apply_ignores(findings, read_ignores(one.path, one.text))
    found = [finding for finding in movable(one.text, kept, jinja=one.style == "jinja") if finding.fix_key]
    if not found:
        return
    after = moved(one.text, found, jinja=one.style == "jinja")
    if _lost(find(replace(one, text=after))) >= _lost(find(one)):
        return
    before = read_source(Path(one.path))
    mark = before.removesuffix(one.text)
    fixes.take([*fixes.files, Changed(one.path, before, mark + after)], len(found), list(map(_edit, found)))


def _edit(finding: Finding) -> PromptEdit:
    return PromptEdit(
        code=finding.code,
        tier=TIER,
        group=finding.group or None,
        path=finding.path,
        line=finding.line,
        column=finding.column,
        fix=finding.fix,
        warnings=list(finding.warnings),
    )


def _lost(findings: Sequence[Finding]) -> int:
    return sum(finding.tokens_lost for finding in findings)
