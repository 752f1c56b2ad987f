"""The table of all engines: what each reuses, by group, and how far its rules can be trusted."""

from __future__ import annotations

from kvtool.accounting.ledger.fates import FATES
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.documents.engine_table import EngineRow, EngineTable
from kvtool.text.terminal.numbers import percent, plural

NEXT = "see where these tokens go, and try the settings that win them back"
PARTIAL = "The run was interrupted: the figures are those of the requests up to there."
_STATUS = {"driven": "compared", "read": "read, not run"}


def sections(table: EngineTable, most_groups: int) -> list[Section]:
    """Return what engines reuse, with at most so many groups, the evidence for their rules, and what these leave out."""
    groups = [_groups(table, most_groups)] if len(table.groups) > 1 else []
    evidence = {row.engine: row.evidence for row in table.rows}
    limits = {row.engine: "; ".join(row.not_modelled) for row in table.rows if row.not_modelled}
    return [
        Section("engines", "What each engine reuses", tuple(answer(table)), [_engines(table), *groups]),
        Section("status", "How far these rules can be trusted", notes=_each(evidence)),
        Section("limits", "Not in these rules", notes=_each(limits)),
    ]


def _each(told: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{engine}: {text}" for engine, text in told.items())


def _engines(table: EngineTable) -> Table:
    columns = (
        TableColumn("#", "number", keep=3 if len(table.groups) < 2 else None),
        TableColumn("Engine", "code"),
        TableColumn("Cached", "number"),
        TableColumn("Hit", "number"),
        TableColumn("Less", "number", keep=2),
        TableColumn("Because of", keep=4),
        TableColumn("Computed again", only="pages"),
        TableColumn("Rules", keep=1),
    )
    rows = [
        (
            str(number),
            row_name(row),
            f"{row.cached_tokens:,}",
            percent(row.hit_rate),
            f"{row.behind_tokens:,}" if row.behind_tokens else "",
            row.cause or "",
            _computed_again(row),
            _STATUS[row.status],
        )
        for number, row in enumerate(table.rows, 1)
    ]
    return Table("What each engine reuses", columns, rows)


def _groups(table: EngineTable, most: int) -> Table:
    """Hit rates of each group under every engine, by the numbers of the rows above."""
    columns = (
        TableColumn("Group", "code", cut=True),
        *(TableColumn(str(number), "number") for number in range(1, len(table.rows) + 1)),
        TableColumn("Largest difference", keep=1),
    )
    rows = [
        (
            group.name,
            *(percent(tokens / group.prompt_tokens if group.prompt_tokens else 0.0) for tokens in group.cached_tokens),
            group.cause or "",
        )
        for group in table.groups[:most]
    ]
    return Table("Hit rates of groups", columns, rows, more=max(len(table.groups) - most, 0))


def short_name(row: EngineRow) -> str:
    """Return the engine without its version."""
    return row.engine.split(",")[0].split(" ")[0]


def row_name(row: EngineRow) -> str:
    """Return the engine with its settings that are not the defaults."""
    return " ".join((short_name(row), *row.flags))


def facts(table: EngineTable) -> list[str]:
    """Return what was compared, in parts."""
    capacity = "unlimited caches" if table.capacity_tokens is None else f"caches of {table.capacity_tokens:,} tokens"
    parts = [
        table.tokenizer or "token ids",
        plural(table.requests, "request"),
        f"{table.prompt_tokens:,} prompt tokens",
    ]
    return [*parts, capacity]


def answer(table: EngineTable) -> list[str]:
    """Return who reuses most and least, and what else must be known, each in a sentence."""
    best = max(table.rows, key=lambda row: row.cached_tokens)
    worst = max(table.rows, key=lambda row: row.behind_tokens)
    if not worst.behind_tokens:
        return [f"All of them reuse {best.cached_tokens:,} tokens ({percent(best.hit_rate)})."]
    most = [row for row in table.rows if row.cached_tokens == best.cached_tokens]
    named = ", ".join(row_name(row) for row in most)
    told = [
        f"Most: {named}, with {best.cached_tokens:,} tokens ({percent(best.hit_rate)}).",
        f"Least: {row_name(worst)}, with {worst.behind_tokens:,} tokens less: {worst.cause or 'other text'}.",
    ]
    moved = [row for row in table.rows if row.moved_tokens]
    told += [
        f"{row_name(row)} moves {row.moved_tokens:,} tokens to another position: answers may change." for row in moved
    ]
    refused = [row for row in table.rows if row.refused_requests]
    told += [
        f"{row_name(row)} refuses {plural(row.refused_requests, 'request')}: {row.first_refusal or ''}."
        for row in refused
    ]
    return told


def _computed_again(row: EngineRow) -> str:
    """Return the tokens that were sent before and are computed again, by fate."""
    found = sorted(row.lost.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{FATES.get(fate, fate)} {tokens:,}" for fate, tokens in found)
