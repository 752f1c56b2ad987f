"""What `kvtool what-if` prints: what the requests can hit at most, then a row for each setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.report.terminal.next_command import shell_lines
from kvtool.report.words.what_if_columns import RowColumn, how_sure, moment, outcomes, settings
from kvtool.report.words.what_if_commands import flags_again, words_of
from kvtool.report.words.what_if_words import answer, heading, legend
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.console import (
    ascii_only,
    bar,
    cell_width,
    draws_bars,
    fold,
    is_plain,
    pack,
    put,
    sanitize,
    say,
)
from kvtool.text.terminal.numbers import percent
from kvtool.text.terminal.table import Column, put_table, room_for_first

if TYPE_CHECKING:
    from rich.console import Console


_BAR = 24
_RUN = "Run: "
_MORE = Column("run it", "<", keep=0)


def print_what_if(console: Console, document: WhatIfDocument) -> None:
    """The answer first: how much can be hit, and what of the rows comes near it."""
    plain = ascii_only(console)
    head = [
        f"kvtool what-if {sanitize(document.input, ascii_only=plain)}",
        *heading(document),
    ]
    for line in pack(head, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    for note in document.notes:
        for line in fold(f"  {note}", console.width, indent=4):
            put(console, line, "dim")
    put(console)
    if document.answer and document.rows:
        print_table(console, document)
        return
    for line in fold(f"  {answer(document)}", console.width, indent=4):
        put(console, line, "bold")
    put(console)
    rows = document.rows
    bars = draws_bars(console) and not is_plain(console)
    changed, came = settings(rows), [column for column in outcomes(rows) if column.kind != "command"]
    columns = [_column(column) for column in (*changed, *came)]
    table = [[_cell(column, row, plain=plain) for column in (*changed, *came)] for row in rows]
    if bars and rows:
        at = len(changed) + 1
        columns.insert(at, Column("", "<", keep=0, drawing=True))
        for row, cells in zip(rows, table, strict=True):
            cells.insert(at, bar(row.hit_rate, _BAR, plain))
    put_table(console, columns, table)
    put(console)
    for line in fold(f"  {legend(document)}", console.width, indent=4):
        put(console, line, "dim")


def _column(column: RowColumn) -> Column:
    return Column(column.head, "<" if column.head in ("router", "sure?") else ">", keep=column.keep)


def _cell(column: RowColumn, row: SweepRow, *, plain: bool) -> str:
    text = column.cell(row)
    return sanitize(text.replace("±", "+-") if plain else text, ascii_only=plain)


def print_table(console: Console, document: WhatIfDocument) -> None:
    """What follows the head of the report."""
    plain = ascii_only(console)
    for line in document.answer:
        command = line.removeprefix(_RUN)
        if command is line:
            say(console, sanitize(line, ascii_only=plain), hang=2, style="bold")
            continue
        put(console)
        put(console, "Run:")
        for each in shell_lines(words_of(command), console.width, plain):
            put(console, each)
    put(console)
    columns, cells = _columns(document.rows)
    columns.insert(0, Column("change", "<", prose=not is_plain(console)))
    table = [
        [sanitize(row.change or "", ascii_only=plain), *of_row, how_sure(row).replace("±", "+-" if plain else "±")]
        for row, of_row in zip(document.rows, cells, strict=True)
    ]
    columns.append(Column("sure?", "<"))
    again = flags_again(document.rows)
    with_commands = [[*row, sanitize(flags, ascii_only=plain)] for row, flags in zip(table, again, strict=True)]
    beside = is_plain(console) or room_for_first([*columns, _MORE], with_commands, console.width) >= max(
        len(row[0]) for row in table
    )
    put_table(console, [*columns, _MORE] if beside else columns, with_commands if beside else table)
    if not beside:
        _commands(console, table, again, plain=plain)
    _missing(console, document, plain=plain)
    put(console)
    for line in fold(f"  {_legend(document.rows)}", console.width, indent=4):
        put(console, line, "dim")


def _commands(console: Console, table: Sequence[Sequence[str]], again: Sequence[str], *, plain: bool) -> None:
    """The commands below the table, where they have no room beside it."""
    put(console)
    put(console, "Run it:", "bold")
    for (name, *_), said in zip(table, again, strict=True):
        if not said:
            continue
        lines = shell_lines(words_of(said), console.width - 2, plain)
        if len(lines) == 1 and cell_width(lines[0]) + cell_width(name) + 2 <= console.width:
            put(console, f"  {name}:{lines[0][1:]}")
            continue
        say(console, f"{name}:", hang=2)
        for line in lines:
            put(console, f"  {line}" if line is lines[0] else line)  # more margin would part a word that goes on


def _missing(console: Console, document: WhatIfDocument, *, plain: bool) -> None:
    if not document.missing:
        return
    put(console)
    put(console, "Not in the table:", "bold")
    for row in document.missing:
        say(console, sanitize(f"{row.change}: {row.why}", ascii_only=plain), hang=2)


def _columns(rows: Sequence[SweepRow]) -> tuple[list[Column], list[list[str]]]:
    """The figures that rows have, and the cells of each row."""
    today = rows[0].computed_tokens or 1
    parts: list[tuple[Column, list[str]]] = [
        (Column("hit rate"), [percent(row.hit_rate) for row in rows]),
        (Column("computed", keep=3), [percent((row.computed_tokens or 0) / today) for row in rows]),
        (Column("loaded", keep=0), ["" if row.loaded_rate is None else percent(row.loaded_rate) for row in rows]),
        (Column("imbalance", keep=1), [_number(row.imbalance) for row in rows]),
        (Column("TTFT p50", keep=4), [_seconds(row.ttft_p50) for row in rows]),
        (Column("TTFT p99"), [_seconds(row.ttft_p99) for row in rows]),
        (Column("TPOT p99", keep=2), [_seconds(row.tpot_p99) for row in rows]),
        (Column("goodput", keep=5), ["" if row.goodput is None else f"{row.goodput:.2f}/s" for row in rows]),
        (Column("GPUs"), ["" if row.gpus is None else f"{row.gpus:,}" for row in rows]),
    ]
    kept = [(column, cells) for column, cells in parts if any(cells)]
    return [column for column, _ in kept], [[cells[at] for _, cells in kept] for at in range(len(rows))]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else moment(value)


def _legend(rows: Sequence[SweepRow]) -> str:
    words = [
        "run it: the command that was given, with these flags",
        "hit rate: of the prompt tokens, in sweeps of the blocks that are looked up",
        "computed: prompt tokens that do not hit, beside today's",
    ]
    if any(row.sure == "bound" for row in rows):
        words.append("bound: nobody can reach it for certain")
    if any(row.host_blocks for row in rows):
        words.append(
            "host tier: memory of each replica, which is no GPU; what is loaded from it is no hit, and not computed"
        )
    if any(row.prefill_replicas for row in rows) and any(row.gpus for row in rows):
        words.append("GPUs: not sought for a split fleet")
    if any(row.sure == "predicted" for row in rows):
        words.append("predicted: run on a clock that the latency model drives")
    return "; ".join(words)
