"""The probe of an agent: whether steps break, what each circumstance keeps of a first request, and where they differ first."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from kvtool.accounting.prices.bill import shown_money
from kvtool.report.answer import steps_told
from kvtool.report.views.section import Cell, Figure, Section, Table, TableColumn
from kvtool.results.documents.agent_probe import AgentProbe, VariedRun
from kvtool.results.steps import BrokenStep
from kvtool.text.terminal.numbers import percent, plural

_MOST_ROWS = 12
_PROTOCOLS = {
    "messages": "Anthropic Messages",
    "chat": "Chat Completions",
    "responses": "OpenAI Responses",
    "gemini": "Gemini",
}
_PLACE = (TableColumn("first field that differs"), TableColumn("what", keep=1), TableColumn("code", "word", keep=2))


def probe_title(document: AgentProbe) -> list[str]:
    """Return the parts of the head."""
    name = f"{document.agent} {document.version or ''}".strip()
    protocols = ", ".join(_PROTOCOLS.get(each, each) for each in document.protocols)
    seconds = sum(run.seconds for run in document.runs)
    requests = plural(document.runs[0].requests, "request")
    return [name, protocols, f"{requests} a session", plural(len(document.runs), "run"), f"{seconds:.0f} s"]


def answer_lines(document: AgentProbe) -> list[tuple[str, str]]:
    """Return the verdict and what is chance, each with its label."""
    broken = [row for row in document.circumstances if row.broken and row.judged and row.name != "resume"]
    told = steps_told(document.steps)
    lines = [("Breaks" if document.steps.broken else "Stable", told)]
    lines += [("Breaks", _broken_when(row)) for row in broken]
    again = next((row for row in document.circumstances if row.name == "again"), None)
    if again is not None:
        lines.append(("Chance", _chance(again)))
    command = next((each.command for each in document.steps.breaks if each.command), None)
    return [*lines, *([("Next", f"Compare the two requests: {command}")] if command else [])]


def probe_section(document: AgentProbe) -> Section:
    """Return the whole probe, for pages."""
    lead = tuple(f"{label}: {text}." for label, text in answer_lines(document))
    title = f"Probe of {' · '.join(probe_title(document))}"
    return Section("agent-probe", title, lead, tables=agent_tables(document), notes=tuple(probe_notes(document)))


def agent_tables(document: AgentProbe) -> list[Table]:
    """Return the circumstances, and the steps that break."""
    tables = [_circumstances(document)] if document.circumstances else []
    breaks = [("base", each) for each in document.steps.breaks]
    breaks += [(row.name, each) for row in document.circumstances if row.name != "resume" for each in row.breaks]
    return [*tables, _breaks(breaks)] if breaks else tables


def probe_notes(document: AgentProbe) -> list[str]:
    """Return what was not tried, what went wrong, and what was left out."""
    left_out = ", ".join(f"{kind} {count:,}" for kind, count in document.left_out.items())
    skipped = [f"Not tried: {each.name}: {each.reason}." for each in document.skipped]
    if document.price_model is not None:
        skipped.append(f"Cost of the loss: by the prices of {document.price_model}, each time that it happens.")
    return [*skipped, *document.notes, *([f"Left out: {left_out}."] if left_out else [])]


def _broken_when(row: VariedRun) -> str:
    begin = "does not begin" if row.broken == 1 else "do not begin"
    where = f", first in {row.breaks[0].place}" if row.breaks else ""
    return f"{row.broken:,} of {plural(row.steps, 'step')} {begin} with the step before when {row.when}{where}"


def _chance(again: VariedRun) -> str:
    if again.place is None:
        return "two equal runs send the same first request"
    return f"two equal runs differ in {again.place} and share {percent(again.kept)}; the other rows leave that out"


def _circumstances(document: AgentProbe) -> Table:
    rows = document.circumstances
    has_price = document.price_model is not None
    columns = (
        TableColumn("circumstance", "word"),
        TableColumn("kept", "number"),
        TableColumn("tokens kept", "number", keep=0),
        *((TableColumn("cost of the loss", "number", short="cost"),) if has_price else ()),
        *_PLACE,
        TableColumn("steps that break", "number", short="breaks"),
    )
    cells = [
        (
            row.name,
            *_kept(row),
            *((_cost(row, document.currency),) if has_price else ()),
            row.place or "-",
            row.what or "-",
            row.code or "-",
            f"{row.broken:,} of {row.steps:,}" if row.steps else "-",
        )
        for row in rows
    ]
    return Table("What a circumstance keeps of the first request", columns, cells)


def _cost(row: VariedRun, currency: str) -> str:
    return "-" if row.cost is None or not row.lost_tokens else shown_money(Decimal(row.cost), currency)


def _kept(row: VariedRun) -> tuple[Cell, Cell]:
    if row.name == "resume":
        return "-", "-"
    return Figure(percent(row.kept), row.kept), f"{row.kept_tokens:,} of {row.tokens:,}"


def _breaks(found: Sequence[tuple[str, BrokenStep]]) -> Table:
    columns = (
        TableColumn("run", "word"),
        TableColumn("request", "word"),
        *_PLACE,
        TableColumn("tokens lost", "number"),
    )
    rows: list[tuple[Cell, ...]] = [
        (run, each.request, each.place, each.what, each.code, f"{each.lost_tokens:,}") for run, each in found
    ]
    return Table("Steps that break", columns, rows[:_MOST_ROWS], more=max(len(rows) - _MOST_ROWS, 0))
