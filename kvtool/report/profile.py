"""The terminal view of a `Profile`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvtool.ledger.fates import FATES, OF_TEXT, OF_TOKENS
from kvtool.ledger.totals import GroupTotals
from kvtool.profile import Gate, Profile
from kvtool.report.boundary import boundary_hint, print_boundaries
from kvtool.report.console import ascii_only, bar, cell_width, fold, pack, put, sanitize, say
from kvtool.report.findings import print_findings
from kvtool.report.ledger_sums import print_sums
from kvtool.report.next_command import shell_lines, shorten_middle, with_flag, without
from kvtool.report.numbers import percent, plural, shares, size
from kvtool.report.reuse import reuse_lines
from kvtool.report.table import Column, table
from kvtool.report.times import print_decode, print_ttft
from kvtool.report.unlock import print_causes

if TYPE_CHECKING:
    from rich.console import Console

_BARS_FROM = 60
_MOST_GROUPS = 40
_MOST_TURNS = 12
_MOST_COMMAND_LINES = 4
_LABEL = 13
_FATE_NOTES = {
    "evicted": "capacity",
    "in_flight": "timing",
    "isolated": "tenants",
    "caching_off": "switched off",
}
"""What decides a fate, where it is not the text."""
_WON_BACK = {
    "KV111": ("cosmetic", "displaced"),
    "KV112": ("cosmetic", "displaced"),
    "KV121": ("cosmetic",),
    "KV122": ("seam",),
    "KV124": ("seam",),
    "KV113": ("blocked", "displaced"),
    "KV114": ("blocked", "displaced"),
    "KV132": ("blocked", "displaced"),
    "KV133": ("blocked", "displaced"),
}
"""Fates that the fix of a code takes tokens from; of the other codes it is what volatile text blocks."""


def print_profile(
    console: Console,
    profile: Profile,
    *,
    show_text: bool = True,
    command: Sequence[str] = ("profile",),
    optimize: Sequence[str] = (),
    boundaries: bool = False,
) -> None:
    """Header, rates, times, fates, sums, alignment, groups, turns, findings, causes and the verdict, no wider than the console.

    `command` is what stood behind `kvtool`: the next thing to do is told as a change of it. `optimize` is the command that edits
    this workload. `boundaries` asks for the view of block sizes.
    """
    plain = ascii_only(console)
    _header(console, profile, plain)
    put(console)
    _rates(console, profile, plain)
    put(console)
    print_ttft(console, profile, plain)
    put(console)
    print_decode(console, profile, plain)
    _fates(console, profile, plain)
    if profile.by is not None:
        put(console)
        print_sums(console, profile)
    put(console)
    _alignment(console, profile, plain)
    hint = None if boundaries else boundary_hint(profile.boundaries)
    if hint is not None:
        say(console, hint, indent=4)
    put(console)
    _memory(console, profile)
    put(console)
    _groups(console, profile, plain)
    if any(len(group.turns) > 1 for group in profile.groups):
        put(console)
        _turns(console, profile, plain)
    if boundaries and profile.boundaries:
        put(console)
        print_boundaries(console, profile.boundaries)
    if profile.findings:
        put(console)
        print_findings(console, profile.findings, plain=plain, show_text=show_text)
    print_causes(console, profile.causes)
    put(console)
    _verdict(console, profile, plain, command, optimize or ("optimize", str(profile.config["input"])))


def _header(console: Console, profile: Profile, plain: bool) -> None:
    config = profile.config
    shown = [
        f"kvtool {config['version']}",
        sanitize(str(config["input"]), ascii_only=plain),
        f"{config['rules']} rules, block {profile.block_size}",
        sanitize(str(config["tokenizer"] or "block hashes"), ascii_only=plain),
        plural(profile.total.requests, "request"),
        f"seed {config['seed']}",
    ]
    for line in pack(shown, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    for note in profile.notes:
        say(console, sanitize(note, ascii_only=plain), style="dim")
    if profile.refused:
        text = f"{plural(profile.refused, 'request')} refused and left out; the first: {profile.first_refusal}"
        say(console, sanitize(text, ascii_only=plain), style="yellow")
    if profile.skipped_lines:
        say(console, f"{plural(profile.skipped_lines, 'bad line')} skipped", style="yellow")


def _rates(console: Console, profile: Profile, plain: bool) -> None:
    total = next((gate for gate in profile.gates if gate.group is None), None)
    meter = bar(profile.total.hit_rate, 30, plain, track=True) + "  " if console.width >= _BARS_FROM + 10 else ""
    gate = f"gate >={percent(total.minimum)}  {_word(total, profile)}" if total is not None else ""
    put(console, f"  {'Hit rate':<{_LABEL}}{percent(profile.total.hit_rate):>6}  {meter}{gate}".rstrip(), "bold")
    gap = profile.total.reachable_rate - profile.total.hit_rate
    more = f"{100 * gap:.1f} pts more than now" if gap > 0 else "no more than now"
    rows = [("Reachable", percent(profile.total.reachable_rate), f"with an unlimited cache, these prompts: {more}")]
    rerun = next((finding.rerun for finding in profile.findings if finding.rerun is not None), None)
    if rerun is not None:
        # A finding that goes along with another's fix has none of its own.
        count = sum(finding.rerun is not None and bool(finding.fix_key) for finding in profile.findings)
        fixes = "the fix" if count == 1 else f"the {count} fixes"
        rows.append(("With fixes", percent(rerun.total_after), f"measured by running again with {fixes} below"))
    rows.append(("Per request", percent(profile.total.mean_request_rate), "mean of the requests' own hit rates"))
    for label, value, text in rows:
        for line in fold(f"  {label:<{_LABEL}}{value:>6}  {text}", console.width, indent=_LABEL + 10):
            put(console, line)


def _word(gate: Gate | None, profile: Profile) -> str:
    """How a gate fared; an interrupted run judges nothing."""
    if gate is None:
        return ""
    return "open" if profile.partial else "ok" if gate.passed else "FAIL"


def _fates(console: Console, profile: Profile, plain: bool) -> None:
    """Hits, then what was lost, the most first; bars are relative to the longest."""
    lost = sorted((name for name in profile.fates if name != "hit"), key=lambda name: -profile.fates[name])
    names = ["hit", *lost]
    tokens = [profile.fates[name] for name in names]
    notes = dict(_FATE_NOTES)
    for finding in profile.findings:
        if finding.rerun is not None or (finding.fix_key and finding.code < "KV3"):
            notes |= dict.fromkeys(_WON_BACK.get(finding.code, ("blocked",)), "fix below")
    label = max(cell_width(FATES[name]) for name in names)
    digits = max(len(f"{count:,}") for count in tokens)
    size_of_bar = 0
    if console.width >= _BARS_FROM + 10:
        noted = max((len(notes.get(name, "")) + 2 for name in names if name in notes), default=0)
        size_of_bar = max(min(console.width - 4 - label - 4 - digits - 8 - noted, 30), 0)
    most = max(tokens)
    heading = f"  Where prompt tokens went ({profile.total.prompt_tokens:,})"
    right = f"{'tokens':>{digits}}   share"
    before = 4 + label + 2 + (size_of_bar + 2 if size_of_bar else 0)
    put(console, heading + right.rjust(max(before + digits + 8 - cell_width(heading), len(right) + 2)), "bold")
    for name, count, part in zip(names, tokens, shares(tokens), strict=True):
        meter = bar(count / most if most else 0.0, size_of_bar, plain) + "  " if size_of_bar else ""
        line = f"    {FATES[name]:<{label}}  {meter}{count:>{digits},}  {part:>6}"
        if name in notes and cell_width(line) + 2 + len(notes[name]) <= console.width:
            line += f"  {notes[name]}"
        put(console, line, "green" if name == "hit" else None)
    if profile.absent:
        say(console, _untold(profile.absent), indent=4, style="dim")


def _untold(absent: Sequence[str]) -> str:
    """Which fates this input cannot tell, and why."""
    if set(OF_TOKENS) <= set(absent):
        return "block hashes have no text: what is blocked or moved counts as unique or first use"
    assert set(OF_TEXT) <= set(absent)
    return "token ids have no text: drift and differences of form count as blocked or unique"


def _names(groups: Sequence[GroupTotals], console: Console, plain: bool) -> list[str]:
    """Names of groups that leave room for the numbers: long ones keep their beginning and their end."""
    room = max(console.width // 4, 12)
    names = [sanitize(group.name, ascii_only=plain) for group in groups]
    return [shorten_middle(name, room, ascii_only=plain) for name in names]


def _alignment(console: Console, profile: Profile, plain: bool) -> None:
    columns = [
        Column("Block alignment", "<"),
        Column("shared prefix"),
        Column("blocks", keep=1),
        Column("left over"),
        Column("in part blocks"),
    ]
    rows = []
    groups = profile.groups[:_MOST_GROUPS]
    for name, group in zip(_names(groups, console, plain), groups, strict=True):
        prefix = group.common_prefix()
        lost = group.fates["partial_block"] + group.fates["last_token"]
        share = percent(lost / group.prompt_tokens) if group.prompt_tokens else "0.0%"
        rows.append(
            (
                name,
                f"{prefix:,} t",
                f"{prefix // profile.block_size:,}",
                f"{prefix % profile.block_size:,} t",
                f"{lost:,} t {share:>6}",
            )
        )
    for index, line in enumerate(table(columns, rows, console.width, ascii_only=plain)):
        put(console, line, "bold" if not index else None)


def _memory(console: Console, profile: Profile) -> None:
    saved = profile.total.hit_tokens * profile.bytes_per_block / profile.block_size
    parts = [
        f"KV cache: {plural(profile.filled_blocks, 'block')} filled, {size(profile.filled_blocks * profile.bytes_per_block)}",
        f"{size(saved)} reused, not computed again",
        plural(profile.evictions, "eviction"),
        plural(profile.preemptions, "preemption"),
    ]
    for line in pack(parts, console.width - 2, separator=" | " if ascii_only(console) else " · ", indent=2):
        put(console, "  " + line)
    for text in reuse_lines(profile, plain=ascii_only(console)):
        say(console, text)


def _groups(console: Console, profile: Profile, plain: bool) -> None:
    gates = {gate.group: gate for gate in profile.gates}
    worst: dict[str, str] = {}
    for finding in profile.findings:
        worst.setdefault(finding.group, f"{finding.code} {finding.severity}")
    columns = [
        Column("Group", "<"),
        Column("reqs"),
        Column("tokens/req", keep=3),
        Column("hit"),
        Column("reach"),
        Column("lost/req", keep=4),
        Column("blocked", keep=2),
        Column("evicted", keep=1),
        Column("cold", keep=1),
        Column("gate", "<", keep=6),
        Column("worst finding", "<", keep=5),
    ]
    groups = profile.groups[:_MOST_GROUPS]
    rows = [
        (name, *_group_cells(group), _word(gates.get(group.name), profile), worst.get(group.name, ""))
        for name, group in zip(_names(groups, console, plain), groups, strict=True)
    ]
    empty = [place for place in (9, 10) if not any(row[place] for row in rows)]
    empty += [place for place, fate in ((6, "blocked"), (7, "evicted")) if fate not in profile.fates]
    kept = [place for place in range(len(columns)) if place not in empty]
    shown = table(
        [columns[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
        console.width,
        ascii_only=plain,
    )
    for index, line in enumerate(shown):
        put(console, line, "bold" if not index else None)
    if len(profile.groups) > _MOST_GROUPS:
        put(console, f"  and {len(profile.groups) - _MOST_GROUPS:,} more groups: --json has them all", "dim")


def _group_cells(group: GroupTotals) -> list[str]:
    """Requests, tokens per request, hit, reach, lost per request, and the shares of blocked, evicted and cold tokens."""
    lost = group.prompt_tokens - group.hit_tokens
    fates, tokens, requests = group.fates, max(group.prompt_tokens, 1), max(group.requests, 1)
    return [
        f"{group.requests:,}",
        f"{group.prompt_tokens / requests:,.0f}",
        percent(group.hit_rate),
        percent(group.reachable_rate),
        f"{lost / requests:,.0f} t",
        percent(fates["blocked"] / tokens),
        percent(fates["evicted"] / tokens),
        percent((fates["first_use"] + fates["unique"]) / tokens),
    ]


def _turns(console: Console, profile: Profile, plain: bool) -> None:
    columns = [Column("Turn", "<"), Column("reqs"), Column("tokens/req"), Column("hit"), Column("", "<", keep=0)]
    rows = [
        (label, f"{requests:,}", f"{tokens / requests:,.0f}", percent(hits / tokens), bar(hits / tokens, 20, plain))
        for label, requests, tokens, hits in _turn_ranges(profile)
    ]
    for index, line in enumerate(table(columns, rows, console.width, ascii_only=plain)):
        put(console, line, "bold" if not index else None)


def _turn_ranges(profile: Profile) -> Iterator[tuple[str, int, int, int]]:
    """Turns of all groups together; the later ones in ranges that double."""
    sums: dict[int, list[int]] = {}
    for group in profile.groups:
        if len(group.turns) < 2:
            continue
        for turn, totals in group.turns.items():
            entry = sums.setdefault(turn, [0, 0, 0])
            for place, value in enumerate((totals.requests, totals.prompt_tokens, totals.hit_tokens)):
                entry[place] += value
    last = max(sums) + 1
    first, width = 1, 1
    while first <= last:
        if first > _MOST_TURNS // 2:
            width = first
        stop = min(first + width - 1, last)
        merged = [
            sum(sums[turn - 1][place] for turn in range(first, stop + 1) if turn - 1 in sums) for place in range(3)
        ]
        if merged[0]:
            yield (f"{first}" if first == stop else f"{first}-{stop}"), merged[0], merged[1], merged[2]
        first = stop + 1


def _verdict(console: Console, profile: Profile, plain: bool, command: Sequence[str], optimize: Sequence[str]) -> None:
    if profile.partial:
        say(
            console,
            "PARTIAL: interrupted; the figures are those of the work done up to there, and there is no verdict",
            indent=0,
            style="bold yellow",
        )
        return
    failed = profile.failed_gates
    if profile.audit_verdict:
        text = sanitize(f"FAIL audit: {profile.audit_verdict}", ascii_only=plain)
        say(console, text, indent=0, style="bold red")
    elif profile.audit_verdict is not None:
        say(console, "PASS audit", indent=0, style="bold green")
    if failed:
        which = ", ".join(
            f"{sanitize(gate.group, ascii_only=plain) if gate.group is not None else 'all requests'} "
            f"{percent(gate.actual)} < {percent(gate.minimum)}"
            for gate in failed
        )
        say(console, f"FAIL {plural(len(failed), 'gate')} ({which})", indent=0, style="bold red")
    elif profile.gates:
        say(console, f"PASS {plural(len(profile.gates), 'gate')}", indent=0, style="bold green")
    _next(console, profile, plain, command, optimize)


def _next(console: Console, profile: Profile, plain: bool, command: Sequence[str], optimize: Sequence[str]) -> None:
    """One thing to do now, as a command that can be copied."""
    advice = [found for found in profile.findings if found.rerun is not None]
    edit = next((found for found in advice if found.in_source), None)
    if profile.editable:
        allow = sorted({found.tier for found in advice if found.tier not in (None, "P0", "P1")})
        words = [*optimize, *(["--allow", ",".join(allow)] if allow else [])]
        _tell_command(console, "see the edits that do it, and write them with --write", words, plain)
    elif edit is not None:
        todo = f"edit {sanitize(edit.path, ascii_only=plain)}:{edit.line}, then run this again"
        _tell_command(console, todo, command, plain)
    elif advice:
        say(console, "Next: change what writes this line, then profile the new log", indent=0, style="dim")
    else:
        flag, value, why = _next_flag(profile)
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


def _next_flag(profile: Profile) -> tuple[str, str | None, str]:
    """A flag, its value, and what it is for."""
    if profile.fates.get("evicted") and profile.config["capacity_blocks"]:
        return "--capacity", str(2 * int(profile.config["capacity_blocks"])), "with twice the blocks"
    floor = int(profile.total.hit_rate * 100) / 100
    if not profile.gates and floor > 0:
        return "--min-hit-rate", f"{floor:.2f}", "fail a build whose hit rate falls below today's"
    return "--json", None, "every figure, for a program"
