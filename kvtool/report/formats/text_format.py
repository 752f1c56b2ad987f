"""Text: the terminal report without colour."""

from __future__ import annotations

from io import StringIO

from kvtool.report.terminal.result import print_result
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.text.terminal.console import make_console


def write(result: CheckResult, options: WriteOptions) -> str:
    """Lines of at most `options.width` columns."""
    file = StringIO()
    console = make_console(file=file, color="never", width=options.width)
    print_result(console, result, show_text=options.show_text, command=options.command, details=options.details)
    return file.getvalue()
