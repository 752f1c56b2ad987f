"""Findings that are told as one: what one fix mends, what is alike, and what is told twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.codes.values.kv107 import KV107
from kvtool.results.finding import Finding, as_severe
from kvtool.text.terminal.numbers import plural

_UNNAMED = (KV107.code, KV201.code)


_OF_THE_CAUSE = (
    *("code", "severity", "path", "line", "column", "in_source", "logged", "snippet", "width", "message"),
    *("tokens_lost", "points", "share_tokens", "confidence", "example", "ttft_seconds"),
)
"""Fields of a finding that say what is in the way; the others say what is done about it."""


def led_by_a_loss(
    steps: Sequence[Finding | None], along: Sequence[Finding | None], small: Sequence[Finding | None] = ()
) -> tuple[list[Finding | None], list[Finding | None]]:
    """Return the findings of fixes, and what these mend beside them; the first fix has the tokens of all `small` ones.

    Where the first fix is of a cause that lost nothing by itself, it is told of the costliest that it mends in the same message,
    unless its own says more; the other one is told as mended with it.
    """
    told, others = list(steps), list(along)
    first = told[0] if told else None
    if first is None:
        return told, [*others, *small]
    rest = [other for other in small if other is not None]
    if not first.tokens_lost and first.logged is not None:
        place = first.logged.part, first.logged.content
        mended = [
            other
            for other in (*others, *rest)
            if other is not None and other.tokens_lost and other.logged is not None
            if (other.logged.part, other.logged.content) == place
            if other.code not in _UNNAMED or first.code in _UNNAMED
        ]
        if mended:
            costliest = max(mended, key=lambda each: each.tokens_lost)
            first, other = _with_cause_of(first, costliest), _with_cause_of(costliest, first)
            others = [other if each is costliest else each for each in others]
            rest = [each for each in rest if each is not costliest]
    optional = [each for each in rest if _is_the_whole_line(each, first)]
    said = [f"Not every request has this line: it first comes or goes in {each.record}" for each in optional[:1]]
    if smaller := len(rest) - len(optional):
        said.append(f"The same fix removes {plural(smaller, 'smaller difference')}")
    for each in rest:
        first = _with_tokens_of(first, each)
    told[0] = first.model_copy(update={"message": ". ".join([first.message, *said])})
    return told, others


def _is_the_whole_line(other: Finding, finding: Finding) -> bool:
    """Return whether another finding is that requests lack the line of a finding."""
    line = finding.logged
    return line is not None and line.is_same_line(other.logged) and other.code == KV107.code and bool(other.record)


def _with_cause_of(finding: Finding, other: Finding) -> Finding:
    """Return what is done about a finding, told of the cause of another one."""
    return finding.model_copy(update={name: getattr(other, name) for name in _OF_THE_CAUSE})


def with_the_like(
    steps: Sequence[Finding | None], along: Sequence[Finding | None], *, of_passages: bool = False
) -> list[Finding]:
    """Return the findings of fixes, and what these mend beside them: of one code in one logged message as one, for it is one loss.

    So is what no name says more of on a line that is told, and all that differs in a message whose passages are
    moved. The first of them has the tokens of all, and says how many go with it.
    """
    told: list[Finding] = []
    first: dict[object, int] = {}
    more: Counter[int] = Counter()
    for finding in steps:
        if finding is not None:
            for key in _alike(finding):
                first.setdefault(key, len(told))
            told.append(finding)
    for finding in along:
        if finding is None:
            continue
        keys = _alike(finding)
        known = keys if finding.code in _UNNAMED else keys[:1]
        at = next((first[key] for key in known if key in first), None)
        if at is None and finding.code in _UNNAMED:
            at = next((number for number, step in enumerate(told) if _is_without_loss(step, finding)), None)
        if at is None and of_passages:
            at = next((number for number, step in enumerate(told) if _in_one_message(step, finding)), None)
        if at is None:
            at = len(told)
            told.append(finding)
        else:
            more[at] += 1
            told[at] = _with_tokens_of(told[at], finding)
        for key in keys:
            first.setdefault(key, at)
    for at, count in more.items():
        more_of_them = f"This message has {plural(count, 'more difference')} like it"
        told[at] = told[at].model_copy(update={"message": f"{told[at].message}. {more_of_them}"})
    return told


def _is_without_loss(step: Finding, finding: Finding) -> bool:
    """Return whether a fix mends in its message what its own cause is not to blame for: the loss that it mends is the other one."""
    return not step.tokens_lost and _in_one_message(step, finding)


def _in_one_message(step: Finding, finding: Finding) -> bool:
    one, other = step.logged, finding.logged
    return one is not None and other is not None and one.part == other.part


def _alike(finding: Finding) -> list[object]:
    """Return what a finding of a log has in common with others of one loss: code and message, and the line; nothing for other
    ones.
    """
    logged = finding.logged
    if logged is None:
        return []
    of_code = finding.code, logged.part
    return [of_code, (logged.part, logged.content, logged.line)] if logged.line else [of_code]


def without_repeated_places(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, those of one code at one place of a group as one: values of several kinds on one line are one cause.

    The first of them, which has the fix, has the tokens of all.
    """
    kept: dict[object, Finding] = {}
    for finding in findings:
        key = id(finding) if finding.fix_key and _place_of(finding) in kept else _place_of(finding)
        first = kept.setdefault(key, finding)
        if first is not finding:
            kept[key] = _with_tokens_of(first, finding)
    return list(kept.values())


def _place_of(finding: Finding) -> object:
    """Return what tells the place of a finding from others: of what was logged the line of its text, whichever record has it."""
    logged = finding.logged
    if logged is not None and logged.line:
        return finding.group, finding.code, logged.part, logged.content, logged.line
    return (
        (finding.group, finding.code, finding.path, finding.line, finding.column) if finding.in_source else id(finding)
    )


def _with_tokens_of(finding: Finding, other: Finding) -> Finding:
    both: dict[str, object] = {
        "tokens_lost": finding.tokens_lost + other.tokens_lost,
        "points": finding.points + other.points,
        "share_tokens": (finding.share_tokens or 0.0) + (other.share_tokens or 0.0),
        "ttft_seconds": _added(finding.ttft_seconds, other.ttft_seconds),
    }
    if as_severe(other.severity, finding.severity):
        both["severity"] = other.severity
    return finding.model_copy(update=both)


def _added(one: float | None, other: float | None) -> float | None:
    return None if one is None and other is None else (one or 0.0) + (other or 0.0)


def drop_repeated_findings(advice: list[Finding], found: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Return both without what is told twice: where the run shows a cause with a fix that wins, it is not told as one without a
    fix.

    The one that stays has the cost of either, whichever is larger.
    """
    tried = {(finding.code, finding.group) for finding in found if finding.tried is not None}
    twice = [each for each in advice if each.rerun is None and (each.code, each.group) in tried]
    costs = {(each.code, each.group): each for each in twice}
    kept = [each for each in advice if each not in twice]
    return kept, [_at_least(each, costs.pop((each.code, each.group), None)) for each in found]


def _at_least(finding: Finding, other: Finding | None) -> Finding:
    if other is None or other.tokens_lost <= finding.tokens_lost:
        return finding
    cost: dict[str, object] = {name: getattr(other, name) for name in ("tokens_lost", "points", "ttft_seconds")}
    if as_severe(other.severity, finding.severity):
        cost["severity"] = other.severity
    return finding.model_copy(update=cost)
