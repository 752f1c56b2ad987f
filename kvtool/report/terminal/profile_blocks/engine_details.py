"""What the engine did with a workload, below a rule in the terminal: times, decode steps, blocks and the KV cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.terminal.profile_blocks.boundary import boundary_hint
from kvtool.report.terminal.profile_blocks.group_table import MOST_GROUPS, group_names
from kvtool.report.terminal.profile_blocks.times import print_decode, print_ttft
from kvtool.results.report import Report
from kvtool.text.terminal.console import is_plain, pack, put, put_field, say
from kvtool.text.terminal.numbers import percent, plural, size
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_LABEL = 13


def print_details(console: Console, report: Report, plain: bool, *, boundaries: bool) -> None:
    """A rule, then tables; without what `boundaries` has shown already."""
    if not is_plain(console):
        put(console, ("-" if plain else "─") * console.width, "dim")
    put_field(
        console, "Per request", percent(report.totals.mean_request_hit_rate), "mean of the requests' own hit rates",
        size=_LABEL, hang=_LABEL + 2,
    )  # fmt: skip
    put(console)
    print_ttft(console, report, plain)
    put(console)
    print_decode(console, report, plain)
    _alignment(console, report, plain)
    hint = None if boundaries else boundary_hint(report.boundaries)
    if hint is not None:
        say(console, hint, indent=4)
    put(console)
    _memory(console, report, plain)


def _alignment(console: Console, report: Report, plain: bool) -> None:
    columns = [
        Column("Blocks, in tokens", "<"),
        Column("shared prefix"),
        Column("whole blocks", keep=1),
        Column("left over"),
        Column("lost in part blocks"),
    ]
    rows = []
    groups = report.groups[:MOST_GROUPS]
    for name, group in zip(group_names(groups, console, plain), groups, strict=True):
        found = group.alignment
        share = percent(found.lost_tokens / group.prompt_tokens) if group.prompt_tokens else "0.0%"
        rows.append(
            (
                name,
                f"{found.shared_prefix_tokens:,}",
                f"{found.whole_blocks:,}",
                f"{found.left_over_tokens:,}",
                f"{found.lost_tokens:,} {share:>6}",
            )
        )
    put_table(console, columns, rows)


def _memory(console: Console, report: Report, plain: bool) -> None:
    cache, totals = report.kv_cache, report.totals
    saved = totals.hit_tokens * cache.bytes_per_block / cache.block_size
    parts = [
        f"KV cache: {plural(cache.filled_blocks, 'block')} filled, {size(cache.filled_blocks * cache.bytes_per_block)}",
        f"{size(saved)} reused, not computed again" if saved else "",
        plural(totals.evictions, "eviction") if totals.evictions else "",
        plural(totals.preemptions, "preemption") if totals.preemptions else "",
    ]
    shown = [part for part in parts if part]
    for line in pack(shown, console.width - 2, separator=" | " if plain else " · ", indent=2):
        put(console, "  " + line)
