"""The command `kvtool explain`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Option, only
from kvtool.config.options.shown_options import Showing


@dataclass(frozen=True, kw_only=True)
class ExplainCommand(Command):
    """Explain a code: meaning, cost, an example before and after, the fix, and when to ignore it."""

    code: Annotated[str | None, Argument("Code, such as KV101; without it, all codes", "CODE")] = None
    list_all: Annotated[bool, Option("List all codes with their names.", flag="--list")] = False
    showing: Annotated[Showing, only("json", "color", "plain", "width")]

    def run(self) -> int:
        """Print what a code means, or all of them in short. KvtoolError for a code that is unknown."""
        from kvtool.diagnose.codes import entries, find_entry

        found = [find_entry(self.code)] if self.code is not None else list(entries())
        if self.showing.json:
            from kvtool.diagnose.explain_document import explained

            sys.stdout.write(explained(found).to_json())
            return 0
        from kvtool.report.terminal.explain import print_entry, print_list

        console = self.showing.console()
        if self.code is None or self.list_all:
            print_list(console, found)
        else:
            print_entry(console, found[0])
        return 0
