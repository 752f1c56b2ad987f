"""Judge the probe of an agent: no step may break, or where there is a baseline none more than there, and no less may be kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvtool.config.command_line import flag
from kvtool.config.options.judged_options import DEFAULT_DROP
from kvtool.diagnose.codes.gates.kv411 import KV411
from kvtool.errors import Place
from kvtool.gate.flag_values import parsed_flag
from kvtool.results.check import CheckResult
from kvtool.results.documents.agent_probe import AgentProbe
from kvtool.results.finding import Finding
from kvtool.results.gate_words import percents
from kvtool.results.verdict import Check, Level, Status
from kvtool.results.verdict_of import verdict_of
from kvtool.text.quantities import parse_limit
from kvtool.text.terminal.numbers import plural
from kvtool.version import __version__


def parse_drop(text: str | None) -> float:
    """Return the value of the flag for an allowed fall. KvtoolError for one that is none."""
    found = parsed_flag(parse_limit, text, flag("max_drop"))
    return DEFAULT_DROP if found is None else found


def judge_probe(
    probe: AgentProbe, before: AgentProbe | None = None, max_drop: float = DEFAULT_DROP, place: Place | None = None
) -> list[Check]:
    """Return the checks of a probe; `place` is where it is demanded. `before` is its baseline."""
    checks = [_steps(probe, before, place)]
    if before is not None:
        checks += _kept(probe, before, max_drop, place)
    return checks


def probe_findings(probe: AgentProbe, place: Place | None = None) -> list[Finding]:
    """Return the steps that break as findings."""
    runs = [("", probe.steps.breaks)]
    runs += [(f" when {row.when}", row.breaks) for row in probe.circumstances if row.judged and row.name != "resume"]
    where = place or Place(probe.agent)
    return [
        Finding.of(
            each.code,
            "error",
            probe.agent,
            where.path,
            where.line or 0,
            where.column or 0,
            f"request {each.request} does not begin with the request before it{when}: {each.place} differs ({each.what})",
            each.lost_tokens,
            f"send {each.place} as in the request before",
        )
        for when, breaks in runs
        for each in breaks
    ]


def checked_probe(probe: AgentProbe, checks: Sequence[Check]) -> CheckResult:
    """Return a probe as the check that every format renders."""
    return CheckResult(
        version=__version__,
        command="probe",
        verdict=verdict_of(checks),
        reports=[],
        probes=[probe],
        findings=probe_findings(probe),
        ignored=0,
    )


def _steps(probe: AgentProbe, before: AgentProbe | None, place: Place | None) -> Check:
    now = probe.broken_by_run()
    allowed = {} if before is None else before.broken_by_run()
    count, limit = sum(now.values()), sum(allowed.get(name, 0) for name in now)
    more = [name for name, broken in now.items() if broken > allowed.get(name, 0)]
    begin = "does not begin" if count == 1 else "do not begin"
    text = f"{plural(count, 'step')} {begin} with the step before" if count else "each step begins with the step before"
    if more and before is not None:
        text += f"; the baseline has {limit:,} ({', '.join(more)})"
    return _check(probe, "steps", "fail" if more else "pass", text, (limit, count), place)


def _kept(probe: AgentProbe, before: AgentProbe, max_drop: float, place: Place | None) -> Iterator[Check]:
    """Compare what each circumstance keeps; a circumstance that either probe has not is no failure."""
    known = {row.name: row for row in before.circumstances if row.name != "resume"}
    for row in probe.circumstances:
        old = known.get(row.name)
        if old is None:
            continue
        if row.kept < old.kept - max_drop:
            was, now = percents(old.kept, row.kept)
            text = f"{row.name} keeps {now} of the first request, in the baseline {was}: {row.place} differs"
            yield _check(probe, row.name, "fail", text, (old.kept - max_drop, row.kept), place)
        elif row.place != old.place:
            text = f"{row.name}: {row.place or 'nothing'} differs first, in the baseline {old.place or 'nothing'}"
            yield _check(probe, row.name, "warn", text, (None, None), place)


def _check(
    probe: AgentProbe,
    what: str,
    status: Status,
    message: str,
    figures: tuple[float | None, float | None],
    place: Place | None,
) -> Check:
    level: Level = "warn" if status == "warn" else "error"
    return Check(
        id=f"{probe.agent}/{what}",
        code=KV411.code,
        kind="probe",
        workload=probe.agent,
        group=None,
        level=level,
        status=status,
        limit=figures[0],
        actual=figures[1],
        message=message,
        path=probe.agent if place is None else place.path,
        line=0 if place is None else place.line or 0,
        column=0 if place is None else place.column or 0,
    )
