"""Comparison of a run with a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvtool.config.options.judged_options import BASELINE_FILE, DEFAULT_DROP
from kvtool.diagnose.codes.gates.kv402 import KV402
from kvtool.diagnose.codes.gates.kv406 import KV406
from kvtool.gate.baseline import RecordedSums, Value, WorkloadSums
from kvtool.gate.demand import DemandLevel
from kvtool.gate.evaluate import check_id, exact, figureless_check, rate, status_of
from kvtool.gate.facts import Facts
from kvtool.results.gate_words import percents, points, subject
from kvtool.results.verdict import Check, Level
from kvtool.text.terminal.numbers import plural

_WORDS = {
    "tokenizer_fingerprint": "tokenizer",
    "capacity_blocks": "capacity (blocks)",
    "ttl_seconds": "time to live (seconds)",
    "provider_as_of": "date of the provider's rules",
    "accounting": "kvtool's accounting",
    "requests": "--requests",
    "groups": "--group",
}
_TOLD_ONLY = ("tokenizer",)
"""The name of a tokenizer says which one it is, its fingerprint decides."""
_MOST_TOLD = 5
"""Differences named in one line."""


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """`problem` says why there was nothing to compare with; empty where there was."""

    checks: list[Check] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    problem: str = ""


def differences(before: Mapping[str, Value], now: Mapping[str, Value]) -> list[str]:
    """Return the differences that make two runs incomparable, in words; empty without any."""
    found: list[str] = []
    for name in sorted({*before, *now} - set(_TOLD_ONLY)):
        one, other = before.get(name), now.get(name)
        if one == other and isinstance(one, bool) == isinstance(other, bool):
            continue
        word = _WORDS.get(name, name.replace("_", " "))
        if name == "tokenizer_fingerprint":
            found.append(f"tokenizer: {_tokenizer(before)} in the baseline, {_tokenizer(now)} now")
        else:
            found.append(f"{word}: {_shown(one)} in the baseline, {_shown(other)} now")
    return found


def _tokenizer(key: Mapping[str, Value]) -> str:
    fingerprint = key.get("tokenizer_fingerprint")
    return f"{key.get('tokenizer', 'none')} ({fingerprint})" if fingerprint is not None else "none"


def _shown(value: Value | None) -> str:
    return "not set" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def compare(
    facts: Facts,
    now: WorkloadSums,
    before: WorkloadSums | None,
    *,
    path: str = BASELINE_FILE,
    max_drop: float = DEFAULT_DROP,
    levels: Mapping[str | None, DemandLevel] | None = None,
) -> BaselineComparison:
    """Check a run against its entry in the baseline at `path`.

    A group, and all requests (None), fail at the level of `levels` where their hit rate fell by more than `max_drop` (a ratio).
    """
    name = facts.workload
    if before is None:
        return BaselineComparison(problem=f"{name} is not in the baseline {path}")
    if wrong := differences(before.key, now.key):
        return BaselineComparison(problem=f"{name} cannot be compared with the baseline {path}: {'; '.join(wrong)}")
    asked = levels or {}
    checks: list[Check] = []
    alone = next(iter(now.groups)) if len(now.groups) == 1 and before.groups.keys() == now.groups.keys() else None
    for group in (None, *(() if alone is not None else now.groups)):  # a group that is all there is is told once
        level = asked.get(alone if group is None and alone in asked else group, asked.get(None, "error"))
        one = before if group is None else before.groups.get(group)
        other = now if group is None else now.groups[group]
        if one is None or level == "off" or not one.prompt_tokens:
            continue
        checks.append(_fall(facts, group, one, other, max_drop, path, "warn" if level == "warn" else "error"))
    return BaselineComparison(checks, _changes(facts, before, now))


def _fall(
    facts: Facts, group: str | None, before: RecordedSums, now: RecordedSums, drop: float, path: str, level: Level
) -> Check:
    was, actual = rate(before.hit_tokens, before.prompt_tokens), rate(now.hit_tokens, now.prompt_tokens)
    if before.reported_hit_rate is not None and now.reported_hit_rate is not None:
        was, actual = exact(before.reported_hit_rate), exact(now.reported_hit_rate)
    fall = was - actual
    met = fall <= exact(drop)
    shown = " -> ".join(percents(float(was), float(actual)))
    if not now.prompt_tokens:
        text, met = (
            f"no request was profiled, but {path} has {plural(before.requests, 'request')}",
            facts.limit is not None,
        )
    elif fall > 0:
        text = f"hit rate {shown}, {points(float(fall))} below {path} (allowed: {points(drop)})"
    else:
        text = f"hit rate {shown}, {points(float(-fall))} above {path}" if fall else f"hit rate {shown}, as in {path}"
    new = _new_codes(before, now)
    if new and not met:
        text += f"; new findings: {', '.join(new)}"
    return Check(
        id=check_id(facts.workload, group, "baseline"),
        code=KV402.code,
        kind="baseline",
        workload=facts.workload,
        group=group,
        level=level,
        status=status_of(met, level, partial=facts.partial),
        limit=max(float(was - exact(drop)), 0.0),
        actual=float(actual),
        baseline=float(was),
        message=f"{subject(group, facts.workload, facts.covered)}: {text}",
        covered=facts.covered if group is None else "",
        path=facts.path or facts.workload,
        line=0,
        column=0,
    )


def _new_codes(before: RecordedSums, now: RecordedSums) -> list[str]:
    """Codes of findings that there are more of than before."""
    if before.findings is None or now.findings is None:
        return []
    return [code for code, count in sorted(now.findings.items()) if count > before.findings.get(code, 0)]


def _changes(facts: Facts, before: WorkloadSums, now: WorkloadSums) -> list[str]:
    """Return the changes since the baseline was written that are no mistakes."""
    changed = [
        f"{name} {_sizes(before.groups[name], sums)}"
        for name, sums in now.groups.items()
        if name in before.groups and _size(before.groups[name]) != _size(sums)
    ]
    notices = []
    if changed:
        notices.append(f"{facts.workload} has changed since the baseline: {_some(changed)}")
    new = [name for name in now.groups if name not in before.groups]
    gone = [name for name in before.groups if name not in now.groups]
    if new:
        notices.append(f"{facts.workload}: new, not compared: {_some(new)}")
    if gone and facts.limit is None and not facts.partial:
        notices.append(f"{facts.workload}: no longer in the workload: {_some(gone)}")
    return notices


def _size(sums: RecordedSums) -> tuple[int, int]:
    return sums.requests, sums.prompt_tokens


def _sizes(before: RecordedSums, now: RecordedSums) -> str:
    if before.requests != now.requests:
        return f"had {plural(before.requests, 'request')}, now {now.requests:,}"
    return f"had {plural(before.prompt_tokens, 'prompt token')}, now {now.prompt_tokens:,}"


def _some(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _MOST_TOLD:,} more"] if len(names) > _MOST_TOLD else []
    return ", ".join([*names[:_MOST_TOLD], *more])


def required_check(facts: Facts, problem: str) -> Check:
    """Return the check that fails where a baseline is required and there is none to compare with."""
    return figureless_check(facts, KV406, "baseline", met=False, message=f"--require-baseline: {problem}")
