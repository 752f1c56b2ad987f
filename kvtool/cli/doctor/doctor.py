"""The command `kvtool doctor`."""

from __future__ import annotations

import sys

from kvtool.cli.doctor.machine_items import items
from kvtool.errors import EXIT_NOT_AVAILABLE
from kvtool.text.terminal.console import ColorChoice, make_console
from kvtool.text.terminal.streams import printing


def run_doctor(
    *,
    fix: bool = False,
    json: bool = False,
    color: ColorChoice = "auto",
    plain: bool = False,
    width: int | None = None,
) -> int:
    """Look at everything and print it; returns 0, or 4 where something is broken that kvtool needs."""
    found = items(fix=fix, color=color, width=width)
    working = all(item.status != "broken" for item in found)
    with printing():
        if json:
            from kvtool.results.documents.doctor import DoctorDocument, DoctorRow

            rows = [DoctorRow.taken_from(item) for item in found]
            sys.stdout.write(DoctorDocument(schema="kvtool.doctor/1", ok=working, items=rows).to_json())
        else:
            from kvtool.cli.doctor.doctor_table import print_doctor

            print_doctor(make_console(color=color, width=width, plain=plain), found)
    return 0 if working else EXIT_NOT_AVAILABLE
