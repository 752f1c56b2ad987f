"""The page of a result: one self-contained file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from markupsafe import Markup

from kvtool.report.answer import answer_of
from kvtool.report.html.charts.block_sizes import boundaries_section
from kvtool.report.html.charts.icicle import icicle_section
from kvtool.report.html.charts.reuse import capacity_section, distance_section
from kvtool.report.html.charts.rulers import rulers_section
from kvtool.report.html.charts.session_timeline import session_timeline_section
from kvtool.report.html.charts.timeline import timeline_section
from kvtool.report.html.charts.waterfall import token_strip, waterfall
from kvtool.report.html.fates import paints
from kvtool.report.html.findings import Cards, cards_of, explained, loose_cards, tiers_of
from kvtool.report.html.gates import checks_of, groups_section
from kvtool.report.html.headline import AnswerLine, HeadlineTile, answer_lines, facts, tiles
from kvtool.report.html.page_parts import Drawing, Key
from kvtool.report.html.template_environment import template_environment
from kvtool.report.views.agents.agent_probe import probe_section
from kvtool.report.views.checks import checks_table
from kvtool.report.views.facts import cautions, has_breakdown
from kvtool.report.views.page_commands import missing_views
from kvtool.report.views.report_blocks import CAUSES, CONFIG, COST, ENGINE, LOGITS, TOKENS, TURNS, ReportBlock, sections
from kvtool.report.views.section import Missing, Section, StatusWord
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.report import Report
from kvtool.results.verdict import Check, Outcome
from kvtool.results.worst_loss import worst_loss
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.runner_commands import blunt_xml

_MOST_REPORTS = 50
_POLICY = "default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'"
"""Nothing is loaded or sent, and only styles and scripts with these hashes run."""
_OUTCOMES: dict[Outcome, StatusWord] = {
    "pass": StatusWord("PASS", "pass"),
    "warn": StatusWord("WARN", "warn"),
    "fail": StatusWord("FAIL", "fail"),
    "partial": StatusWord("PARTIAL", "open"),
    "none": StatusWord("NO GATES", "none"),
}


@dataclass(frozen=True, slots=True)
class ReportPart:
    """One profiled workload on the page: `after` the findings come charts, then `details` of the engine."""

    id: str
    title: str
    rate: str
    status: StatusWord | None
    partial: bool
    facts: list[str]
    notes: list[str]
    cautions: list[str]
    answer: list[AnswerLine]
    tiles: list[HeadlineTile]
    strip: Drawing | None
    strip_keys: list[Key]
    findings: Cards
    after: list[Section]
    missing: Missing | None
    details: list[Section]


def write(result: CheckResult, options: WriteOptions) -> str:
    """Return the whole page; it quotes prompts only where `options.show_text` allows that and the result contains them."""
    parts = [
        _part(report, result, f"w{number}", options) for number, report in enumerate(result.reports[:_MOST_REPORTS], 1)
    ]
    loose = loose_cards(result, options.show_text)
    entries = explained([*(part.findings for part in parts), loose])
    checks = checks_table(_all_checks(result), several=len(result.reports) != 1)
    environment = template_environment()
    style, script = (environment.get_template(name).render() for name in ("style.css.jinja", "script.js.jinja"))
    return blunt_xml(
        environment.get_template("page.html.jinja").render(
            policy=_POLICY.format(script=_hash(script), style=_hash(style)),
            style=Markup(style),  # noqa: S704 - files of ours, without anything of the result
            script=Markup(script),  # noqa: S704 - the same
            title=_title(result),
            version=result.version,
            verdict=result.verdict,
            status=_OUTCOMES[result.verdict.outcome],
            checks=checks,
            judged=bool(checks or result.verdict.notices or len(result.reports) > 1),
            parts=parts,
            loudest=_loudest(parts, result.reports),
            more_reports=max(len(result.reports) - _MOST_REPORTS, 0),
            probes=[
                replace(probe_section(probe).on_pages(), id=f"p{number}")
                for number, probe in enumerate(result.probes, 1)
            ],
            loose=loose,
            inputs=result.inputs,
            entries=entries,
            tiers=tiers_of(entries),
            paints=paints(),
        )
    )


def _hash(text: str) -> str:
    """Hash a style sheet or a script as a browser does before it uses it."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _loudest(parts: Sequence[ReportPart], reports: Sequence[Report]) -> ReportPart | None:
    """Return the workload that a finding costs most, whose answer leads; None where none costs anything."""
    worst = [worst_loss(report) for report in reports[: len(parts)]]
    costs = [0 if loss is None else loss.tokens for loss in worst]
    most = max(costs, default=0)
    return parts[costs.index(most)] if most or len(parts) == 1 else None


def _title(result: CheckResult) -> str:
    if len(result.reports) == 1:
        return result.reports[0].workload
    return plural(len(result.reports), "workload") if result.reports else "Findings"


def _all_checks(result: CheckResult) -> list[Check]:
    found = {check.id: check for report in result.reports for check in report.gates}
    return list((found | {check.id: check for check in result.verdict.checks}).values())


def _part(report: Report, result: CheckResult, prefix: str, options: WriteOptions) -> ReportPart:
    simulates = has_breakdown(report)  # else what the rules give is no prediction of these requests
    strip, keys = token_strip(report, prefix) if simulates else (None, [])
    after = [
        waterfall(report, prefix) if simulates else None,
        *page_sections(report, (*COST, *TOKENS), prefix),
        groups_section(report, result, prefix),
        icicle_section(report, prefix),
        timeline_section(report, prefix) if simulates else None,
        session_timeline_section(report, prefix),
        capacity_section(report, prefix) if simulates else None,
        distance_section(report, prefix) if simulates else None,
        rulers_section(report, prefix),
        *page_sections(report, (CAUSES, TURNS) if simulates else (CAUSES,), prefix),
    ]
    details = [
        *page_sections(report, (*ENGINE, LOGITS), prefix),
        boundaries_section(report, prefix),
        *page_sections(report, [CONFIG], prefix),
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
        answer=answer_lines(answer_of(report, command=options.command)),
        tiles=tiles(report),
        strip=strip,
        strip_keys=keys,
        findings=cards_of(report, result, prefix, options.show_text, options.command),
        after=[section for section in after if section is not None],
        missing=missing_views(report),
        details=[section for section in details if section is not None],
    )


def _status(report: Report, result: CheckResult) -> StatusWord | None:
    """Return the worst status of the gates of one workload; None where there are none."""
    if report.partial:
        return _OUTCOMES["partial"]
    found = {check.status for check in checks_of(report, result)}
    return next((_OUTCOMES[outcome] for outcome in ("fail", "warn", "pass") if outcome in found), None)


def page_sections(report: Report, blocks: Iterable[ReportBlock], prefix: str) -> Iterator[Section]:
    """Yield the blocks that a report has, each with the prefix in its anchor."""
    for section in sections(blocks, report, "pages"):
        yield replace(section.on_pages(), id=f"{prefix}-{section.id}")
