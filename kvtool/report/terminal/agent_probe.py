"""Print the probe of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.report.terminal.lines import put_head
from kvtool.report.terminal.render import print_table
from kvtool.report.views.agents.agent_probe import agent_tables, answer_lines, probe_notes, probe_title
from kvtool.report.views.section import Table, TableColumn
from kvtool.text.terminal.console import ascii_only, put, put_field, sanitize, say

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.results.documents.agent_probe import AgentProbe
    from kvtool.results.documents.agent_recipes import AgentRecipes
    from kvtool.results.verdict import Check

_SIZE = 10
_STYLES = {"Breaks": "bold red", "Stable": "bold"}


def print_agent_probe(console: Console, document: AgentProbe) -> None:
    """Print the verdict, what each circumstance keeps, the steps that break, and what else came."""
    plain = ascii_only(console)
    put_head(console, ["kvtool probe", *probe_title(document)])
    put(console)
    for label, text in answer_lines(document):
        safe = sanitize(text, ascii_only=plain)
        put_field(console, label, safe, size=_SIZE, hang=_SIZE + 2, style=_STYLES.get(label))
    for table in agent_tables(document):
        put(console)
        print_table(console, table)
    put(console)
    for note in probe_notes(document):
        say(console, sanitize(note, ascii_only=plain), style="dim")


def print_changes(console: Console, checks: Sequence[Check]) -> None:
    """Print what differs from a baseline."""
    plain = ascii_only(console)
    changed = [check for check in checks if check.status != "pass"]
    put(console)
    for check in changed:
        style = "bold red" if check.status == "fail" else "yellow"
        put_field(console, check.status, sanitize(check.message, ascii_only=plain), size=_SIZE, style=style)
    if not changed:
        say(console, "Nothing is worse than in the baseline.")


def print_recipes(console: Console, document: AgentRecipes) -> None:
    """Print the agents that have a recipe."""
    columns = (
        TableColumn("agent", "word"),
        TableColumn("installed", "word"),
        TableColumn("recipe tried with", "word"),
        TableColumn("state", "word"),
        TableColumn("install"),
    )
    rows = [
        (
            each.name,
            each.version or "-",
            each.oldest if each.oldest == each.newest else f"{each.oldest} to {each.newest}",
            each.status,
            each.install if each.status == "not installed" else "-",
        )
        for each in document.agents
    ]
    print_table(console, Table("Agents that have a recipe", columns, rows))
