"""Text: the terminal report without colour."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING

from kvtool.report.terminal.any_result import print_result
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.text.terminal.console import make_console

if TYPE_CHECKING:
    from rich.console import Console


def write(result: CheckResult, options: WriteOptions) -> str:
    """Return lines of at most `options.width` columns."""

    def show(console: Console) -> None:
        print_result(console, result, show_text=options.show_text, command=options.command, details=options.details)

    return text_of(show, options.width)


def text_of(print_function: Callable[[Console], None], width: int) -> str:
    """Return what `print_function` prints to a console of `width` columns without colour."""
    file = StringIO()
    print_function(make_console(file=file, color="never", width=width))
    return file.getvalue()
