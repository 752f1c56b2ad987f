"""The command `kvtool explain`."""

from __future__ import annotations

import sys

from kvtool.results.catalogue import entries, find_entry
from kvtool.text.terminal.console import ColorChoice, make_console


def run_explain(
    code: str | None,
    *,
    list_all: bool = False,
    json: bool = False,
    color: ColorChoice = "auto",
    plain: bool = False,
    width: int | None = None,
) -> int:
    """Print what a code means, or all of them in short; returns the exit code. KvtoolError for a code that is unknown."""
    found = [find_entry(code)] if code is not None else list(entries())
    if json:
        from kvtool.diagnose.explained import explained

        sys.stdout.write(explained(found).to_json())
        return 0
    from kvtool.report.terminal.explain import print_entry, print_list

    console = make_console(color=color, width=width, plain=plain)
    if code is None or list_all:
        print_list(console, found)
    else:
        print_entry(console, found[0])
    return 0
