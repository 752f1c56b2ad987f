"""The command `kvtool explain`."""

from __future__ import annotations

import sys
from json import dumps
from typing import Any

from kvtool.diagnose.codes import CodeEntry, entries, find_entry
from kvtool.text.terminal.console import ColorChoice, make_console

SCHEMA = "kvtool.explain/1"


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
        documents = [entry_document(entry) for entry in found]
        sys.stdout.write(dumps({"schema": SCHEMA, "entries": documents}, indent=2, sort_keys=True) + "\n")
        return 0
    from kvtool.report.terminal.explain import print_entry, print_list

    console = make_console(color=color, width=width, plain=plain)
    if code is None or list_all:
        print_list(console, found)
    else:
        print_entry(console, found[0])
    return 0


def entry_document(entry: CodeEntry) -> dict[str, Any]:
    """An entry of the catalogue as plain data."""
    return {
        "code": entry.code,
        "name": entry.name,
        "what": entry.what,
        "why": entry.why,
        "before": entry.before,
        "after": entry.after,
        "fixes": [{"what": remedy.what, "tier": remedy.tier} for remedy in entry.remedies],
        "ignore_when": entry.ignore,
    }
