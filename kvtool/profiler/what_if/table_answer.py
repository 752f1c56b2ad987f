"""The answer of the table in words: what to change first, by how much it helps, and what to run."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.results.documents.what_if import MissingRow, SweepRow
from kvtool.results.next_step import RUN_CHANGE
from kvtool.text.terminal.numbers import duration, percent

_WORTH = 0.01
"""Part of what today takes that a change must save to be named first."""

_HALF = 0.5
"""Part of the most that can be saved from which on what needs no hardware goes first."""


def answer(
    rows: Sequence[SweepRow], missing: Sequence[MissingRow], *, prompts_command: str, gpus_each: int | None = None
) -> list[str]:
    """Answer from `rows` as the table has them, today's first.

    `prompts_command` edits the prompts and has its label; `gpus_each` is how many accelerators a replica has.
    """
    return [*_too_many(rows[0], gpus_each), *_first(rows, missing, prompts_command)]


def _too_many(today: SweepRow, gpus_each: int | None) -> list[str]:
    """Say that a smaller fleet would meet the objectives."""
    own = (today.replicas or 1) * (gpus_each or 0)
    if not gpus_each or today.gpus is None or today.gpus >= own:
        return []
    return [
        f"Fewer GPUs meet the objectives: {today.gpus:,} instead of {own:,} (--replicas {today.gpus // gpus_each})."
    ]


def _first(rows: Sequence[SweepRow], missing: Sequence[MissingRow], prompts_command: str) -> list[str]:
    today, *others = rows
    can = [row for row in others if row.sure != "bound" and _saved(row, today) >= _WORTH]
    if not can:
        return [_nothing(rows), *_ask_for(missing)]
    best = can[0]
    free = next((row for row in can if not row.more_hardware), None)
    first = free if free is not None and _saved(free, today) >= _HALF * _saved(best, today) else best
    other = best if first is not best else free if free is not best else None
    lines = [_answer_line("Change first", first, today)]
    if other is not None:
        lines.append(
            _answer_line("With more hardware" if other.more_hardware else "Without more hardware", other, today)
        )
    if first.kind == "prompts" and prompts_command:
        lines.append(prompts_command)
    elif first.command is not None:
        lines.append(f"{RUN_CHANGE}: {first.command}")
    if first.more_hardware and today.ttft_p99 is not None and today.goodput is None:
        lines.append("Set an objective to see whether you need it: --slo ttft=2s,tpot=50ms.")
    return lines


def _answer_line(head: str, row: SweepRow, today: SweepRow) -> str:
    return f"{head}: {row.does}. {_gain(row, today)}"


def _gain(row: SweepRow, today: SweepRow) -> str:
    """Return what it wins where it counts most: accelerators for the objectives, waiting, computed tokens."""
    rates = f"hit rate {percent(today.hit_rate)} -> {percent(row.hit_rate)}"
    if row.loaded_rate:
        rates += f" and {percent(row.loaded_rate)} loaded"
    if row.ttft_p99 is None or today.ttft_p99 is None:
        return f"Result: {rates}, {percent(_fewer(row, today))} fewer prompt tokens computed."
    waits = f"TTFT p99 {duration(today.ttft_p99)} -> {duration(row.ttft_p99)}"
    if row.kind == "pd" and row.tpot_p99 is not None and today.tpot_p99 is not None:
        waits += f", TPOT p99 {duration(today.tpot_p99)} -> {duration(row.tpot_p99)}"
    if row.gpus is not None and row.gpus != today.gpus:
        before = "not met" if today.gpus is None else f"{today.gpus:,}"
        return f"Result: GPUs for the SLO {before} -> {row.gpus:,}, {waits}, {rates}."
    return f"Result: {waits}, {rates}."


def _saved(row: SweepRow, today: SweepRow) -> float:
    """Return part of what counts that a row saves: accelerators where they differ, else waiting, else computed tokens."""
    gpus = gpus_of(row, today)
    if gpus != today.gpus:
        if gpus is None or today.gpus is None:
            return -1.0 if gpus is None else 1.0
        return (today.gpus - gpus) / today.gpus
    if row.kind == "pd" and _serves_less(row, today):
        return -1.0
    if row.ttft_p99 is not None and today.ttft_p99:
        return (today.ttft_p99 - row.ttft_p99) / today.ttft_p99
    return _fewer(row, today)


def gpus_of(row: SweepRow, today: SweepRow) -> int | None:
    """Return accelerators for the objectives; a split fleet, which is not sought, saves none where as many serve as many within
    them.
    """
    if row.kind == "pd" and (row.goodput or 0.0) >= (today.goodput or 0.0):
        return today.gpus
    return row.gpus


def _serves_less(split: SweepRow, today: SweepRow) -> bool:
    """Return whether a split fleet serves less within the objectives; without any, whether it trades TPOT for TTFT."""
    if split.goodput is not None and today.goodput is not None:
        return split.goodput < today.goodput
    return (split.tpot_p99 or 0.0) > (today.tpot_p99 or 0.0)


def _fewer(row: SweepRow, today: SweepRow) -> float:
    """Return part of today's computed tokens that a row does not compute; negative where it computes more."""
    before = today.computed_tokens or 0
    return (before - (row.computed_tokens or 0)) / before if before else 0.0


def _nothing(rows: Sequence[SweepRow]) -> str:
    today, *others = rows
    what = "1% of the computed prompt tokens" if today.ttft_p99 is None else "accelerators or 1% of TTFT p99"
    told = f"No change saves {what}"
    bound = next((row for row in others if row.kind == "capacity" and row.sure == "bound"), None)
    if bound is None:
        return f"{told}. Hit rate {today.change}: {percent(today.hit_rate)}."
    if bound.computed_tokens == today.computed_tokens:
        return f"{told}. {percent(today.hit_rate)} is the maximum for these prompts as written."
    return f"{told}. Hit rate {today.change}: {percent(today.hit_rate)}, with an unlimited cache: {percent(bound.hit_rate)}."


def _ask_for(missing: Sequence[MissingRow]) -> list[str]:
    """Return what to say for the rows that matter most of those that are missing."""
    lack = next((row for row in missing if row.change == "cache x 2"), None)
    return [] if lack is None else [f"Not compared: {lack.change}. {lack.why}."]
