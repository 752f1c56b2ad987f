"""The command `kvtool lint`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.cli.commands.optimize import parse_tiers
from kvtool.config.option import Argument, Option, Panel, check_values, only
from kvtool.config.options.lint_options import Probing, Selecting, Walking
from kvtool.config.options.run_options import Reading, Rendering, Serving
from kvtool.config.options.shown_options import Configured, Showing, Writing
from kvtool.errors import KvtoolError, join_errors
from kvtool.text.terminal.streams import STDIN, check_piped

if TYPE_CHECKING:
    from kvtool.config.asked_run import RunOptions
    from kvtool.config.loading import ConfigFile
    from kvtool.lint.findings.file_fixes import Fixes
    from kvtool.lint.findings.lint_result import LintResult
    from kvtool.lint.folders.folder_files import Project
    from kvtool.lint.lint_inputs import TextInput
    from kvtool.report.outputs import OutputFile


@dataclass(frozen=True, kw_only=True)
class LintCommand(Command):
    """Find what costs prefix-cache hits, without traffic.

    Workloads, logs and prompts (two or more .txt/.md files) run through the engine. A single template, a file of code or a file in
    which a framework keeps prompts is only read: names, uses and calls show what changes. Nothing in it is executed or imported.

    Only --probe executes code. It runs a prompt builder with one circumstance changed at a time (clock, hash seed, locale, folder,
    user…) and names each that reaches the prompt.

    Without INPUT, kvtool lint reads what kvtool.toml names (`workloads`, and `inputs` of [lint]), else the working folder. In a
    folder it reads workloads, templates, Python, TypeScript, JavaScript, prompts in YAML and JSON, and texts that are prompts by
    name or content. It skips what git ignores.
    """

    inputs: Annotated[
        tuple[str, ...],
        Argument("workload.yaml, logs, templates, prompts, code (.py, .ts, .js), folders or -", "INPUT"),
    ] = ()
    templates: Annotated[bool, Option("Read only those text files that are Jinja templates.", panel=Panel.ADVANCED)] = (
        False
    )
    selecting: Selecting
    walking: Walking
    fix: Annotated[bool, Option("Apply edits that neither move nor change text.")] = False
    unsafe_fixes: Annotated[bool, Option("Move and change text, too, with --fix or --diff.")] = False
    diff: Annotated[bool, Option("Print the edits of --fix without making them; exit 1 if there are any.")] = False
    no_cache: Annotated[
        bool, Option("Read all files of folders again; use and write no cache.", panel=Panel.ADVANCED)
    ] = False
    undo: Annotated[str | None, Option("Patch file that undoes --fix.", "FILE")] = None
    probing: Probing
    rendering: Rendering
    serving: Annotated[Serving, only("block_size", "capacity")]
    reading: Reading
    writing: Annotated[Writing, only("show_text", "outputs")]
    configured: Configured
    showing: Showing

    def run(self) -> int:
        """Print the findings, with `fix` those that are left.

        0, or 1 where a finding is as severe as `error_on` (with `diff`: where anything would change), or 130 where it was
        interrupted. KvtoolError, or ProblemsError, once the findings are printed, where an input could not be read or run.
        """
        from kvtool.config.loading import read_config, selected

        check_piped("lint", self.inputs)
        check_values(self.probing)
        from kvtool.lint.linting import lint
        from kvtool.profiler.advice.trials import TrialInterruptedError
        from kvtool.report.outputs import check_outputs
        from kvtool.results.finding import as_severe
        from kvtool.text.terminal.streams import printing

        file = read_config(self.configured, allow_outside=self.reading.allow_outside)
        selecting = selected(self.selecting, file)
        options, walked = self._options(file)
        self._check_flags(options.inputs)
        outputs = check_outputs(
            self.writing.outputs,
            options.inputs,
            json=self.showing.json,
            taken=self._taken(),
            allow_outside=self.reading.allow_outside,
        )
        result = lint(options, selecting, self.showing, self.probing, cached=not self.no_cache)
        result.problems[:0] = walked.problems
        result.outside, result.unread = walked.outside, walked.unread
        if result.problems and not result.inputs:
            raise join_errors(result.problems)
        if result.problems and (self.fix or self.diff):
            self._print(result)
            raise join_errors(result.problems)  # what is edited is decided by all of the inputs
        if (self.fix or self.diff) and not result.partial:
            try:
                fixes = self._fixes(options, selecting, result.templates)
            except (TrialInterruptedError, KeyboardInterrupt):
                print("kvtool: interrupted; no file was changed", file=sys.stderr)
                return 130
            if self.diff:
                return self._show_diff(fixes)
            result = self._written(fixes, result, options, selecting)
        if outputs:
            self._write(result, outputs, options, selecting)
        with printing():
            if self.showing.json or not any(output.to_stdout for output in outputs):
                self._print(result)
        if result.partial:
            return 130
        if result.problems:
            raise join_errors(result.problems)
        return int(any(as_severe(finding.severity, selecting.least) for finding in result.findings))

    def _options(self, file: ConfigFile | None) -> tuple[RunOptions, Project]:
        """Return the options of the runs, and the files in folders that were walked.

        Without any input or probe, the inputs are those of the configuration, else the working folder.
        """
        from kvtool.config.asked_run import RunOptions

        inputs: Sequence[str] = self.inputs
        if not inputs and self.probing.probe is None:
            inputs = (file.lint_inputs if file is not None else []) or ["."]
        inputs, walked = self._walked(inputs, file)
        if self.templates:
            from kvtool.lint.lint_inputs import without_documents

            inputs = without_documents(inputs)
        options = RunOptions(
            inputs=inputs,
            rendering=self.rendering,
            serving=self.serving,
            reading=self.reading,
            alone=frozenset(walked.paths) - set(self.inputs),
        )
        return options.over(file), walked

    def _walked(self, inputs: Sequence[str], file: ConfigFile | None) -> tuple[list[str], Project]:
        """Return the inputs with the files of folders in their place, and all that the folders brought together."""
        from kvtool.lint.folders.folder_files import Project, built_folder, not_read, project_files, walk_rules

        found: dict[str, None] = {}
        walked = Project()
        for path in inputs:
            if not _is_folder(path):
                found[path] = None
                continue
            project = project_files(path, walk_rules(self.walking, file))
            found |= dict.fromkeys(project.paths)
            walked.paths += project.paths
            walked.outside += project.outside
            walked.unread += project.unread
            walked.problems += project.problems
            if self.reading.verbose:
                from kvtool.text.terminal.console import sanitize

                for name, reason in project.left_out:
                    print(f"left out: {sanitize(name)} ({reason})", file=sys.stderr)
            if not project.paths and not project.problems:
                where = "the working folder" if path == "." else f"`{path}`"
                hint = "it reads workloads, templates, Python, TypeScript and texts named prompt; name logs one by one"
                if project.left_out:
                    hint = "it left out `{}`: {}".format(*project.left_out[0])
                if (built := built_folder(path)) is not None:
                    hint = f"built code in `{built}` was skipped; to read it: kvtool lint {shlex.quote(built)}"
                if project.unread:
                    hint = f"it does not read {not_read(project.unread)}; lint the files of their prompts or a log"
                if project.outside:
                    hint = f"it does not follow links out of the repository, such as `{project.outside[0]}`"
                walked.problems.append(KvtoolError(f"kvtool lint found nothing to read in {where}", hint=hint))
        return list(found), walked

    def _check_flags(self, inputs: Sequence[str]) -> None:
        """Check the combination of flags."""
        from kvtool.profiler.optimize.write_edits import check_undo

        editing = self.fix or self.diff
        if self.unsafe_fixes and not editing:
            raise KvtoolError("--unsafe-fixes works only with --fix or --diff", hint="add --fix or --diff")
        if self.diff and self.showing.json:
            raise KvtoolError("--diff and --json cannot both be printed", hint="leave out --diff or --json")
        if self.diff and self.writing.outputs:
            raise KvtoolError("--diff only prints, so --output writes nothing", hint="leave out --output or --diff")
        if editing and STDIN in inputs:
            raise KvtoolError("kvtool cannot edit standard input", hint="leave out --fix and --diff, or give files")
        if self.undo is not None:
            if not self.fix or self.diff:
                raise KvtoolError("--undo works only with --fix", hint="add --fix, and leave out --diff")
            check_undo(self.undo, inputs)

    def _fixes(self, options: RunOptions, selecting: Selecting, templates: Sequence[TextInput]) -> Fixes:
        """Return the edits of --fix: in workloads by running them again, then in templates that none of them reads."""
        from kvtool.lint.findings.file_fixes import fix_templates, fix_workloads
        from kvtool.lint.linting import selection
        from kvtool.text.tokens.tokenizer import Tokenizers

        wanted, load = selection(selecting), Tokenizers(offline=self.showing.offline)
        tiers = parse_tiers((), unsafe=self.unsafe_fixes)
        with self.showing.progress() as progress:
            fixes = fix_workloads(options, load, tiers, wanted, progress)
        fix_templates(templates, options, load, tiers, wanted, fixes)
        return fixes

    def _show_diff(self, fixes: Fixes) -> int:
        """Print the patch: for `patch -p0` as it is, on a terminal safe to show."""
        from kvtool.fixes.edits.patch import unified_patch
        from kvtool.report.terminal.edits import put_edits
        from kvtool.report.terminal.patch import put_patch
        from kvtool.text.terminal.console import ascii_only, make_console
        from kvtool.text.terminal.streams import printing

        patch = unified_patch(fixes.files)
        with printing():
            if sys.stdout.isatty():
                console = self.showing.console()
                put_patch(console, patch, plain=ascii_only(console))
            else:
                sys.stdout.flush()
                sys.stdout.buffer.write(patch.encode())
        if not self.showing.quiet:
            put_edits(make_console(stderr=True, color=self.showing.color), fixes.edits, fixes.notes)
            count = f"{fixes.fixed:,} {'finding' if fixes.fixed == 1 else 'findings'}"
            print(f"{count} would be fixed" if fixes.files else "nothing would be changed", file=sys.stderr)
        if fixes.refused:
            raise join_errors(fixes.refused)
        return int(bool(fixes.files))

    def _written(self, fixes: Fixes, result: LintResult, options: RunOptions, selecting: Selecting) -> LintResult:
        """Return the findings that are left once the files are written."""
        from kvtool.lint.linting import lint
        from kvtool.lint.probe.probing import GROUP as PROBE
        from kvtool.profiler.optimize.write_edits import free_undo, undo_command, write_edits
        from kvtool.results.documents.lint import Fixed

        files = [file.path for file in fixes.files]
        undo = None
        if files:
            undo = self.undo or free_undo(options.inputs[0])
            write_edits(fixes.files, undo)
            probe, probed = result.probe, [finding for finding in result.findings if finding.group == PROBE]
            outside, unread = result.outside, result.unread
            result = lint(options, selecting, self.showing)  # without the probe: nothing is executed twice for it
            result.probe, result.outside, result.unread = probe, outside, unread
            result.findings += probed if probe is not None else []
        result.problems += fixes.refused
        result.fixed = Fixed(
            findings=fixes.fixed,
            paths=files,
            undo=undo,
            undo_with=None if undo is None else undo_command(fixes.files, undo),
            edits=fixes.edits,
            notes=fixes.notes,
        )
        return result

    def _taken(self) -> dict[str, str]:
        """Files that no output may take the place of, beside the inputs."""
        named = {
            self.undo: "the patch of --undo",
            self.rendering.chat_template: "the chat template",
            self.rendering.tokenizer: "the tokenizer",
        }
        return {path: what for path, what in named.items() if path is not None}

    def _write(
        self, result: LintResult, outputs: Sequence[OutputFile], options: RunOptions, selecting: Selecting
    ) -> None:
        """Return the files of `-o`; their JSON is that of --json."""
        from kvtool.profiler.quotes import quoted
        from kvtool.report.outputs import output_root, write_outputs
        from kvtool.report.write_options import WriteOptions
        from kvtool.results.wrap import lint_check
        from kvtool.text.terminal.console import DEFAULT_WIDTH

        show_text = self.writing.in_files
        check = lint_check(
            [quoted(finding, show_text) for finding in result.findings],
            inputs=[one.path for one in result.inputs],
            ignored=result.ignored,
            partial=result.partial,
            error_on=selecting.least,
        )
        render_options = WriteOptions(
            show_text=show_text,
            root=output_root(),
            command=tuple(self.showing.command_line or ("lint", *options.inputs)),
            width=self.showing.width or DEFAULT_WIDTH,
        )
        ready = {"json": result.document().to_json()}
        write_outputs(check, outputs, render_options, ready=ready, quiet=self.showing.quiet)

    def _print(self, result: LintResult) -> None:
        from kvtool.config.command_line import CommandLine
        from kvtool.report.terminal.lint import print_lint

        if self.showing.json:
            sys.stdout.write(result.document().to_json())
            return
        console = self.showing.console()
        if result.probe is not None:
            from kvtool.report.terminal.probe import print_probe
            from kvtool.text.terminal.console import put

            print_probe(console, result.probe, show_text=self.writing.in_terminal != "none")
            put(console)
        print_lint(
            console,
            result,
            show_text=self.writing.in_terminal,
            quiet=self.showing.quiet,
            command=CommandLine(self.showing.command_line or ("lint", *self.inputs)).without_output(),
        )


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False
