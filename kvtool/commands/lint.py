"""The command `kvtool lint`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from os.path import realpath
from typing import Literal

from kvtool.advice.trials import TrialInterruptedError
from kvtool.commands.optimize import parse_tiers
from kvtool.diagnose.catalogue import codes, entry_of, similar_code
from kvtool.diagnose.findings import Finding, Severity
from kvtool.errors import KvtoolError, ProblemsError
from kvtool.lint.fixing import Fixes, fix_template, fix_workloads, named_by
from kvtool.lint.ignores import Ignore, apply_ignores, ignore_findings, read_ignores
from kvtool.lint.inputs import WORKLOAD_SUFFIXES, InputKind, Inputs, TextInput, sort_inputs
from kvtool.lint.line_moves import TIER, movable
from kvtool.lint.probe import GROUP as PROBE
from kvtool.lint.probe import ProbeOptions, ProbeResult, probe_findings, run_probe
from kvtool.lint.python_templates import python_prompts
from kvtool.lint.result import Fixed, LintedInput, LintResult
from kvtool.lint.skeleton import Node
from kvtool.lint.static import static_findings
from kvtool.lint.templates import jinja_file, placeholder_count, text_template
from kvtool.lint.traffic import run_traffic, traffic_ignores
from kvtool.lint.volatile import CODES as STATIC_CODES
from kvtool.optimize.write_edits import check_undo, undo_command, write_edits
from kvtool.progress import Progress
from kvtool.report.console import ColorChoice, ascii_only, make_console, put
from kvtool.report.patch import put_patch
from kvtool.rewrite.patch import unified_patch
from kvtool.settings import ProfileArguments
from kvtool.streams import discard_stdout
from kvtool.tokenize import Tokenizer, load_tokenizer
from kvtool.workload.logs import STDIN

_LEAST_BLOCKS = {"python": 4}
"""Blocks of constant text that must follow to be told: a Python file has many short strings that are no prompts."""
_RANK: dict[Severity, int] = {"info": 0, "warning": 1, "error": 2}


@dataclass(frozen=True, slots=True)
class LintArguments:
    """The command line of `kvtool lint`; None is "not given"."""

    inputs: Sequence[str]
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    error_on: Severity = "error"
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    undo: str | None = None
    probe: str | None = None
    probe_timeout: float = 30.0
    tokenizer: str | None = None
    chat_template: str | None = None
    block_size: int | None = None
    capacity: str | None = None
    on_bad_line: Literal["error", "skip"] = "error"
    log_format: str | None = None
    requests: int | None = None
    groups: Sequence[str] = ()
    seed: int | None = None
    show_text: Literal["none", "snippet"] = "snippet"
    json: bool = False
    offline: bool = False
    quiet: bool = False
    color: ColorChoice = "auto"
    width: int | None = None
    command_line: Sequence[str] = ()


def run_lint(arguments: LintArguments) -> int:
    """Print the findings, with `fix` those that are left; returns the exit code.

    0, or 1 where a finding is as severe as `error_on` (with `diff`: where anything would change), or 130 where it was interrupted.
    """
    _check_flags(arguments)
    result = lint(arguments)
    if (arguments.fix or arguments.diff) and not result.partial:
        try:
            fixes = _fixes(arguments)
        except (TrialInterruptedError, KeyboardInterrupt):
            print("kvtool: interrupted; no file was changed", file=sys.stderr)
            return 130
        if arguments.diff:
            return _show_diff(fixes, arguments)
        result = _written(fixes, result, arguments)
    try:
        _print(result, arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; the findings are there all the same
        discard_stdout()
    if result.partial:
        return 130
    return int(any(_RANK[finding.severity] >= _RANK[arguments.error_on] for finding in result.findings))


def _check_flags(arguments: LintArguments) -> None:
    """What goes together on the command line."""
    editing = arguments.fix or arguments.diff
    if arguments.unsafe_fixes and not editing:
        raise KvtoolError("--unsafe-fixes says what --fix and --diff may do", hint="add --fix or --diff")
    if arguments.diff and arguments.json:
        raise KvtoolError("--diff prints a patch, and --json one document", hint="leave one of them out")
    if editing and STDIN in arguments.inputs:
        raise KvtoolError("standard input cannot be edited", hint="leave --fix and --diff out, or give files")
    if arguments.undo is not None:
        if not arguments.fix or arguments.diff:
            raise KvtoolError("--undo names the patch of what --fix writes", hint="add --fix, without --diff")
        check_undo(arguments.undo, arguments.inputs)


def _fixes(arguments: LintArguments) -> Fixes:
    """What --fix would do: in workloads by running them again, then in templates that none of them reads."""
    wanted = _selection(arguments)
    inputs = sort_inputs(arguments.inputs)
    workloads = [paths[0] for paths in inputs.runs if paths[0].lower().endswith(WORKLOAD_SUFFIXES)]
    tiers = parse_tiers(None, unsafe=arguments.unsafe_fixes)
    with Progress(make_console(stderr=True, color=arguments.color), quiet=arguments.quiet) as progress:
        runs = [_profile_arguments(arguments, [path]) for path in workloads]
        fixes = fix_workloads(runs, tiers, wanted, progress)
    if TIER in tiers:
        named = named_by(workloads)
        find = _Finder(arguments)
        for one in inputs.texts:
            if one.kind != "python" and realpath(one.path) not in named:
                fix_template(one, find, wanted, fixes)
    return fixes


def _show_diff(fixes: Fixes, arguments: LintArguments) -> int:
    """Print the patch: for `patch -p0` as it is, on a terminal safe to show."""
    patch = unified_patch(fixes.files)
    try:
        if sys.stdout.isatty():
            console = make_console(color=arguments.color, width=arguments.width)
            put_patch(console, patch, plain=ascii_only(console))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(patch.encode())
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
    if not arguments.quiet:
        count = f"{fixes.fixed:,} {'finding' if fixes.fixed == 1 else 'findings'}"
        print(f"{count} would be fixed" if fixes.files else "nothing would be changed", file=sys.stderr)
    return int(bool(fixes.files))


def _written(fixes: Fixes, result: LintResult, arguments: LintArguments) -> LintResult:
    """The findings that are left once the files are written."""
    files = tuple(file.path for file in fixes.files)
    if files:
        write_edits(fixes.files, arguments.undo)
        probe, probed = result.probe, [finding for finding in result.findings if finding.group == PROBE]
        result = lint(replace(arguments, probe=None))  # nothing is executed twice for it
        result.probe = probe
        result.findings += probed if probe is not None else []
    undo = arguments.undo if files else None
    result.fixed = Fixed(fixes.fixed, files, undo, None if undo is None else undo_command(fixes.files, undo))
    return result


def lint(arguments: LintArguments) -> LintResult:
    """The findings of all inputs, by place; KvtoolError or ProblemsError for inputs that cannot be read."""
    wanted = _selection(arguments)
    if arguments.block_size is not None and arguments.block_size < 1:
        raise KvtoolError(f"--block-size must be at least 1, not {arguments.block_size}")
    inputs = sort_inputs(arguments.inputs)
    result = LintResult()
    ignores: list[Ignore] = []
    static = {one.path for one in inputs.texts}
    _read_texts(inputs, arguments, result, ignores)
    _run_traffic(inputs, arguments, result, ignores)
    if arguments.probe is not None and not result.partial:
        result.probe = _probed(arguments.probe, arguments)
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


def _selection(arguments: LintArguments) -> Callable[[str], bool]:
    """Which codes are wanted; KvtoolError for one that does not exist."""
    select, ignore = _codes(arguments.select, "--select"), _codes(arguments.ignore, "--ignore")

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


def _read_texts(inputs: Inputs, arguments: LintArguments, result: LintResult, ignores: list[Ignore]) -> None:
    """Templates and Python files: what can be seen without traffic."""
    if not inputs.texts:
        return
    problems: list[KvtoolError] = []
    find = _Finder(arguments)
    fixable: set[str] = set()
    for one in inputs.texts:
        try:
            found = find(one)
            note = find.note
            ignores += read_ignores(one.path, one.text)
        except KvtoolError as error:
            problems.append(error)
            continue
        if one.kind != "python":
            found = movable(one.text, found, jinja=one.style == "jinja")
            fixable.update(finding.fix_key for finding in found if finding.fix_key)
        result.findings += found
        told = note if one.kind != "python" or len(inputs.texts) == 1 else ""  # most files of a program hold no prompt
        result.inputs.append(LintedInput(one.path, one.kind, told))
    result.fixable |= fixable
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ProblemsError(problems)


class _Finder:
    """Finds what can be seen in a template or a Python file; `note` says of the last one why there is nothing to see."""

    def __init__(self, arguments: LintArguments) -> None:
        self._block_size = arguments.block_size or 16
        self._count = _Counter(arguments)
        self.note = ""

    def __call__(self, one: TextInput) -> list[Finding]:
        prompts, self.note = _prompts(one)
        size = self._block_size
        least = size * _LEAST_BLOCKS.get(one.kind, 1)
        return static_findings(one.path, one.text, prompts, self._count, block_size=size, least=least)


class _Counter:
    """Counts tokens; the tokenizer is loaded when the first text is to be counted."""

    def __init__(self, arguments: LintArguments) -> None:
        self._arguments = arguments
        self._tokenizer: Tokenizer | None = None
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._known:
            if self._tokenizer is None:
                self._tokenizer = load_tokenizer(self._arguments.tokenizer, offline=self._arguments.offline)
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


def _run_traffic(inputs: Inputs, arguments: LintArguments, result: LintResult, ignores: list[Ignore]) -> None:
    """Workloads, logs and prompts: what costs hits when they are run."""
    if not inputs.runs:
        return
    with Progress(make_console(stderr=True, color=arguments.color), quiet=arguments.quiet) as progress:
        for paths in inputs.runs:
            traffic = run_traffic(_profile_arguments(arguments, paths), progress)
            profile = traffic.profile
            result.fixable |= traffic.fixable
            workload = paths[0].lower().endswith((".yaml", ".yml"))
            plain = [one.path for one in inputs.prompts]
            for path in paths:
                kind: InputKind = "workload" if workload else "prompts" if path in plain else "logs"
                result.inputs.append(LintedInput(path, kind, ""))
            result.findings += profile.findings
            ignores += traffic_ignores(paths)
            if profile.partial:
                result.partial = True
                return


def _probed(spec: str, arguments: LintArguments) -> ProbeResult:
    """Run a prompt builder. This executes what the user named, and nothing else ever does."""
    with Progress(make_console(stderr=True, color=arguments.color), quiet=arguments.quiet) as progress:
        options = ProbeOptions(
            timeout=arguments.probe_timeout,
            tokenizer=arguments.tokenizer,
            chat_template=arguments.chat_template,
            block_size=arguments.block_size or 16,
            offline=arguments.offline,
            on_run=lambda name: progress.stage(f"probe: {name}"),
        )
        return run_probe(spec, options)


def _profile_arguments(arguments: LintArguments, paths: Sequence[str]) -> ProfileArguments:
    return ProfileArguments(
        inputs=paths,
        tokenizer=arguments.tokenizer,
        chat_template=arguments.chat_template,
        block_size=arguments.block_size,
        capacity=arguments.capacity,
        on_bad_line=arguments.on_bad_line,
        log_format=arguments.log_format,
        requests=arguments.requests,
        groups=arguments.groups,
        seed=arguments.seed,
        offline=arguments.offline,
        quiet=arguments.quiet,
        color=arguments.color,
    )


def _print(result: LintResult, arguments: LintArguments) -> None:
    if arguments.json:
        from kvtool.report.lint import dump

        sys.stdout.write(dump(result))
        return
    from kvtool.report.lint import print_lint

    console = make_console(color=arguments.color, width=arguments.width)
    if result.probe is not None:
        from kvtool.report.probe import print_probe

        print_probe(console, result.probe, show_text=arguments.show_text != "none")
        put(console)
    print_lint(console, result, show_text=arguments.show_text != "none", quiet=arguments.quiet)
