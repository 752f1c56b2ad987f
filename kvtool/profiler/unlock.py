"""What each cause costs, and what a fix of it gives alone and behind those that give more: one row for each cause of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.causes import Cause
from kvtool.diagnose.codes.kv103 import KV103
from kvtool.diagnose.findings import Locate, is_declared_stable, place_of
from kvtool.profiler.advice.advisor import Advice, AdviceStep
from kvtool.profiler.passes import PassResult

MOST_CAUSES = 200
WORTH_A_ROW = 0.001
"""Share of a group's prompt tokens from which a cause has a row of its own; one whose fix is kept always has."""


@dataclass(frozen=True, slots=True)
class Unlock:
    """A fix that is kept: the group's hit rates before it, with it and all fixes before it, and with nothing else.

    `number` counts from 1 in the order in which each adds most; `predicted` is what the alignment of the prompts promised for the
    fixes up to here, the others were measured by running again.
    """

    number: int
    tier: str
    before: float
    after: float
    alone: float
    predicted: float


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A cause as figures; nothing here quotes a prompt.

    `blame_tokens` are those behind it as the first of the worst differences before them, `share_tokens` its fair share of what
    several causes block together. `line` and `column` are 0 where there is no source; where it is `logged`, they are those of the
    record.
    """

    group: str
    code: str
    kind: str
    name: str
    """The kind in words."""
    part: str
    path: str
    line: int
    column: int
    line_in_text: int
    """Counts from 0, of a logged text that keeps its place."""
    variable: str | None
    logged: bool
    blame_tokens: int
    share_tokens: int
    requests: int
    distinct_values: int
    volatility_within: float
    volatility_across: float
    confidence: float
    unlock: Unlock | None


@dataclass(frozen=True, slots=True)
class GroupCauses:
    """The causes of a group: those with a kept fix in their order, then the others, the costliest first.

    Blame and share of the rows and of the `others` that have none each sum to `tokens`.
    """

    group: str
    prompt_tokens: int
    tokens: int
    rows: tuple[CauseRow, ...]
    others: int

    @property
    def others_blame(self) -> int:
        return self.tokens - sum(row.blame_tokens for row in self.rows)

    @property
    def others_share(self) -> int:
        return self.tokens - sum(row.share_tokens for row in self.rows)


def group_causes(
    result: PassResult, groups: Iterable[GroupTotals], advice: Advice | None, *, locate: Locate, path: str
) -> Iterator[GroupCauses]:
    """The causes of each group that has any. `path` stands for text without a source."""
    for group in groups:
        steps = advice.steps.get(group.name, []) if advice is not None else []
        causes = result.causes.of_group(group.name)
        known = {cause.slot: cause for cause in causes}
        numbers = {step.cause.slot: number for number, step in enumerate(steps, 1)}
        shares = dict(zip(known, _whole([cause.share for cause in causes]), strict=True))
        least = max(WORTH_A_ROW * group.prompt_tokens, 1)
        shown = [known.get(step.cause.slot, step.cause) for step in steps]
        shown += [cause for cause in causes if cause.blocked >= least and cause.slot not in numbers]
        shown = shown[:MOST_CAUSES]
        rows = []
        for cause in shown:
            number = numbers.get(cause.slot)
            unlock = None if number is None else _unlock(number, steps[number - 1])
            # A cause that only a fix brought to light has nothing to be blamed for in the run without it.
            blame, share = (cause.blocked, shares[cause.slot]) if cause.slot in known else (0, 0)
            rows.append(_row(cause, place_of(cause, locate, path), blame, share, unlock))
        if rows:
            others = len(known) - sum(cause.slot in known for cause in shown)
            yield GroupCauses(group.name, group.prompt_tokens, sum(shares.values()), tuple(rows), others)


def _unlock(number: int, step: AdviceStep) -> Unlock:
    return Unlock(number, step.fix.tier, step.before, step.after, step.alone, step.predicted)


def _row(cause: Cause, place: tuple[str, int, int], blame: int, share: int, unlock: Unlock | None) -> CauseRow:
    path, line, column = place
    return CauseRow(
        group=cause.group,
        code=KV103.code if is_declared_stable(cause) else cause.kind.code,
        kind=cause.kind.key,
        name=cause.kind.name,
        part=cause.slot.part,
        path=path,
        line=line,
        column=column,
        line_in_text=cause.slot.line_in_text,
        variable=cause.slot.variable,
        logged=cause.slot.logged or line == 0,
        blame_tokens=blame,
        share_tokens=share,
        requests=cause.requests,
        distinct_values=cause.distinct,
        volatility_within=cause.volatility_within,
        volatility_across=cause.volatility_across,
        confidence=cause.confidence,
        unlock=unlock,
    )


def _whole(parts: Sequence[float]) -> list[int]:
    """Parts of a whole number as whole numbers with the same sum, by largest remainders."""
    floors = [int(part) for part in parts]
    order = sorted(range(len(parts)), key=lambda at: (floors[at] - parts[at], at))
    for at in order[: round(sum(parts)) - sum(floors)]:
        floors[at] += 1
    return floors
