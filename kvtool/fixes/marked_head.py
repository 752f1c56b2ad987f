"""A cache mark at the end of the shared text, where no content block ends yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.codes.layout.kv203 import KV203
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.fixes.fix import Fix
from kvtool.fixes.moves.shared_heads import SharedHeads
from kvtool.fixes.turn_texts import marks_in, with_split_text
from kvtool.results.finding import Finding
from kvtool.text.cache_marks import MOST_MARKS
from kvtool.text.traced import Origin, Traced
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.plan import Plan

_MARK = {"cache_control": {"type": "ephemeral"}}
Locate = Callable[[Origin, int], tuple[int, int]]


def marked_heads(
    groups: Sequence[GroupTotals], plan: Plan, samples_of: Callable[[str], Sequence[Turn]], locate: Locate
) -> list[Fix]:
    """Return a fix for each group of which a provider that stores nothing without a mark stored too little."""
    if plan.cache is None or plan.cache.provider is None or not plan.cache.provider.needs_mark:
        return []
    found = (_marked_head(group, samples_of(group.name), locate) for group in groups)
    return [fix for fix in found if fix is not None]


def _marked_head(group: GroupTotals, samples: Sequence[Turn], locate: Locate) -> Fix | None:
    """Return the fix that parts the first text of which requests share only the beginning, and marks the end of that."""
    if group.fates["unmarked"] < max(THRESHOLDS.warning_share * group.prompt_tokens, 1):
        return None
    heads = SharedHeads.learn([turn for turn in samples if turn.messages])
    if heads is None:
        return None

    def change(turn: Turn) -> Turn:
        first = next(heads.split_texts(turn), None)
        if first is None or marks_in(turn) >= MOST_MARKS:
            return turn
        return with_split_text(turn, first[0], len(first[1]), _MARK)

    places = [_place(at.text, len(head), locate) for turn in samples for at, head in heads.split_texts(turn)]
    where = max(places, key=places.count, default="")
    before = f" (before {where})" if where else ""
    what = f"end a message or content block where the shared text ends{before}, and put cache_control on it"
    return Fix(f"marked-head:{group.name}", KV203.code, "P1", group.name, what, make=lambda: change)


def _place(text: str, at: int, locate: Locate) -> str:
    """Return the file and line of a character; empty where that is not known."""
    begin = 0
    for length, origin, offset in Traced(text).marks:
        if begin <= at < begin + length and origin is not None and origin.path:
            shift = at - begin if origin.verbatim else 0
            return f"{origin.path}:{locate(origin, offset + shift)[0]}"
        begin += length
    return ""


def without_useless_mark(finding: Finding, groups: Sequence[GroupTotals]) -> Finding:
    """Return a finding about a missing cache mark as information, where the marks of its group work and no other one wins."""
    works = any(group.name == finding.group and group.hit_tokens for group in groups)
    if not (works and finding.no_gain and finding.code == KV203.code):
        return finding
    told = "nothing to fix: other cache breakpoints gain nothing (tested)"
    return finding.model_copy(update={"severity": "info", "fix": told})
