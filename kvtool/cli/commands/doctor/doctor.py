"""The command `kvtool doctor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.cli.commands.doctor.item import DoctorItem, Status
from kvtool.config.option import Option, only
from kvtool.config.options.shown_options import Showing
from kvtool.text.terminal.console import ascii_only, fold, is_plain, put, sanitize, say
from kvtool.text.terminal.numbers import plural

if TYPE_CHECKING:
    from rich.console import Console

_WORDS: dict[Status, str] = {"ok": "", "note": "NOTE ", "missing": "MISSING ", "broken": "BROKEN "}
_STYLES: dict[Status, str | None] = {"ok": None, "note": "yellow", "missing": "yellow", "broken": "bold red"}


@dataclass(frozen=True, kw_only=True)
class DoctorCommand(Command):
    """Show what kvtool finds on this machine, what is missing, and how to get it.

    The exit code is 4 if something that kvtool needs is broken.
    """

    fix: Annotated[bool, Option("Prepare the built-in tokenizer now; this takes some seconds, once.")] = False
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
                print_doctor(self.showing.console(), found)
        return 0 if working else EXIT_NOT_AVAILABLE


def print_doctor(console: Console, items: Sequence[DoctorItem]) -> None:
    """Print the items of each section, then a summary."""
    plain = ascii_only(console)
    size = max(len(item.name) for item in items) + 2
    put(console, "kvtool doctor", "bold")
    section = ""
    for item in items:
        if item.section != section:
            section = item.section
            put(console)
            if not is_plain(console):
                put(console, f"  {section}", "bold")
        _item(console, item, size, plain)
    put(console)
    broken = [item for item in items if item.status == "broken"]
    if broken:
        text = f"BROKEN: kvtool does not work without {', '.join(item.name for item in broken)}."
        say(console, sanitize(text, ascii_only=plain), indent=0, style="bold red")
    else:
        missing = sum(item.status == "missing" for item in items)
        more = f" {plural(missing, 'optional item')} missing." if missing else ""
        say(console, f"OK: kvtool works.{more}", indent=0, style="bold green")


def _item(console: Console, item: DoctorItem, size: int, plain: bool) -> None:
    value = _WORDS[item.status] + sanitize(item.value, ascii_only=plain)
    advice = sanitize(item.help, ascii_only=plain)
    if is_plain(console):
        put(console, f"{item.section}, {item.name}: {value}" + (f"; help: {advice}" if advice else ""))
        return
    for line in fold(f"    {item.name:<{size}}{value}", console.width, indent=4 + size):
        put(console, line, _STYLES[item.status])
    if advice:
        for line in fold(f"{' ' * (4 + size)}help: {advice}", console.width, indent=4 + size):
            put(console, line, "dim")
