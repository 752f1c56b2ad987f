"""The head of a report: its rates, its times, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from kvtool.report.terminal.next_command import allowing
from kvtool.results.report import Report
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import duration, percent, plural, size


@dataclass(frozen=True, slots=True)
class HeadlineTile:
    """A figure with its name and what it means."""

    name: str
    value: str
    text: str
    main: bool = False


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do now, and the command for it where there is one."""

    text: str
    command: str


def tiles(report: Report) -> list[HeadlineTile]:
    """Hit rates and times to the first token."""
    totals = report.totals
    gap = totals.reachable_hit_rate - totals.hit_rate
    more = f"{100 * gap:.1f} points more than now" if gap > 0 else "no more than now"
    found = [
        HeadlineTile(
            "Hit rate",
            percent(totals.hit_rate),
            f"{totals.hit_tokens:,} of {plural(totals.prompt_tokens, 'prompt token')}",
            True,
        ),
        HeadlineTile(
            "Reachable", percent(totals.reachable_hit_rate), f"with an unlimited cache and these prompts: {more}"
        ),
    ]
    proven = [finding for finding in report.findings if finding.rerun is not None]
    if proven and proven[0].rerun is not None:
        found.append(
            HeadlineTile(
                "With fixes", percent(proven[0].rerun.total_after), "measured by running again with the fixes below"
            )
        )
    found.append(
        HeadlineTile("Per request", percent(totals.mean_request_hit_rate), "mean of the requests' own hit rates")
    )
    for name, pair in (("measured here", report.ttft.measured), ("predicted", report.ttft.predicted)):
        if pair is not None and pair.on is not None:
            off = f"cache off: {duration(pair.off.p50)}" if pair.off is not None else "without the cache: not known"
            found.append(HeadlineTile(f"TTFT p50, {name}", duration(pair.on.p50), off))
    return found


def facts(report: Report) -> list[str]:
    """What was profiled, and by which rules, in short."""
    config = report.config
    capacity = config.get("capacity_blocks")
    limited = isinstance(capacity, int) and capacity > 0
    return [
        f"{config.get('rules')} rules, block {report.kv_cache.block_size:,}",
        f"tokenizer {config.get('tokenizer') or 'none: block hashes'}",
        plural(report.totals.requests, "request"),
        f"capacity {plural(int(capacity or 0), 'block')}, {size(int(capacity or 0) * report.kv_cache.bytes_per_block)}"
        if limited
        else "unlimited cache",
        f"seed {config.get('seed')}",
    ]


def cautions(report: Report) -> Iterator[str]:
    """What must be known before the figures are used."""
    totals = report.totals
    if totals.refused_requests:
        yield f"{plural(totals.refused_requests, 'request')} refused and left out; the first: {totals.first_refusal}"
    if totals.skipped_lines:
        yield f"{plural(totals.skipped_lines, 'bad line')} skipped."


def next_step(report: Report) -> NextStep | None:
    """The edit that is proven to help most, else nothing."""
    proven = [finding for finding in report.findings if finding.rerun is not None]
    edit = next((finding for finding in proven if finding.in_source), None)
    if edit is not None and report.editable:
        words = ["kvtool", "optimize", report.workload, *allowing(finding.tier for finding in proven)]
        return NextStep("See the edits that do it; --write writes them:", _command(words))
    if edit is not None:
        return NextStep(f"Edit {edit.path}:{edit.line}, then profile again.", "")
    if proven:
        return NextStep("Change what writes the line that the first finding names, then profile the new log.", "")
    return None


def _command(words: Sequence[str]) -> str:
    return " ".join(quote(sanitize(word)) for word in words)
