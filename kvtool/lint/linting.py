"""From inputs to findings: what `kvtool lint` does but for the command line, fixes and the terminal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from os.path import realpath
from pathlib import Path

from kvtool.config.asked_run import RunOptions
from kvtool.config.option import check_values
from kvtool.config.options.lint_options import Probing, Selecting
from kvtool.config.options.shown_options import Showing
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.errors import EXIT_USAGE, KvtoolError, ProblemsError, as_error
from kvtool.lint.evidence.volatile_calls import CODES as STATIC_CODES
from kvtool.lint.file_findings import Finder, requested_engine
from kvtool.lint.findings.file_result import JudgedText, loss_key
from kvtool.lint.findings.ignore_comments import Ignore
from kvtool.lint.findings.ignored_findings import apply_ignores, ignore_findings
from kvtool.lint.findings.lint_result import LintResult, in_order
from kvtool.lint.findings.selected_codes import selection as selection  # the command asks here
from kvtool.lint.folders.lint_cache import LintCache, cache_folder, file_hash
from kvtool.lint.folders.unused_texts import unfilled_as_information, without_unused
from kvtool.lint.judge_files import judge_all
from kvtool.lint.lint_inputs import WORKLOAD_SUFFIXES, InputKind, Inputs, TextInput, sort_inputs
from kvtool.lint.probe.probing import ProbeOptions, ProbeResult, probe_findings, run_probe
from kvtool.lint.template_links import TemplateLinks, with_marks
from kvtool.lint.traffic_findings import Traffic, not_read_sentence, run_traffic, traffic_ignores
from kvtool.results.documents.lint import LintInput
from kvtool.results.finding import Finding, noted_place
from kvtool.text.files.text_files import read_text
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.yaml.made_up_values import copied_from
from kvtool.workload.yaml.named_files import named_files

FOREIGN = "not read: no workload (no `groups:`), and no known prompt format"


def lint(
    options: RunOptions, selecting: Selecting, showing: Showing, probing: Probing | None = None, *, cached: bool = False
) -> LintResult:
    """The findings of all inputs that can be read, by place; what is wrong with the others are problems of the result.

    KvtoolError for options that cannot be used. `showing` says whether progress is shown and a tokenizer may be downloaded.
    `cached` takes what the files of folders gave the last time from the user's cache, and writes it there.
    """
    wanted = selection(selecting)
    check_values(options)
    inputs = sort_inputs(options.inputs, options.alone)
    result = LintResult(problems=list(inputs.problems))
    ignores: list[Ignore] = []
    static = {one.path for one in inputs.texts}
    load = Tokenizers(offline=showing.offline)
    _read_texts(inputs, options, load, result, ignores, cached=cached)
    if inputs.runs:
        with showing.progress() as progress:
            failed, short = _run_traffic(inputs, options, progress, load, result, ignores)
        for unmeasured in filter(None, (failed, short)):  # what could not be run, or hits nothing at all, is read
            before, fixable = len(result.findings), result.fixable
            names = [path for run in unmeasured for path in _named_by(run, options)]
            texts = [replace(one, found=True) for one in sort_inputs(names, names).texts]
            told, result.problems = result.problems, []
            _read_texts(Inputs(texts=texts), options, load, result, ignores, cached=False)
            result.problems = [*told, *_new_problems(told, result.problems)]
            if unmeasured is short:
                result.fixable = fixable  # no edit wins anything there
                read = result.findings[before:]
                result.findings[before:] = [one.model_copy(update={"severity": "info"}) for one in read]
    if probing is not None and probing.probe is not None and not result.partial:
        with showing.progress() as progress:
            result.probe = _probed(probing.probe, probing.probe_timeout, options, progress, offline=showing.offline)
        result.findings += probe_findings(result.probe)

    ignores = list(dict.fromkeys(ignores))  # a file that two workloads name was read twice

    def checked(path: str, code: str) -> bool:
        return wanted(code) and (path not in static or code in STATIC_CODES)

    selected = [finding for finding in _without_estimates(result.findings) if wanted(finding.code)]
    left, unused = apply_ignores(selected, ignores, checked=checked)
    result.ignored = len(selected) - len(left)
    left = [
        one for one in left if one.severity != "info" or loss_key(one.path, one.line, one.code) not in result.made
    ]  # said where it is sent
    kept = unfilled_as_information(without_unused(left, inputs.texts), inputs.texts)
    if result.partial:
        unused = []  # what was not reached cannot be called absent
    kept += [finding for finding in ignore_findings(ignores, unused) if wanted(finding.code)]
    result.findings = in_order(kept)
    return result


def _without_estimates(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without what was read of a place of which a run measured the same."""
    given = without_sources(list(findings))
    measured = {(each.path, each.line, each.column, each.code) for each in given if each.group and each.line}
    return [each for each in given if each.group or (each.path, each.line, each.column, each.code) not in measured]


def without_sources(findings: list[Finding]) -> list[Finding]:
    """Return the findings without those of source code of whose copy in a workload a run measured as many of the same code.

    A finding of the copy then names the place in the source.
    """
    copied: dict[tuple[str, str], list[int]] = {}
    read: dict[tuple[str, str], list[int]] = {}
    for number, one in sorted(enumerate(findings), key=lambda each: (each[1].line, each[1].column)):
        if one.group and one.line and one.path.lower().endswith(WORKLOAD_SUFFIXES):
            place = copied_from(read_text(Path(one.path), shown=one.path), one.line)
            if place is not None:
                file = realpath(Path(one.path).parent / place.partition(":")[0])
                copied.setdefault((file, one.code), []).append(number)
        elif not one.group and one.line:
            read.setdefault((realpath(one.path), one.code), []).append(number)
    kept: dict[int, Finding] = dict(enumerate(findings))
    for key, numbers in copied.items():
        if len(numbers) == len(sources := read.get(key, [])):
            for number, source in zip(numbers, sources, strict=True):
                one, there = findings[number], kept.pop(source)
                message = f"{one.message}; its source is {there.path}:{there.line}:{there.column}"
                warnings = [each for each in one.warnings if noted_place([each]) is None]
                kept[number] = one.model_copy(update={"message": message, "warnings": warnings})
    return list(kept.values())


def _new_problems(told: Sequence[KvtoolError], problems: Iterable[KvtoolError]) -> list[KvtoolError]:
    """Return the problems in lines of which nothing was told."""
    lines = {(each.place.path, each.place.line) for each in told if each.place is not None}
    return [each for each in problems if each.place is None or (each.place.path, each.place.line) not in lines]


def _read_texts(
    inputs: Inputs, options: RunOptions, load: Tokenizers, result: LintResult, ignores: list[Ignore], *, cached: bool
) -> None:
    """Templates and Python files: what can be seen without traffic."""
    result.inputs += [LintInput(path=path, kind="text", note=FOREIGN) for path in inputs.foreign]
    texts = inputs.texts
    run = _files_of(inputs, options)
    if options.alone:
        texts = [
            one for one in texts if one.path not in options.alone or realpath(one.path) not in run
        ]  # its run tells more
    read = {realpath(one.path) for one in texts}
    cache = _cache(options) if cached and options.alone else LintCache(None, ())
    finder = Finder(options, load)
    passed: dict[str, TextInput] = {}
    links = TemplateLinks()
    while texts:
        marked = with_marks(texts)
        code = [one for one in marked if one.is_code]
        of_code = _judged(code, finder, options, cache)  # first, as code may pass values to templates
        templates = links.add(zip(code, of_code, strict=True), [one for one in marked if not one.is_code])
        result.templates += templates
        read_code, read_templates = iter(of_code), iter(_judged(templates, finder, options, cache))
        judged = [next(read_code if one.is_code else read_templates) for one in texts]
        more: list[str] = []
        for one, found in zip(texts, judged, strict=True):
            _tell(one, found, inputs, options, result)
            ignores += found.ignores
            if one.found and not found.known:
                passed[realpath(one.path)] = replace(one, found=False)
            more += [path for name in found.files if (path := _named_beside(one.path, name)) is not None]
        linked = [path for real, path in (links.filled | links.bases).items() if real not in run]
        new = [path for path in dict.fromkeys([*more, *linked]) if realpath(path) not in read]
        read.update(map(realpath, new))
        texts = [replace(one, found=one.path not in more) for one in sort_inputs(new, new).texts]
        named = [passed.pop(real) for real in dict.fromkeys(map(realpath, more)) if real in passed]
        result.passed_over -= len(named)  # a file that another one names as a prompt is one, however it reads
        texts += named
    cache.close()


def _judged(texts: Sequence[TextInput], finder: Finder, options: RunOptions, cache: LintCache) -> list[JudgedText]:
    """Judge each file, in their order: from the cache, or by as many processes as are wanted."""
    known = [cache.known(one) for one in texts]
    missing = [one for one, found in zip(texts, known, strict=True) if found is None]
    made = iter(judge_all(missing, finder.judge, options.reading.jobs))
    results: list[JudgedText] = []
    for one, found in zip(texts, known, strict=True):
        judged = found
        if judged is None:
            judged = next(made)
            cache.add(one, judged)
        results.append(judged)
    return results


def _tell(one: TextInput, found: JudgedText, inputs: Inputs, options: RunOptions, result: LintResult) -> None:
    if found.error is not None:
        result.problems.append(found.error)
        return
    if not found.known and (one.found or one.path in options.alone):
        result.passed_over += 1
        return
    result.findings += found.findings
    result.made |= set(found.made)
    result.fixable |= {finding.fix_key for finding in found.findings if finding.fix_key}
    # Most files of a program, and of a folder, hold nothing that varies.
    told = (
        found.note
        if found.partly or len(inputs.texts) == 1 or (not one.is_code and one.path not in options.alone)
        else ""
    )
    result.inputs.append(LintInput(path=one.path, kind=one.kind, note=told or None))


def _named_beside(path: str, name: str) -> str | None:
    """A file that another one names, below its folder; None where it is not there or lies elsewhere."""
    folder = os.path.dirname(path)  # noqa: PTH120 - Path would keep `..`
    found = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118
    inside = realpath(found).startswith(realpath(folder or ".") + os.sep)
    return found if inside and os.path.isfile(found) else None  # noqa: PTH113 - a string, as all inputs are


def _cache(options: RunOptions) -> LintCache:
    """The cache of this folder and these options; none with a tokenizer of which nobody knows whether it is the same."""
    asked = requested_engine(options)
    known = "built in" if asked.tokenizer is None else file_hash(asked.tokenizer)
    return LintCache(cache_folder() if known else None, (asked.block_size, known))


def _files_of(inputs: Inputs, options: RunOptions) -> set[str]:
    """The real paths of the files that the workloads among the inputs name."""
    return {realpath(path) for paths in inputs.runs for path in _named_by(paths, options)}


def _named_by(paths: Sequence[str], options: RunOptions) -> list[str]:
    """Return the files that a workload names; none of other inputs."""
    if paths[0].lower().endswith(WORKLOAD_SUFFIXES):
        with contextlib.suppress(KvtoolError):  # its run tells
            text = read_text(Path(paths[0]), shown=paths[0])
            return named_files(paths[0], text, allow_outside=options.reading.allow_outside)
    return []


def _run_traffic(
    inputs: Inputs,
    options: RunOptions,
    progress: Progress,
    load: Tokenizers,
    result: LintResult,
    ignores: list[Ignore],
) -> tuple[list[list[str]], list[list[str]]]:
    """Workloads, logs and prompts: what costs hits when they are run.

    Return the inputs that could not be run, and those of which no prompt is long enough for the provider's cache.
    """
    failed: list[list[str]] = []
    short: list[list[str]] = []
    for run in inputs.runs:
        traffic = _run(run, options, progress, load, result)
        if traffic is None:
            failed.append(run)
            continue
        paths = [path for path in run if path not in traffic.unread]
        result.fixable |= traffic.fixable
        workload = paths[0].lower().endswith(WORKLOAD_SUFFIXES)
        plain = [one.path for one in inputs.prompts]
        least = traffic.report.minimum_in_words
        note = f"no prompt can be cached: {least}" if least else not_read_sentence(traffic.report)
        for path in paths:
            kind: InputKind = "workload" if workload else "prompts" if path in plain else "logs"
            result.inputs.append(LintInput(path=path, kind=kind, note=note))
            note = None  # it is of all of them
        result.findings += traffic.report.findings
        misses = traffic.report.misses
        result.withheld += [] if misses is None else filter(None, [misses.calibration.withheld])
        ignores += traffic_ignores(paths, allow_outside=options.reading.allow_outside)
        if traffic.report.partial:
            result.partial = True
            return [], []
        if least:
            short.append(run)
    return failed, short


def _run(
    paths: list[str], options: RunOptions, progress: Progress, load: Tokenizers, result: LintResult
) -> Traffic | None:
    """The run of these inputs, as far as they can be read, and what is wrong with the others as problems; None: with all."""
    try:
        traffic = run_traffic(replace(options, inputs=paths), progress, load=load)
    except (KvtoolError, EngineError, OSError) as error:
        mistake = as_error(error)
        if mistake is None or mistake.exit_code != EXIT_USAGE:
            raise
        result.problems += mistake.errors if isinstance(mistake, ProblemsError) else [mistake]
        return None
    result.problems += traffic.problems
    return traffic


def _probed(spec: str, timeout: float, options: RunOptions, progress: Progress, *, offline: bool) -> ProbeResult:
    """Run a prompt builder. This executes what the user named, and nothing else ever does."""
    engine = requested_engine(options)
    probe_options = ProbeOptions(
        timeout=timeout,
        tokenizer=engine.tokenizer,
        chat_template=engine.chat_template,
        block_size=engine.block_size or EngineConfig.block_size,
        offline=offline,
        on_run=lambda name: progress.stage(f"probe: {name}"),
    )
    return run_probe(spec, probe_options)
