"""Print the sessions of coding agents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from kvtool.accounting.prices.bill import shown_money
from kvtool.report.terminal.lines import put_next
from kvtool.report.terminal.render import print_table
from kvtool.report.views.misses import UNKNOWN, lost_money
from kvtool.report.views.section import Cell, Figure, Table, TableColumn
from kvtool.report.views.time_to_live import compaction_sentence, ttl_sentence
from kvtool.results.documents.agent_sessions import SessionRow, SessionsDocument
from kvtool.results.misses import MISS_CAUSES, MissRow, local_times_in_words, sum_rows
from kvtool.text.terminal.console import ascii_only, put, put_field, sanitize, say
from kvtool.text.terminal.numbers import capitalized, percent, plural

if TYPE_CHECKING:
    from rich.console import Console

_SIZE = 12
_MOST_ROWS = 20
_MOST_SUBAGENTS = 5
_MOST_FAILED = 5


def print_folders(console: Console, folders: Sequence[tuple[str | None, str, int]]) -> None:
    """Print which folders are read, with their agents and numbers of files, before any file is read."""
    plain = ascii_only(console)
    for agent, path, files in folders:
        name = "" if agent is None else f" of {agent}"
        say(console, f"Reading {sanitize(path, ascii_only=plain)}: {plural(files, 'transcript')}{name}.", style="bold")


def print_sessions(
    console: Console, document: SessionsDocument, by_event: Sequence[str], by_session: Sequence[str], span: str = ""
) -> None:
    """Print the sums, the sessions and the subagents with the costliest misses, and what was not read.

    `by_event` are the options of `kvtool profile` that list the misses one by one, `by_session` those that list the
    sessions of a log. `span` says since when they are listed; empty: all are.
    """
    plain, total = ascii_only(console), document.total
    put(console)
    if not total.requests and span and (not document.files or document.files > document.files_without_usage):
        say(console, f"No session has a request{span}.")
    elif not total.requests:
        say(console, "No request in these transcripts reports what was read from a cache.")
    else:
        put_field(console, "Hit rate", _rate(total), *_paid(total), size=_SIZE, style="bold")
        put_field(console, "Not reused", _lost(total), size=_SIZE, hang=_SIZE + 2)
        for label, text in (
            ("Cache life", ttl_sentence(document.ttl)),
            ("Compaction", compaction_sentence(document.compactions)),
        ):
            if text:
                put_field(console, label, text, size=_SIZE, hang=_SIZE + 2)
        _print_rows(console, "Session", document.sessions, _MOST_ROWS)
        _print_rows(console, "Subagent", document.subagents, _MOST_SUBAGENTS)
    notes = _notes(document)
    if notes:
        put(console)
    for note in notes:
        say(console, sanitize(note, ascii_only=plain), hang=2, style="dim")
    costliest = max(
        (*document.sessions[:1], *document.subagents[:1]),
        key=lambda row: (Decimal(row.cost or 0), row.missed or 0),
        default=None,
    )
    if costliest is not None and costliest.missed:
        put(console)
        if sum(row.path == costliest.path for row in (*document.sessions, *document.subagents)) > 1:
            todo = "list the sessions of this log, with the text that changed between them"
            put_next(console, todo, ["profile", costliest.path, *by_session])
        else:
            put_next(console, "list the misses of the costliest session", ["profile", costliest.path, *by_event])


def _rate(total: MissRow) -> str:
    rate = percent(total.hit_rate or 0.0)
    return f"{rate} reported ({total.read:,} of {total.prompt_tokens:,} prompt tokens)"


def _paid(total: MissRow) -> list[str]:
    return [] if total.paid is None else [f"paid {shown_money(Decimal(total.paid))}"]


def _lost(total: MissRow) -> str:
    if total.missed is None:
        return "unknown: the transcripts do not say what was cached"
    if not total.missed:
        return "nothing that was cached"
    cost = "" if total.cost is None else f", {shown_money(Decimal(total.cost))}"
    causes = "; ".join(f"{MISS_CAUSES[cause]} {each.tokens:,}" for cause, each in total.by_cause.items())
    return f"{plural(total.missed, 'cached token')} were not read{cost}: {causes}"


def _print_rows(console: Console, head: str, rows: Sequence[SessionRow], most: int) -> None:
    if not rows:
        return
    shown: list[MissRow] = list(rows[:most])
    if rest := rows[most:]:
        shown.append(sum_rows(f"{len(rest):,} more", rest))
    columns = (
        TableColumn(head, "code", cut=True),
        TableColumn("project", keep=4),
        TableColumn("last used", "word", keep=3),
        TableColumn("requests", "number"),
        TableColumn("hit rate", "number"),
        TableColumn("paid", "number", keep=2),
        TableColumn("lost", "number"),
        TableColumn("costliest cause", keep=1),
    )
    put(console)
    print_table(console, Table(head, columns, [_cells(row) for row in shown]))


def _cells(row: MissRow) -> tuple[Cell, ...]:
    cause = next(iter(row.by_cause), None)
    lost = f"{row.missed:,} tokens" if row.cost is None and row.missed else lost_money(row)
    return (
        row.key,
        row.project or "",
        "" if row.last is None else f"{datetime.fromtimestamp(row.last, UTC):%Y-%m-%d %H:%M}",
        f"{row.requests + row.unreported:,}",
        UNKNOWN if row.hit_rate is None else percent(row.hit_rate),
        UNKNOWN if row.paid is None else shown_money(Decimal(row.paid)),
        Figure(lost, row.missed or 0),
        "" if cause is None else MISS_CAUSES[cause].partition(":")[0],
    )


def _notes(document: SessionsDocument) -> list[str]:
    notes = []
    if document.partial:
        notes.append("Interrupted: only the newest transcripts were read.")
    if document.known_files:
        notes.append(f"An earlier run read {plural(document.known_files, 'transcript')}, unchanged since.")
    if document.files_without_usage:
        notes.append(f"No reads are reported in {plural(document.files_without_usage, 'transcript')}.")
    if document.copied_calls:
        notes.append(f"Several transcripts contain the same {plural(document.copied_calls, 'call')}: each counts once.")
    if document.left_out:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in list(document.left_out.items())[:6])
        notes.append(f"kvtool left out records that are no requests: {kinds}.")
    if document.skipped:
        notes.append(f"kvtool skipped {plural(document.skipped, 'record')}: damaged, or of an unknown type.")
    notes += local_times_in_words(document.local_times, document.zoned_times)
    notes += [] if document.wrong_usage is None else [f"{capitalized(document.wrong_usage)}."]
    failed = list(document.failed.items())
    notes += [f"Not read: {path}: {reason}" for path, reason in failed[:_MOST_FAILED]]
    if len(failed) > _MOST_FAILED:
        notes.append(f"{len(failed) - _MOST_FAILED:,} more were not read (--json lists them).")
    return notes
