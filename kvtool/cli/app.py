"""The command line: thin, and cheap to import; each command imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from kvtool.cli.completion import asked
from kvtool.cli.file_arguments import check_file_names
from kvtool.cli.listed import DEBUG, options_of
from kvtool.cli.root_help import told_at_once
from kvtool.errors import ProblemsError, as_error

_EXIT_BUG = 3


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
    """The exit code of a command; typer's own `main` would swallow Ctrl-C and closed pipes."""
    if asked():
        from kvtool.cli.completion import complete

        return complete(_made())  # it changes what it is given
    if len(arguments) < 2 and told_at_once(*arguments):
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
