"""The terminal view of a `Report`, fresh or saved: the answer, what it rests on, and below a rule how the engine fared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.report.answer import answer_of
from kvtool.report.terminal.findings import print_findings
from kvtool.report.terminal.profile_blocks.answer_lines import print_answer
from kvtool.report.terminal.profile_blocks.boundary import print_boundaries
from kvtool.report.terminal.profile_blocks.engine_details import print_details
from kvtool.report.terminal.profile_blocks.sparkline import hit_rate_lines
from kvtool.report.terminal.profile_blocks.times import print_measured, print_predicted
from kvtool.report.terminal.profile_blocks.token_fates import print_fates
from kvtool.report.terminal.profile_blocks.turn_table import print_turns
from kvtool.report.terminal.render import print_section, print_table
from kvtool.report.terminal.verdict import print_notices, print_sentence, status_word
from kvtool.report.views.groups import groups_table
from kvtool.report.views.order import CAUSES, COST, LOGITS, TOKENS, sections
from kvtool.results.report import Report
from kvtool.results.show_text import ShowText
from kvtool.results.verdict import Check
from kvtool.results.verdict_of import verdict_on
from kvtool.results.views import Timeline
from kvtool.text.terminal.console import ascii_only, cell_width, pack, put, sanitize, say
from kvtool.text.terminal.numbers import percent, plural

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 40


@dataclass(frozen=True, slots=True)
class ShownProfile:
    """How a report is shown."""

    timelines: Sequence[Timeline] | None = None
    """Hit rates in the course of the run, where the report has no views."""
    show_text: ShowText = "snippet"
    command: Sequence[str] = ("profile",)
    """What stood behind `kvtool`: the next thing to do is told as a change of it."""
    optimize: Sequence[str] = ()
    """The command that edits this workload."""
    boundaries: bool = False
    """With the view of block sizes."""
    details: bool = False
    """With what the engine did."""
    read_files: bool = True
    """False shows no line but those that findings bring along."""
    held_by: Sequence[str] = ()
    """The lines of a configuration that demands of every build what was demanded of this run."""


def print_profile(console: Console, report: Report, shown: ShownProfile = ShownProfile()) -> None:
    """All of a report, no wider than the console."""
    print_accounted(console, report, shown)
    print_ending(console, report, shown)


def print_accounted(console: Console, report: Report, shown: ShownProfile) -> None:
    """What is known before anything was measured: the answer, findings, causes, fates, sums, groups, turns, block sizes."""
    timelines = shown.timelines
    if timelines is None:
        timelines = [] if report.views is None else report.views.timelines
    plain = ascii_only(console)
    _header(console, report, plain)
    put(console)
    total = [gate for gate in report.gates if gate.group is None and gate.kind == "hit_rate"]
    gate = f"gate >={percent(total[0].limit or 0)}  {status_word(total)}" if total else ""
    print_answer(console, answer_of(report, command=shown.command, optimize=shown.optimize), gate=gate)
    put(console)
    for section in sections(COST, report, "terminal"):
        if section.id == "money":
            from kvtool.report.terminal.profile_blocks.money_block import print_money_lines
            from kvtool.report.views.money import money_lines

            print_money_lines(console, money_lines(report))
        print_section(console, section)
        put(console)
    if report.findings:
        print_findings(console, report.findings, plain=plain, show_text=shown.show_text, read_files=shown.read_files)
        for section in sections([CAUSES], report, "terminal"):
            if any(table.only == "all" for table in section.tables):
                put(console)
                print_section(console, section)
        put(console)
    print_fates(console, report, plain)
    for section in sections(TOKENS, report, "terminal"):
        put(console)
        print_section(console, section)
    if shown.details or len(report.groups) > 1:
        put(console)
        gates: dict[str | None, list[Check]] = {}
        for check in report.gates:
            gates.setdefault(check.group, []).append(check)
        print_table(console, groups_table(report, gates, _MOST_GROUPS, hit_rate_lines(console, timelines)))
    if any(len(group.turns) > 1 for group in report.groups):
        put(console)
        print_turns(console, report.groups, plain)
    if shown.boundaries and report.boundaries:
        put(console)
        print_boundaries(console, report.boundaries)
    if not shown.details and report.ttft.predicted.on is not None:
        put(console)
        print_predicted(console, report, plain)


def print_ending(console: Console, report: Report, shown: ShownProfile) -> None:
    """What was measured, with `details` all that the engine did, and the verdict."""
    plain = ascii_only(console)
    if shown.details:
        put(console)
        print_details(console, report, plain)
    else:
        print_measured(console, report, plain)
        say(console, "--details: decode step, block alignment, KV cache, p99", style="dim")
    for section in sections([LOGITS], report, "terminal"):
        print_section(console, section)
    if shown.held_by and not report.partial:
        _held(console, shown.held_by, plain)
    verdict = verdict_on(report)
    if verdict.notices or verdict.outcome != "none" or verdict.checks:
        put(console)
    print_notices(console, verdict)
    if verdict.outcome != "none" or verdict.checks:
        print_sentence(console, verdict)


def _header(console: Console, report: Report, plain: bool) -> None:
    config = report.config
    shown = [
        f"kvtool {config.get('version')}",
        sanitize(str(config.get("input")), ascii_only=plain),
        _rules(report),
        sanitize(str(config.get("tokenizer") or "block hashes"), ascii_only=plain),
        plural(report.totals.requests, "request"),
        f"seed {config.get('seed')}",
    ]
    for line in pack(shown, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    for note in report.notes:
        say(console, sanitize(note, ascii_only=plain), style="dim")
    totals = report.totals
    if totals.refused_requests:
        text = f"{plural(totals.refused_requests, 'request')} refused and left out; the first: {totals.first_refusal or ''}"
        say(console, sanitize(text, ascii_only=plain), style="yellow")
    if totals.skipped_lines:
        say(console, f"{plural(totals.skipped_lines, 'bad line')} skipped", style="yellow")


def _rules(report: Report) -> str:
    if report.config.get("rules_by_day"):
        return "rules of the providers"
    if report.config.get("rules_of"):
        return f"{report.config.get('rules')} rules"
    return f"{report.config.get('rules')} rules, block {report.kv_cache.block_size}"


def _held(console: Console, lines: Sequence[str], plain: bool) -> None:
    """The lines, or where one is too long for that what they would say."""
    put(console)
    shown = [f"    {sanitize(line, ascii_only=plain)}" if line else "" for line in lines]
    if max(map(cell_width, shown)) > console.width:
        gate = sanitize(lines[-1], ascii_only=plain)
        say(console, f"To hold it in CI, say the same in kvtool.toml, with {gate} under [gate], then kvtool check")
        return
    say(console, "To hold it in CI, these lines in kvtool.toml, then kvtool check:")
    for line in shown:
        put(console, line)
