"""The page: everything of a result in one file that asks no network for anything."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from kvtool.report.html.fates import paints
from kvtool.report.html.findings import Cards, cards_of, explained, loose_cards, tiers_of
from kvtool.report.html.gates import checks_of, checks_table, groups_section
from kvtool.report.html.headline import HeadlineTile, NextStep, cautions, facts, next_step, tiles
from kvtool.report.html.icicle import icicle_section
from kvtool.report.html.markup import arrows, prose, shown
from kvtool.report.html.page_parts import Drawing, Key, Section, StatusWord
from kvtool.report.html.reuse import capacity_section, distance_section
from kvtool.report.html.rulers import rulers_section
from kvtool.report.html.tables import boundaries_section, causes_section, config_section, sums_section, turns_section
from kvtool.report.html.timeline import timeline_section
from kvtool.report.html.times import memory_section, ttft_section
from kvtool.report.html.waterfall import token_strip, waterfall
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.report import Report
from kvtool.results.show_text import ShowText
from kvtool.results.verdict import Check, Outcome
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.runner_commands import blunt_xml

_MOST_REPORTS = 50
_OUTCOMES: dict[Outcome, StatusWord] = {
    "pass": StatusWord("PASS", "pass"),
    "warn": StatusWord("WARN", "warn"),
    "fail": StatusWord("FAIL", "fail"),
    "partial": StatusWord("PARTIAL", "open"),
    "none": StatusWord("NO GATES", "none"),
}


@dataclass(frozen=True, slots=True)
class ReportPart:
    """One profiled workload on the page: `before` the findings and `after` them."""

    id: str
    title: str
    rate: str
    status: StatusWord | None
    partial: bool
    facts: list[str]
    notes: list[str]
    cautions: list[str]
    tiles: list[HeadlineTile]
    strip: Drawing
    strip_keys: list[Key]
    next_step: NextStep | None
    before: list[Section]
    findings: Cards
    after: list[Section]


def write(result: CheckResult, options: WriteOptions) -> str:
    """The whole page; what prompts say is in it only where `options.show_text` allows that and the result holds it."""
    parts = [
        _part(report, result, f"w{number}", options.show_text)
        for number, report in enumerate(result.reports[:_MOST_REPORTS], 1)
    ]
    loose = loose_cards(result, options.show_text)
    entries = explained([*(part.findings for part in parts), loose])
    return blunt_xml(
        _environment()
        .get_template("page.html.jinja")
        .render(
            title=_title(result),
            version=result.version,
            verdict=result.verdict,
            status=_OUTCOMES[result.verdict.outcome],
            checks=checks_table(_all_checks(result), several=len(result.reports) != 1),
            parts=parts,
            more_reports=max(len(result.reports) - _MOST_REPORTS, 0),
            loose=loose,
            inputs=result.inputs,
            entries=entries,
            tiers=tiers_of(entries),
            paints=paints(),
        )
    )


def _environment() -> Environment:
    """Whatever templates write goes through `shown`, then is escaped; only `Markup` is not."""
    environment = Environment(
        loader=PackageLoader("kvtool.report.html", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"plural": plural, "prose": prose, "arrows": arrows}
    return environment


def _title(result: CheckResult) -> str:
    if len(result.reports) == 1:
        return result.reports[0].workload
    return plural(len(result.reports), "workload") if result.reports else "Findings"


def _all_checks(result: CheckResult) -> list[Check]:
    found = {check.id: check for report in result.reports for check in report.gates}
    return list((found | {check.id: check for check in result.verdict.checks}).values())


def _part(report: Report, result: CheckResult, prefix: str, show_text: ShowText) -> ReportPart:
    strip, keys = token_strip(report, prefix)
    before = [
        waterfall(report, prefix),
        groups_section(report, result, prefix),
        icicle_section(report, prefix),
        timeline_section(report, prefix),
        capacity_section(report, prefix),
        distance_section(report, prefix),
        rulers_section(report, prefix),
    ]
    after = [
        causes_section(report, prefix),
        turns_section(report, prefix),
        sums_section(report, prefix),
        ttft_section(report, prefix),
        memory_section(report, prefix),
        boundaries_section(report, prefix),
        config_section(report, prefix),
    ]
    return ReportPart(
        id=prefix,
        title=report.workload,
        rate=percent(report.totals.hit_rate),
        status=_status(report, result),
        partial=report.partial,
        facts=facts(report),
        notes=list(report.notes),
        cautions=list(cautions(report)),
        tiles=tiles(report),
        strip=strip,
        strip_keys=keys,
        next_step=next_step(report),
        before=before,
        findings=cards_of(report, result, prefix, show_text),
        after=[section for section in after if section is not None],
    )


def _status(report: Report, result: CheckResult) -> StatusWord | None:
    """The worst of the demands on one workload; None where there are none."""
    if report.partial:
        return _OUTCOMES["partial"]
    found = {check.status for check in checks_of(report, result)}
    return next((_OUTCOMES[outcome] for outcome in ("fail", "warn", "pass") if outcome in found), None)
