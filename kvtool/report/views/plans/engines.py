"""The table of all engines: what each reuses, by group, and how far its rules can be trusted."""

from __future__ import annotations

from kvtool.accounting.ledger.fates import FATES
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.documents.engine_table import EngineRow, EngineTable
from kvtool.text.terminal.numbers import percent, plural

PARTIAL = "The run was interrupted. The figures cover the requests before that."
_STATUS = {"driven": "verified", "read": "source code"}
_CLOSE = 0.01
"""Difference of hit rates below which a change of the engine is not worth its work."""
_LOW = 0.5
"""Hit rate that shows that the prompts are the limit, not the engine."""


def todo(table: EngineTable) -> str:
    """Return what the next command does."""
    return f"see what limits {short_name(own_row(table))}"


def own_row(table: EngineTable) -> EngineRow:
    """Return the engine that the user runs, else vLLM's."""
    return next((row for row in table.rows if row.rules == (table.own or "vllm")), table.rows[0])


def sections(table: EngineTable, most_groups: int) -> list[Section]:
    """Return what engines reuse, with at most so many groups, the evidence for their rules, and what these leave out."""
    groups = [_groups(table, most_groups)] if len(table.groups) > 1 else []
    evidence = {row.engine: row.evidence for row in table.rows}
    limits = {row.engine: "; ".join(row.not_modelled) for row in table.rows if row.not_modelled}
    return [
        Section("engines", "Hit rate by engine", tuple(answer(table)), [_engines(table), *groups]),
        Section("status", "Evidence for these rules", notes=_each(evidence)),
        Section("limits", "Not simulated", notes=_each(limits)),
    ]


def _each(texts: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{engine}: {text}" for engine, text in texts.items())


def _engines(table: EngineTable) -> Table:
    columns = (
        TableColumn("#", "number", keep=3 if len(table.groups) < 2 else None),
        TableColumn("Engine", "code"),
        TableColumn("Cached", "number"),
        TableColumn("Hit rate", "number"),
        TableColumn("Fewer", "number", keep=2),
        TableColumn("Cause", keep=4),
        TableColumn("Computed again", only="pages"),
        TableColumn("Basis", keep=1),
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
    return Table("Hit rate by engine", columns, rows)


def _groups(table: EngineTable, most: int) -> Table:
    """Hit rates of each group under every engine, by the numbers of the rows above."""
    columns = (
        TableColumn("Group", "code", cut=True),
        *(TableColumn(str(number), "number") for number in range(1, len(table.rows) + 1)),
        TableColumn("Cause of the difference", keep=1),
    )
    rows = [
        (
            group.name,
            *(percent(tokens / group.prompt_tokens if group.prompt_tokens else 0.0) for tokens in group.cached_tokens),
            group.cause or "",
        )
        for group in table.groups[:most]
    ]
    caption = "Hit rate by group (the columns are the numbers of the engines)"
    return Table(caption, columns, rows, more=max(len(table.groups) - most, 0), titled=True)


def short_name(row: EngineRow) -> str:
    """Return the engine without its version."""
    return row.engine.split(",")[0].split(" ")[0]


def row_name(row: EngineRow) -> str:
    """Return the engine with its settings that are not the defaults."""
    return " ".join((short_name(row), *row.flags))


def facts(table: EngineTable) -> list[str]:
    """Return what was compared, in parts."""
    capacity = "unlimited caches" if table.capacity_tokens is None else f"caches of {table.capacity_tokens:,} tokens"
    if table.capacity_tokens is not None and any(short_name(row) == "llama.cpp" for row in table.rows):
        capacity += " (llama.cpp: saved prompts; its slots come on top)"
    parts = [
        table.tokenizer or "token ids",
        plural(table.requests, "request"),
        f"{table.prompt_tokens:,} prompt tokens",
    ]
    return [*parts, capacity]


def answer(table: EngineTable) -> list[str]:
    """Say whether the user should care: what another engine would gain, and why; then what else must be known."""
    own, best = own_row(table), max(table.rows, key=lambda row: row.cached_tokens)
    rates = f"{row_name(own)} reuses {percent(own.hit_rate)}"
    if table.own is None:
        rates = f"{row_name(own)} would reuse {percent(own.hit_rate)}, {row_name(best)} {percent(best.hit_rate)}"
        of = f"{table.hosted_requests:,} of {plural(table.requests, 'request')}"
        served = "these requests" if table.hosted_requests in (0, table.requests) else of
        said = [
            f"A hosted API served {served}: kvtool profile shows what it reused.",
            f"On your own server, {rates}.",
        ]
    elif best.cached_tokens <= own.cached_tokens:
        said = [f"Keep {row_name(own)}: no engine reuses more than {percent(own.hit_rate)} of the prompt tokens."]
    elif best.hit_rate - own.hit_rate < _CLOSE:
        said = [f"Keep {row_name(own)}: it reuses {percent(own.hit_rate)}, the best engine {percent(best.hit_rate)}."]
    else:
        more = f"{100 * (best.hit_rate - own.hit_rate):.1f} points more"
        said = [f"{rates}, {row_name(best)} {percent(best.hit_rate)} ({more}). Cause: {own.cause or 'other text'}."]
    if table.reported_hit_rate is not None:
        of = "" if table.reported_requests == table.requests else f" for {plural(table.reported_requests, 'request')}"
        said.insert(0, f"Reported{of}: hit rate {percent(table.reported_hit_rate)}. All rates below are simulated.")
    if best.hit_rate < _LOW:
        said.append("The prompts limit every engine. Start with the prompts.")
    moved = [row for row in table.rows if row.moved_tokens]
    said += [f"{row_name(row)} moves {row.moved_tokens:,} cached tokens, which can change answers." for row in moved]
    refused = [row for row in table.rows if row.refused_requests]
    return said + [
        f"{row_name(row)} refuses {plural(row.refused_requests, 'request')}: {row.first_refusal or ''}."
        for row in refused
    ]


def _computed_again(row: EngineRow) -> str:
    """Return the tokens that were sent before and are computed again, by fate."""
    found = sorted(row.lost.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{FATES.get(fate, fate)} {tokens:,}" for fate, tokens in found)
