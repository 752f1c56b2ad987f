"""Where prompt tokens went, in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.accounting.ledger.fates import DECIDED_BY
from kvtool.diagnose.codes import wins
from kvtool.report.views.fates import absent_fates_note, fate_name, fate_shares
from kvtool.results.report import Report
from kvtool.text.terminal.console import bar, cell_width, draws_bars, is_plain, put, put_field, say

if TYPE_CHECKING:
    from rich.console import Console


def print_fates(console: Console, report: Report, plain: bool) -> None:
    """Print a row for each fate that took tokens; bars are relative to the longest."""
    rows = [row for row in fate_shares(report.fates) if row[1]]
    notes = dict(DECIDED_BY)
    for finding in report.findings:
        if finding.rerun is not None or (finding.fix_key and finding.code < "KV3"):
            notes |= dict.fromkeys(wins(finding.code), "fix above")
    label = max((cell_width(fate_name(name)) for name, _, _ in rows), default=0)
    if is_plain(console):
        for name, count, part in rows:
            put_field(console, f"Tokens {fate_name(name)}", f"{count:,}", part, notes.get(name, ""), size=label)
        return
    digits = max((len(f"{count:,}") for _, count, _ in rows), default=0)
    noted = max((len(notes[name]) + 2 for name, _, _ in rows if name in notes), default=0)
    room = console.width - 4 - label - 2 - digits - 8 - noted
    size_of_bar = max(min(room - 2, 30), 0) if draws_bars(console) and len(rows) > 1 else 0
    heading = f"  Where prompt tokens went ({report.totals.prompt_tokens:,})"
    if not size_of_bar:  # the figures stand below their titles
        label += max(min(cell_width(heading) - 4 - label, room), 0)
    right = f"{'tokens':>{digits}}   share"
    before = 4 + label + 2 + (size_of_bar + 2 if size_of_bar else 0)
    put(console, heading + right.rjust(max(before + digits + 8 - cell_width(heading), len(right) + 2)), "bold")
    most = max((count for _, count, _ in rows), default=1)
    for name, count, part in rows:
        meter = bar(count / most, size_of_bar, plain) + "  " if size_of_bar else ""
        line = f"    {fate_name(name):<{label}}  {meter}{count:>{digits},}  {part:>6}"
        if name in notes and cell_width(line) + 2 + len(notes[name]) <= console.width:
            line += f"  {notes[name]}"
        put(console, line, "green" if name == "hit" else None)
    if report.absent_fates:
        say(console, absent_fates_note(report.absent_fates), indent=4, style="dim")
