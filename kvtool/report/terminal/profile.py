"""The terminal view of a `Report`, new or saved: the answer, the losses, and below a rule the engine's details."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.fates import DECIDED_BY
from kvtool.diagnose.codes import wins
from kvtool.report.answer import Answer, answer_of
from kvtool.report.terminal.findings import print_findings
from kvtool.report.terminal.lines import print_notices, print_sentence, put_command, put_head, rate_style
from kvtool.report.terminal.next_command import shell_lines
from kvtool.report.terminal.profile_blocks.boundary import print_boundaries
from kvtool.report.terminal.profile_blocks.sparkline import hit_rate_lines
from kvtool.report.terminal.render import LABEL, print_section, print_table
from kvtool.report.views.checks import worst_status
from kvtool.report.views.facts import cautions, has_breakdown, is_predictable, run_facts
from kvtool.report.views.fates import absent_fates_note, fate_name, fate_shares
from kvtool.report.views.groups import groups_table
from kvtool.report.views.report_blocks import CAUSES, COST, ENGINE, LOGITS, TOKENS, TURNS, sections
from kvtool.report.views.times import measured_on, medians, not_measured, predicted_for, shortfalls
from kvtool.results.report import Report
from kvtool.results.run_times import OnOff
from kvtool.results.show_text import ShowText
from kvtool.results.verdict import Check
from kvtool.results.verdict_of import verdict_on
from kvtool.results.views import Timeline
from kvtool.text.terminal.console import (
    ascii_only,
    bar,
    cell_width,
    draws_bars,
    is_plain,
    put,
    put_field,
    sanitize,
    say,
)
from kvtool.text.terminal.numbers import percent, plural

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 40
_MOST_COMMAND_LINES = 4
_WIDE_LABEL = 13


@dataclass(frozen=True, slots=True)
class ShownProfile:
    """Settings of a profile's screen."""

    timelines: Sequence[Timeline] | None = None
    """Hit rates in the course of the run, where the report has no views."""
    show_text: ShowText = "snippet"
    command: Sequence[str] = ("profile",)
    """What followed `kvtool`: the next thing to do is a change of it."""
    optimize: Sequence[str] = ()
    """The command that edits this workload."""
    boundaries: bool = False
    """Whether block sizes are shown."""
    details: bool = False
    """Whether the engine's details are shown."""
    read_files: bool = True
    """False shows no line but those that findings bring along."""
    copy_first: Sequence[str] = ()
    """The command that copies the workload to where the next command finds it."""
    held_by: Sequence[str] = ()
    """The lines of a configuration with the gates of this run."""


def print_profile(console: Console, report: Report, shown: ShownProfile = ShownProfile()) -> None:
    """Print all of a report, no wider than the console."""
    print_accounted(console, report, shown)
    print_ending(console, report, shown)


def print_accounted(console: Console, report: Report, shown: ShownProfile) -> None:
    """Print what is known before anything was measured: the answer, findings, fates, groups."""
    timelines = shown.timelines
    if timelines is None:
        timelines = [] if report.views is None else report.views.timelines
    plain = ascii_only(console)
    _header(console, report, plain)
    put(console)
    total = [gate for gate in report.gates if gate.group is None and gate.kind == "hit_rate"]
    gate = _gate(total)
    answer = answer_of(report, command=shown.command, optimize=shown.optimize)
    _print_answer(console, answer, gate=gate, copy_first=shown.copy_first)
    put(console)
    _print_notes(console, report, plain)
    for section in sections(COST, report, "terminal"):
        print_section(console, section)
        put(console)
    if report.findings:
        print_findings(
            console,
            report.findings,
            plain=plain,
            show_text=shown.show_text,
            read_files=shown.read_files,
            header=(str(report.config.get("input")), *((report.groups[0].name,) if len(report.groups) == 1 else ())),
            next_command=answer.command,
        )
        for section in sections([CAUSES], report, "terminal"):
            if any(table.only == "all" for table in section.tables):
                put(console)
                print_section(console, section)
        put(console)
    if has_breakdown(report):
        _print_fates(console, report, plain)
    for section in sections(TOKENS, report, "terminal"):
        put(console)
        print_section(console, section)
    if is_predictable(report) and (shown.details or len(report.groups) > 1):
        if not report.below_minimum:
            put(console)
        gates: dict[str | None, list[Check]] = {}
        for check in report.gates:
            gates.setdefault(check.group, []).append(check)
        print_table(console, groups_table(report, gates, _MOST_GROUPS, hit_rate_lines(console, timelines)))
    for section in sections([TURNS], report, "terminal") if has_breakdown(report) else ():
        put(console)
        print_section(console, section)
    if shown.boundaries and report.boundaries:
        put(console)
        print_boundaries(console, report.boundaries)
    if not shown.details and report.ttft.predicted.on is not None:
        put(console)
        _put_times(console, report.ttft.predicted, f"predicted: {predicted_for(report)}", plain)


def _gate(checks: list[Check]) -> str:
    """Return the limit of the hit rate and how it fared, with the rate that is judged where it covers only some requests."""
    if not checks:
        return ""
    first = checks[0]
    covers = first.covered and first.actual is not None
    judged = f": {percent(first.actual or 0)} for {first.covered}" if covers else ""
    return f"gate >={percent(first.limit or 0)}{judged}  {worst_status(checks)}"


def print_ending(console: Console, report: Report, shown: ShownProfile) -> None:
    """Print what was measured, with `details` all that the engine did, and the verdict."""
    plain = ascii_only(console)
    if shown.details:
        put(console)
        _print_details(console, report, plain)
    else:
        _print_measured(console, report, plain)
    if not shown.details and is_predictable(report) and not report.hosted:  # of others only counts are known
        say(console, "Add --details for the decode step, block alignment, KV cache and p99.", style="dim")
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
    head = [f"kvtool {config.get('version')}", str(config.get("input"))]
    put_head(console, [*head, *run_facts(report, plural(report.request_count, "request"))])
    for caution in cautions(report):
        say(console, sanitize(caution, ascii_only=plain), style="yellow")


def _print_notes(console: Console, report: Report, plain: bool) -> None:
    """Print how the run was made; it comes after the answer."""
    for note in report.notes:
        say(console, sanitize(note, ascii_only=plain), style="dim")
    if report.notes:
        put(console)


def _held(console: Console, lines: Sequence[str], plain: bool) -> None:
    """Print the lines, or where one is too long for that what they would say."""
    put(console)
    shown = [f"    {sanitize(line, ascii_only=plain)}" if line else "" for line in lines]
    if max(map(cell_width, shown)) > console.width:
        gate = sanitize(lines[-1], ascii_only=plain)
        say(
            console,
            f"To enforce this in CI, put the same options into kvtool.toml, with {gate} under [gate]. Run kvtool check.",
        )
        return
    say(console, "To enforce this in CI, put these lines into kvtool.toml and run kvtool check:")
    for line in shown:
        put(console, line)


def _print_answer(console: Console, answer: Answer, *, gate: str = "", copy_first: Sequence[str] = ()) -> None:
    """Print a line each for the rate (with its `gate`), for the loss and for what to do; then the command for that."""
    plain = ascii_only(console)
    styles = {"Hit rate": "bold", "Not reused": None if answer.finding is None else "bold red"}
    lines = shell_lines(["kvtool", *answer.command], console.width, plain) if answer.command else []
    if len(lines) > _MOST_COMMAND_LINES:
        lines = []
    for label, text in answer.lines:
        if label == "Next":
            text += ":" if lines else f": the same command with {answer.change}" if answer.change else ""
            text = f"copy the example, then {text[:1].lower()}{text[1:]}" if copy_first else text
        more = gate if label == "Hit rate" else ""
        shown = sanitize(text, ascii_only=plain)
        put_field(console, label, shown, more, size=LABEL, hang=LABEL + 2, style=styles.get(label))
    for words in (copy_first, answer.command if lines else ()):
        if words:
            put_command(console, ["kvtool", *words])


def _print_fates(console: Console, report: Report, plain: bool) -> None:
    """Print the token breakdown, the largest loss first; bars are relative to the longest."""
    rows = [row for row in fate_shares(report.fates) if row[1]]
    if not rows:
        return
    notes = dict(DECIDED_BY)
    for finding in report.findings:
        if finding.rerun is not None or (finding.fix_key and finding.code < "KV3"):
            notes |= dict.fromkeys(wins(finding.code), "fix above")
    names = {name: fate_name(name) for name, _, _ in rows}
    label = max(map(cell_width, names.values()), default=0)
    if is_plain(console):
        for name, count, part in rows:
            put_field(console, f"Tokens {names[name]}", f"{count:,}", part, notes.get(name, ""), size=label)
        return
    digits = max((len(f"{count:,}") for _, count, _ in rows), default=0)
    noted = max((len(notes[name]) + 2 for name, _, _ in rows if name in notes), default=0)
    if 14 + label + digits + noted > console.width:
        names = {name: text.partition(" (")[0] for name, text in names.items()}
        label = max(map(cell_width, names.values()), default=0)
    room = console.width - 4 - label - 2 - digits - 8 - noted
    size_of_bar = max(min(room - 2, 30), 0) if draws_bars(console) and len(rows) > 1 else 0
    title = "Token breakdown" if report.misses is None else "Simulated token breakdown"
    heading = f"  {title} ({report.totals.prompt_tokens:,})"
    if not size_of_bar:  # the figures stand below their titles
        label += max(min(cell_width(heading) - 4 - label, room), 0)
    right = f"{'tokens':>{digits}}   share"
    before = 4 + label + 2 + (size_of_bar + 2 if size_of_bar else 0)
    put(console, heading + right.rjust(max(before + digits + 8 - cell_width(heading), len(right) + 2)), "bold")
    most = max((count for _, count, _ in rows), default=1)
    for name, count, part in rows:
        meter = bar(count / most, size_of_bar, plain) + "  " if size_of_bar else ""
        line = f"    {names[name]:<{label}}  {meter}{count:>{digits},}  {part:>6}"
        if name in notes and cell_width(line) + 2 + len(notes[name]) <= console.width:
            line += f"  {notes[name]}"
        put(console, line, rate_style(report.totals.hit_rate) if name == "hit" else None)
    if report.absent_fates:
        say(console, absent_fates_note(report.absent_fates), indent=4, style="dim")


def _print_measured(console: Console, report: Report, plain: bool) -> None:
    """Print the measured one with its model and machine, or why there is none; nothing where none was asked for."""
    measured = report.ttft.measured
    if measured is None:
        return
    if not measured.requests:
        text = sanitize(f"not measured: {not_measured(measured)}", ascii_only=plain)
        put_field(console, "TTFT p50", text, size=LABEL, hang=LABEL + 2, style="dim")
        return
    _put_times(console, measured, f"measured {measured_on(report, measured)}", plain)
    for text in shortfalls(measured):
        say(console, sanitize(text, ascii_only=plain), indent=LABEL + 2, style="yellow")


def _put_times(console: Console, times: OnOff, basis: str, plain: bool) -> None:
    text = sanitize(f"{medians(times)} ({basis})", ascii_only=plain)
    put_field(console, "TTFT p50", text, size=LABEL, hang=LABEL + 2)


def _print_details(console: Console, report: Report, plain: bool) -> None:
    """Print a rule, the mean of hit rates, and the blocks of the engine."""
    if not is_plain(console):
        put(console, ("-" if plain else "─") * console.width, "dim")
    rate = percent(report.totals.mean_request_hit_rate)
    text = "mean of the hit rates of the requests"
    put_field(console, "Per request", rate, text, size=_WIDE_LABEL, hang=_WIDE_LABEL + 2)
    for section in sections(ENGINE, report, "terminal"):
        put(console)
        print_section(console, section)
