"""The table of all engines in words, the same in every format."""

from __future__ import annotations

from kvtool.accounting.ledger.fates import FATES
from kvtool.results.documents.engine_table import EngineRow, EngineTable
from kvtool.text.terminal.numbers import percent, plural

STATUS = {"driven": "compared", "read": "read, not run"}
"""How far rules can be trusted, in a column."""


def short_name(row: EngineRow) -> str:
    """The engine without its version, as people call it."""
    return row.engine.split(",")[0].split(" ")[0]


def row_name(row: EngineRow) -> str:
    """The engine, and what is not as it has it by default."""
    return " ".join((short_name(row), *row.flags))


def loss_of(row: EngineRow) -> str:
    """By how many tokens the row is behind the best, and what costs it most."""
    return f"{row.behind_tokens:,}, {row.cause or 'other text'}" if row.behind_tokens else ""


def heading(table: EngineTable) -> list[str]:
    """What was compared, in parts."""
    capacity = "unlimited caches" if table.capacity_tokens is None else f"caches of {table.capacity_tokens:,} tokens"
    parts = [
        table.tokenizer or "token ids",
        plural(table.requests, "request"),
        f"{table.prompt_tokens:,} prompt tokens",
    ]
    return [*parts, capacity]


def answer(table: EngineTable) -> list[str]:
    """The largest difference, and that of the usual settings, each in a sentence."""
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


def evidence(table: EngineTable) -> list[tuple[str, str]]:
    """Each rule set once: the engine with its version, and how its rules are known."""
    return list({row.engine: row.evidence for row in table.rows}.items())


def limits(table: EngineTable) -> list[tuple[str, str]]:
    """Each rule set once, and what it leaves out."""
    return list({row.engine: "; ".join(row.not_modelled) for row in table.rows if row.not_modelled}.items())


def losses(row: EngineRow) -> str:
    """What was sent before and is computed again, by fate."""
    found = sorted(row.lost.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{FATES.get(fate, fate)} {tokens:,}" for fate, tokens in found)
