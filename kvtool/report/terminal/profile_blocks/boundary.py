"""The boundary view in the terminal: hits by block size, and what is left over in the last block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvtool.accounting.boundary import MIN_SHARED, padding_sentence
from kvtool.report.terminal.profile_blocks.sparkline import sparkline
from kvtool.results.report import Boundary, SizeHits
from kvtool.text.terminal.console import ascii_only, is_plain, put, sanitize, say
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 20
_LARGER = (528, 784, 1600)
"""Block sizes that an engine chooses by itself for hybrid models."""
_MUCH = 0.1
_MOST_RANGES = 16


def print_boundaries(console: Console, groups: Iterable[Boundary]) -> None:
    """For each group a table of block sizes, where shared prefixes end in a block, and the smallest edit that gains one."""
    plain = ascii_only(console)
    shown = list(groups)
    for index, group in enumerate(shown[:_MOST_GROUPS]):
        if index:
            put(console)
        _group(console, group, plain)
    if len(shown) > _MOST_GROUPS:
        say(console, f"and {len(shown) - _MOST_GROUPS:,} more groups: --json has them all", style="dim")


def _group(console: Console, group: Boundary, plain: bool) -> None:
    name = sanitize(group.group, ascii_only=plain)
    head = f"Block boundaries of {name}: {plural(group.requests, 'request')}, unlimited cache"
    say(console, head, style="bold")
    columns = [
        Column("block"),
        Column("hit"),
        Column("tokens", keep=2),
        Column("requests hit", keep=1),
        Column("shared, too short"),
        Column("nothing shared", keep=0),
    ]
    rows = [
        (
            f"{size.block_size:,}" + ("*" if size.block_size == group.block_size else " "),
            percent(size.hit_tokens / group.prompt_tokens if group.prompt_tokens else 0.0),
            f"{size.hit_tokens:,}",
            f"{size.hit_requests:,}",
            f"{size.shared_too_short_requests:,}",
            f"{group.nothing_shared_requests:,}",
        )
        for size in group.sizes
    ]
    put_table(console, columns, rows)
    say(console, f"* the block size in use; nothing shared: fewer than {MIN_SHARED} tokens", style="dim")
    if group.block_size > 1:
        say(console, _left_over(group, None if is_plain(console) else plain))
        say(console, edit_sentence(group))


def _left_over(group: Boundary, plain: bool | None) -> str:
    """How far into a block the shared prefixes reach, as a row of bars in ASCII or not; None: without a drawing."""
    drawn = ""
    if plain is not None:
        bins = histogram(group)
        most = max((count for _, _, count in bins), default=0)
        drawn = f"|{sparkline(((count, most + 1 if count else 0) for _, _, count in bins), plain=plain)}| "
    usual = max(group.left_over, key=lambda each: (each.requests, -each.tokens))
    return (
        f"left over in a block, 0 to {group.block_size - 1} tokens: {drawn}"
        f"most often {plural(usual.tokens, 'token')}, in {usual.requests:,} of {plural(group.requests, 'request')}"
    )


def histogram(group: Boundary) -> list[tuple[int, int, int]]:
    """(first, last, requests) for at most 16 ranges of tokens left over, which cover 0 to block size - 1."""
    width = -(-group.block_size // _MOST_RANGES)
    bins = [0] * -(-group.block_size // width)
    for each in group.left_over:
        bins[each.tokens // width] += each.requests
    return [(at * width, min((at + 1) * width, group.block_size) - 1, count) for at, count in enumerate(bins)]


def edit_sentence(group: Boundary) -> str:
    """The smallest edit that gains a block, or that there is none."""
    if group.edit is None:
        return f"no addition at the front would save more than it costs, with blocks of {group.block_size:,}"
    return padding_sentence(group.edit, group.requests)


def boundary_hint(groups: Iterable[Boundary]) -> str | None:
    """What a larger block size that engines use would cost all groups together; None where that is not much.

    What an addition at the front would win is a finding of its own (KV204).
    """
    shown = list(groups)
    sizes = [_by_size(group) for group in shown]
    tokens = sum(group.prompt_tokens for group in shown)
    if not tokens or any(group.block_size not in known for group, known in zip(shown, sizes, strict=True)):
        return None
    now = sum(known[group.block_size].hit_tokens for group, known in zip(shown, sizes, strict=True))
    for size in _LARGER:
        if all(size > group.block_size and size in known for group, known in zip(shown, sizes, strict=True)):
            hit = sum(known[size].hit_tokens for known in sizes)
            if now - hit >= _MUCH * tokens:
                return f"blocks of {size:,} tokens would hit {percent(hit / tokens)}, not {percent(now / tokens)}: see --boundaries"
    return None


def _by_size(group: Boundary) -> dict[int, SizeHits]:
    return {size.block_size: size for size in group.sizes}
