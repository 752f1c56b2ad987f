"""The command `kvtool explain`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Option, only
from kvtool.config.shown_options import Showing

if TYPE_CHECKING:
    from kvtool.diagnose.codes import CodeEntry

SCHEMA = "kvtool.explain/1"


@dataclass(frozen=True, kw_only=True)
class ExplainCommand(Command):
    """What a code means, why it costs, an example before and after, the fix, and when to ignore it."""

    code: Annotated[str | None, Argument("Such as KV101; left out: all codes.", "CODE")] = None
    list_all: Annotated[bool, Option("All codes, with their names.", flag="--list")] = False
    showing: Annotated[Showing, only("json", "color", "plain", "width")]

    def run(self) -> int:
        """Print what a code means, or all of them in short. KvtoolError for a code that is unknown."""
        from kvtool.diagnose.codes import entries, find_entry

        found = [find_entry(self.code)] if self.code is not None else list(entries())
        if self.showing.json:
            from json import dumps

            documents = [entry_document(entry) for entry in found]
            sys.stdout.write(dumps({"schema": SCHEMA, "entries": documents}, indent=2, sort_keys=True) + "\n")
            return 0
        from kvtool.report.terminal.explain import print_entry, print_list

        console = self.showing.console()
        if self.code is None or self.list_all:
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
