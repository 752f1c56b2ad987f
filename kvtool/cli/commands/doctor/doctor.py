"""The command `kvtool doctor`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Option, only
from kvtool.config.options.shown_options import Showing


@dataclass(frozen=True, kw_only=True)
class DoctorCommand(Command):
    """What kvtool finds on this machine: versions, device, tokenizer cache, configuration, terminal; what is missing and how to
    get it.

    Exit code 4 where something is broken that kvtool needs.
    """

    fix: Annotated[bool, Option("Prepare the built-in tokenizer now; it takes some seconds once.")] = False
    showing: Annotated[Showing, only("json", "color", "plain", "width")]

    def run(self) -> int:
        """Look at everything and print it; 0, or 4 where something is broken that kvtool needs."""
        from kvtool.cli.commands.doctor.machine_items import items
        from kvtool.errors import EXIT_NOT_AVAILABLE
        from kvtool.text.terminal.streams import printing

        found = items(fix=self.fix, color=self.showing.color, width=self.showing.width)
        working = all(item.status != "broken" for item in found)
        with printing():
            if self.showing.json:
                from kvtool.results.documents.doctor import DoctorDocument, DoctorRow

                rows = [DoctorRow.taken_from(item) for item in found]
                sys.stdout.write(DoctorDocument(schema="kvtool.doctor/1", ok=working, items=rows).to_json())
            else:
                from kvtool.cli.commands.doctor.doctor_table import print_doctor

                print_doctor(self.showing.console(), found)
        return 0 if working else EXIT_NOT_AVAILABLE
