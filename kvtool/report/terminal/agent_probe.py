"""Print the probe of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.answer import steps_told
from kvtool.report.terminal.lines import put_head
from kvtool.report.terminal.render import print_table
from kvtool.report.views.section import Table, TableColumn
from kvtool.text.terminal.console import ascii_only, put, put_field, sanitize, say
from kvtool.text.terminal.numbers import percent, plural

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.results.documents.agent_probe import AgentProbe
    from kvtool.results.steps import Steps

_SIZE = 10
_MOST_ROWS = 12
_PROTOCOLS = {
    "messages": "Anthropic Messages",
    "chat": "Chat Completions",
    "responses": "OpenAI Responses",
    "gemini": "Gemini",
}


def print_agent_probe(console: Console, document: AgentProbe) -> None:
    """Print the verdict, the steps that break, and what else came."""
    plain, base = ascii_only(console), document.runs[0]
    seconds = sum(run.seconds for run in document.runs)
    protocols = ", ".join(_PROTOCOLS.get(each, each) for each in document.protocols)
    put_head(console, ["kvtool probe", protocols, f"{plural(base.requests, 'request')} a run", f"{seconds:.0f} s"])
    put(console)
    broken = document.verdict == "broken"
    put_field(
        console,
        "Breaks" if broken else "Stable",
        steps_told(document.steps),
        size=_SIZE,
        hang=_SIZE + 2,
        style="bold red" if broken else "bold",
    )
    again = document.again
    if again is not None:
        text = "the first request is the same in a second run"
        if again.place is not None:
            share = percent(again.kept_tokens / max(again.tokens, 1))
            text = f"a second run keeps {share} of the first request; {sanitize(again.place, ascii_only=plain)} differs"
        put_field(console, "Again", text, size=_SIZE, hang=_SIZE + 2)
    if broken:
        put(console)
        print_table(console, _breaks(document.steps, plain))
    left_out = ", ".join(f"{sanitize(kind, ascii_only=plain)} {count:,}" for kind, count in document.left_out.items())
    notes = [*document.notes, *([f"Left out: {left_out}."] if left_out else [])]
    put(console)
    for note in notes:
        say(console, sanitize(note, ascii_only=plain), style="dim")


def _breaks(steps: Steps, plain: bool) -> Table:
    columns = (
        TableColumn("request", "word"),
        TableColumn("first field that differs"),
        TableColumn("what"),
        TableColumn("code", "word"),
        TableColumn("tokens lost", "number"),
    )
    rows = [
        (each.request, sanitize(each.place, ascii_only=plain), each.what, each.code, f"{each.lost_tokens:,}")
        for each in steps.breaks[:_MOST_ROWS]
    ]
    return Table("Steps that break", columns, rows, more=max(len(steps.breaks) - _MOST_ROWS, 0))
