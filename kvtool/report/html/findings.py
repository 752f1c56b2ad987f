"""Cards of findings, the largest saving first: place, cost, fix and gain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kvtool.diagnose.codes import TIERS, CodeEntry, entry_of
from kvtool.diagnose.finding_cost import by_cost
from kvtool.report.answer import optimize_command
from kvtool.report.html.charts.drawing import drawing, line, rectangle
from kvtool.report.html.fates import paint, swatch
from kvtool.report.html.markup import element, joined
from kvtool.report.html.page_parts import Drawing, Key
from kvtool.report.next_steps import needed_tiers
from kvtool.report.views.findings import changed_lines, finding_place, name_of
from kvtool.report.views.page_commands import shown_command
from kvtool.results.check import CheckResult
from kvtool.results.finding import Finding, Rerun, Snippet
from kvtool.results.report import Report
from kvtool.results.show_text import ShowText
from kvtool.text.terminal.numbers import duration, percent, plural

_MOST = 50
_MOST_LOOSE = 200
_MOST_PATCH_LINES = 200
_SEVERITIES = ("error", "warning", "info")
_KINDS = {"error": "fail", "warning": "warn", "info": "info"}
_TOLD_ALONE = 0.005
"""A difference of hit rates from which the rate with one fix alone is shown."""
_KEYS = (Key(swatch(paint("before"), "outline block"), "before"), Key(swatch(None, "bar"), "after"))
_BASES = {True: "Verified by re-running with all proven fixes.", False: "Tried in a separate run."}
_SIGNS = {"+": ("ins", "added"), "-": ("del", "removed")}


@dataclass(frozen=True, slots=True)
class Card:
    """One finding as it is shown; `anchor` is the id of its code's explanation, empty where there is none.

    `saving` is what it costs in short, as tokens and as a part of all of them, and `bar` the same beside that of the others;
    there is neither without a run.
    """

    id: str
    code: str
    anchor: str
    name: str
    severity: str
    kind: str
    place: str
    group: str
    saving: str
    bar: Markup | None
    message: str
    costs: tuple[str, ...]
    fix: str
    proof: str
    warnings: tuple[str, ...]
    drawings: list[Drawing]
    keys: list[Key]
    measured: str
    lines: tuple[tuple[str, Markup], ...]
    """The line that it is about, or what it was and is now, with what to call it."""
    patch: Markup | None
    commands: tuple[tuple[str, str], ...]
    """What each command is for, and the command."""


@dataclass(frozen=True, slots=True)
class Cards:
    """The costliest findings; `more` are left out, `silenced` by comments."""

    cards: list[Card]
    more: int
    silenced: int
    counts: str


def cards_of(
    report: Report, result: CheckResult, prefix: str, show_text: ShowText, command: Sequence[str] = ()
) -> Cards:
    """Return the findings of one workload, the largest saving first, without those that comments silence. `command` made it."""
    edit = shown_command([*optimize_command(report, command), *needed_tiers(report)]) if report.editable else ""
    told = {finding.identity for finding in result.findings}
    kept = [finding for finding in report.findings if not result.ignored or finding.identity in told]
    ordered = sorted(by_cost(kept), key=lambda one: -one.tokens_lost)
    most = ordered[0].tokens_lost if ordered else 0
    cards = [
        _card(finding, f"{prefix}-finding-{number}", show_text, report, most, edit)
        for number, finding in enumerate(ordered[:_MOST], 1)
    ]
    return Cards(cards, len(ordered) - len(cards), len(report.findings) - len(kept), _counts(ordered))


def loose_cards(result: CheckResult, show_text: ShowText) -> Cards:
    """Return findings of no report, the most severe first."""
    kept = sorted(
        result.loose_findings(),
        key=lambda one: (_SEVERITIES.index(one.severity), -one.tokens_lost, one.path, one.line, one.column, one.code),
    )
    cards = [
        _card(finding, f"files-finding-{number}", show_text) for number, finding in enumerate(kept[:_MOST_LOOSE], 1)
    ]
    return Cards(cards, len(kept) - len(cards), result.ignored, _counts(kept))


def explained(cards: Iterable[Cards]) -> list[CodeEntry]:
    """Return the catalogue's entries of all codes that are shown, each once."""
    found = {card.code for group in cards for card in group.cards}
    entries = {entry.code: entry for code in found if (entry := entry_of(code)) is not None}
    return [entries[code] for code in sorted(entries)]


def tiers_of(entries: Sequence[CodeEntry]) -> list[tuple[str, str]]:
    """Explain the proofs that these entries mention."""
    used = {remedy.tier for entry in entries for remedy in entry.remedies if remedy.tier is not None}
    return [(tier, TIERS[tier]) for tier in sorted(used)]


def _counts(findings: Sequence[Finding]) -> str:
    counts = {severity: sum(one.severity == severity for one in findings) for severity in _SEVERITIES}
    parts = [plural(counts[severity], severity) for severity in ("error", "warning") if counts[severity]]
    if counts["info"]:
        parts.append(f"{counts['info']:,} info")
    return ", ".join(parts) or "No findings"


def _card(
    finding: Finding, identity: str, show_text: ShowText, report: Report | None = None, most: int = 0, edit: str = ""
) -> Card:
    """`most` is the largest saving of the findings of `report`; there is none for a finding that was seen in a file. `edit` is the
    command that previews its edit.
    """
    several = report is None or len(report.groups) > 1
    entry = entry_of(finding.code)
    rerun = finding.rerun or finding.tried
    quoted = show_text != "none"
    return Card(
        id=identity,
        code=finding.code,
        anchor=f"code-{entry.code}" if entry is not None else "",
        name=name_of(finding.code),
        severity=finding.severity,
        kind=_KINDS[finding.severity],
        place=finding_place(finding),
        group=finding.group if several else "",
        saving=_saving(finding, report),
        bar=_bar(finding.tokens_lost / most) if most and finding.tokens_lost else None,
        message=finding.message,
        costs=tuple(_costs(finding)),
        fix=finding.fix,
        proof=_proof(finding.tier),
        warnings=tuple(finding.warnings),
        drawings=[] if rerun is None else _before_after(rerun, finding.group, identity, several=several),
        keys=[] if rerun is None else list(_KEYS),
        measured="" if rerun is None else _BASES[finding.rerun is not None],
        lines=tuple(_lines(finding)) if quoted else (),
        patch=_patch(finding.patch) if quoted and finding.patch is not None else None,
        commands=tuple(_commands(finding, edit)),
    )


def _saving(finding: Finding, report: Report | None) -> str:
    if report is None or not finding.tokens_lost:
        return ""
    return (
        f"{plural(finding.tokens_lost, 'token')}, {percent(finding.tokens_lost / max(report.totals.prompt_tokens, 1))}"
    )


def _bar(ratio: float) -> Markup:
    """Draw how large a saving is beside the largest one."""
    shapes = rectangle(0, 0, 1, 8, "track"), rectangle(0, 0, ratio, 8, "loss")
    return element("svg", *shapes, class_="saving", width="100%", height=8, aria_hidden="true")


def _lines(finding: Finding) -> Iterable[tuple[str, Markup]]:
    pair = changed_lines(finding)
    yield from ((label, _snippet(line)) for label, line in pair)
    if not pair and finding.snippet is not None:
        yield "", _snippet(finding.snippet)


def _commands(finding: Finding, edit: str) -> Iterable[tuple[str, str]]:
    """Yield the commands that show two requests that differ, and the edit that makes the fix."""
    if finding.example is not None:
        yield "Compare two affected requests:", finding.example.command
    if edit and finding.in_source and finding.rerun is not None:
        yield "Preview the edit:", edit


def _costs(finding: Finding) -> Iterable[str]:
    if not finding.group:  # seen in a file, not measured
        return
    if finding.tokens_lost:
        yield f"{plural(finding.tokens_lost, 'token')} lost"
    if finding.points:
        yield f"{percent(finding.points)} of the group"
    if finding.ttft_seconds:
        yield f"predicted TTFT +{duration(finding.ttft_seconds)}"
    if finding.share_tokens is not None and round(finding.share_tokens) != finding.tokens_lost:
        yield f"{round(finding.share_tokens):,} tokens if shared with other findings that block the same text"
    if finding.confidence < 1:
        yield f"confidence {finding.confidence:.2f}"


def _proof(tier: str | None) -> str:
    told = next((text for name, text in TIERS.items() if name == tier), None)
    return "" if tier is None else f"{tier}: {told}" if told is not None else tier


def _snippet(snippet: Snippet) -> Markup:
    """Mark in a line what the finding is about."""
    start, stop = min(snippet.start, len(snippet.text)), min(snippet.stop, len(snippet.text))
    before, meant, after = (
        snippet.text[:start],
        snippet.text[start : max(stop, start)],
        snippet.text[max(stop, start) :],
    )
    return joined((before, element("mark", meant) if meant else "", after))


def _patch(patch: str) -> Markup:
    """Mark the lines of a unified diff that are added and removed."""
    lines = patch.removesuffix("\n").split("\n")
    parts: list[object] = []
    for written in lines[:_MOST_PATCH_LINES]:
        head = written.startswith(("+++ ", "--- ", "@@", "\\"))
        shown = written.rstrip("\t") if head else written.expandtabs()
        name, class_ = ("span", "head") if head else _SIGNS.get(written[:1], ("span", "same"))
        parts += [element(name, shown, class_=class_), Markup("\n")]
    if len(lines) > _MOST_PATCH_LINES:
        parts.append(f"{len(lines) - _MOST_PATCH_LINES:,} more lines")
    return joined(parts)


def _before_after(rerun: Rerun, group: str, identity: str, *, several: bool) -> list[Drawing]:
    """Draw hit rates before and after a fix: of the group and, where there are `several`, of all requests."""
    alone = rerun.group_alone
    if alone is not None and abs(alone - rerun.group_after) < _TOLD_ALONE:
        alone = None
    drawings = [_change_drawing(f"{identity}-group", group or "group", rerun.group_before, rerun.group_after, alone)]
    if several:
        drawings.append(
            _change_drawing(f"{identity}-total", "all requests", rerun.total_before, rerun.total_after, None)
        )
    return drawings


def _change_drawing(identity: str, name: str, before: float, after: float, alone: float | None) -> Drawing:
    shapes = [rectangle(0, 2, 1, 8, "track"), rectangle(0, 13, 1, 12, "track")]
    shapes.append(
        rectangle(0, 2, before, 8, "outline block least", tip=f"before: {percent(before)}", fill=paint("before"))
    )
    shapes.append(rectangle(0, 13, after, 12, "bar least", tip=f"after: {percent(after)}"))
    told = f"{percent(before)} before, {percent(after)} after"
    figures = [f"{percent(before)} → {percent(after)}"]
    if alone is not None:
        shapes += [line(alone, 11, alone, 27, "gate halo"), line(alone, 11, alone, 27, "gate")]
        told += f", {percent(alone)} with only this one"
        figures.append(f"only this one {percent(alone)} (mark)")
    return Drawing(drawing(identity, f"Hit rate of {name} before and after", told, 28, shapes), name, tuple(figures))
