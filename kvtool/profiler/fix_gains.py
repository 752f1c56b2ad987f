"""Compute the cost of each cause, and the gain of its fix alone and after stronger fixes: one row for each cause of a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.values.kv103 import KV103
from kvtool.diagnose.findings import Locate, cause_name, is_declared_stable, logged_cause, place_of
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.report import Cause, CausesLeftOut, Unlock

if TYPE_CHECKING:
    from kvtool.profiler.advice.advisor import Advice, KeptFix

MOST_CAUSES = 200
"""Rows of causes of a group in a report."""
WORTH_A_ROW = 0.001
"""Least share of a group's prompt tokens for a row of its own; a cause with a kept fix always has one."""


@dataclass(frozen=True, slots=True)
class GroupCauses:
    """The causes of a group: those with a kept fix in their order, then the others, the costliest first.

    Blame and share, over the rows and the rest, each sum to the losses of all causes together.
    """

    rows: list[Cause]
    left_out: CausesLeftOut


def group_causes(
    result: RunResult, groups: Iterable[GroupTotals], advice: Advice | None, *, locate: Locate, path: str
) -> dict[str, GroupCauses]:
    """Return by name the causes of each group that has any. `path` replaces the source of text without one."""
    found: dict[str, GroupCauses] = {}
    for group in groups:
        steps = advice.kept.get(group.name, []) if advice is not None else []
        causes = result.causes.of_group(group.name)
        known = {cause.slot: cause for cause in causes}
        numbers = {step.cause.slot: number for number, step in enumerate(steps, 1)}
        shares = dict(zip(known, _round_to_sum([cause.share for cause in causes]), strict=True))
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
            tokens = sum(shares.values())
            left_out = CausesLeftOut(
                causes=len(known) - sum(cause.slot in known for cause in shown),
                blame_tokens=tokens - sum(row.blame_tokens for row in rows),
                share_tokens=tokens - sum(row.share_tokens for row in rows),
            )
            found[group.name] = GroupCauses(rows, left_out)
    return found


def _unlock(number: int, step: KeptFix) -> Unlock:
    return Unlock(
        order=number,
        tier=step.fix.tier,
        before=step.before,
        after=step.after,
        alone=step.alone,
        predicted=step.predicted,
        lines=step.fix.lines,
    )


def _row(cause: SlotCause, place: tuple[str, int, int], blame: int, share: int, unlock: Unlock | None) -> Cause:
    """Return the cause as figures; nothing in it quotes a prompt. Where it was logged, its line is that of the record."""
    path, line, column = place
    return Cause(
        group=cause.group,
        code=KV103.code if is_declared_stable(cause) else cause.kind.code,
        kind=cause.kind.key,
        name=cause_name(cause),
        part=cause.slot.part,
        path=path,
        line=line,
        column=column,
        line_in_text=cause.slot.line_in_text,
        place="" if (logged := logged_cause(cause)) is None else logged.told,
        variable=cause.slot.variable,
        in_source=cause.in_source and line > 0,
        blame_tokens=blame,
        share_tokens=share,
        requests=cause.requests,
        distinct_values=cause.distinct,
        volatility_within=cause.volatility_within,
        volatility_across=cause.volatility_across,
        confidence=cause.confidence,
        unlock=unlock,
    )


def _round_to_sum(parts: Sequence[float]) -> list[int]:
    """Return parts of a whole number as whole numbers with the same sum, by largest remainders."""
    floors = [int(part) for part in parts]
    order = sorted(range(len(parts)), key=lambda at: (floors[at] - parts[at], at))
    for at in order[: round(sum(parts)) - sum(floors)]:
        floors[at] += 1
    return floors
