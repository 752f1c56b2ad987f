"""The command `kvtool lint`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from os.path import realpath

from kvtool.cli.run_optimize import parse_tiers
from kvtool.config.lint_arguments import LintArguments
from kvtool.errors import KvtoolError
from kvtool.fixes.edits.patch import unified_patch
from kvtool.lint.fixing import Fixes, fix_template, fix_workloads, named_by
from kvtool.lint.line_moves import TIER
from kvtool.lint.lint_result import LintResult
from kvtool.lint.linting import Finder, lint, run_arguments, selection
from kvtool.lint.probe import GROUP as PROBE
from kvtool.lint.sources import WORKLOAD_SUFFIXES, sort_inputs
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.optimize.write_edits import check_undo, undo_command, write_edits
from kvtool.report.outputs import OutputFile, check_outputs, output_root, write_outputs
from kvtool.report.terminal.patch import put_patch
from kvtool.report.write_options import RenderOptions
from kvtool.results.documents.lint import Fixed
from kvtool.results.report import as_severe
from kvtool.text.terminal.console import DEFAULT_WIDTH, ascii_only, make_console, put
from kvtool.text.terminal.progress import Progress
from kvtool.text.terminal.streams import STDIN, printing


def run_lint(arguments: LintArguments) -> int:
    """Print the findings, with `fix` those that are left; returns the exit code.

    0, or 1 where a finding is as severe as `error_on` (with `diff`: where anything would change), or 130 where it was interrupted.
    """
    _check_flags(arguments)
    outputs = check_outputs(arguments.outputs, arguments.inputs, json=arguments.json, taken=_taken(arguments))
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
    if outputs:
        _write(result, outputs, arguments)
    with printing():
        if arguments.json or not any(output.to_stdout for output in outputs):
            _print(result, arguments)
    if result.partial:
        return 130
    return int(any(as_severe(finding.severity, arguments.error_on or "error") for finding in result.findings))


def _check_flags(arguments: LintArguments) -> None:
    """What goes together on the command line."""
    editing = arguments.fix or arguments.diff
    if arguments.unsafe_fixes and not editing:
        raise KvtoolError("--unsafe-fixes says what --fix and --diff may do", hint="add --fix or --diff")
    if arguments.diff and arguments.json:
        raise KvtoolError("--diff prints a patch, and --json one document", hint="leave one of them out")
    if arguments.diff and arguments.outputs:
        raise KvtoolError("--diff prints a patch and writes nothing", hint="leave --output or --diff out")
    if editing and STDIN in arguments.inputs:
        raise KvtoolError("standard input cannot be edited", hint="leave --fix and --diff out, or give files")
    if arguments.undo is not None:
        if not arguments.fix or arguments.diff:
            raise KvtoolError("--undo names the patch of what --fix writes", hint="add --fix, without --diff")
        check_undo(arguments.undo, arguments.inputs)


def _fixes(arguments: LintArguments) -> Fixes:
    """What --fix would do: in workloads by running them again, then in templates that none of them reads."""
    wanted = selection(arguments)
    inputs = sort_inputs(arguments.inputs)
    workloads = [paths[0] for paths in inputs.runs if paths[0].lower().endswith(WORKLOAD_SUFFIXES)]
    tiers = parse_tiers(None, unsafe=arguments.unsafe_fixes)
    with Progress(make_console(stderr=True, color=arguments.color), quiet=arguments.quiet) as progress:
        runs = [run_arguments(arguments, [path]) for path in workloads]
        fixes = fix_workloads(runs, tiers, wanted, progress)
    if TIER in tiers:
        named = named_by(workloads)
        find = Finder(arguments)
        for one in inputs.texts:
            if one.kind != "python" and realpath(one.path) not in named:
                fix_template(one, find, wanted, fixes)
    return fixes


def _show_diff(fixes: Fixes, arguments: LintArguments) -> int:
    """Print the patch: for `patch -p0` as it is, on a terminal safe to show."""
    patch = unified_patch(fixes.files)
    with printing():
        if sys.stdout.isatty():
            console = make_console(color=arguments.color, width=arguments.width)
            put_patch(console, patch, plain=ascii_only(console))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(patch.encode())
    if not arguments.quiet:
        count = f"{fixes.fixed:,} {'finding' if fixes.fixed == 1 else 'findings'}"
        print(f"{count} would be fixed" if fixes.files else "nothing would be changed", file=sys.stderr)
    return int(bool(fixes.files))


def _written(fixes: Fixes, result: LintResult, arguments: LintArguments) -> LintResult:
    """The findings that are left once the files are written."""
    files = [file.path for file in fixes.files]
    if files:
        write_edits(fixes.files, arguments.undo)
        probe, probed = result.probe, [finding for finding in result.findings if finding.group == PROBE]
        result = lint(replace(arguments, probe=None))  # nothing is executed twice for it
        result.probe = probe
        result.findings += probed if probe is not None else []
    undo = arguments.undo if files else None
    result.fixed = Fixed(
        findings=fixes.fixed,
        paths=files,
        undo=undo,
        undo_with=None if undo is None else undo_command(fixes.files, undo),
    )
    return result


def _taken(arguments: LintArguments) -> dict[str, str]:
    """Files that no output may take the place of, beside the inputs."""
    named = {
        arguments.undo: "the patch of --undo",
        arguments.chat_template: "the chat template",
        arguments.tokenizer: "the tokenizer",
    }
    return {path: what for path, what in named.items() if path is not None}


def _write(result: LintResult, outputs: Sequence[OutputFile], arguments: LintArguments) -> None:
    """What `-o` asks for; its JSON is that of --json."""
    from kvtool.profiler.document import saved_finding
    from kvtool.results.wrap import lint_check

    check = lint_check(
        [saved_finding(finding, show_text=arguments.show_text or "none") for finding in result.findings],
        inputs=[one.path for one in result.inputs],
        ignored=result.ignored,
        partial=result.partial,
        error_on=arguments.error_on or "error",
    )
    options = RenderOptions(
        show_text=arguments.show_text or "none",
        root=output_root(),
        command=tuple(arguments.command_line or ("lint", *arguments.inputs)),
        width=arguments.width or DEFAULT_WIDTH,
    )
    write_outputs(check, outputs, options, ready={"json": result.document().to_json()}, quiet=arguments.quiet)


def _print(result: LintResult, arguments: LintArguments) -> None:
    if arguments.json:
        sys.stdout.write(result.document().to_json())
        return
    from kvtool.report.terminal.lint import print_lint

    console = make_console(color=arguments.color, width=arguments.width, plain=arguments.plain)
    if result.probe is not None:
        from kvtool.report.terminal.probe import print_probe

        print_probe(console, result.probe, show_text=arguments.show_text != "none")
        put(console)
    print_lint(console, result, show_text=arguments.show_text or "snippet", quiet=arguments.quiet)
