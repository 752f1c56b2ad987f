"""From inputs to findings: what `kvtool lint` does but for the command line, fixes and the terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from os.path import realpath
from pathlib import Path

from kvtool.config.asked_run import RunOptions
from kvtool.config.layers import merged
from kvtool.config.lint_options import Probing, Selecting
from kvtool.config.option import check_values
from kvtool.config.shown_options import Showing
from kvtool.diagnose.codes import codes, entry_of, similar_code
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.errors import EXIT_USAGE, KvtoolError, ProblemsError, as_error
from kvtool.lint.ignore_marks import Ignore
from kvtool.lint.ignores import apply_ignores, ignore_findings, read_ignores
from kvtool.lint.line_moves import movable
from kvtool.lint.lint_result import LintResult
from kvtool.lint.probe import ProbeOptions, ProbeResult, probe_findings, run_probe
from kvtool.lint.python_templates import python_prompts
from kvtool.lint.skeleton import Node
from kvtool.lint.sources import WORKLOAD_SUFFIXES, InputKind, Inputs, TextInput, sort_inputs
from kvtool.lint.static import static_findings
from kvtool.lint.templates import jinja_file, placeholder_count, text_template
from kvtool.lint.traffic import Traffic, run_traffic, traffic_ignores
from kvtool.lint.volatile import CODES as STATIC_CODES
from kvtool.results.documents.lint import LintInput
from kvtool.results.finding import Finding
from kvtool.text.files.text_files import read_text
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizer, Tokenizers
from kvtool.workload.yaml.named_files import named_files
from kvtool.workload.yaml.schema import EngineOptions

_LEAST_BLOCKS = {"python": 4}
"""Blocks of constant text that must follow to be told: a Python file has many short strings that are no prompts."""


def lint(options: RunOptions, selecting: Selecting, showing: Showing, probing: Probing | None = None) -> LintResult:
    """The findings of all inputs that can be read, by place; what is wrong with the others are problems of the result.

    KvtoolError for options that cannot be used. `showing` says whether progress is shown and a tokenizer may be downloaded.
    """
    wanted = selection(selecting)
    check_values(options)
    inputs = sort_inputs(options.inputs, options.alone)
    result = LintResult(problems=list(inputs.problems))
    ignores: list[Ignore] = []
    static = {one.path for one in inputs.texts}
    load = Tokenizers(offline=showing.offline)
    _read_texts(inputs, options, Finder(options, load), result, ignores)
    if inputs.runs:
        with showing.progress() as progress:
            _run_traffic(inputs, options, progress, load, result, ignores)
    if probing is not None and probing.probe is not None and not result.partial:
        with showing.progress() as progress:
            result.probe = _probed(probing.probe, probing.probe_timeout, options, progress, offline=showing.offline)
        result.findings += probe_findings(result.probe)

    ignores = list(dict.fromkeys(ignores))  # a file that two workloads name was read twice

    def checked(path: str, code: str) -> bool:
        return wanted(code) and (path not in static or code in STATIC_CODES)

    selected = [finding for finding in result.findings if wanted(finding.code)]
    kept, unused = apply_ignores(selected, ignores, checked=checked)
    result.ignored = len(selected) - len(kept)
    if result.partial:
        unused = []  # what was not reached cannot be called absent
    kept += [finding for finding in ignore_findings(ignores, unused) if wanted(finding.code)]
    result.findings = sorted(
        kept, key=lambda one: (one.path, one.line, one.column, one.code, one.group, -one.tokens_lost)
    )
    return result


def selection(selecting: Selecting) -> Callable[[str], bool]:
    """Which codes are wanted; KvtoolError for one that does not exist."""
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
                hint = f"did you mean {close}?" if close else "kvtool explain --list has all of them"
                raise KvtoolError(f"{flag}: unknown code `{word}`", hint=hint)
            code = code if code.startswith("KV") else f"KV{code}"
        result.append(code)
    return tuple(result)


def _read_texts(inputs: Inputs, options: RunOptions, find: Finder, result: LintResult, ignores: list[Ignore]) -> None:
    """Templates and Python files: what can be seen without traffic."""
    if not inputs.texts:
        return
    fixable: set[str] = set()
    run = _files_of(inputs, options) if options.alone else set()
    for one in inputs.texts:
        if one.path in options.alone and realpath(one.path) in run:
            continue  # the run of its workload tells more
        try:
            found = find(one)
            note = find.note
            ignores += read_ignores(one.path, one.text)
        except KvtoolError as error:
            result.problems.append(error)
            continue
        if one.kind != "python":
            found = movable(one.text, found, jinja=one.style == "jinja")
            fixable.update(finding.fix_key for finding in found if finding.fix_key)
        result.findings += found
        # Most files of a program, and of a folder, hold nothing that varies.
        told = note if len(inputs.texts) == 1 or (one.kind != "python" and one.path not in options.alone) else ""
        result.inputs.append(LintInput(path=one.path, kind=one.kind, note=told or None))
    result.fixable |= fixable


def _files_of(inputs: Inputs, options: RunOptions) -> set[str]:
    """The real paths of the files that the workloads among the inputs name."""
    found: set[str] = set()
    for paths in inputs.runs:
        if paths[0].lower().endswith(WORKLOAD_SUFFIXES):
            with contextlib.suppress(KvtoolError):  # its run tells
                text = read_text(Path(paths[0]), shown=paths[0])
                named = named_files(paths[0], text, allow_outside=options.reading.allow_outside)
                found.update(map(realpath, named))
    return found


class Finder:
    """Finds what can be seen in a template or a Python file; `note` says of the last one why there is nothing to see."""

    def __init__(self, options: RunOptions, load: Tokenizers) -> None:
        asked = _asked(options)
        self._block_size = asked.block_size or EngineConfig.block_size
        self._count = _Counter(lambda: load(asked.tokenizer))
        self.note = ""

    def __call__(self, one: TextInput) -> list[Finding]:
        prompts, self.note = _prompts(one)
        size = self._block_size
        least = size * _LEAST_BLOCKS.get(one.kind, 1)
        return static_findings(one.path, one.text, prompts, self._count, block_size=size, least=least)


class _Counter:
    """Counts tokens; the tokenizer is loaded when the first text is to be counted."""

    def __init__(self, load: Callable[[], Tokenizer]) -> None:
        self._load = load
        self._tokenizer: Tokenizer | None = None
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._known:
            if self._tokenizer is None:
                self._tokenizer = self._load()
            self._known[text] = len(self._tokenizer.encode_ids(text))
        return self._known[text]


def _prompts(one: TextInput) -> tuple[list[list[Node]], str]:
    """The prompts that a file holds, and what to say where there is nothing to find in it."""
    if one.kind == "python":
        prompts = python_prompts(one.path, one.text)
        return prompts, "" if prompts else "no string in it is built from anything that varies"
    if one.style == "jinja":
        return [jinja_file(one.path, one.text)], ""
    if not one.style or not placeholder_count(one.text, one.style):
        return [], "nothing varies in it: it has no placeholders, and it is the only prompt"
    return [text_template(one.path, one.text, one.style)], ""


def _run_traffic(
    inputs: Inputs,
    options: RunOptions,
    progress: Progress,
    load: Tokenizers,
    result: LintResult,
    ignores: list[Ignore],
) -> None:
    """Workloads, logs and prompts: what costs hits when they are run."""
    for run in inputs.runs:
        traffic = _run(run, options, progress, load, result)
        if traffic is None:
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
            return


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
    engine = _asked(options)
    probe_options = ProbeOptions(
        timeout=timeout,
        tokenizer=engine.tokenizer,
        chat_template=engine.chat_template,
        block_size=engine.block_size or EngineConfig.block_size,
        offline=offline,
        on_run=lambda name: progress.stage(f"probe: {name}"),
    )
    return run_probe(spec, probe_options)


def _asked(options: RunOptions) -> EngineOptions:
    """What flags, and below them the configuration file, say of what is read without a workload."""
    asked = EngineOptions(
        tokenizer=options.rendering.tokenizer,
        chat_template=options.rendering.chat_template,
        block_size=options.serving.block_size,
    )
    return merged(asked, options.fallback)
