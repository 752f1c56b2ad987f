"""The terminal view of a `PromptDiff`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kvtool.diagnose.codes import find_entry
from kvtool.diagnose.tool_places import in_tools
from kvtool.diff.prompts import CHAT_TEMPLATE, Difference, PromptDiff
from kvtool.report.terminal.hidden_text import hidden_text
from kvtool.report.terminal.lines import put_head, put_next, shown_path
from kvtool.report.terminal.prompt_diffs.excerpt import print_excerpt, redacted
from kvtool.results.documents.diff import ReportedRead, Spot, Trial
from kvtool.text.terminal.console import (
    ascii_only,
    at_right,
    cell_width,
    fold,
    is_plain,
    pack,
    put,
    put_field,
    sanitize,
    say,
)
from kvtool.text.terminal.numbers import capitalized, in_words, plural
from kvtool.text.terminal.table import Column, table
from kvtool.text.tokens.prompt import Ids

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.config.command_line import CommandLine
    from kvtool.results.show_text import ShowText
from kvtool.report.terminal.prompt_diffs.ruler import print_ruler

_LABEL = 14
_CONTEXT_BEFORE, _CONTEXT_AFTER = 4, 8
_MOST_NAMED = 8


def print_diff(
    console: Console,
    diff: PromptDiff,
    command: CommandLine | None = None,
    show_text: ShowText = "full",
    *,
    minimum: int = 0,
    step: int = 1,
    reported: ReportedRead | None = None,
) -> None:
    """Print header, totals, ruler, the first difference, the gain of moving it, and what to do next.

    `command` is what followed `kvtool`; without it nothing is proposed. The provider of the requests caches from `minimum`
    tokens, in steps. `reported` is what the second request read when it was sent.
    """
    plain = ascii_only(console)
    a, b = (shown_path(name, plain) for name in (diff.name_a, diff.name_b))
    parts = [
        f"kvtool diff-prompts {a} {b}",
        blocks_fact(diff.block_size),
        diff.tokenizer,
        f"{diff.length_a:,} vs {diff.length_b:,} tokens",
    ]
    put_head(console, parts)
    put(console)
    is_reused = diff.reuse.tokens >= minimum
    _totals(console, diff, is_reused=is_reused)
    if reported is not None:
        read = f"{reported.tokens:,} of {plural(reported.prompt_tokens, 'prompt token')} read when {b} was sent"
        put_field(console, "Reported", read, size=_LABEL - 2)
    if not is_reused and diff.common:
        why = (
            f"The provider caches from {minimum:,} tokens. This prefix is shorter"
            if diff.common < minimum
            else "No cache breakpoint ends within this prefix"
        )
        say(console, f"{why}, so nothing is reused.", indent=2)
    if diff.length_b and diff.block_size > 1 and not is_plain(console):
        put(console)
        print_ruler(console, diff, plain)
    put(console)
    if diff.first is not None:
        _first(console, diff, diff.first, plain, show_text)
    _named(console, diff, plain)
    _verdict(console, diff, a, b, minimum, step)
    if command is not None and diff.first is not None:
        _next(console, diff, command)


def blocks_fact(block_size: int) -> str:
    """Return the block size for a header; a provider counts tokens, and has no blocks."""
    return f"block {block_size}" if block_size > 1 else "no blocks"


def _in_blocks(diff: PromptDiff, words: str) -> str:
    return f", {words}" if diff.block_size > 1 else ""


def _next(console: Console, diff: PromptDiff, command: CommandLine) -> None:
    """Propose the profile of the log that both prompts are records of, else the same comparison after the fix."""
    logs = {
        log for log, at, record in (name.rpartition(":") for name in (diff.name_a, diff.name_b)) if record.isdecimal()
    }
    fix = next((trial for trial in diff.changes if trial.gained_blocks > 0), None)
    if len(logs) == 1 and {diff.name_a, diff.name_b}.isdisjoint(logs):
        todo = "fix the code that writes this text. See all requests" if fix is not None else "see all requests"
        put_next(console, f"{todo} of the log", command.to("profile", *logs))
    elif fix is not None and "-" not in command:
        todo = f"write both prompts {fix.result}" if fix.unit == "normalize" else "make this change in both prompts"
        put_next(console, f"{todo}, then compare again", command)


def _totals(console: Console, diff: PromptDiff, *, is_reused: bool) -> None:
    """Print what is reused; where nothing is, all tokens before the first difference."""
    common, shared = ("Reusable", diff.reuse.tokens) if is_reused else ("Shared", diff.common)
    of_blocks = _in_blocks(diff, f"{diff.reuse.blocks:,} of {plural(diff.blocks, 'block')}")
    reusable = f"{plural(shared, 'token')}{of_blocks}"
    first = "" if diff.first is None else f"first difference: token {diff.first.token:,}"
    row = f"  {common:<{_LABEL - 2}}{reusable}"
    if is_plain(console):
        put_field(console, common, reusable, first, size=_LABEL - 2)
        row = first = ""
    elif first and cell_width(row) + 2 + len(first) <= console.width:
        row = f"{row:<{min(47, console.width - len(first))}}" + (first if cell_width(row) < 46 else f"  {first}")
        first = ""
    if row:
        put(console, row)
    if first:
        put(console, f"  {'Differs':<{_LABEL - 2}}from {first.removeprefix('first difference: ')} on")
    computed = diff.lost_tokens if is_reused else diff.length_b
    lost = f"{plural(computed, 'token')}{_in_blocks(diff, plural(diff.lost_blocks, 'block'))}"
    if diff.first is not None:
        lost += (
            f"; {plural(diff.same_tokens, 'token')} {'repeats' if diff.same_tokens == 1 else 'repeat'} the first prompt"
        )
    label = "Not reused" if diff.first is not None else "Computed"
    put_field(console, label, lost, size=_LABEL - 2)


def place_of(spot: Spot, plain: bool, name: str = "") -> str:
    """`path:line:column`; in a chat also the message and the character in it. `name` is the side, for what no file holds."""
    if in_tools(spot.part):
        part = sanitize(spot.part, ascii_only=plain)
        return f"{shown_path(name, plain)} {part}" if name else part
    place = f"{shown_path(spot.path, plain)}:{spot.line}:{spot.column}"
    if spot.part == CHAT_TEMPLATE:
        return f"{CHAT_TEMPLATE} {place}"
    return f"{place} {_within(spot, plain)}" if spot.part else place


def _within(spot: Spot, plain: bool) -> str:
    return sanitize(spot.told, ascii_only=plain)


def _places(a: Spot, b: Spot, plain: bool, names: tuple[str, str]) -> list[str]:
    """Return the places of both sides, without names that the header has; what is the same on both once."""
    if a.character is not None and b.character is not None:
        places = [_within(spot, plain) for spot in (a, b)]
    elif in_tools(a.part) and in_tools(b.part):
        places = [sanitize(spot.part, ascii_only=plain) for spot in (a, b)]
    elif not a.part and not b.part and (a.path, b.path) == names:
        side = ("", "") if (a.line, a.column) == (b.line, b.column) else ("a: ", "b: ")
        places = [f"{side[at]}line {spot.line:,}, column {spot.column:,}" for at, spot in enumerate((a, b))]
    else:
        places = [place_of(spot, plain, name) for spot, name in zip((a, b), names, strict=True)]
    return list(dict.fromkeys(places))


def _first(console: Console, diff: PromptDiff, first: Difference, plain: bool, show_text: ShowText) -> None:
    place = f"block {first.block:,}, offset {first.offset:,}" if diff.block_size > 1 else f"token {first.token:,}"
    if first.a is None or first.b is None or first.excerpt_a is None or first.excerpt_b is None:
        put(console, f"  {place}")
        put(console)
        return
    spots = _places(first.a, first.b, plain, (diff.name_a, diff.name_b))
    name = first.kind.name
    lines = pack([*spots, place], console.width - 2, separator="  ", indent=2)
    if cell_width(lines[-1]) + len(name) + 4 <= console.width:
        lines[-1] = at_right(console, lines[-1], name, margin=2)
    else:
        lines.append(f"  {name}")
    for line in lines:
        put(console, f"  {line}", "bold")
    if show_text == "none":
        say(console, f"{_volatile(first)}. {hidden_text()}")
    else:
        excerpts = (first.excerpt_a, first.excerpt_b)
        if show_text == "snippet":
            excerpts = (redacted(first.excerpt_a), redacted(first.excerpt_b))
        print_excerpt(console, *excerpts, _volatile(first))
    put(console)


def _volatile(first: Difference) -> str:
    for name, own, other in (("a", first.tokens_a, first.tokens_b), ("b", first.tokens_b, first.tokens_a)):
        if not other:
            return f"{plural(own, 'token')} in {name} only"
    if first.tokens_a == first.tokens_b:
        return f"{plural(first.tokens_b, 'token')} {'differs' if first.tokens_b == 1 else 'differ'}"
    return f"{plural(first.tokens_a, 'token')} in a, {first.tokens_b:,} in b"


def _verdict(console: Console, diff: PromptDiff, a: str, b: str, minimum: int, step: int) -> None:
    """Print sentences on the gain of moves, each with its code at the right."""
    said = [(text, "") for text in _relation(diff, a, b)]
    if diff.cosmetic:
        said.append((f"The only difference: {in_words(diff.cosmetic)}.", ""))
    before = 0
    for number, trial in enumerate(diff.changes):
        if not number or trial.gained_blocks > before:
            said.append((_trial(diff, trial, b, console.width - 3 - len(trial.code), minimum, step), trial.code))
        before = max(before, trial.gained_blocks)
    tried = {trial.code for trial in diff.changes}
    others = dict.fromkeys(change.kind.code for change in diff.named if change.kind.code not in tried)
    said += [(entry.between_two, entry.code) for entry in map(find_entry, others) if entry.between_two]
    if diff.at_end:
        said.append(("The prompts share no text after the difference, so moving it gains nothing.", ""))
    for text, code in said:
        lines = fold(f"  {text}", console.width, indent=4)
        if code:
            if cell_width(lines[-1]) + 1 + len(code) > console.width:
                lines.append("")
            lines[-1] = at_right(console, lines[-1], code, margin=2)
        for line in lines:
            put(console, line)


def _relation(diff: PromptDiff, a: str, b: str) -> list[str]:
    """Return how prompts relate where one is the beginning of the other, or both are equal."""
    if diff.first is not None:
        return []
    if diff.empty:
        name = b if diff.name_b in diff.empty else a
        return [f"{name} is empty."]
    if diff.relation == "a_begins_b":
        return [f"{b} begins with all of {a}, so all its full blocks are reusable."]
    said = {
        "identical": "The prompts are identical.",
        "same_tokens": "The tokens are identical; the texts differ.",
        "b_begins_a": f"{a} begins with all of {b}.",
    }[diff.relation]
    return [said, _unavoidable(diff)]


def _unavoidable(diff: PromptDiff) -> str:
    if diff.block_size == 1:
        return "The last token of a prompt is always computed again."
    tokens = plural(diff.lost_tokens, "token")
    if diff.length_b % diff.block_size:
        fill = "fills" if diff.lost_tokens == 1 else "fill"
        return f"The last {tokens} {fill} no whole block. Only whole blocks are reusable."
    is_ = "is" if diff.lost_tokens == 1 else "are"
    return f"The last {tokens} {is_} always computed again, because the last token of a prompt needs its whole block."


def _trial(diff: PromptDiff, trial: Trial, b: str, room: int, minimum: int, step: int) -> str:
    if trial.unit in ("normalize", "canonical"):
        what = trial.result
    elif trial.places > 1:
        every = "both" if trial.places == 2 else f"all {trial.places:,}"
        what = f"move {every} differing {trial.unit if trial.unit == 'words' else trial.unit + 's'} to {_end(trial)}"
    else:
        line = f"line {trial.line_a:,}"
        if trial.line_a != trial.line_b:
            line += f" (line {trial.line_b:,} of {b})"
        line = line if trial.unit == "line" else f"the {trial.unit} {'at' if trial.unit == 'block' else 'in'} {line}"
        what = f"move {line}{' of ' + trial.part if trial.part else ''} to {_end(trial)}"
    if trial.further:
        what = f"and {what}"
    what = capitalized(what)
    if trial.reuse.tokens < minimum:
        return f"{what}: no gain below {minimum:,} tokens"
    if trial.gained_blocks <= 0:
        unit = "blocks" if diff.block_size > 1 else "tokens"
        steps = f" in steps of {step:,} tokens" if step > 1 else ""
        return f"{what}: no gain" + (f" ({trial.gained_blocks:,} {unit})" if trial.gained_blocks else steps)
    tokens, blocks = plural(trial.reuse.tokens, "token"), _in_blocks(diff, plural(trial.reuse.blocks, "block"))
    result = f"{what}: {tokens} reusable{blocks} (+{trial.gained_blocks:,})"
    return result if cell_width(result) <= room else result.replace(" reusable,", ",")


def _end(trial: Trial) -> str:
    if trial.part.endswith(("(user)", "(tool)")):  # what they said stays in its message
        return "the end of the message"
    return "the end of the last message" if trial.part else "the end"


def _named(console: Console, diff: PromptDiff, plain: bool) -> None:
    """Print differences of structure, where they say more than the first difference."""
    named = diff.named
    if not named or (len(named) == 1 and diff.first is not None and named[0].kind.code == diff.first.kind.code):
        return
    rows = []
    for change, place in zip(named[:_MOST_NAMED], diff.named_places, strict=False):
        rows.append((change.kind.name, sanitize(place, ascii_only=plain), change.kind.code))
    columns = [Column("what differs", "<", prose=True), Column("where", "<"), Column("code", "<")]
    for line in table(columns, rows, console.width, ascii_only=plain):
        put(console, line)
    if len(named) > _MOST_NAMED:
        put(console, f"  {len(named) - _MOST_NAMED:,} more (all with --json)", "dim")
    put(console)


def print_tokens(
    console: Console,
    common: int,
    a: Ids,
    b: Ids,
    token_text: Callable[[int], str] | None,
    names: tuple[str, str] = ("a", "b"),
) -> None:
    """Ids and texts of the tokens around token `common`, the first that differs, side by side; only ids without `token_text`."""
    plain = ascii_only(console)
    start = max(common - _CONTEXT_BEFORE, 0)
    rows: list[tuple[str, ...]] = []
    for at in range(start, min(common + _CONTEXT_AFTER, max(len(a), len(b)))):
        sides = [
            (
                str(int(ids[at])),
                '"' + sanitize(token_text(int(ids[at])), ascii_only=plain) + '"' if token_text is not None else "",
            )
            if at < len(ids)
            else ("", "")
            for ids in (a, b)
        ]
        mark = "X" if at == common else " " if sides[0] == sides[1] else "#"
        rows.append((f"{at:,}", mark, *sides[0], *sides[1]))
    columns = [
        Column("token"),
        Column("", "<"),
        Column(f"{names[0]} id"),
        Column(f"{names[0]} text", "<", prose=True),
        Column(f"{names[1]} id"),
        Column(f"{names[1]} text", "<", prose=True),
    ]
    if token_text is None:
        rows = [(*row[:3], row[4]) for row in rows]
        columns = [column for column in columns if not column.title.endswith(" text")]
    put(console)
    for line in table(columns, rows, console.width, ascii_only=plain):
        put(console, line)
