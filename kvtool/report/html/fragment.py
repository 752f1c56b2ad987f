"""A result as a piece of a page, for notebooks: the answer, where tokens went, and findings, without a script."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from kvtool.report.answer import answer_of
from kvtool.report.html.charts.drawing import rectangle
from kvtool.report.html.fates import fate_class
from kvtool.report.html.findings import Cards, cards_of, loose_cards
from kvtool.report.html.headline import AnswerLine, answer_lines
from kvtool.report.html.markup import element
from kvtool.report.html.template_environment import template_environment
from kvtool.report.views.facts import has_breakdown
from kvtool.report.views.fates import fate_name, fate_shares
from kvtool.results.check import CheckResult
from kvtool.results.report import Report
from kvtool.text.terminal.runner_commands import blunt_xml

_MOST_REPORTS = 10
_MOST_FINDINGS = 5


@dataclass(frozen=True, slots=True)
class FateRow:
    """Tokens of a fate, with a bar as long as their share."""

    name: str
    bar: Markup
    tokens: str
    share: str


@dataclass(frozen=True, slots=True)
class FragmentPart:
    """One workload; `status` is empty where nothing was demanded of it."""

    title: str
    status: str
    answer: list[AnswerLine]
    fates: list[FateRow]
    findings: Cards


def fragment(result: CheckResult) -> str:
    """Return one `div` with a style sheet of its own. It quotes what the result contains, and escapes all of it."""
    environment = template_environment()
    shown = result.reports[:_MOST_REPORTS]
    text = environment.get_template("fragment.html.jinja").render(
        style=Markup(environment.get_template("fragment.css.jinja").render()),  # noqa: S704 - a file of ours
        parts=[_part(report, result, f"w{number}") for number, report in enumerate(shown, 1)],
        more=len(result.reports) - len(shown),
        loose=loose_cards(result, "full"),
        most=_MOST_FINDINGS,
    )
    return blunt_xml(text)


def _part(report: Report, result: CheckResult, prefix: str) -> FragmentPart:
    total = max(sum(report.fates.values()), 1)
    return FragmentPart(
        title=report.workload,
        status=result.verdict.sentence if result.verdict.outcome != "none" and len(result.reports) == 1 else "",
        answer=answer_lines(answer_of(report)),
        fates=[
            FateRow(fate_name(fate), _bar(fate, count / total), f"{count:,}", share)
            for fate, count, share in fate_shares(report.fates)
            if count and has_breakdown(report)
        ],
        findings=cards_of(report, result, prefix, "full"),
    )


def _bar(fate: str, ratio: float) -> Markup:
    shapes = rectangle(0, 0, 1, 12, "track"), rectangle(0, 0, ratio, 12, fate_class(fate))
    return element("svg", *shapes, height=12, aria_hidden="true")
