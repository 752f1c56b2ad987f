"""Demands and how they fared, and each group against its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from kvtool.report.html.charts.drawing import drawing, label, line, rectangle
from kvtool.report.html.fates import paint, swatch
from kvtool.report.html.markup import arrows, element, share
from kvtool.report.html.page_parts import Drawing, DrawnSection, Key
from kvtool.report.views.groups import COLD_NOTE, groups_table, worst_status
from kvtool.report.views.section import Cell, Section, StatusWord, Table, TableColumn
from kvtool.results.check import CheckResult
from kvtool.results.gate_words import dollars, durations, goodputs, percents
from kvtool.results.report import Group, Report, lost_tokens
from kvtool.results.verdict import Check, Kind
from kvtool.text.terminal.numbers import percent

_MOST_DRAWN = 20
_MOST_WIDE = 5
_MOST_ROWS = 500
_MOST_CHECKS = 200
_WORDS = {"pass": "PASS", "warn": "WARN", "fail": "FAIL", "open": "OPEN"}
_ORDER = ("fail", "warn", "open", "pass")
_HEIGHT = 22


def checks_table(checks: list[Check], *, several: bool) -> Table | None:
    """Every demand with its limit and what was measured, those that are not met first; None where nothing was demanded."""
    if not checks:
        return None
    ordered = sorted(checks, key=lambda check: _ORDER.index(check.status))
    compared = any(check.baseline is not None for check in checks)
    rows: list[tuple[Cell, ...]] = []
    for check in ordered[:_MOST_CHECKS]:
        of = (check.workload,) if several else ()
        rows.append(
            (
                StatusWord(_WORDS[check.status], check.status),
                *of,
                check.group if check.group is not None else "all requests",
                _what(check),
                *_figures(check),
                *((percent(check.baseline) if check.baseline is not None else "",) if compared else ()),
                check.level,
                f"{check.path}:{check.line}" if check.line else check.path,
                arrows(check.message),
            )
        )
    columns = (
        TableColumn("Status", "word"),
        *((TableColumn("Workload", "code"),) if several else ()),
        TableColumn("Group"),
        TableColumn("What is demanded"),
        TableColumn("Limit", "number"),
        TableColumn("Actual", "number"),
        *((TableColumn("Baseline", "number"),) if compared else ()),
        TableColumn("Level", "word"),
        TableColumn("Set in", "code"),
        TableColumn("In words", "prose"),
    )
    return Table("Checks", columns, rows, more=max(len(checks) - _MOST_CHECKS, 0))


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
        keys.append(Key(swatch(paint("reach"), "outline hit"), "reachable with an unlimited cache"))
    kinds = {check.kind for checks in gates.values() for check in checks}
    if "hit_rate" in kinds:
        keys.append(Key(_swatch("gate"), "gate: the least hit rate that passes"))
    if "baseline" in kinds:
        keys.append(Key(_swatch("before"), "baseline: the hit rate that was recorded"))
    more = len(report.groups) - _MOST_DRAWN
    return DrawnSection(
        f"{prefix}-groups",
        "Groups against gates" if gates else "Groups",
        ("Part of the prompt tokens that came from the cache.",),
        drawings=drawings,
        layout="multiples" if len(drawings) > _MOST_WIDE else "single",
        keys=keys,
        tables=[] if alone else [groups_table(report, gates, _MOST_ROWS, {})],
        notes=(
            *(() if alone else (COLD_NOTE,)),
            *((f"{more:,} groups that lost less are not drawn.",) if more > 0 else ()),
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
    told = f"hit rate {percent(hit)}, reachable {percent(reach)}"
    if reach > hit:
        shapes.append(
            rectangle(hit, 4, reach - hit, 14, "outline hit", tip=f"reachable {percent(reach)}", fill=paint("reach"))
        )
    shapes.append(rectangle(0, 4, hit, 14, "bar least", tip=f"hit rate {percent(hit)}"))
    figures = [percent(hit)]
    height = _HEIGHT
    for check in checks:
        assert check.limit is not None
        past = check.baseline if check.kind == "baseline" else None
        at, class_ = (check.limit, "gate") if past is None else (past, "before")
        text = f"gate ≥{percent(at)}" if past is None else f"baseline {percent(at)}"
        told += f", {text.replace('≥', 'at least ')}: {_WORDS[check.status]}"
        shapes += [
            line(at, 0, at, 22, f"{class_} halo"),
            line(at, 0, at, 22, class_),
            label(at, height + 11, text, "tick", anchor="start" if at < 0.2 else "end"),
        ]
        height += 16
    if reach > hit:
        figures.append(f"reachable {percent(reach)}")
    return Drawing(
        drawing(identity, f"Hit rate of {name}", told, height, shapes), name, tuple(figures), worst_status(checks)
    )


def _swatch(class_: str) -> Markup:
    mark = element("line", x1=share(0.5), x2=share(0.5), y1=0, y2=12, class_=class_)
    return element("svg", mark, class_="swatch", width=18, height=12, aria_hidden="true")


def _what(check: Check) -> str:
    words = {
        "hit_rate": "hit rate",
        "reachable_gap": "gap to what is reachable",
        "reported_gap": "gap of what is reported",
        "cost_per_1k_requests": "cost of 1,000 requests",
        "ttft_p50": "TTFT p50, predicted",
        "ttft_p90": "TTFT p90, predicted",
        "ttft_p99": "TTFT p99, predicted",
        "gpus": "GPUs for the objectives, predicted",
        "goodput": "goodput, predicted",
        "findings": "",
        "baseline": "hit rate against the baseline",
        "audit": "audit of reuse",
    }
    return f"findings: {check.id.rsplit('/', 1)[-1]}" if check.kind == "findings" else words[check.kind]


def _figures(check: Check) -> tuple[str, str]:
    """Limit and actual value, with as many digits as it takes to tell them apart."""
    sign = "≥" if check.kind in ("hit_rate", "baseline") else "≤"
    limit, actual = check.limit, check.actual
    write = _writer(check.kind)
    if limit is None or actual is None:
        return (f"{sign}{write(limit, limit)[0]}" if limit is not None else "none"), (
            write(actual, actual)[0] if actual is not None else "none"
        )
    shown_limit, shown_actual = write(limit, actual)
    return f"{sign}{shown_limit}", shown_actual


def _writer(kind: Kind) -> Callable[[float, float], tuple[str, str]]:
    if kind.startswith("ttft"):
        return durations
    if kind == "cost_per_1k_requests":
        return dollars
    if kind == "goodput":
        return goodputs
    return _counts if kind in ("findings", "audit", "gpus") else percents


def _counts(one: float, other: float) -> tuple[str, str]:
    return f"{one:,.0f}", f"{other:,.0f}"
