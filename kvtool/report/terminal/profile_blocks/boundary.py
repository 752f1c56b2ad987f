"""The boundary view in the terminal: hits by block size, and what is left over in the last block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvtool.accounting.boundary import MIN_SHARED
from kvtool.report.terminal.profile_blocks.sparkline import sparkline
from kvtool.report.views.boundaries import edit_sentence, histogram
from kvtool.results.report import Boundary
from kvtool.text.terminal.console import ascii_only, is_plain, put, sanitize, say
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 20


def print_boundaries(console: Console, groups: Iterable[Boundary]) -> None:
    """Print for each group a table of block sizes, where shared prefixes end in a block, and the smallest edit that gains one."""
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
    """Say how far into a block the shared prefixes reach, with a row of bars in ASCII or not; None: without a drawing."""
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
