"""The terminal view of a probe: which circumstances reach the prompt, where, and what that costs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kvtool.diagnose.tool_places import in_tools
from kvtool.diff.prompts import CHAT_TEMPLATE
from kvtool.lint.probe.probing import FoundLeak, ProbeResult
from kvtool.report.terminal.lines import put_head
from kvtool.report.terminal.prompt_diffs.excerpt import print_excerpt
from kvtool.text.terminal.console import ascii_only, at_right, cell_width, pack, put, sanitize, say
from kvtool.text.terminal.numbers import plural

if TYPE_CHECKING:
    from rich.console import Console


def print_probe(console: Console, result: ProbeResult, *, show_text: bool = True) -> None:
    """Print each leak with place, cost and fix, in the order of the prompt; then what had no effect and what was not tried."""
    plain = ascii_only(console)
    parts = [
        f"kvtool probe {sanitize(shlex.quote(result.spec), ascii_only=plain)}",
        f"block {result.block_size}",
        sanitize(result.tokenizer, ascii_only=plain),
        plural(result.tokens, "token"),
        plural(result.runs, "run"),
    ]
    put_head(console, parts)
    for leak in result.leaks:
        put(console)
        _leak(console, leak, plain, show_text)
    put(console)
    if not result.leaks:
        say(console, "No change reaches the prompt.")
    if result.without_effect:
        say(console, f"Without effect: {', '.join(result.without_effect)}.")
    for name, reason in result.skipped:
        say(console, f"Not tried: {name}: {sanitize(reason, ascii_only=plain)}")


def _leak(console: Console, leak: FoundLeak, plain: bool, show_text: bool) -> None:
    head = f"  {leak.factor.name}: {leak.kind.name}"
    if cell_width(head) + 2 + len(leak.kind.code) <= console.width:
        put(console, at_right(console, head, leak.kind.code), "bold")
    else:
        say(console, f"{head.strip()} {leak.kind.code}", style="bold")
    said = [
        _place(leak, plain),
        f"token {leak.difference.token:,}, block {leak.difference.block:,}",
        f"seen {leak.when}",
    ]
    if leak.places > 1:
        said.append(f"{leak.places:,} places")
    for line in pack(said, console.width - 4, separator="  ", indent=2):
        put(console, f"    {line}")
    a, b = leak.difference.excerpt_a, leak.difference.excerpt_b
    note = f"{plural(leak.same_tokens, 'equal token')} after this difference"
    if show_text and a is not None and b is not None:
        print_excerpt(console, a, b)
    say(console, f"{note}: {plural(leak.lost_blocks, 'block')} lost", indent=4)
    say(console, f"help: {leak.fix}", indent=4)


def _place(leak: FoundLeak, plain: bool) -> str:
    spot = leak.difference.a
    if spot is None:
        return "in the prompt"
    if in_tools(spot.part) or spot.part == CHAT_TEMPLATE:
        return spot.part
    if spot.part:
        return f"{sanitize(spot.part, ascii_only=plain)}, character {spot.character or 0:,}"
    return f"line {spot.line:,}, column {spot.column:,}"
