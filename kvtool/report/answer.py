"""The answer of a profile in three lines: what the rate is and can be, which line loses how much, and what to do next.

Every format begins with it. Nothing in it is escaped: the format does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvtool.config.command_line import CommandLine
from kvtool.diagnose.codes.structure.kv112 import KV112
from kvtool.report.next_steps import Case, next_step, place_of_finding
from kvtool.report.views.facts import too_short
from kvtool.report.views.fates import fate_name, fate_shares, has_blocks_only
from kvtool.results.finding import Finding, gain_basis
from kvtool.results.misses import MissCause
from kvtool.results.report import Report, lost_tokens
from kvtool.results.shared_line import by_line, claim_of
from kvtool.results.steps import Steps
from kvtool.results.worst_loss import WorstLoss, worst_loss
from kvtool.text.terminal.numbers import percent, plural

_NOTICEABLE = 0.0005
"""A difference of rates that shows in their one decimal."""
_HEALTHY = "none of the text that is known to be cached"
_SEVERAL = 2
_NO_LOSS = ("hit", "first_use", "unique", "displaced", "partial_block", "last_token")
"""Fates of text that is sent for the first time, or that no prefix contains."""
_FORMS: tuple[MissCause, ...] = ("wire_form", "resumed")
"""Causes by which a provider computes a text again that was sent before."""
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
    steps_label: str = "Stable"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Return each line that has text, with its label."""
        lines = [
            ("Hit rate", self.rate),
            (self.steps_label, self.steps),
            ("Not reused", self.lost),
            ("Next", self.todo),
        ]
        return [(label, text) for label, text in lines if text]


def answer_of(report: Report, *, command: Sequence[str] = (), optimize: Sequence[str] = ()) -> Answer:
    """Return the lines of a report. `command` made it, `optimize` edits its workload; the default is made of its name."""
    answer = _answer(report, command=command, optimize=optimize)
    if report.steps is None:
        return answer
    steps = report.steps
    other = "" if steps.broken else _other_form(report)
    if not other:
        told = steps_told(steps, costs=report.misses is None)  # reported misses are the costs of a log
        return replace(answer, steps=told, steps_label="Breaks" if steps.broken else "Stable")
    return replace(answer, steps=f"{steps_told(steps)}, but {other}", steps_label="Steps")


def _other_form(report: Report) -> str:
    """Say how often a text that was sent before is sent in another order or form, which costs as much as another text."""
    requests = 0
    if (misses := report.misses) is not None:
        requests = sum(misses.by_cause[cause].events for cause in _FORMS if cause in misses.by_cause)
        requests += sum(event.is_moved_to_front for event in misses.events)
    if requests:
        return (
            f"{plural(requests, 'request')} {'sends' if requests == 1 else 'send'} that text in another order or form"
        )
    return f"{KV112.name} differs ({KV112.code})" if any(one.code == KV112.code for one in report.findings) else ""


def _answer(report: Report, *, command: Sequence[str], optimize: Sequence[str]) -> Answer:
    loss, misses = worst_loss(report), report.misses
    if misses is None and report.lacks_prompts:
        all_of = plural(report.totals.requests, "request")
        rate = f"unknown: the log lacks most prompt text of {report.totals.short_requests:,} of {all_of}"
        return Answer(rate, "", None, "", (), "")
    proven = any(each.rerun is not None for each in report.findings)
    rate, lost, finding = _rate(report), _lost(report, loss), None if loss is None else loss.finding
    line = CommandLine(command or ("profile", *report.inputs)).without_output()
    step = next_step(Case(report, finding, line, optimize or optimize_command(report, command)))
    if misses is not None:
        from kvtool.report.reported_answer import reported_loss, reported_rate

        rate = reported_rate(report, misses)
        lost = reported_loss(report, misses, step.mends) or (lost if proven else _HEALTHY)
    shown = finding if misses is None or proven else None
    return Answer(rate, lost, shown, step.todo, tuple(step.command), step.change)


def optimize_command(report: Report, command: Sequence[str]) -> CommandLine:
    """Return the command that edits the inputs, with the options of `command` (empty: none) that decide their figures."""
    return CommandLine(command or ("profile", *report.inputs)).to("optimize", *report.inputs)


def fixed_rate(report: Report) -> float | None:
    """Return the hit rate with all fixes that were kept, verified by running again; None where none was."""
    found = max((finding.rerun.total_after for finding in report.findings if finding.rerun is not None), default=None)
    by_provider = None if report.money is None else report.money.fixed_hit_rate
    return found if found is None or by_provider is None else by_provider


def gains_basis(report: Report) -> str:
    """Say what the gain of the fixes rests on."""
    kept = [finding for finding in report.findings if finding.rerun is not None]
    warnings = [warning for finding in kept for warning in finding.warnings]
    basis = gain_basis(warnings, estimate=any(finding.estimate for finding in kept))
    return {"estimate": "estimate by the published rules"}.get(basis, basis)


def _rate(report: Report) -> str:
    """Say what the hit rate is, and what it can be."""
    now, reachable, fixed = report.totals.hit_rate, report.totals.reachable_hit_rate, fixed_rate(report)
    if not report.totals.requests and report.reported is None:
        return (
            "unknown: the log reports no cached tokens"
            if report.totals.unpredicted_requests
            else "none: no cache serves these models"
        )
    if report.below_minimum:
        return f"{percent(now)}{too_short(report)}"
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
            text += f", {percent(max(by_hand))} with all changes below"
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
    if has_blocks_only(report.absent_fates):
        return f"{percent(now)}, the maximum for these blocks; only a log with text shows what prompt fixes gain"
    return f"{percent(now)}, the maximum for these prompts as written"


def steps_told(steps: Steps, *, costs: bool = True) -> str:
    """Say whether each request of a session begins with the one before it, or which do not; with `costs` what that costs."""
    if not steps.broken:
        begin = "begins" if steps.steps == 1 else "begin"
        past = f", except for text that the server ignores (in {steps.read_past:,})" if steps.read_past else ""
        return f"{steps.steps:,} of {plural(steps.steps, 'step')} {begin} with the step before{past}"
    begin = "does not begin" if steps.broken == 1 else "do not begin"
    text = f"{steps.broken:,} of {plural(steps.steps, 'step')} {begin} with the step before"
    if not costs:
        return text
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


def _lost(report: Report, loss: WorstLoss | None) -> str:
    """Say which line of which prompt loses how much; without such a line, what took the most tokens."""
    totals = report.totals
    if loss is not None:
        finding = loss.finding
        group = f" in {finding.group}" if len(report.groups) > 1 else ""
        group = f" in {loss.groups:,} groups" if loss.groups > 1 else group
        line = f" after {place_of_finding(finding)}" if finding.line else ""
        part = percent(loss.tokens / max(totals.prompt_tokens, 1))
        won = f". Its fix wins {plural(loss.won, 'token')}" if loss.won else ""
        return f"{plural(loss.tokens, 'token')} ({part}){group}{line}: {claim_of(finding)}{won}"
    lost = lost_tokens(totals)
    if (
        report.below_minimum
        or not lost
        or (_is_stable(report) and all(not count or fate in _NO_LOSS for fate, count in report.fates.items()))
    ):
        return ""
    fates = [(fate, count) for fate, count, _ in fate_shares(report.fates) if count and fate != "hit"]
    fate, count = fates[0]
    most = "mostly" if 2 * count > lost else "above all"
    name = fate_name(fate)
    if fate == "unique" and has_blocks_only(report.absent_fates):
        name = "unique blocks; their text may still repeat"
    return f"{plural(lost, 'token')} ({percent(lost / max(totals.prompt_tokens, 1))}), {most} {name}"
