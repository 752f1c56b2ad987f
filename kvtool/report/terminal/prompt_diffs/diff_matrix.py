"""The terminal view of a comparison of more than two prompts: legend, summary, matrix of shared blocks, tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from kvtool.report.terminal.lines import put_head, put_next, shown_path
from kvtool.report.terminal.prompt_diffs.diff import blocks_fact, place_of
from kvtool.results.documents.diff import Branch, BranchDifference, ManyDiff
from kvtool.text.terminal.console import (
    ascii_only,
    at_right,
    cell_width,
    fold,
    is_plain,
    put,
    put_field,
    say,
)
from kvtool.text.terminal.numbers import percent, plural

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.config.command_line import CommandLine

_MOST_ROWS = 40
_NUMBER = 9
"""Width of the two columns of numbers at the right of the tree."""
_STEP = 3
_PLAIN_NAMES = 200
"""Characters for the names of a branch where there are no columns to fill."""
_LABEL = 22
"""Room for the names of a branch at the deepest level: `aa … 1,000 prompts`, and what stands before the tree."""


def letters(index: int) -> str:
    """a, b, … z, aa, ab, …: the short name of prompt `index`."""
    name = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        name = chr(ord("a") + digit) + name
    return name


def print_many(console: Console, diff: ManyDiff, command: CommandLine | None = None) -> None:
    """Print header, summary, matrix (up to 12 prompts), tree, and with a `command` the next pair to compare."""
    plain = ascii_only(console)
    parts = [
        "kvtool diff-prompts",
        f"{len(diff.prompts)} prompts",
        blocks_fact(diff.block_size),
        diff.tokenizer,
    ]
    put_head(console, parts)
    put(console)
    if diff.shared_blocks is not None:
        _legend(console, diff, range(len(diff.prompts)), plain)
        put(console)
    _summary(console, diff)
    if diff.shared_blocks is not None:
        put(console)
        _matrix(console, diff.shared_blocks, "blocks" if diff.block_size > 1 else "tokens")
    put(console)
    used = _tree(console, diff, plain)
    if diff.shared_blocks is None:
        put(console)
        _legend(console, diff, sorted(used), plain)
    pair = next((branch.between for branch in diff.trie if branch.between is not None), None)
    if command is not None and pair is not None:
        put(console)
        names = (diff.prompts[at].path for at in pair)
        put_next(console, "compare the first two prompts that diverge", command.to("diff-prompts", *names))


def _legend(console: Console, diff: ManyDiff, indices: Sequence[int] | range, plain: bool) -> None:
    """Print the prompt of each letter, its tokens and its blocks, a partial last one included."""
    size = max((len(letters(at)) for at in indices), default=1)
    for at in indices:
        prompt = diff.prompts[at]
        numbers = _sizes(diff, prompt.tokens, prompt.blocks)
        head = f"  {letters(at):<{size}}  {shown_path(prompt.path, plain)}"
        if is_plain(console):
            head = f"{letters(at)}: {shown_path(prompt.path, plain)}"
        if cell_width(head) + 2 + len(numbers) <= console.width:
            put(console, at_right(console, head, numbers))
            continue
        for line in fold(head, console.width, indent=4 + size):
            put(console, line)
        put(console, numbers.rjust(console.width))


def _summary(console: Console, diff: ManyDiff) -> None:
    all_share, found, of = diff.trie[0], diff.reusable_in_order.tokens, diff.prompt_tokens
    sizes = _sizes(diff, all_share.tokens, all_share.blocks)
    said = "all of their text (they are identical)" if diff.identical else sizes
    put_field(console, "All share", said, size=12)
    text = f"{found:,} of {plural(of, 'token')} reusable ({percent(found / of if of else 0.0)}) when sent in this order"
    put_field(console, "In order", text, size=12)


def _sizes(diff: ManyDiff, tokens: int, blocks: int) -> str:
    return f"{plural(tokens, 'token')}, {plural(blocks, 'block')}" if diff.block_size > 1 else plural(tokens, "token")


def _matrix(console: Console, matrix: Sequence[Sequence[int]], unit: str) -> None:
    """Shared blocks of each pair, in as many bands of columns as the width asks for."""
    say(console, f"Reused {unit}: row prompt after column prompt", style="bold")
    cells = [[f"{blocks:,}" if i != j else "-" for j, blocks in enumerate(row)] for i, row in enumerate(matrix)]
    if is_plain(console):
        for index, row in enumerate(cells):
            others = (f"{letters(at)} {blocks}" for at, blocks in enumerate(row) if at != index)
            put(console, f"{unit.capitalize()} of {letters(index)}: {'; '.join(others)}")
        return
    size = max((len(text) for row in cells for text in row), default=1) + 2
    band = max((console.width - 5) // size, 1)
    for start in range(0, len(matrix), band):
        if start:
            put(console)
        columns = range(start, min(start + band, len(matrix)))
        put(console, "     " + "".join(letters(at).rjust(size) for at in columns), "dim")
        for index, row in enumerate(cells):
            put(console, f"  {letters(index):<3}" + "".join(row[at].rjust(size) for at in columns))


def _tree(console: Console, diff: ManyDiff, plain: bool) -> set[int]:
    """The tree of common beginnings; the prompts that it names."""
    if is_plain(console):
        return _beginnings(console, diff, plain)
    has_blocks = diff.block_size > 1
    room = console.width - (2 if has_blocks else 1) * _NUMBER
    heads = f"{'tokens':>{_NUMBER}}" + (f"{'blocks':>{_NUMBER}}" if has_blocks else "")
    put(console, f"{'  Common beginnings':<{room}}{heads}", "bold")
    used: set[int] = set()
    deepest = max((room - _LABEL) // _STEP, 1)
    rows = _rows(diff.trie, deepest, plain)
    for head, rest, branch in islice(rows, _MOST_ROWS):
        label = _members(branch, room - cell_width(head) - 1, plain, used)
        numbers = f"{branch.tokens:>{_NUMBER},}" + (f"{branch.blocks:>{_NUMBER},}" if has_blocks else "")
        line = head + label
        put(console, line + " " * (room - cell_width(line)) + numbers)
        for text in _told(branch, plain):
            for line in fold(rest + text, console.width, indent=cell_width(rest) + 2):
                put(console, rest + line[len(rest) :] if not line[: len(rest)].strip() else line, "dim")
    if left := sum(1 for _ in rows):
        put(console, f"  {left:,} more (all with --json)", "dim")
    return used


def _beginnings(console: Console, diff: ManyDiff, plain: bool) -> set[int]:
    """The tree as one record for each branch."""
    used: set[int] = set()
    rows = _rows(diff.trie, 0, plain)
    for _, _, branch in islice(rows, _MOST_ROWS):
        sizes = [_sizes(diff, branch.tokens, branch.blocks)]
        members = _members(branch, _PLAIN_NAMES, plain, used)
        put(console, f"Common beginning of {members}: {'; '.join([*sizes, *_told(branch, plain)])}")
    if left := sum(1 for _ in rows):
        put(console, f"{left:,} more (all with --json)")
    return used


def _rows(trie: Sequence[Branch], deepest: int, plain: bool) -> Iterator[tuple[str, str, Branch]]:
    """Branches from the top down, each with what stands before it and before the lines below it."""
    fork, last, bar = ("|- ", "`- ", "|  ") if plain else ("├─ ", "└─ ", "│  ")
    stack: list[tuple[str, str, int, Branch]] = [("  ", "  ", 0, trie[0])]
    while stack:
        head, rest, level, branch = stack.pop()
        yield head, rest + (bar if branch.children else "   "), branch
        flat = level >= deepest  # no room to go further in: what is below stands beside it
        below: list[tuple[str, str, int, Branch]] = []
        for index, at in enumerate(branch.children):
            child = trie[at]
            final = index + 1 == len(branch.children)
            if flat:
                below.append((head, rest, level, child))
            else:
                below.append((rest + (last if final else fork), rest + ("   " if final else bar), level + 1, child))
        stack += reversed(below)


def _members(branch: Branch, room: int, plain: bool, used: set[int]) -> str:
    """The letters of a branch's prompts, as many as there is room for, and how many there are where that is not all."""
    names = [letters(at) for at in branch.prompts]
    text = " ".join(names)
    if len(text) <= room:
        used.update(branch.prompts)
        return text
    more = f" {'...' if plain else '…'} {len(names):,} prompts"
    kept = 1
    while kept < len(names) and len(" ".join(names[: kept + 1])) + len(more) <= room:
        kept += 1
    used.update(branch.prompts[:kept])
    return " ".join(names[:kept]) + more


def _told(branch: Branch, plain: bool) -> list[str]:
    """Return what follows the end of a common beginning."""
    told: list[str] = []
    if not branch.children:
        return [f"{len(branch.ends):,} equal prompts"] if len(branch.ends) > 1 else told
    if branch.ends:
        names = " ".join(letters(at) for at in branch.ends[:8]) + (
            f" {'...' if plain else '…'}" if len(branch.ends) > 8 else ""
        )
        told.append(f"{names} {'ends' if len(branch.ends) == 1 else 'end'} here")
    if branch.difference is not None:
        told.append(f"then {_differs(branch.difference, plain)}")
    return told


def _differs(difference: BranchDifference, plain: bool) -> str:
    where = f" at {place_of(difference.a, plain)}" if difference.a is not None else ""
    return f"{difference.kind.name}{where} ({difference.kind.code})"
