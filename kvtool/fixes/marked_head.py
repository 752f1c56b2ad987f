"""Cache marks where the text that requests share ends: at the end of a message, or of a block that is made there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv203 import KV203
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.fixes.fix import Fix, Transform
from kvtool.fixes.moves.shared_heads import SharedHeads
from kvtool.fixes.turn_texts import INSTRUCTIONS, marks_in, with_split_text
from kvtool.results.finding import Finding
from kvtool.text.cache_marks import MOST_MARKS, is_marked
from kvtool.text.message import role_of
from kvtool.text.traced import Origin, Traced
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.plan import Plan

MARK: Mapping[str, Any] = {"cache_control": {"type": "ephemeral"}}
MISSING_MARK = DifferenceKind("missing-mark", "missing cache breakpoint", KV203.code)
Locate = Callable[[Origin, int], tuple[int, int]]


def lacks_mark(group: GroupTotals, plan: Plan) -> bool:
    """Return whether a provider that stores nothing without a mark stored too little of a group."""
    needs = plan.cache is not None and plan.cache.provider is not None and plan.cache.provider.needs_mark
    return needs and group.fates["unmarked"] >= max(THRESHOLDS.warning_share * group.prompt_tokens, 1)


def marked_heads(
    groups: Sequence[GroupTotals], plan: Plan, samples_of: Callable[[str], Sequence[Turn]], locate: Locate
) -> list[Fix]:
    """Return a fix for each group that lacks a mark within a text."""
    found = (marked_head(each.name, samples_of(each.name), locate) for each in groups if lacks_mark(each, plan))
    return [fix for fix in found if fix is not None]


def marked_head(group: str, samples: Sequence[Turn], locate: Locate, mark: Mapping[str, Any] = MARK) -> Fix | None:
    """Return the fix that parts the first text of which requests share only the beginning, and marks the end of that."""
    heads = SharedHeads.learn([turn for turn in samples if turn.messages])
    if heads is None:
        return None

    def change(turn: Turn) -> Turn:
        first = next(heads.split_texts(turn), None)
        if first is None or marks_in(turn) >= MOST_MARKS:
            return turn
        return with_split_text(turn, first[0], len(first[1]), mark)

    places = [_place(at.text, len(head), locate) for turn in samples for at, head in heads.split_texts(turn)]
    where = max(places, key=places.count, default="")
    before = f" (before {where})" if where else ""
    what = f"end a message or content block where the shared text ends{before}, and put cache_control on it"
    return Fix(f"marked-head:{group}", KV203.code, "P1", group, what, make=lambda: change)


def marked_messages(group: str, samples: Sequence[Turn], mark: Mapping[str, Any]) -> Iterator[Fix]:
    """Yield the fixes that mark the last message of the instructions, and the last one that all requests have alike."""
    turns = [turn.messages or [] for turn in samples]
    shortest = min(turns, key=len, default=[])
    leading = [at for at, each in enumerate(shortest) if role_of(each) in INSTRUCTIONS]
    lead = len(leading) - 1 if leading == list(range(len(leading))) else -1
    alike = next((at for at in range(len(shortest)) if any(turn[at] != shortest[at] for turn in turns)), len(shortest))
    for at in dict.fromkeys((lead, alike - 1)):
        if at >= 0 and not is_marked(shortest[at]):
            where = "the last system block" if at == lead else f"messages[{at}] ({role_of(shortest[at])})"
            yield _marked_message(group, at, f"set cache_control on {where}", mark)


def _marked_message(group: str, at: int, what: str, mark: Mapping[str, Any]) -> Fix:
    def change(turn: Turn) -> Turn:
        messages = list(turn.messages or ())
        if at >= len(messages) or is_marked(messages[at]) or marks_in(turn) >= MOST_MARKS:
            return turn
        messages[at] = {**messages[at], **mark}
        return turn.with_messages(messages)

    transform: Transform = change
    return Fix(f"marked-message:{group}:{at}", KV203.code, "P0", group, what, make=lambda: transform)


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
