"""The command line: thin, and cheap to import; each command imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from kvtool.cli.completion import asked, complete
from kvtool.errors import ProblemsError, as_error
from kvtool.version import __version__

if TYPE_CHECKING:
    from kvtool.cli.command import Command

_EXIT_BUG = 3
_DEBUG = "--debug"


@dataclass(frozen=True, slots=True)
class Listed:
    """A command in the help of `kvtool`: its name, what it is for, and where its class stands."""

    name: str
    short: str
    module: str
    command: str

    def load(self) -> type[Command]:
        """The class: its options, and what it does."""
        found: type[Command] = getattr(import_module(self.module), self.command)
        return found


COMMANDS = (
    Listed(
        "profile", "Hit rates, where the tokens went, TTFT, what to change.", "kvtool.cli.profile", "ProfileCommand"
    ),
    Listed("diff-prompts", "Where two or more prompts part, and what it costs.", "kvtool.cli.diff", "DiffCommand"),
    Listed("lint", "Findings only: what costs hits, and where.", "kvtool.cli.lint", "LintCommand"),
    Listed("optimize", "Rewrite prompts, prove it, write where told.", "kvtool.cli.optimize", "OptimizeCommand"),
    Listed("check", "The gate for CI: limits and a baseline, one verdict.", "kvtool.cli.check", "CheckCommand"),
    Listed("compare", "What moved from one result to another.", "kvtool.cli.compare", "CompareCommand"),
    Listed("report", "A saved result again, in any format.", "kvtool.cli.report", "ReportCommand"),
    Listed("init", "Write a starting configuration for the prompts here.", "kvtool.cli.init.init", "InitCommand"),
    Listed("config", "Every option, and where its value comes from.", "kvtool.cli.config", "ConfigCommand"),
    Listed("schema", "JSON Schemas of what kvtool reads and writes.", "kvtool.cli.schema", "SchemaCommand"),
    Listed("explain", "What a code means; --list.", "kvtool.cli.explain", "ExplainCommand"),
    Listed("size", "How many KV blocks a model leaves room for.", "kvtool.cli.size", "SizeCommand"),
    Listed("bench", "What this machine does, and a fit of the predictions to it.", "kvtool.cli.bench", "BenchCommand"),
    Listed("doctor", "What is here, what is missing, and how to get it.", "kvtool.cli.doctor.doctor", "DoctorCommand"),
)
"""Every command, in the order of the help; what a command is made of is imported when it is asked for."""


class _Commands(Mapping[str, Any]):
    """The commands by name, each made when it is asked for: making all of them takes longer than showing a version."""

    def __init__(self) -> None:
        self._listed = {listed.name: listed for listed in COMMANDS}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            from kvtool.cli.command import typer_command

            listed = self._listed[name]
            self._made[name] = typer_command(name, listed.short, listed.load())
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


class _Group(typer.core.TyperGroup):
    """All commands; their listing makes none of them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": {}})
        self.commands = cast("MutableMapping[str, Any]", _Commands())  # none is added to it

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as typer calls it
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer calls it
        with formatter.section("Commands"):
            formatter.write_dl([(listed.name, listed.short) for listed in COMMANDS])


app = typer.Typer(
    cls=_Group,
    name="kvtool",
    help="Prefix-cache profiling and prompt optimization: what is my hit rate, what could it be, and which text loses it.",
    epilog="Begin with: kvtool profile workloads/support-bot.yaml\n\nIn a folder with prompts of your own: kvtool init, then"
    " kvtool check",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"kvtool {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    _show_version: Annotated[
        bool, typer.Option("-V", "--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    _debug: Annotated[bool, typer.Option(_DEBUG, help="Show the traceback of an error.")] = False,
) -> None:
    """Prefix-cache profiling and prompt optimization: what is my hit rate, what could it be, and which text loses it."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command line; every error becomes a message on stderr and an exit code. Ctrl-C is raised on."""
    from kvtool.text.terminal.streams import discard_stdout, flush_stdout

    given = [argument for argument in arguments if argument != _DEBUG]
    try:
        code = _invoke(given)
        flush_stdout()
    except BrokenPipeError:
        discard_stdout()
        return 0
    except Exception as error:
        if len(given) < len(arguments):
            from traceback import print_exc

            print_exc()
        return _explain(error)
    return code


@cache
def _commands() -> Any:
    """Made once, for processes that run several command lines."""
    return typer.main.get_command(app)


def _invoke(arguments: Sequence[str]) -> int:
    """The exit code of a command; typer's own `main` would swallow Ctrl-C and closed pipes."""
    if asked():
        return complete(typer.main.get_command(app))
    try:
        with _commands().make_context("kvtool", list(arguments), obj=tuple(arguments)) as context:
            result: Any = context.command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    """Tell what went wrong, in a form that depends on whose mistake it was."""
    from kvtool.report.terminal.errors import print_bug, print_error, print_usage
    from kvtool.text.terminal.streams import discard_stdout, output_error

    if isinstance(error, ProblemsError):
        for problem in error.errors:
            print_error(problem)
        return error.exit_code
    if isinstance(error, OSError) and error.filename is None:
        discard_stdout()
        error = output_error(error)
    if (mistake := as_error(error)) is not None:
        print_error(mistake)
        return mistake.exit_code
    if (code := print_usage(error)) is not None:
        return code
    print_bug(error)
    return _EXIT_BUG
