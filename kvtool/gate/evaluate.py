"""Holding demands against facts: pure functions from what was measured and what was asked to checks and a verdict.

Ratios are compared exactly: counts of tokens are whole numbers, and a limit is the decimal that was written, so that 8 of 10 tokens
are 80 % and nothing less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction

from kvtool.diagnose.codes.entry import CodeEntry
from kvtool.diagnose.codes.gates.kv401 import KV401
from kvtool.diagnose.codes.gates.kv403 import KV403
from kvtool.diagnose.codes.gates.kv404 import KV404
from kvtool.diagnose.codes.gates.kv405 import KV405
from kvtool.diagnose.codes.gates.kv407 import KV407
from kvtool.diagnose.codes.gates.kv408 import KV408
from kvtool.diagnose.codes.gates.kv409 import KV409
from kvtool.diagnose.codes.gates.kv410 import KV410
from kvtool.gate.demand import LIMITS, SEVERITIES, Demand
from kvtool.gate.facts import Facts, JudgedFinding, Scope
from kvtool.results.finding import Finding
from kvtool.results.gate_words import dollars, durations, goodputs, percents, points, subject
from kvtool.results.verdict import CLOCKED, Check, Kind, Level, Status
from kvtool.text.terminal.numbers import percent, plural

_SAME_TIME = 1 + 1e-9
"""Predicted times are sums of floating point numbers: their last digits may differ from machine to machine."""
_DIGITS = 12
_EMPTY = Scope()
_MISSING = {"reported_gap": "reported cached tokens", "cost_per_1k_requests": "known price"}
"""Facts without which a demand cannot be judged."""
_CODES: dict[Kind, CodeEntry] = {
    "hit_rate": KV401,
    "reachable_gap": KV403,
    "reported_gap": KV409,
    "cost_per_1k_requests": KV408,
    "ttft_p50": KV404,
    "ttft_p90": KV404,
    "ttft_p99": KV404,
    "gpus": KV410,
    "goodput": KV410,
    "findings": KV405,
}
"""The code of each kind of demand."""


def exact(ratio: float) -> Fraction:
    """Return the decimal that was written: 0.799 of `79.9%`, which floating point division does not hit."""
    return Fraction(Decimal(repr(round(ratio, _DIGITS))))


def rate(part: int, whole: int) -> Fraction:
    """Return a ratio of tokens, without rounding; 0 of nothing is 0."""
    return Fraction(part, whole) if whole else Fraction(0)


def check_id(workload: str, group: str | None, *rest: str) -> str:
    """Return the name of a check from run to run; what stands between slashes has none itself, but for the workload's path."""
    inner = [] if group is None else [group.replace("%", "%25").replace("/", "%2F")]
    return "/".join([workload, *inner, *rest])


def evaluate(facts: Facts, demands: Sequence[Demand]) -> list[Check]:
    """Return a check for each demand (see `held`): those on all requests first, then by group; and one for an audit."""
    order = {name: number for number, name in enumerate(facts.groups)}
    limits = sorted(
        (demand for demand in demands if demand.kind in LIMITS),
        key=lambda one: (one.group is not None, order.get(one.group or "", len(order)), LIMITS.index(one.kind)),
    )
    by_id: dict[str, Check] = {}
    for demand in limits:
        check = _limit_check(facts, demand)
        if check.id in by_id:  # one limit warns and another fails
            check = check.model_copy(update={"id": f"{check.id}/{demand.level}"})
        by_id[check.id] = check
    checks = list(by_id.values())
    checks += _findings_checks(facts, [demand for demand in demands if demand.kind == "findings"])
    if facts.audit is not None:
        said = f"audit: {facts.audit or 'reuse changed no token'}"
        checks.append(figureless_check(facts, KV407, "audit", met=not facts.audit, message=said))
    return checks


def status_of(met: bool, level: Level, *, partial: bool) -> Status:
    """Return the status of a demand; an interrupted run judges nothing."""
    if partial:
        return "open"
    return "pass" if met else "fail" if level == "error" else "warn"


def _level(demand: Demand) -> Level:
    return "error" if demand.level == "error" else "warn"


def _check(
    facts: Facts, demand: Demand, *, limit: float | None, actual: float | None, status: Status, message: str, tail: str
) -> Check:
    return Check(
        id=check_id(facts.workload, demand.group, *tail.split("/")),
        code=_CODES[demand.kind].code,
        kind=demand.kind,
        workload=facts.workload,
        group=demand.group,
        level=_level(demand),
        status=status,
        limit=limit,
        actual=actual,
        message=message,
        covered=facts.covered if demand.group is None and demand.kind != "findings" else "",
        path=demand.place.path,
        line=demand.place.line or 0,
        column=demand.place.column or 0,
    )


def _limit_check(facts: Facts, demand: Demand) -> Check:
    if demand.kind in CLOCKED:
        return _clocked_check(facts, demand)
    scope = facts.total if demand.group is None else facts.groups.get(demand.group, _EMPTY)
    who, kind = subject(demand.group, facts.workload, facts.covered), demand.kind
    untold = {"reported_gap": scope.reported_gap is None, "cost_per_1k_requests": scope.cost_per_1k is None}
    has_figure = scope.prompt_tokens or (kind == "hit_rate" and scope.reported is not None)
    if not has_figure or (kind.startswith("ttft") and kind not in scope.ttft) or untold.get(kind):
        cut = facts.partial or facts.limit is not None
        why = f" (the run ended after {plural(facts.limit, 'request')})" if facts.limit is not None else ""
        missing = _MISSING.get(kind, "predicted time") if scope.prompt_tokens else "profiled request"
        message = f"{who}: no {missing}{why}, so {demand.source} cannot be checked"
        status = status_of(False, _level(demand), partial=cut)
        return _check(facts, demand, limit=demand.limit, actual=None, status=status, message=message, tail=kind)
    if kind == "hit_rate":
        actual, met, told = _hit_rate(scope, demand.limit)
    elif kind == "reachable_gap":
        actual, met, told = _gap(scope, demand.limit)
    elif kind == "reported_gap":
        actual, met, told = _reported(scope, demand.limit)
    elif kind == "cost_per_1k_requests":
        actual, met, told = _cost(scope, demand.limit)
    else:
        actual, met, told = _time(scope, kind, demand.limit)
    message = f"{who}: {told} ({demand.source})"
    status = status_of(met, _level(demand), partial=facts.partial)
    return _check(facts, demand, limit=demand.limit, actual=actual, status=status, message=message, tail=kind)


def _clocked_check(facts: Facts, demand: Demand) -> Check:
    fleet = facts.fleet
    if fleet is None:
        assert facts.partial, "who demands it gets a clock"
        told, actual, met = f"no predicted times, so {demand.source} cannot be checked", None, False
    elif demand.kind == "goodput":
        actual, met = fleet.goodput, fleet.goodput >= demand.limit / _SAME_TIME
        shown, least = goodputs(fleet.goodput, demand.limit)
        told = f"goodput {shown} within {fleet.slo}, {'at least' if met else 'below'} the required {least} ({demand.source})"
    elif fleet.gpus is None:
        actual, met = None, False
        allowed = plural(int(demand.limit), "GPU")
        told = f"no tested fleet meets {fleet.slo}; {demand.source} allows {allowed}"
    else:
        actual, met = float(fleet.gpus), fleet.gpus <= demand.limit
        needed = f"{fleet.slo} needs {plural(fleet.gpus, 'GPU')}"
        told = f"{needed}, {_side(met)} {demand.limit:,.0f} ({demand.source})"
    message = f"{subject(None, facts.workload)}: {told}"
    status = status_of(met, _level(demand), partial=facts.partial)
    return _check(facts, demand, limit=demand.limit, actual=actual, status=status, message=message, tail=demand.kind)


def _hit_rate(scope: Scope, limit: float) -> tuple[float, bool, str]:
    """Hold the reported rate against the limit, or the predicted one where nothing is reported."""
    predicted, least = rate(scope.hit_tokens, scope.prompt_tokens), exact(limit)
    actual = predicted if scope.reported is None else scope.reported
    shown, wanted = percents(float(actual), limit)
    if scope.reported is None:
        text = f"predicted hit rate {shown}"
    else:
        beside = "" if scope.predicted is None else f" (predicted {percent(scope.predicted)})"
        text = f"reported hit rate {shown}{beside}"
    if actual >= least:
        return float(actual), True, f"{text}, at least the required {wanted}"
    return float(actual), False, f"{text}, {points(float(least - actual))} below the required {wanted}"


def _gap(scope: Scope, limit: float) -> tuple[float, bool, str]:
    gap = max(rate(scope.reachable_tokens - scope.hit_tokens, scope.prompt_tokens), Fraction(0))
    shown, most = points(float(gap)), points(limit)
    text = f"an unlimited cache hits {shown} more"
    if gap <= exact(limit):
        return float(gap), True, f"{text}, {_side(True)} {most}"
    return float(gap), False, f"{text}, {points(float(gap - exact(limit)))} above the allowed {most}"


def _reported(scope: Scope, limit: float) -> tuple[float, bool, str]:
    gap = max(scope.reported_gap or Fraction(0), Fraction(0))
    shown, most = points(float(gap)), points(limit)
    text = f"the provider reports {shown} less than its rules predict"
    if gap <= exact(limit):
        return float(gap), True, f"{text}, {_side(True)} {most}"
    return float(gap), False, f"{text}, {points(float(gap - exact(limit)))} above the allowed {most}"


def _cost(scope: Scope, limit: float) -> tuple[float, bool, str]:
    cost = scope.cost_per_1k or Fraction(0)
    shown, most = dollars(float(cost), limit)
    met = cost <= exact(limit)
    return float(cost), met, f"1,000 requests cost {shown}, {_side(met)} {most}"


def _time(scope: Scope, kind: Kind, limit: float) -> tuple[float, bool, str]:
    actual = scope.ttft[kind]
    shown, most = durations(actual, limit)
    text = f"predicted TTFT {kind.removeprefix('ttft_')} {shown}"
    met = actual <= limit * _SAME_TIME
    return actual, met, f"{text}, {_side(met)} {most}"


def _side(met: bool) -> str:
    """Return how a figure compares with its limit, before the limit."""
    return f"{'within' if met else 'above'} the allowed"


def _findings_checks(facts: Facts, demands: Sequence[Demand]) -> list[Check]:
    """Return a check for each pattern. A finding counts for its most specific pattern only, its own group's before others."""
    counts = dict.fromkeys(demands, 0)
    codes: dict[Demand, set[str]] = {demand: set() for demand in demands}
    of_group: dict[str | None, list[Demand]] = {}
    for demand in demands:
        of_group.setdefault(demand.group, []).append(demand)
    for found in facts.findings:
        decides = _deciding(found, of_group.get(found.group or None, ())) or _deciding(found, of_group.get(None, ()))
        if decides is not None:
            counts[decides] += 1
            codes[decides].add(found.code)
    checks = []
    for demand in sorted(demands, key=lambda one: (one.group is not None, one.group or "", one.pattern)):
        if demand.level == "off":
            continue
        count, named = counts[demand], sorted(codes[demand] - {demand.pattern})
        which = f" ({', '.join(named)})" if named else ""
        who = subject(demand.group, facts.workload) if facts.groups else facts.workload
        of = "with severity" if demand.pattern in SEVERITIES else "of"
        what = f"{who}: {plural(count, 'finding')} {of} {demand.pattern}{which}"
        message = f"{what}; none is allowed ({demand.source})" if count else f"{what} ({demand.source})"
        status = status_of(not count, _level(demand), partial=facts.partial)
        tail = f"findings/{demand.pattern}"
        checks.append(_check(facts, demand, limit=0, actual=count, status=status, message=message, tail=tail))
    return checks


def ungated_errors(findings: Iterable[Finding], demands: Sequence[Demand]) -> list[Finding]:
    """Return the findings of severity error that no demand is about."""
    errors = [found for found in findings if found.severity == "error"]
    asked = [demand for demand in demands if demand.kind == "findings"]
    return [
        found
        for found in errors
        if _deciding(found, [demand for demand in asked if demand.group in (None, found.group or None)]) is None
    ]


def _deciding(found: JudgedFinding | Finding, demands: Iterable[Demand]) -> Demand | None:
    """Return the most specific pattern of a finding: a code, the longest beginning of one, the nearest severity below."""
    best: Demand | None = None
    most = -1
    for demand in demands:
        if demand.pattern in SEVERITIES:
            distance = SEVERITIES.index(demand.pattern) - SEVERITIES.index(found.severity)
            weight = len(SEVERITIES) - distance if distance >= 0 else -1
        else:
            weight = 10 + len(demand.pattern) if found.code.startswith(demand.pattern) else -1
        if weight > most:
            best, most = demand, weight
    return best


def figureless_check(facts: Facts, entry: CodeEntry, kind: Kind, *, met: bool, message: str) -> Check:
    """Return the check of a demand on a whole workload that is met or not, with no figure to tell."""
    return Check(
        id=check_id(facts.workload, None, kind),
        code=entry.code,
        kind=kind,
        workload=facts.workload,
        group=None,
        level="error",
        status=status_of(met, "error", partial=facts.partial),
        limit=None,
        actual=None,
        message=message,
        path=facts.path or facts.workload,
        line=0,
        column=0,
    )
