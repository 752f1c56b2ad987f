"""Groups against the gates that are set for them, drawn."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kvtool.report.html.charts.drawing import drawing, label, line, rectangle, sample
from kvtool.report.html.fates import paint, swatch
from kvtool.report.html.markup import element, share
from kvtool.report.html.page_parts import Drawing, DrawnSection, Key
from kvtool.report.views.checks import STATUS, worst_status
from kvtool.report.views.facts import is_predictable, rate_kind
from kvtool.report.views.groups import NEW_NOTE, groups_table
from kvtool.report.views.section import Section
from kvtool.results.check import CheckResult
from kvtool.results.report import Group, Report, lost_tokens
from kvtool.results.verdict import Check
from kvtool.text.terminal.numbers import percent

_MOST_DRAWN = 20
_MOST_WIDE = 5
_MOST_ROWS = 500
_HEIGHT = 22


def groups_section(report: Report, result: CheckResult, prefix: str) -> Section | None:
    """Hit rates of groups, what they could reach, and the gates that are set for them.

    None for a single group without a gate: its figures are those of the summary. Of many, those are drawn that lost most.
    """
    gates: dict[str | None, list[Check]] = {}
    for check in checks_of(report, result):
        if check.kind in ("hit_rate", "goodput", "baseline") and check.limit is not None:
            gates.setdefault(check.group, []).append(check)
    if len(report.groups) < 2 and not gates:
        return None
    drawings = []
    if len(report.groups) > 1 or None in gates:
        total = report.totals
        drawings.append(
            _drawing(f"{prefix}-all", "all requests", total.hit_rate, total.reachable_hit_rate, gates.get(None, []))
        )
    alone = len(report.groups) == 1 and report.groups[0].name not in gates  # its rate is that of all requests
    for number, group in enumerate(() if alone else _drawn(report.groups)):
        mine = gates.get(group.name, [])
        drawings.append(
            _drawing(f"{prefix}-group-{number}", group.name, group.hit_rate, group.reachable_hit_rate, mine)
        )
    keys = [Key(swatch(None, "bar"), "hit rate")]
    if any(group.reachable_hit_rate > group.hit_rate for group in report.groups):
        keys.append(Key(swatch(paint("reach"), "outline hit"), "maximum with an unlimited cache"))
    kinds = {check.kind for checks in gates.values() for check in checks}
    if "hit_rate" in kinds:
        keys.append(Key(_swatch("gate"), "gate: minimum hit rate"))
    if "baseline" in kinds:
        keys.append(Key(_swatch("before"), "baseline: recorded hit rate"))
    more = len(report.groups) - _MOST_DRAWN
    return DrawnSection(
        f"{prefix}-groups",
        "Groups against gates" if gates else "Groups",
        ("Share of the prompt tokens from the cache.",),
        drawings=drawings,
        layout="multiples" if len(drawings) > _MOST_WIDE else "single",
        keys=keys,
        tables=[] if alone or not is_predictable(report) else [groups_table(report, gates, _MOST_ROWS, {})],
        notes=(
            *(() if alone else (NEW_NOTE,)),
            *((f"Not drawn: {more:,} groups with smaller losses.",) if more > 0 else ()),
        ),
    )


def _drawn(groups: Sequence[Group]) -> list[Group]:
    """The groups that lost most, in the order of the report."""
    most = sorted(range(len(groups)), key=lambda place: (-lost_tokens(groups[place]), place))[:_MOST_DRAWN]
    return [groups[place] for place in sorted(most)]


def checks_of(report: Report, result: CheckResult) -> list[Check]:
    """The demands on one workload."""
    found = {check.id: check for check in report.gates}
    found |= {check.id: check for check in result.verdict.checks if check.workload == report.workload}
    return list(found.values())


def _drawing(identity: str, name: str, hit: float, reach: float, checks: Sequence[Check]) -> Drawing:
    shapes = [rectangle(0, 4, 1, 14, "track")]
    told = f"hit rate {percent(hit)}, maximum {percent(reach)}"
    if reach > hit:
        shapes.append(
            rectangle(hit, 4, reach - hit, 14, "outline hit", tip=f"maximum {percent(reach)}", fill=paint("reach"))
        )
    shapes.append(rectangle(0, 4, hit, 14, f"bar least {rate_kind(hit)}", tip=f"hit rate {percent(hit)}"))
    figures = [percent(hit)]
    height = _HEIGHT
    for check in checks:
        assert check.limit is not None
        past = check.baseline if check.kind == "baseline" else None
        at, class_ = (check.limit, "gate") if past is None else (past, "before")
        text = f"gate ≥{percent(at)}" if past is None else f"baseline {percent(at)}"
        told += f", {text.replace('≥', 'at least ')}: {STATUS[check.status]}"
        shapes += [
            line(at, 0, at, 22, f"{class_} halo"),
            line(at, 0, at, 22, class_),
            label(at, height + 11, text, "tick", anchor="start" if at < 0.2 else "end"),
        ]
        height += 16
    if reach > hit:
        figures.append(f"maximum {percent(reach)}")
    return Drawing(
        drawing(identity, f"Hit rate of {name}", told, height, shapes), name, tuple(figures), worst_status(checks)
    )


def _swatch(class_: str) -> Markup:
    mark = element("line", x1=share(0.5), x2=share(0.5), y1=0, y2=12, class_=class_)
    return sample(mark)
