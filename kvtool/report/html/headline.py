"""The head of a report: the answer in three lines, its rates and times, and what they rest on."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.report.answer import Answer, fixed_rate, gains_basis, larger_cache
from kvtool.report.views.facts import is_predictable, rate_kind, run_facts
from kvtool.report.views.memory import blocks_and_memory
from kvtool.report.views.page_commands import shown_command
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import duration, percent, plural


@dataclass(frozen=True, slots=True)
class HeadlineTile:
    """A figure with its name and what it means."""

    name: str
    value: str
    text: str
    main: bool = False
    kind: str = ""
    """How good a rate is; chooses its colour."""


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One of the first lines of a page, with a command where there is one."""

    label: str
    text: str
    command: str = ""


def answer_lines(answer: Answer) -> list[AnswerLine]:
    """Return what the rate is and can be, which line loses how much, and what to run."""
    command = shown_command(answer.command) if answer.command else ""
    return [AnswerLine(label, text, command if text == answer.todo else "") for label, text in answer.lines]


def tiles(report: Report) -> list[HeadlineTile]:
    """Return hit rates that differ, and times to the first token."""
    found = []
    if report.misses is not None:
        read, prompt = report.misses.read, report.misses.prompt_tokens
        share = min(read / max(prompt, 1), 1.0)
        text = f"{read:,} of {plural(prompt, 'prompt token')}"
        found.append(HeadlineTile("Hit rate, reported", percent(share), text, True, rate_kind(share)))
        if not is_predictable(report):
            return found
    totals = report.totals
    rate = percent(totals.hit_rate)
    found += [
        HeadlineTile(
            "Hit rate" if not found else "Hit rate, simulated",
            rate,
            f"{totals.hit_tokens:,} of {plural(totals.prompt_tokens, 'prompt token')}",
            not found,
            rate_kind(totals.hit_rate),
        )
    ]
    gap = totals.reachable_hit_rate - totals.hit_rate
    larger = larger_cache(report)
    if larger is not None and percent(totals.reachable_hit_rate) != rate:
        text = f"with {larger}: {100 * gap:.1f} points more"
        found.append(HeadlineTile("Maximum as written", percent(totals.reachable_hit_rate), text))
    fixed = fixed_rate(report)
    if fixed is not None:
        basis = gains_basis(report)
        basis = "verified by re-running" if basis == "verified" else basis
        found.append(HeadlineTile("With fixes", percent(fixed), basis))
    if percent(totals.mean_request_hit_rate) != rate:
        text = "mean of the hit rates of the requests"
        found.append(HeadlineTile("Per request", percent(totals.mean_request_hit_rate), text))
    for name, pair in (("measured here", report.ttft.measured), ("predicted", report.ttft.predicted)):
        if pair is not None and pair.on is not None:
            off = f"cache off: {duration(pair.off.p50)}" if pair.off is not None else "cache off: unknown"
            found.append(HeadlineTile(f"TTFT p50, {name}", duration(pair.on.p50), off))
    return found


def facts(report: Report) -> list[str]:
    """Return what was profiled, and by which rules, in short."""
    config = report.config
    capacity = config.get("capacity_blocks")
    limited = isinstance(capacity, int) and capacity > 0
    cache = f"capacity {blocks_and_memory(report, int(capacity or 0))}" if limited else "unlimited cache"
    counts = [plural(report.request_count, "request"), *([cache] if is_predictable(report) else [])]
    return run_facts(report, *counts)
