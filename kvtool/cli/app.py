"""The command line: thin, and cheap to import; each command imports what it needs when it runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import cache
from textwrap import TextWrapper
from typing import Any

from kvtool.cli.completion import asked
from kvtool.cli.listed import DEBUG, EPILOG, SHOW_TRACEBACK, SHOW_VERSION, SUMMARY, WIDEST, groups, options_of
from kvtool.errors import KvtoolError, ProblemsError, as_error
from kvtool.text.terminal.streams import STDIN
from kvtool.version import __version__

_EXIT_BUG = 3
_ONLY_INPUTS = "--"
"""Arguments after it are no options."""
_OPTIONS = (
    ("-V, --version", SHOW_VERSION),
    (DEBUG, SHOW_TRACEBACK),
    ("--install-completion", "Install completion for the current shell."),
    ("--show-completion", "Show completion for the current shell, to copy it or customize the installation."),
    ("-h, --help", "Show this message and exit."),
)
_NARROWEST = 50
_MARGIN = 2


def run(arguments: Sequence[str]) -> int:
    """Run one command line; every error becomes a message on stderr and an exit code. Ctrl-C is raised on."""
    from kvtool.text.terminal.ended import raise_swallowed
    from kvtool.text.terminal.streams import discard_stdout, flush_stdout

    given = [argument for argument in arguments if argument != DEBUG]
    try:
        code = _invoke(given)
        flush_stdout()
    except BrokenPipeError:
        discard_stdout()
        return 0
    except Exception as error:
        raise_swallowed(error)
        if len(given) < len(arguments):
            from traceback import print_exc

            print_exc()
        return _explain(error)
    return code


@cache
def _commands() -> Any:
    """Made once, for processes that run several command lines."""
    return _made()


def _made() -> Any:
    import typer

    from kvtool.cli.root import app

    return typer.main.get_command(app)


def _invoke(arguments: Sequence[str]) -> int:
    """Return the exit code of a command; typer's own `main` would swallow Ctrl-C and closed pipes."""
    if asked():
        from kvtool.cli.completion import complete

        return complete(_made())  # it changes what it is given
    if len(arguments) < 2 and report_now(*arguments):
        return 0
    check_file_names(arguments)
    import typer

    from kvtool.config.command_line import CommandLine

    try:
        line = CommandLine(arguments, options_of)
        with _commands().make_context("kvtool", list(arguments), obj=line) as context:
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


def check_file_names(arguments: Sequence[str]) -> None:
    """Raise KvtoolError for an option that is also a file here: the name of a file must not decide what kvtool does."""
    for argument in arguments:
        if argument == _ONLY_INPUTS:
            return
        if argument.startswith("-") and argument != STDIN and os.path.lexists(argument):
            raise KvtoolError(
                f"`{argument}` is an option and the name of a file that is here",
                hint="write ./ before the file, or -- before all inputs; for the option, rename the file",
            )


def report_now(argument: str = "--help") -> bool:
    """Print the help or the version where the only argument asks for it, or there is none; False for another argument."""
    if argument in ("-V", "--version"):
        print(f"kvtool {__version__}")
    elif argument in ("-h", "--help", "--help-all"):
        print(root_help(shutil.get_terminal_size().columns))
    else:
        return False
    return True


def root_help(columns: int) -> str:
    """Return the help as typer makes it of the same texts, without its imports."""
    width = max(min(columns, WIDEST) - _MARGIN, _NARROWEST)
    paragraphs = [
        "Usage: kvtool [OPTIONS] COMMAND [ARGS]...",
        _indented(SUMMARY, width),
        "Options:\n" + _table(_OPTIONS, width),
        *(f"{group}:\n{_table(rows, width)}" for group, rows in groups().items()),
        *(_indented(text, width) for text in EPILOG),
    ]
    return "\n\n".join(paragraphs)


def _indented(text: str, width: int) -> str:
    return TextWrapper(width, initial_indent="  ", subsequent_indent="  ").fill(text)


def _table(rows: Sequence[tuple[str, str]], width: int) -> str:
    first = max(len(name) for name, _ in rows) + _MARGIN
    wrapper = TextWrapper(width - first - _MARGIN)
    indent = "\n" + " " * (first + _MARGIN)
    return "\n".join(f"  {name:<{first}}{indent.join(wrapper.wrap(text))}" for name, text in rows)
