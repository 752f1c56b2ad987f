"""The terminal view of any result: a profile, a check of several workloads, or findings alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.fates import FATES, OF_TEXT, OF_TOKENS
from kvtool.config.command_line import flags
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError
from kvtool.lint.findings.lint_result import LintResult
from kvtool.results.check import CheckResult
from kvtool.results.documents.lint import LintInput
from kvtool.results.report import Fates, Group, Report, Totals
from kvtool.results.show_text import ShowText
from kvtool.text.tokens.tokenizer_files import BUILT_IN

if TYPE_CHECKING:
    from rich.console import Console

_MOST_TURNS = 1_000_000
_ROUNDED = 1e-4


def print_result(
    console: Console,
    result: CheckResult,
    *,
    show_text: ShowText,
    command: tuple[str, ...] = (),
    boundaries: bool = False,
    details: bool = False,
    read_files: bool = False,
) -> None:
    """Print the result as its command did, no wider than the console; KvtoolError where its figures contradict each other.

    `command` is what followed `kvtool`, where that is known. `read_files` shows the lines of files that findings are about,
    where they still fit; else only lines that were saved. `boundaries` asks for the view of block sizes, `details` for what the
    engine did.
    """
    if result.command == "lint":
        from kvtool.report.terminal.lint import print_lint

        found = LintResult(
            inputs=[LintInput(path=path, kind="text", note=None) for path in result.inputs],
            findings=result.findings,
            ignored=result.ignored,
            partial=result.verdict.outcome == "partial",
        )
        print_lint(console, found, show_text=show_text, quiet=False, read_files=read_files)
    elif result.command == "profile" and len(result.reports) == 1:
        from kvtool.report.terminal.profile import ShownProfile, print_profile

        [report] = result.reports
        check_report(report)
        shown = ShownProfile(
            show_text=show_text,
            command=command or profile_command(report),
            boundaries=boundaries,
            details=details,
            read_files=read_files,
        )
        print_profile(console, report, shown)
    else:
        from kvtool.report.terminal.check import print_check

        print_check(console, result, show_text=show_text, command=command or ("check",), read_files=read_files)


def profile_command(report: Report) -> tuple[str, ...]:
    """Return the command that makes this report again, as far as its configuration is known."""
    config = report.config
    tokenizer, block_size = config.get("tokenizer"), config.get("block_size")
    options = flags(
        tokenizer=tokenizer if isinstance(tokenizer, str) and tokenizer != BUILT_IN else None,
        block_size=block_size if block_size != EngineConfig.block_size else None,
        capacity=config.get("capacity_blocks") or None,
        concurrency=config.get("concurrency") or None,
        seed=config.get("seed") or None,
    )
    return "profile", *(report.inputs if all(map(os.path.exists, report.inputs)) else ["WORKLOAD"]), *options


def check_report(report: Report) -> None:
    """Raise KvtoolError where sums that views rely on are wrong: a report that was edited by hand may break them."""
    groups, totals = report.groups, report.totals
    _hold(report.kv_cache.block_size >= 1, "/kv_cache/block_size", "a block holds a token at least")
    capacity = report.config.get("capacity_blocks")
    _hold(capacity is None or type(capacity) is int, "/config/capacity_blocks", "it is no whole number")
    for name in ("requests", "prompt_tokens", "hit_tokens", "reachable_tokens"):
        summed = sum(getattr(group, name) for group in groups)
        said = getattr(totals, name)
        _hold(summed == said, f"/totals/{name}", f"it is {said:,}, and its groups have {summed:,}")
    _check_rates("/totals", totals)
    _check_fates("/fates", report.fates, totals.prompt_tokens)
    for number, group in enumerate(groups):
        at = f"/groups/{number}"
        _check_rates(at, group)
        _check_fates(f"{at}/fates", group.fates, group.prompt_tokens)
        found, size = group.alignment, report.kv_cache.block_size
        parts = found.whole_blocks * size + found.left_over_tokens
        _hold(parts == found.shared_prefix_tokens, f"{at}/alignment", "blocks and the rest are not the shared prefix")
        for turn in group.turns:
            _hold(1 <= turn.turn <= _MOST_TURNS, f"{at}/turns", f"turn {turn.turn} is none")
            _hold(bool(turn.prompt_tokens), f"{at}/turns", f"turn {turn.turn} has no tokens")
    for row in report.sums.rows if report.sums is not None else []:
        _check_fates("/sums/rows", row.fates, row.prompt_tokens)
    absent = set(report.absent_fates)
    _hold(absent in (set(), {*OF_TEXT}, {*OF_TEXT, *OF_TOKENS}), "/absent_fates", "this set is not possible")
    _check_boundaries(report)
    decode, measured = report.decode, report.ttft.measured
    _hold(decode is None or bool(decode.prefix_aware_bytes_per_step), "/decode", "no step reads nothing")
    if measured is not None and measured.requests:
        _hold(bool(measured.prompt_tokens), "/ttft/measured", "requests without a token were measured")


def _check_rates(at: str, sums: Totals | Group) -> None:
    for name, tokens, rate in (
        ("hit_rate", sums.hit_tokens, sums.hit_rate),
        ("reachable_hit_rate", sums.reachable_tokens, sums.reachable_hit_rate),
    ):
        real = tokens / sums.prompt_tokens if sums.prompt_tokens else 0.0
        _hold(abs(rate - real) < _ROUNDED, f"{at}/{name}", f"it is {rate:.4f}, and its tokens say {real:.4f}")


def _check_fates(at: str, fates: Fates, tokens: int) -> None:
    for fate in fates:
        _hold(fate in FATES, at, f"unknown row `{fate}`; a newer kvtool may have written it")
    _hold(sum(fates.values()) == tokens, at, f"they sum to {sum(fates.values()):,}, not to {tokens:,} tokens")


def _check_boundaries(report: Report) -> None:
    for number, group in enumerate(report.boundaries):
        at = f"/boundaries/{number}"
        _hold(group.block_size >= 1, f"{at}/block_size", "a block holds a token at least")
        _hold(bool(group.left_over), f"{at}/left_over", "it is empty")
        for each in group.left_over:
            _hold(each.tokens < group.block_size, f"{at}/left_over", f"{each.tokens:,} tokens are more than a block")
    names = {group.name for group in report.groups}
    for cause in report.causes:
        _hold(cause.group in names, "/causes", f"there is no group `{cause.group}`")


def _hold(holds: bool, at: str, wrong: str) -> None:
    if not holds:
        raise KvtoolError(f"the result contradicts itself: {at}: {wrong}", hint="profile the workload again")
