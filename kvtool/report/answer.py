"""The answer of a profile in three lines: what the rate is and can be, which line loses how much, and what to do next.

Every format begins with it. Nothing in it is escaped: the format does that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvtool.config.command_line import CommandLine, flag, flags
from kvtool.diagnose.codes import wins
from kvtool.diagnose.codes.run.kv302 import KV302
from kvtool.diagnose.codes.structure.kv112 import KV112
from kvtool.report.views.fates import fate_name, fate_shares
from kvtool.results.finding import Finding, gain_basis
from kvtool.results.misses import MissCause
from kvtool.results.next_step import PREVIEW_BEFORE_P3, PREVIEW_EDIT, SEE_CONSENT, SEE_EDITED_REQUEST
from kvtool.results.report import Report, lost_tokens
from kvtool.results.shared_line import by_line, claim_of
from kvtool.results.steps import Steps
from kvtool.results.worst_loss import lost_on_line, won_tokens, worst_finding
from kvtool.text.terminal.numbers import percent, plural

_NOTICEABLE = 0.0005
"""A difference of rates that shows in their one decimal."""
_HEALTHY = "nothing that is known to have been cached"
_SEVERAL = 2
_FLAG = r"--[a-z][a-z-]+(?: [0-9a-z_.]+)?"
_NO_LOSS = ("hit", "first_use", "unique", "displaced", "partial_block", "last_token")
"""Fates of text that is sent for the first time, or that no prefix contains."""
_FORMS: tuple[MissCause, ...] = ("system_changed", "wire_form", "resumed")
"""Causes by which a provider computes a text again that was sent before."""
_TRIED_FLAGS = re.compile(rf": ({_FLAG}(?: {_FLAG})*): ")
"""The settings that a fix of the run was tried with, in the words of the fix."""
_NO_GAIN = "(tested: "
"""What the words of a fix contain that gained nothing in a trial."""
_UNLIMITED = ("vllm", "block-lru")
"""Rules whose cache has no limit where no capacity is given."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Lines are empty where there is nothing to say; `finding` is the one that `lost` is about, None where it has no place.

    `command` follows `kvtool`, and `change` is what it has that the one before had not: enough where the command is long.
    """

    rate: str
    lost: str
    finding: Finding | None
    todo: str = ""
    command: tuple[str, ...] = ()
    change: str = ""
    steps: str = ""
    """Whether requests of sessions begin with the request before them."""
    broken: bool = False

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Return each line that has text, with its label."""
        steps = "Breaks" if self.broken else "Stable"
        lines = [("Hit rate", self.rate), (steps, self.steps), ("Not reused", self.lost), ("Next", self.todo)]
        return [(label, text) for label, text in lines if text]


def answer_of(report: Report, *, command: Sequence[str] = (), optimize: Sequence[str] = ()) -> Answer:
    """Return the lines of a report. `command` made it, `optimize` edits its workload; the default is made of its name."""
    answer = _answer(report, command=command, optimize=optimize)
    if report.steps is None:
        return answer
    steps = report.steps
    other = "" if steps.broken else _other_form(report)
    if not other:
        return replace(answer, steps=steps_told(steps), broken=steps.broken > 0)
    begin = "begins" if steps.steps == 1 else "begin"
    text = (
        f"{steps.steps:,} of {plural(steps.steps, 'step')} {begin} with the same text as the step before, but {other}"
    )
    return replace(answer, steps=text, broken=True)


def _other_form(report: Report) -> str:
    """Say how often a text that was sent before is sent in another order or form, which costs as much as another text."""
    causes = {} if report.misses is None else report.misses.by_cause
    requests = sum(causes[cause].events for cause in _FORMS if cause in causes)
    if requests:
        return f"{plural(requests, 'request')} {'sends' if requests == 1 else 'send'} it in another order or form"
    return f"{KV112.name} differs ({KV112.code})" if any(one.code == KV112.code for one in report.findings) else ""


def _answer(report: Report, *, command: Sequence[str], optimize: Sequence[str]) -> Answer:
    finding = worst_finding(report)
    rate, lost = _rate(report), _lost(report, finding)
    misses = report.misses
    if misses is not None:
        from kvtool.accounting.misses.advised_change import field_to_compare, first_change
        from kvtool.report.reported_answer import reported_loss, reported_rate, verdict_of_healthy

        rate, lost = reported_rate(report, misses), reported_loss(report, misses)
        if not any(each.rerun is not None for each in report.findings):
            line = CommandLine(command or ("profile", *report.inputs)).without_output()
            if (field := field_to_compare(misses)) and flag("group_by") not in line:
                return Answer(rate, lost, None, "Compare the hit rates by this field", *_flagged(line, group_by=field))
            currency = report.money.currency if report.money else "USD"
            change = "" if report.partial and not lost else first_change(misses, currency, hosted=report.hosted)
            if lost and change and finding is not None and "cosmetic" in wins(finding.code) and finding.tried is None:
                what = finding.fix.partition(". ")[0]
                change = f"{what[:1].upper()}{what[1:]}"
            key = next((each for each in report.findings if each.code == KV302.code), None)
            if key is not None and next(iter(misses.by_cause), None) == "key_changed":
                change += "".join(key.fix.partition(": a rerun")[1:])
            if not change and not report.partial:
                change = verdict_of_healthy(report, misses)
            if change and finding is not None and finding.example is not None:
                todo = f"{change}. Compare two such requests"
                return Answer(rate, lost, None, todo, tuple(shlex.split(finding.example.command)[1:]))
            return Answer(rate, lost or _HEALTHY, None, change)
        lost = lost or _lost(report, finding)
    if report.partial:
        return Answer(rate, lost, finding)
    line = CommandLine(command or ("profile", *report.inputs)).without_output()
    todo, words, change = _next(report, finding, line, optimize or optimize_command(report, command))
    return Answer(rate, lost, finding, todo, tuple(words), change)


def optimize_command(report: Report, command: Sequence[str]) -> CommandLine:
    """Return the command that edits the inputs, with the options of `command` (empty: none) that decide their figures."""
    return CommandLine(command or ("profile", *report.inputs)).to("optimize", *report.inputs)


def place_of_finding(finding: Finding) -> str:
    """Return the place of a finding: the file, with its line, or in a log the record and the place in it."""
    if finding.logged is not None:
        return f"{finding.path}:{finding.logged.record}, {finding.logged.told}"
    return f"{finding.path}:{finding.line}" if finding.line else finding.path


def fixed_rate(report: Report) -> float | None:
    """Return the hit rate with all fixes that were kept, verified by running again; None where none was."""
    return max((finding.rerun.total_after for finding in report.findings if finding.rerun is not None), default=None)


def gains_basis(report: Report) -> str:
    """Say what the gain of the fixes rests on."""
    kept = [finding for finding in report.findings if finding.rerun is not None]
    warnings = [warning for finding in kept for warning in finding.warnings]
    basis = gain_basis(warnings, estimate=any(finding.estimate for finding in kept))
    return {"estimate": "estimate by the published rules"}.get(basis, basis)


def needed_tiers(report: Report) -> list[str]:
    """Return the flag for moves of text, if a report promises any; `kvtool optimize` makes P0 and P1 without one.

    Changes of content (P3) are never the first step: where nothing else wins, that command lists them and names its flag.
    """
    tiers = {each.tier for each in report.findings if each.rerun is not None}
    return list(flags(allow="P2" if "P2" in tiers else None))


def preview_of(report: Report) -> str:
    """Say what `kvtool optimize` shows with these flags; only a second step changes content."""
    tiers = {each.tier for each in report.findings if each.rerun is not None}
    if "P3" not in tiers:
        return PREVIEW_EDIT
    return PREVIEW_BEFORE_P3 if tiers - {"P3"} else SEE_CONSENT


def _rate(report: Report) -> str:
    """Say what the hit rate is, and what it can be."""
    now, reachable, fixed = report.totals.hit_rate, report.totals.reachable_hit_rate, fixed_rate(report)
    if fixed is not None:
        # A finding that goes along with another's fix has none of its own.
        by_fix: dict[str, Finding] = {}
        for finding in report.findings:
            if finding.rerun is not None and finding.fix_key:
                by_fix.setdefault(finding.fix_key, finding)
        shown, lines = len(by_fix), len(by_line(by_fix.values()))
        count = report.kept_fixes or shown
        fixes = "the fix below" if lines < _SEVERAL else f"the {lines} fixes below"
        if count > shown:
            fixes = f"{count} fixes"
        elif count > lines:
            fixes += f", in {count} steps" if lines > 1 else f" in {count} groups"
        text = f"{percent(now)} now, {percent(fixed)} with {fixes} ({gains_basis(report)})"
        by_hand = [each.tried.total_after for each in report.findings if each.tried is not None and each.in_source]
        if max(by_hand, default=0.0) >= fixed + _NOTICEABLE:
            text += f", {percent(max(by_hand))} with the manual edits"
        larger = larger_cache(report) if reachable - max(now, fixed) >= _NOTICEABLE else None
        return text if larger is None else f"{text}, {percent(reachable)} with {larger}"
    if reachable - now >= _NOTICEABLE:
        larger = larger_cache(report)
        return f"{percent(now)} now" if larger is None else f"{percent(now)} now, {percent(reachable)} with {larger}"
    if any(finding.tokens_lost and finding.fix for finding in report.findings):
        return (
            f"{percent(now)} now"
            if larger_cache(report) is None
            else f"{percent(now)} now; a larger cache hits no more"
        )
    if report.steps is not None and report.steps.broken:
        return f"{percent(now)}; sessions break their own prefix"
    return f"{percent(now)}, the maximum for these prompts as written"


def steps_told(steps: Steps) -> str:
    """Say whether each request of a session begins with the one before it, or which do not."""
    if not steps.broken:
        begin = "begins" if steps.steps == 1 else "begin"
        return f"{steps.steps:,} of {plural(steps.steps, 'step')} {begin} with the step before"
    begin = "does not begin" if steps.broken == 1 else "do not begin"
    text = f"{steps.broken:,} of {plural(steps.steps, 'step')} {begin} with the step before"
    text += f" ({plural(steps.lost_tokens, 'token')} computed again)"
    if not steps.breaks:
        return text
    first = steps.breaks[0]
    costliest = "the costliest is" if steps.broken > 1 else "it is"
    where = first.now or f"request {first.request}"
    return f"{text}; {costliest} {where}, which differs in {first.place}"


def _is_stable(report: Report) -> bool:
    """Return whether all requests of sessions begin with the one before them."""
    return report.steps is not None and not report.steps.broken


def _broken_pair(report: Report) -> str | None:
    """Return the command that shows the costliest step that breaks."""
    return next((each.command for each in report.steps.breaks if each.command), None) if report.steps else None


def larger_cache(report: Report) -> str | None:
    """Name the cache that hits all that can be hit; None where it is the one that was run, or not the user's to change."""
    config = report.config
    if report.hosted:
        return None
    if config.get("kv_cache_groups"):
        return "an unlimited full-attention cache"
    if config.get("capacity_blocks") is not None:
        return "an unlimited cache"
    replicas = config.get("replicas")
    if config.get("ttl_seconds") is not None or (isinstance(replicas, int) and replicas > 1):
        return "one cache that evicts nothing"
    return None if config.get("rules") in _UNLIMITED else "an unlimited cache"


def _lost(report: Report, finding: Finding | None) -> str:
    """Say which line of which prompt loses how much; without such a line, what took the most tokens."""
    totals = report.totals
    if finding is not None:
        tokens, groups = lost_on_line(report, finding)
        group = f" in {finding.group}" if len(report.groups) > 1 else ""
        group = f" in {groups:,} groups" if groups > 1 else group
        line = f" after {place_of_finding(finding)}" if finding.line else ""
        won = won_tokens(report, finding)
        part = percent(tokens / max(totals.prompt_tokens, 1))
        wins = f". Its fix wins {plural(won, 'token')}" if won else ""
        return f"{plural(tokens, 'token')} ({part}){group}{line}: {claim_of(finding)}{wins}"
    lost = lost_tokens(totals)
    if not lost or (_is_stable(report) and all(not count or fate in _NO_LOSS for fate, count in report.fates.items())):
        return ""
    fates = [(fate, count) for fate, count, _ in fate_shares(report.fates) if count and fate != "hit"]
    fate, count = fates[0]
    most = "mostly" if 2 * count > lost else "above all"
    return f"{plural(lost, 'token')} ({percent(lost / max(totals.prompt_tokens, 1))}), {most} {fate_name(fate)}"


def _next(
    report: Report, finding: Finding | None, command: CommandLine, optimize: Sequence[str]
) -> tuple[str, Sequence[str], str]:
    """Return what to do now, the command for it where there is one, and what is new in it."""
    proven = [each for each in report.findings if each.rerun is not None]
    edit = next((each for each in proven if each.in_source), None)
    if report.editable:
        return preview_of(report), [*optimize, *needed_tiers(report)], ""
    if edit is not None and edit.example is not None:
        place = place_of_finding(edit)
        return f"Apply the fix below in every file with this line, such as {place}. Then run again", command, ""
    if edit is not None:
        return f"Edit {place_of_finding(edit)}. Then run again", command, ""
    if proven:
        shown = next((each for each in proven if each.example is not None), None)
        if shown is not None:
            todo = f"Fix the code that writes {place_of_finding(shown)}. {SEE_EDITED_REQUEST}"
            return todo, [*optimize, *needed_tiers(report)], ""
        return "Fix the code that writes this line. Then profile a new log", (), ""
    capacity = report.config.get("capacity_blocks")
    if report.fates.get("evicted") and isinstance(capacity, int) and capacity:
        sized = command.without("num_gpu_blocks", "gpu_memory", "gpu_memory_utilization")
        return "Double the cache", *_flagged(sized, capacity=2 * capacity)
    setting = _TRIED_FLAGS.search(finding.fix) if finding is not None and finding.tried is not None else None
    if setting is not None:
        tried = command.with_flags(setting[1].split())
        return "Run again with the setting that helped", tried, setting[1]
    if finding is not None and finding.fix and finding.tried is None and _NO_GAIN not in finding.fix:
        return f"{finding.fix[:1].upper()}{finding.fix[1:]}. Then run again", command, ""
    if (pair := _broken_pair(report)) is not None:
        return "Compare the two requests of this step", shlex.split(pair)[1:], ""
    floor = int(report.known_hit_rate * 100) / 100
    if not report.gates and floor > 0:
        return "Fail the build if the hit rate drops below today's", *_flagged(command, min_hit_rate=f"{floor:.2f}")
    return "", (), ""


def _flagged(command: CommandLine, **values: object) -> tuple[CommandLine, str]:
    return command.with_(**values), " ".join(flags(**values))
