"""From inputs to findings: what `kvtool lint` does but for the command line, fixes and the terminal."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os.path import realpath
from pathlib import Path
from typing import BinaryIO

from kvtool.config.asked_run import RunOptions
from kvtool.config.option import check_values
from kvtool.config.options.lint_options import Probing, Selecting
from kvtool.config.options.shown_options import Showing
from kvtool.diagnose.codes import codes, entry_of, similar_code
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.errors import EXIT_USAGE, KvtoolError, ProblemsError, as_error
from kvtool.lint.evidence.volatile_calls import CODES as STATIC_CODES
from kvtool.lint.file_findings import Finder, requested_engine
from kvtool.lint.findings.file_result import JudgedText
from kvtool.lint.findings.ignore_comments import Ignore
from kvtool.lint.findings.ignored_findings import apply_ignores, ignore_findings
from kvtool.lint.findings.lint_result import LintResult
from kvtool.lint.folders.lint_cache import LintCache, cache_folder, file_hash
from kvtool.lint.folders.unused_texts import without_unused
from kvtool.lint.formats.included_texts import included_texts
from kvtool.lint.lint_inputs import DATA, WORKLOAD_SUFFIXES, InputKind, Inputs, TextInput, sort_inputs
from kvtool.lint.passed_values import PassedValue
from kvtool.lint.probe.probing import ProbeOptions, ProbeResult, probe_findings, run_probe
from kvtool.lint.python.rendered_files import template_paths
from kvtool.lint.traffic_findings import Traffic, run_traffic, traffic_ignores
from kvtool.results.documents.lint import LintInput
from kvtool.results.finding import Finding
from kvtool.text.files.text_files import read_text
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.ahead.child import Child, second_process
from kvtool.workload.yaml.named_files import named_files

FOREIGN = "not read: no workload (no `groups:`), and no known prompt format"
_REPLACED = re.compile(r"\.replace\(\s{0,200}([\"'])([^\"'\\\n]{3,60})\1\s{0,80},\s{0,200}+(?![fFrR]?[\"'])")
_MARK = re.compile(
    r"[\[<{(%$#@_*|!~]{1,4}\s?[A-Za-z][\w .-]{1,40}?\s?[\]>})%$#@_*|!~]{1,4}|[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){1,6}"
)
"""A name between signs, or in capitals with `_` in it."""


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
            failed = _run_traffic(inputs, options, progress, load, result, ignores)
        if failed:  # what could not be run is read
            names = [path for run in failed for path in _named_by(run, options)]
            texts = [replace(one, found=True) for one in sort_inputs(names, names).texts]
            told, result.problems = result.problems, []
            _read_texts(Inputs(texts=texts), options, load, result, ignores, cached=False)
            result.problems = [*told, *_new_problems(told, result.problems)]
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
    kept = without_unused(left, inputs.texts)
    if result.partial:
        unused = []  # what was not reached cannot be called absent
    kept += [finding for finding in ignore_findings(ignores, unused) if wanted(finding.code)]
    result.findings = sorted(
        kept, key=lambda one: (one.path, one.line, one.column, one.code, one.group, -one.tokens_lost)
    )
    return result


def _without_estimates(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without what was read of a place of which a run measured the same."""
    given = list(findings)
    measured = {(each.path, each.line, each.column, each.code) for each in given if each.group and each.line}
    return [each for each in given if each.group or (each.path, each.line, each.column, each.code) not in measured]


def _new_problems(told: Sequence[KvtoolError], problems: Iterable[KvtoolError]) -> list[KvtoolError]:
    """Return the problems in lines of which nothing was told."""
    lines = {(each.place.path, each.place.line) for each in told if each.place is not None}
    return [each for each in problems if each.place is None or (each.place.path, each.place.line) not in lines]


def selection(selecting: Selecting) -> Callable[[str], bool]:
    """Return a check for the wanted codes; KvtoolError for a code that does not exist."""
    select, ignore = _codes(selecting.select, "--select"), _codes(selecting.ignore, "--ignore")

    def wanted(code: str) -> bool:
        return (not select or code.startswith(select)) and not (ignore and code.startswith(ignore))

    return wanted


def _codes(given: Iterable[str], flag: str) -> tuple[str, ...]:
    """Codes, or beginnings of codes (`KV1`), from a flag that may be repeated and may hold several with commas."""
    result: list[str] = []
    for word in (word.strip() for text in given for word in text.split(",")):
        if not word:
            continue
        code = word.upper()
        entry = entry_of(word)
        if not any(known.startswith(code) for known in codes()):
            if entry is None:
                close = similar_code(word)
                hint = f"did you mean {close}?" if close else "list all codes with kvtool explain --list"
                raise KvtoolError(f"{flag}: unknown code `{word}`", hint=hint)
            code = code if code.startswith("KV") else f"KV{code}"
        result.append(code)
    return tuple(result)


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
    given: dict[str, tuple[PassedValue, ...]] = {}
    while texts:
        texts = _with_marks(texts)
        judged = _judged_for_templates(texts, finder, options, cache, given)
        more: list[str] = []
        for one, found in zip(texts, judged, strict=True):
            _tell(one, found, inputs, options, result)
            ignores += found.ignores
            if one.found and not found.known:
                passed[realpath(one.path)] = replace(one, found=False)
            more += [path for name in found.files if (path := _named_beside(one.path, name)) is not None]
        filled = [path for path in given if realpath(path) not in run]
        new = [path for path in dict.fromkeys([*more, *filled]) if realpath(path) not in read]
        read.update(map(realpath, new))
        texts = [replace(one, found=one.path not in more) for one in sort_inputs(new, new).texts]
        named = [passed.pop(real) for real in dict.fromkeys(map(realpath, more)) if real in passed]
        result.passed_over -= len(named)  # a file that another one names as a prompt is one, however it reads
        texts += named
    cache.close()


def _judged_for_templates(
    texts: Sequence[TextInput],
    finder: Finder,
    options: RunOptions,
    cache: LintCache,
    given: dict[str, tuple[PassedValue, ...]],
) -> list[JudgedText]:
    """Judge each file, in their order: code first, as it may pass values to templates. These are added to `given`, by file."""
    code = [one for one in texts if one.is_code]
    of_code = _judged(code, finder, options, cache)
    for one, found in zip(code, of_code, strict=True):
        for file in found.rendered:
            for path in template_paths(one.path, file.name):
                given[path] = (*given.get(path, ()), *file.values)
    passed = {realpath(path): values for path, values in given.items()}
    others = [
        replace(
            one,
            passed=passed.get(realpath(one.path), ()),
            included=included_texts(one.path, one.text) if one.style == "jinja" else (),
        )
        for one in texts
        if not one.is_code
    ]
    read, made = iter(of_code), iter(_judged(others, finder, options, cache))
    return [next(read if one.is_code else made) for one in texts]


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
) -> list[list[str]]:
    """Workloads, logs and prompts: what costs hits when they are run. Return the inputs that could not be run."""
    failed: list[list[str]] = []
    for run in inputs.runs:
        traffic = _run(run, options, progress, load, result)
        if traffic is None:
            failed.append(run)
            continue
        paths = [path for path in run if path not in traffic.unread]
        result.fixable |= traffic.fixable
        workload = paths[0].lower().endswith(WORKLOAD_SUFFIXES)
        plain = [one.path for one in inputs.prompts]
        for path in paths:
            kind: InputKind = "workload" if workload else "prompts" if path in plain else "logs"
            result.inputs.append(LintInput(path=path, kind=kind, note=None))
        result.findings += traffic.report.findings
        ignores += traffic_ignores(paths, allow_outside=options.reading.allow_outside)
        if traffic.report.partial:
            result.partial = True
            return []
    return failed


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


def _with_marks(texts: Sequence[TextInput]) -> list[TextInput]:
    """The texts, where those without placeholders of another form know which marks in them the code among them replaces."""
    marks = {
        found[2]
        for one in texts
        if one.is_code and ".replace(" in one.text
        for found in _REPLACED.finditer(one.text)
        if _MARK.fullmatch(found[2])
    }
    return [_marked(one, marks) for one in texts] if marks else list(texts)


def _marked(one: TextInput, marks: set[str]) -> TextInput:
    if one.is_code or one.style in (DATA, "jinja", "format", "mustache"):
        return one
    held = tuple(sorted(mark for mark in marks if mark in one.text))
    return replace(one, style="marks", marks=held) if held else one


WORTH_IT = 400_000
"""Characters from which on a second process pays."""
_MOST_JOBS = 64
_USUAL_JOBS = 2

Judge = Callable[[TextInput], JudgedText]


def judge_all(texts: Sequence[TextInput], judge: Judge, jobs: int | None) -> list[JudgedText]:
    """Judge files by up to `jobs` processes; None: by two where that pays and there are two cores."""
    sizes = [len(one.text) for one in texts]
    if not second_process(jobs, pays=sum(sizes) >= WORTH_IT) or len(texts) < 2:
        return [judge(one) for one in texts]
    count = min(jobs or _USUAL_JOBS, len(texts), _MOST_JOBS)
    shares = list(_shares(sizes, count))
    with ExitStack() as stack:
        children: list[tuple[range, Child | None]] = []
        for share in shares[1:]:
            child = _begun([texts[number] for number in share], judge)
            if child is not None:
                stack.callback(child.close)
            children.append((share, child))
        results = [judge(texts[number]) for number in shares[0]]
        for share, child in children:
            found = [] if child is None else _received(child)
            # What a process did not get to, because it was killed, is done here.
            results += found[: len(share)]
            results += [judge(texts[number]) for number in share[len(found) :]]
    return results


def _shares(sizes: Sequence[int], count: int) -> Iterator[range]:
    """The files cut into `count` runs of about the same size: files of one folder stay together."""
    total, start, passed = sum(sizes), 0, 0
    for number, size in enumerate(sizes):
        passed += size
        left = count - 1
        if count > 1 and number + 1 < len(sizes) and passed * count >= total:
            yield range(start, number + 1)
            total, start, passed, count = total - passed, number + 1, 0, left
    yield range(start, len(sizes))


def _begun(texts: Sequence[TextInput], judge: Judge) -> Child | None:
    def work(stream: BinaryIO) -> None:
        packed = [judge(one).packed().encode() for one in texts]
        stream.writelines(line + b"\n" for line in packed)

    try:
        return Child(work)
    except OSError:  # there is no room for another process
        return None


def _received(child: Child) -> list[JudgedText]:
    """The results of a process that came whole."""
    lines = child.stream.read().split(b"\n")
    return [JudgedText.unpacked(line.decode()) for line in lines[:-1]]
