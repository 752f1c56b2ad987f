"""The terminal view of a `Report`, fresh or saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.fates import FATES, OF_TEXT, OF_TOKENS
from kvtool.diagnose.codes import wins
from kvtool.report.terminal.boundary import boundary_hint, print_boundaries
from kvtool.report.terminal.findings import print_findings
from kvtool.report.terminal.ledger_sums import print_sums
from kvtool.report.terminal.next_command import allowing, shell_lines, shorten_middle, with_flag, without
from kvtool.report.terminal.reuse_lines import reuse_lines
from kvtool.report.terminal.sparkline import hit_rates, sparkline
from kvtool.report.terminal.times import print_decode, print_ttft
from kvtool.report.terminal.turn_table import print_turns
from kvtool.report.terminal.unlock import print_causes
from kvtool.report.terminal.verdict import print_notices, print_sentence, status_word
from kvtool.results.report import Group, Report, lost_tokens
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
    pack,
    put,
    put_field,
    sanitize,
    say,
)
from kvtool.text.terminal.numbers import percent, plural, shares, size
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 40
_SPARKLINES_FROM = 100
_SPARKLINE = 12
_MOST_COMMAND_LINES = 4
_LABEL = 13
_FATE_NOTES = {
    "evicted": "capacity",
    "in_flight": "timing",
    "isolated": "tenants",
    "caching_off": "switched off",
}
"""What decides a fate, where it is not the text."""


def print_profile(
    console: Console,
    report: Report,
    *,
    timelines: Sequence[Timeline] | None = None,
    show_text: ShowText = "snippet",
    command: Sequence[str] = ("profile",),
    optimize: Sequence[str] = (),
    boundaries: bool = False,
    read_files: bool = True,
) -> None:
    """Header, rates, times, fates, sums, alignment, groups, turns, findings, causes and the verdict, no wider than the console.

    `timelines` are hit rates in the course of the run, where the report has no views. `command` is what stood behind `kvtool`: the
    next thing to do is told as a change of it. `optimize` is the command that edits this workload. `boundaries` asks for the view
    of block sizes. `read_files` False shows no line but those that findings bring along.
    """
    if timelines is None:
        timelines = [] if report.views is None else report.views.timelines
    plain = ascii_only(console)
    _header(console, report, plain)
    put(console)
    _rates(console, report, plain)
    put(console)
    print_ttft(console, report, plain)
    put(console)
    print_decode(console, report, plain)
    _fates(console, report, plain)
    if report.sums is not None:
        put(console)
        print_sums(console, report.sums)
    put(console)
    _alignment(console, report, plain)
    hint = None if boundaries else boundary_hint(report.boundaries)
    if hint is not None:
        say(console, hint, indent=4)
    put(console)
    _memory(console, report)
    put(console)
    _groups(console, report, timelines, plain)
    if any(len(group.turns) > 1 for group in report.groups):
        put(console)
        print_turns(console, report.groups, plain)
    if boundaries and report.boundaries:
        put(console)
        print_boundaries(console, report.boundaries)
    if report.findings:
        put(console)
        print_findings(console, report.findings, plain=plain, show_text=show_text, read_files=read_files)
    print_causes(console, report.groups, report.causes)
    put(console)
    _verdict(console, report, plain, command, optimize or ("optimize", report.workload))


def _header(console: Console, report: Report, plain: bool) -> None:
    config = report.config
    shown = [
        f"kvtool {config.get('version')}",
        sanitize(str(config.get("input")), ascii_only=plain),
        f"{config.get('rules')} rules, block {report.kv_cache.block_size}",
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


def _rates(console: Console, report: Report, plain: bool) -> None:
    total = [gate for gate in report.gates if gate.group is None and gate.kind == "hit_rate"]
    meter = bar(report.totals.hit_rate, 30, plain, track=True) if draws_bars(console) else ""
    gate = f"gate >={percent(total[0].limit or 0)}  {status_word(total)}" if total else ""
    put_field(console, "Hit rate", f"{percent(report.totals.hit_rate):>6}", meter, gate, size=_LABEL, style="bold")
    gap = report.totals.reachable_hit_rate - report.totals.hit_rate
    more = f"{100 * gap:.1f} pts more than now" if gap > 0 else "no more than now"
    rows = [("Reachable", percent(report.totals.reachable_hit_rate), f"with an unlimited cache, these prompts: {more}")]
    rerun = next((finding.rerun for finding in report.findings if finding.rerun is not None), None)
    if rerun is not None:
        # A finding that goes along with another's fix has none of its own.
        count = sum(finding.rerun is not None and bool(finding.fix_key) for finding in report.findings)
        fixes = "the fix" if count == 1 else f"the {count} fixes"
        rows.append(("With fixes", percent(rerun.total_after), f"measured by running again with {fixes} below"))
    rows.append(("Per request", percent(report.totals.mean_request_hit_rate), "mean of the requests' own hit rates"))
    for label, value, text in rows:
        put_field(console, label, f"{value:>6}", text, size=_LABEL, hang=_LABEL + 10)


def _fates(console: Console, report: Report, plain: bool) -> None:
    """Hits, then what was lost, the most first; bars are relative to the longest."""
    fates = {name: report.fates[name] for name in FATES if name in report.fates}  # the ladder decides between equals
    names = ["hit", *sorted((name for name in fates if name != "hit"), key=lambda name: -fates[name])]
    tokens = [fates.get(name, 0) for name in names]
    notes = dict(_FATE_NOTES)
    for finding in report.findings:
        if finding.rerun is not None or (finding.fix_key and finding.code < "KV3"):
            notes |= dict.fromkeys(wins(finding.code), "fix below")
    label = max(cell_width(FATES[name]) for name in names)
    digits = max(len(f"{count:,}") for count in tokens)
    size_of_bar = 0
    if draws_bars(console):
        noted = max((len(notes.get(name, "")) + 2 for name in names if name in notes), default=0)
        size_of_bar = max(min(console.width - 4 - label - 4 - digits - 8 - noted, 30), 0)
    if is_plain(console):
        for name, count, part in zip(names, tokens, shares(tokens), strict=True):
            put_field(console, f"Tokens {FATES[name]}", f"{count:,}", part, notes.get(name, ""), size=label)
        return
    most = max(tokens)
    heading = f"  Where prompt tokens went ({report.totals.prompt_tokens:,})"
    right = f"{'tokens':>{digits}}   share"
    before = 4 + label + 2 + (size_of_bar + 2 if size_of_bar else 0)
    put(console, heading + right.rjust(max(before + digits + 8 - cell_width(heading), len(right) + 2)), "bold")
    for name, count, part in zip(names, tokens, shares(tokens), strict=True):
        meter = bar(count / most if most else 0.0, size_of_bar, plain) + "  " if size_of_bar else ""
        line = f"    {FATES[name]:<{label}}  {meter}{count:>{digits},}  {part:>6}"
        if name in notes and cell_width(line) + 2 + len(notes[name]) <= console.width:
            line += f"  {notes[name]}"
        put(console, line, "green" if name == "hit" else None)
    if report.absent_fates:
        say(console, _untold(report.absent_fates), indent=4, style="dim")


def _untold(absent: Sequence[str]) -> str:
    """Which fates this input cannot tell, and why."""
    if set(OF_TOKENS) <= set(absent):
        return "block hashes have no text: what is blocked or moved counts as unique or first use"
    assert set(OF_TEXT) <= set(absent)
    return "token ids have no text: drift and differences of form count as blocked or unique"


def _names(groups: Sequence[Group], console: Console, plain: bool) -> list[str]:
    """Names of groups that leave room for the numbers: long ones keep their beginning and their end."""
    room = max(console.width // 4, 12)
    names = [sanitize(group.name, ascii_only=plain) for group in groups]
    return [shorten_middle(name, room, ascii_only=plain) for name in names]


def _alignment(console: Console, report: Report, plain: bool) -> None:
    columns = [
        Column("Block alignment", "<"),
        Column("shared prefix"),
        Column("blocks", keep=1),
        Column("left over"),
        Column("in part blocks"),
    ]
    rows = []
    groups = report.groups[:_MOST_GROUPS]
    for name, group in zip(_names(groups, console, plain), groups, strict=True):
        found = group.alignment
        share = percent(found.lost_tokens / group.prompt_tokens) if group.prompt_tokens else "0.0%"
        rows.append(
            (
                name,
                f"{found.shared_prefix_tokens:,} t",
                f"{found.whole_blocks:,}",
                f"{found.left_over_tokens:,} t",
                f"{found.lost_tokens:,} t {share:>6}",
            )
        )
    put_table(console, columns, rows)


def _memory(console: Console, report: Report) -> None:
    cache = report.kv_cache
    saved = report.totals.hit_tokens * cache.bytes_per_block / cache.block_size
    parts = [
        f"KV cache: {plural(cache.filled_blocks, 'block')} filled, {size(cache.filled_blocks * cache.bytes_per_block)}",
        f"{size(saved)} reused, not computed again",
        plural(report.totals.evictions, "eviction"),
        plural(report.totals.preemptions, "preemption"),
    ]
    for line in pack(parts, console.width - 2, separator=" | " if ascii_only(console) else " · ", indent=2):
        put(console, "  " + line)
    for text in reuse_lines(report, plain=ascii_only(console)):
        say(console, text)


def _groups(console: Console, report: Report, timelines: Sequence[Timeline], plain: bool) -> None:
    gates: dict[str | None, list[Check]] = {}
    for gate in report.gates:
        gates.setdefault(gate.group, []).append(gate)
    worst: dict[str, str] = {}
    for finding in report.findings:
        worst.setdefault(finding.group, f"{finding.code} {finding.severity}")
    columns = [
        Column("Group", "<"),
        Column("reqs"),
        Column("tokens/req", keep=3),
        Column("hit"),
        Column("reach"),
        Column("over time", "<", keep=0),
        Column("lost/req", keep=4),
        Column("blocked", keep=2),
        Column("evicted", keep=1),
        Column("cold", keep=1),
        Column("gate", "<", keep=6),
        Column("worst finding", "<", keep=5),
    ]
    groups = report.groups[:_MOST_GROUPS]
    lines = _over_time(console, timelines, plain)
    rows = [
        (
            name,
            *_group_cells(group, lines.get(group.name, "")),
            status_word(gates.get(group.name, ())),
            worst.get(group.name, ""),
        )
        for name, group in zip(_names(groups, console, plain), groups, strict=True)
    ]
    kept = [
        place
        for place, column in enumerate(columns)
        if any(row[place] for row in rows) and (column.title not in FATES or column.title in report.fates)
    ]
    put_table(console, [columns[place] for place in kept], [[row[place] for place in kept] for row in rows])
    if len(report.groups) > _MOST_GROUPS:
        put(console, f"  and {len(report.groups) - _MOST_GROUPS:,} more groups: --json has them all", "dim")


def _over_time(console: Console, timelines: Sequence[Timeline], plain: bool) -> dict[str | None, str]:
    """By group, how its hit rate went, where there is room for that and it had time to change."""
    if not draws_bars(console) or console.width < _SPARKLINES_FROM:
        return {}
    rates = {line.group: hit_rates(line, _SPARKLINE) for line in timelines}
    return {group: sparkline(parts, plain=plain) for group, parts in rates.items() if len(parts) > 1}


def _group_cells(group: Group, over_time: str) -> list[str]:
    """Requests, tokens per request, hit, reach, over time, lost per request, and the shares of blocked, evicted and cold tokens."""
    tokens, requests = max(group.prompt_tokens, 1), max(group.requests, 1)

    def share(*fates: str) -> str:
        return percent(sum(group.fates.get(fate, 0) for fate in fates) / tokens)

    return [
        f"{group.requests:,}",
        f"{group.prompt_tokens / requests:,.0f}",
        percent(group.hit_rate),
        percent(group.reachable_hit_rate),
        over_time,
        f"{lost_tokens(group) / requests:,.0f} t",
        share("blocked"),
        share("evicted"),
        share("first_use", "unique"),
    ]


def _verdict(console: Console, report: Report, plain: bool, command: Sequence[str], optimize: Sequence[str]) -> None:
    verdict = verdict_on(report)
    print_notices(console, verdict)
    if verdict.outcome != "none" or verdict.checks:
        print_sentence(console, verdict)
    if not report.partial:
        _next(console, report, plain, command, optimize)


def _next(console: Console, report: Report, plain: bool, command: Sequence[str], optimize: Sequence[str]) -> None:
    """One thing to do now, as a command that can be copied."""
    advice = [found for found in report.findings if found.rerun is not None]
    edit = next((found for found in advice if found.in_source), None)
    if report.editable:
        words = [*optimize, *allowing(found.tier for found in advice)]
        _tell_command(console, "see the edits that do it, and write them with --write", words, plain)
    elif edit is not None:
        todo = f"edit {sanitize(edit.path, ascii_only=plain)}:{edit.line}, then run this again"
        _tell_command(console, todo, command, plain)
    elif advice:
        say(console, "Next: change what writes this line, then profile the new log", indent=0, style="dim")
    else:
        flag, value, why = _next_flag(report)
        if flag == "--capacity":  # the other flags that say how large the cache is
            command = without(without(command, "--gpu-memory"), "--gpu-memory-utilization")
        flagged = f"{flag} {value}" if value is not None else flag
        instead = f"the same command with {flagged}: {why}"
        _tell_command(console, why, with_flag(command, flag, value), plain, instead)


def _tell_command(console: Console, todo: str, words: Sequence[str], plain: bool, instead: str | None = None) -> None:
    """What to do and the command for it; of a command that takes too many lines, `instead`."""
    lines = shell_lines(["kvtool", *words], console.width, plain)
    short = len(lines) <= _MOST_COMMAND_LINES
    say(console, f"Next: {todo}:" if short else f"Next: {instead or todo}", indent=0, style="dim")
    for line in lines if short else []:
        put(console, line)


def _next_flag(report: Report) -> tuple[str, str | None, str]:
    """A flag, its value, and what it is for."""
    capacity = report.config.get("capacity_blocks")
    if report.fates.get("evicted") and isinstance(capacity, int) and capacity:
        return "--capacity", str(2 * capacity), "with twice the blocks"
    floor = int(report.totals.hit_rate * 100) / 100
    if not report.gates and floor > 0:
        return "--min-hit-rate", f"{floor:.2f}", "fail a build whose hit rate falls below today's"
    return "--json", None, "every figure, for a program"
