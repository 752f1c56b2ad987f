"""Compares two results: workloads by name, groups by name, causes by what and where they are, not by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from posixpath import normpath

from kvtool.diagnose.codes import entry_of
from kvtool.gate.recording import key_of
from kvtool.results.check import CheckResult
from kvtool.results.choices import Severity
from kvtool.results.comparison import (
    CauseMove,
    Change,
    Comparison,
    ConfigMove,
    Effect,
    GroupMove,
    Outcome,
    RateMove,
    TimeMove,
    TtftMove,
    WorkloadMove,
)
from kvtool.results.finding import Finding
from kvtool.results.report import Fates, Group, Report, Totals
from kvtool.results.run_times import Quantiles

_TIMES = (
    *("model", "accelerator", "calibration", "calibration_model", "calibration_dtype", "predicted_dtype"),
    *("kv_cache_dtype", "tensor_parallel", "max_num_batched_tokens", "max_num_seqs", "async_scheduling"),
)
"""Settings that decide predicted times beside the prompts and their hits."""
_TOLD_BY_FINGERPRINT = ("tokenizer", "tokenizer_fingerprint")
_SAME_SHARE = 0.0005
"""A change of a cause's share that its figures, which have a tenth of a point, do not show."""


def compare_results(old: CheckResult, new: CheckResult, *, old_name: str, new_name: str) -> Comparison:
    """Compare two results. The only workloads of both go together whatever their names are."""
    pairs, only_old, only_new = _matched(old.reports, new.reports)
    workloads = [_workload(before, after) for before, after in pairs]
    outcomes = {each.outcome for each in workloads}
    return Comparison(
        old=old_name,
        new=new_name,
        outcome="fell" if "fell" in outcomes else "rose" if "rose" in outcomes else "same",
        comparable=all(each.comparable for each in workloads),
        workloads=workloads,
        only_old=only_old,
        only_new=only_new,
        findings=_moves(_loose(old), _loose(new)),
    )


def _matched(old: Sequence[Report], new: Sequence[Report]) -> tuple[list[tuple[Report, Report]], list[str], list[str]]:
    if len(old) == len(new) == 1:
        return [(old[0], new[0])], [], []
    waiting: dict[str, list[Report]] = {}
    for report in old:
        waiting.setdefault(normpath(report.workload), []).append(report)
    pairs: list[tuple[Report, Report]] = []
    only_new: list[str] = []
    for report in new:
        same = waiting.get(normpath(report.workload))
        if same:
            pairs.append((same.pop(0), report))
        else:
            only_new.append(report.workload)
    return pairs, [report.workload for same in waiting.values() for report in same], only_new


def _workload(old: Report, new: Report) -> WorkloadMove:
    config = list(_config(old, new))
    total = _group("", _of_all(old), _of_all(new))
    return WorkloadMove(
        name=new.workload,
        old_name=old.workload,
        outcome=_outcome(total.hit, total),
        comparable=not any(move.effect == "rates" for move in config),
        times_comparable=not any(move.effect != "none" for move in config),
        old_partial=old.partial,
        new_partial=new.partial,
        total=total,
        config=config,
        groups=list(_groups(old, new)),
        causes=_moves(_causes(old), _causes(new)),
    )


def _outcome(hit: RateMove, total: GroupMove) -> Outcome:
    """Without rounding: as fractions of whole tokens."""
    before, after = hit.old_tokens * total.new_prompt_tokens, hit.new_tokens * total.old_prompt_tokens
    return "same" if before == after else "fell" if after < before else "rose"


def _config(old: Report, new: Report) -> Iterator[ConfigMove]:
    """Return the settings that differ, by name; tokenizers differ by fingerprint and are reported by name."""
    before, after = old.config, new.config
    keys = [key_of(config, folder="", limit=None, groups=()) for config in (before, after)]
    decisive = {name for name in {*keys[0], *keys[1]} if keys[0].get(name) != keys[1].get(name)}
    if "tokenizer_fingerprint" in decisive:
        names = [f"{config.get('tokenizer')} ({config.get('tokenizer_fingerprint')})" for config in (before, after)]
        yield ConfigMove(key="tokenizer", old=names[0], new=names[1], effect="rates")
    for name in sorted({*before, *after}.difference(_TOLD_BY_FINGERPRINT, ("input",))):
        one, other = before.get(name), after.get(name)
        if one != other:
            effect: Effect = "rates" if name in decisive else "times" if name in _TIMES else "none"
            yield ConfigMove(key=name, old=one, new=other, effect=effect)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Figures of a group, or of all requests; none where a result lacks the group."""

    requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    reachable_tokens: int = 0
    fates: Fates = field(default_factory=dict)
    ttft: Quantiles | None = None

    @classmethod
    def of(cls, sums: Totals | Group, fates: Fates, ttft: Quantiles | None) -> _Sums:
        return cls(sums.requests, sums.prompt_tokens, sums.hit_tokens, sums.reachable_tokens, fates, ttft)


def _of_all(report: Report) -> _Sums:
    return _Sums.of(report.totals, report.fates, report.ttft.predicted.on)


def _of_group(group: Group | None) -> _Sums:
    return _Sums() if group is None else _Sums.of(group, group.fates, group.predicted_ttft)


def _groups(old: Report, new: Report) -> Iterator[GroupMove]:
    """Return the names in the order of the new result, then those that are gone."""
    before, after = ({group.name: group for group in report.groups} for report in (old, new))
    for name in dict.fromkeys((*after, *before)):
        yield _group(name, _of_group(before.get(name)), _of_group(after.get(name)))


def _group(name: str, old: _Sums, new: _Sums) -> GroupMove:
    def rate(one: int, other: int) -> RateMove:
        return RateMove(
            old_tokens=one,
            new_tokens=other,
            old=_part(one, old.prompt_tokens),
            new=_part(other, new.prompt_tokens),
        )

    return GroupMove(
        name=name,
        old_requests=old.requests,
        new_requests=new.requests,
        old_prompt_tokens=old.prompt_tokens,
        new_prompt_tokens=new.prompt_tokens,
        hit=rate(old.hit_tokens, new.hit_tokens),
        reachable=rate(old.reachable_tokens, new.reachable_tokens),
        predicted_ttft=_ttft(old.ttft, new.ttft),
        fates={fate: rate(old.fates.get(fate, 0), new.fates.get(fate, 0)) for fate in sorted({*old.fates, *new.fates})},
    )


def _part(tokens: int, prompt_tokens: int) -> float:
    return min(tokens / prompt_tokens, 1.0) if prompt_tokens else 0.0


def _ttft(old: Quantiles | None, new: Quantiles | None) -> TtftMove:
    def time(name: str) -> TimeMove:
        return TimeMove(
            old=None if old is None else getattr(old, name), new=None if new is None else getattr(new, name)
        )

    return TtftMove(p50=time("p50"), p90=time("p90"), p99=time("p99"))


@dataclass(frozen=True, slots=True)
class _Item:
    """A cause, or a finding that stands for none, of one result."""

    group: str
    code: str
    severity: Severity | None
    name: str
    part: str
    variable: str | None
    path: str
    line: int
    column: int
    width: int
    in_source: bool
    tokens: int
    share: float

    @property
    def key(self) -> tuple[str, ...]:
        """Return the key that is equal for the same finding in two results."""
        part = "" if self.variable is not None else self.part
        return self.group, self.code, normpath(self.path), part, self.variable or ""


def _causes(report: Report) -> Iterator[_Item]:
    """Causes that cost something, and findings of what is no cause (capacity, routing, the chat template)."""
    tokens = {group.name: group.prompt_tokens for group in report.groups}
    widths = {(found.group, found.code, found.path, found.line, found.column): found.width for found in report.findings}
    caused = {(cause.group, cause.code, cause.path) for cause in report.causes}
    for cause in report.causes:
        if not cause.blame_tokens:  # only a fix of another brought it to light
            continue
        yield _Item(
            group=cause.group,
            code=cause.code,
            severity=None,
            name=cause.name,
            part=cause.part,
            variable=cause.variable,
            path=cause.path,
            line=cause.line,
            column=cause.column,
            width=widths.get((cause.group, cause.code, cause.path, cause.line, cause.column), 0),
            in_source=cause.in_source,
            tokens=cause.blame_tokens,
            share=_part(cause.blame_tokens, tokens.get(cause.group, 0)),
        )
    for found in report.findings:
        if (found.group, found.code, found.path) not in caused:
            yield _finding(found, _part(found.tokens_lost, tokens.get(found.group, report.totals.prompt_tokens)))


def _finding(found: Finding, share: float) -> _Item:
    entry = entry_of(found.code)
    return _Item(
        group=found.group,
        code=found.code,
        severity=found.severity,
        name=entry.name if entry is not None else "",
        part="",
        variable=None,
        path=found.path,
        line=found.line,
        column=found.column,
        width=found.width,
        in_source=found.in_source,
        tokens=found.tokens_lost,
        share=share,
    )


def _loose(result: CheckResult) -> Iterator[_Item]:
    """Findings that are in none of the result's reports."""
    return (_finding(found, 0.0) for found in result.loose_findings())


def _moves(old: Iterable[_Item], new: Iterable[_Item]) -> list[CauseMove]:
    """Pairs of the same; of several with one name the first in the file with the first. The greatest change stands first."""
    waiting: dict[tuple[str, ...], list[_Item]] = {}
    for item in sorted(old, key=_order):
        waiting.setdefault(item.key, []).append(item)
    moves: list[CauseMove] = []
    for item in sorted(new, key=_order):
        same = waiting.get(item.key)
        moves.append(_move(same.pop(0) if same else None, item))
    moves += [_move(item, None) for same in waiting.values() for item in same]
    return sorted(moves, key=lambda move: (-abs(move.difference), -abs(move.new_tokens - move.old_tokens)))


def _order(item: _Item) -> tuple[tuple[str, ...], int, int]:
    return item.key, item.line, item.column


def _move(old: _Item | None, new: _Item | None) -> CauseMove:
    shown = new or old
    assert shown is not None
    return CauseMove(
        change=_change(old, new),
        group=shown.group,
        code=shown.code,
        severity=shown.severity,
        name=shown.name,
        part=shown.part,
        variable=shown.variable,
        path=shown.path,
        line=shown.line,
        column=shown.column,
        width=shown.width,
        in_source=shown.in_source,
        old_line=0 if old is None else old.line,
        old_tokens=0 if old is None else old.tokens,
        new_tokens=0 if new is None else new.tokens,
        old_share=0.0 if old is None else old.share,
        new_share=0.0 if new is None else new.share,
    )


def _change(old: _Item | None, new: _Item | None) -> Change:
    if old is None:
        return "new"
    if new is None:
        return "gone"
    difference = new.share - old.share
    return "same" if abs(difference) < _SAME_SHARE else "more" if difference > 0 else "less"
