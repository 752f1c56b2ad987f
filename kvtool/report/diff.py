"""The terminal view of a `PromptDiff`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kvtool.diff import Change, Difference, PromptDiff
from kvtool.prompt import Ids
from kvtool.report.console import ascii_only, cell_width, fold, pack, put, sanitize
from kvtool.report.excerpt import excerpt
from kvtool.report.table import Column, table

if TYPE_CHECKING:
    from rich.console import Console

_LABEL = 13
_CELL_STYLES = {"=": "green", "X": "bold red", "~": "yellow", "#": "magenta"}
_LEGEND = [("=", "reusable"), ("X", "first difference"), ("~", "same text, lost"), ("#", "differs")]
_LEGEND_EQUAL = [("=", "reusable"), ("~", "same text, computed again"), ("#", "in the second prompt only")]
_CONTEXT_BEFORE, _CONTEXT_AFTER = 4, 8


def print_diff(console: Console, diff: PromptDiff, *, next_command: bool = True) -> None:
    """Header, totals, ruler, the first difference and what moving it gives, in lines no wider than the console."""
    plain = ascii_only(console)
    separator = " | " if plain else " · "
    a, b = (shown_path(name, plain) for name in (diff.name_a, diff.name_b))
    parts = [
        f"kvtool diff-prompts {a} {b}",
        f"block {diff.block_size}",
        sanitize(diff.tokenizer, ascii_only=plain),
        f"{diff.length_a:,} vs {diff.length_b:,} tokens",
    ]
    for line in pack((part for part in parts if part), console.width, separator=separator, indent=2):
        put(console, line, "bold")
    put(console)
    _totals(console, diff)
    if diff.length_b:
        put(console)
        _ruler(console, diff, plain)
    put(console)
    if diff.first is not None:
        _first(console, diff.first, plain)
    _verdict(console, diff, a, b)
    if next_command and diff.first is not None:
        command = f"kvtool diff-prompts --tokens {_quoted(diff.name_a, plain)} {_quoted(diff.name_b, plain)}"
        line = f"Next: {command}"
        put(console, line if cell_width(line) <= console.width else "Next: --tokens shows the token ids", "dim")


def shown_path(path: str, plain: bool) -> str:
    """A path as text that no CI log reads as a command."""
    text = sanitize(path, ascii_only=plain)
    return f"./{text}" if text.startswith("::") else text


def _quoted(path: str, plain: bool) -> str:
    return path if path == "-" else shlex.quote(shown_path(path, plain))


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _totals(console: Console, diff: PromptDiff) -> None:
    reusable = f"{_plural(diff.reuse.tokens, 'token')}, {diff.reuse.blocks:,} of {_plural(diff.blocks, 'block')}"
    first = "" if diff.first is None else f"first difference: token {diff.first.token:,}"
    row = f"  {'Reusable':<{_LABEL - 2}}{reusable}"
    if first and cell_width(row) + 2 + len(first) <= console.width:
        row = f"{row:<{min(47, console.width - len(first))}}" + (first if cell_width(row) < 46 else f"  {first}")
        first = ""
    put(console, row)
    if first:
        put(console, f"  {'Differs':<{_LABEL - 2}}from {first.removeprefix('first difference: ')} on")
    lost = f"{_plural(diff.lost_tokens, 'token')}, {_plural(diff.lost_blocks, 'block')}"
    if diff.first is not None:
        lost += f"; {diff.same_tokens:,} of those tokens {'is' if diff.same_tokens == 1 else 'are'} the same text"
    label = "Lost" if diff.first is not None else "Computed"
    for line in fold(f"  {label:<{_LABEL - 2}}{lost}", console.width, indent=_LABEL):
        put(console, line)


def cells(diff: PromptDiff) -> list[str]:
    """Two characters for each block of the second prompt, one for each half; a half without tokens is blank."""
    size, length = diff.block_size, diff.length_b
    same = np.zeros(length, dtype=bool)
    for run in diff.runs:
        same[run.b_start : run.b_start + run.length] = True
    first = diff.first.token if diff.first is not None else -1

    def half(start: int, stop: int) -> str:
        stop = min(stop, length)
        if start >= stop:
            return " "
        if start <= first < stop:
            return "X"
        return "~" if same[start:stop].all() else "#"

    result = ["=="] * diff.reuse.blocks
    for start in range(diff.reuse.tokens, length, size):
        if size == 1:
            result.append(half(start, start + 1) * 2)
        else:
            middle = start + (size + 1) // 2
            result.append(half(start, middle) + half(middle, start + size))
    return result


def _ruler(console: Console, diff: PromptDiff, plain: bool) -> None:
    from rich.text import Text

    drawn = cells(diff)
    at = min(diff.first.block if diff.first is not None else diff.reuse.blocks, len(drawn) - 1)
    groups = _groups(len(drawn), at, (console.width - 8) // 4)
    gap = " ... " if plain else " ··· "
    numbers, row = "  block ", Text(" " * 8)
    for index, group in enumerate(groups):
        if index:
            row.append(gap, "dim")
        for block in group:
            place = cell_width(row.plain) + (1 if len(str(block)) < 4 else 0)
            if place > len(numbers) or (place == len(numbers) and numbers.endswith(" ")):
                numbers = numbers.ljust(place) + f"{block}"
            row.append("[", "dim")
            for mark, marks in groupby(drawn[block]):
                row.append("".join(marks), _CELL_STYLES.get(mark, ""))
            row.append("]", "dim")
    put(console, numbers, "dim")
    put(console, row)
    used = {mark for cell in drawn for mark in cell}
    legend = _LEGEND if diff.first is not None else _LEGEND_EQUAL
    for line in pack((f"{mark} {text}" for mark, text in legend if mark in used), console.width - 8, separator="   "):
        put(console, " " * 8 + line, "dim")


def _groups(count: int, at: int, room: int) -> list[range]:
    """Which blocks are drawn: all, or the first, those around the difference, and the last."""
    if count <= room:
        return [range(count)]
    room = max(room - 3, 3)  # two gaps of five cells each
    tail = 3 if room >= 9 else 1
    head = room - tail
    if at < head - 2:
        return [range(head), range(count - tail, count)]
    first = 2 if room >= 9 else 1
    middle = max(room - first - tail, 1)
    start = max(min(at - middle // 2, count - tail - middle), first)
    if start + middle >= count - tail:
        return [range(first), range(start, count)]
    return [range(first), range(start, start + middle), range(count - tail, count)]


def _first(console: Console, first: Difference, plain: bool) -> None:
    place = f"block {first.block:,}, offset {first.offset:,}"
    if first.a is None or first.b is None or first.excerpt_a is None or first.excerpt_b is None:
        put(console, f"  {place}")
        put(console)
        return
    spots = [f"{shown_path(first.a.path, plain)}:{first.a.line}:{first.a.column}"]
    if (first.a.line, first.a.column) != (first.b.line, first.b.column):
        spots.append(f"{shown_path(first.b.path, plain)}:{first.b.line}:{first.b.column}")
    name = first.kind.name
    lines = pack([*spots, place], console.width - 2, separator="  ", indent=2)
    if cell_width(lines[-1]) + len(name) + 4 <= console.width:
        lines[-1] += name.rjust(console.width - 2 - cell_width(lines[-1]))
    else:
        lines.append(f"  {name}")
    for line in lines:
        put(console, f"  {line}", "bold")
    for part in excerpt(first.excerpt_a, first.excerpt_b, _volatile(first), console.width, plain):
        put(console, part)
    put(console)


def _volatile(first: Difference) -> str:
    for name, own, other in (("a", first.tokens_a, first.tokens_b), ("b", first.tokens_b, first.tokens_a)):
        if not other:
            return f"{_plural(own, 'token')} in {name} only"
    if first.tokens_a == first.tokens_b:
        return f"{_plural(first.tokens_b, 'token')} {'differs' if first.tokens_b == 1 else 'differ'}"
    return f"{first.tokens_a:,} vs {_plural(first.tokens_b, 'token')}"


def _verdict(console: Console, diff: PromptDiff, a: str, b: str) -> None:
    """What it comes to: sentences, each with the code it leads to at the right."""
    said = [(text, "") for text in _relation(diff, a, b)]
    if diff.cosmetic:
        said.append((f"The only difference: {' and '.join(diff.cosmetic)}.", ""))
    before = 0
    for change in diff.changes:
        if change is diff.changes[0] or change.gained_blocks > before:
            code = diff.first.kind.code if diff.first is not None and change is diff.changes[0] else ""
            said.append((_change(change, b, console.width - 3 - len(code)), code))
        before = max(before, change.gained_blocks)
    if diff.at_end:
        said.append(("Nothing that both have follows the difference: no gain from moving it.", ""))
    for text, code in said:
        lines = fold(f"  {text}", console.width, indent=4)
        if code:
            if cell_width(lines[-1]) + 1 + len(code) > console.width:
                lines.append("")
            used = cell_width(lines[-1])
            lines[-1] += code.rjust(max(console.width - 2 - used, 1 + len(code)))
        for line in lines:
            put(console, line)


def _relation(diff: PromptDiff, a: str, b: str) -> list[str]:
    """How the prompts stand to each other where none differs from the other within."""
    if diff.first is not None:
        return []
    if not diff.length_b or not diff.length_a:
        return [f"{b if diff.length_a else a} is empty: there is nothing to share."]
    if diff.relation == "a_begins_b":
        return [f"{b} goes on where {a} ends: nothing that they share comes later."]
    said = {
        "identical": "The prompts are identical.",
        "same_tokens": "The tokens are identical, although the texts differ.",
        "b_begins_a": f"{b} is the beginning of {a}: nothing in it differs.",
    }[diff.relation]
    return [said, _unavoidable(diff)]


def _unavoidable(diff: PromptDiff) -> str:
    tokens = _plural(diff.lost_tokens, "token")
    if diff.length_b % diff.block_size:
        return f"The last {tokens} fill no whole block, and only whole blocks are shared."
    return f"The last {tokens} are computed again in any case: a prompt's last token always is, and with it its block."


def _change(change: Change, b: str, room: int) -> str:
    if change.unit == "normalize":
        what = change.result[:1].upper() + change.result[1:]
    elif change.places > 1:
        every = "both" if change.places == 2 else f"all {change.places:,}"
        what = f"Move {every} differing {change.unit if change.unit == 'words' else change.unit + 's'} to the end"
    else:
        line = f"line {change.line_a:,}"
        if change.line_a != change.line_b:
            line += f" (line {change.line_b:,} of {b})"
        what = f"Move {line if change.unit == 'line' else f'the {change.unit} in {line}'} to the end"
    if change.gained_blocks <= 0:
        return f"{what}: no gain" + (f" ({change.gained_blocks:,} blocks)" if change.gained_blocks else "")
    tokens, blocks = _plural(change.reuse.tokens, "token"), _plural(change.reuse.blocks, "block")
    result = f"{what}: {tokens} reusable, {blocks} (+{change.gained_blocks:,})"
    return result if cell_width(result) <= room else result.replace(" reusable,", ",")


def print_tokens(console: Console, diff: PromptDiff, a: Ids, b: Ids, token_text: Callable[[int], str]) -> None:
    """Ids and texts of the tokens around the first difference, side by side."""
    plain = ascii_only(console)
    start = max(diff.common - _CONTEXT_BEFORE, 0)
    rows: list[tuple[str, ...]] = []
    for at in range(start, min(diff.common + _CONTEXT_AFTER, max(len(a), len(b)))):
        sides = [
            (str(int(ids[at])), '"' + sanitize(token_text(int(ids[at])), ascii_only=plain) + '"')
            if at < len(ids)
            else ("", "")
            for ids in (a, b)
        ]
        mark = "X" if at == diff.common else " " if sides[0] == sides[1] else "#"
        rows.append((f"{at:,}", mark, *sides[0], *sides[1]))
    columns = [
        Column("token"),
        Column("", "<"),
        Column("a id"),
        Column("a text", "<", prose=True),
        Column("b id"),
        Column("b text", "<", prose=True),
    ]
    put(console)
    for line in table(columns, rows, console.width, ascii_only=plain):
        put(console, line)
