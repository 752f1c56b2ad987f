"""Cache breakpoints where the text that requests share ends: at the end of a message, or of a block that is made there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv203 import KV203
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.fixes.fix import Fix, Transform
from kvtool.fixes.moves.jinja_places import last_place_outside
from kvtool.fixes.moves.shared_heads import SharedHeads
from kvtool.fixes.turn_texts import INSTRUCTIONS, TextAt, marks_in, with_split_text
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
    """Return the fix that parts the first text of which requests share only the beginning, and marks the end of that.

    It parts a text where no Jinja block is open: a loop or a condition cannot be in two messages.
    """
    heads = SharedHeads.learn([turn for turn in samples if turn.messages])
    if heads is None:
        return None

    def split_of(turn: Turn) -> tuple[TextAt, int] | None:
        ends = ((at, last_place_outside(at.text, len(head))) for at, head in heads.split_texts(turn))
        return next(((at, end) for at, end in ends if at.text[:end].strip()), None)

    def change(turn: Turn) -> Turn:
        first = split_of(turn)
        return turn if first is None or marks_in(turn) >= MOST_MARKS else with_split_text(turn, *first, mark)

    places = [_place(split[0].text, split[1], locate) for turn in samples if (split := split_of(turn)) is not None]
    if not places:
        return None
    where = max(places, key=places.count)
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
    """Return the file and line where a text is parted; empty where that is not known.

    It is after the character before, as the next one may be of a macro or of another file.
    """
    traced = Traced(text)
    first, _ = traced.at(0)
    for index in (at - 1, at):
        origin, offset = traced.at(index)
        if origin is not None and origin.path and (index == at or (first is not None and first.path == origin.path)):
            return f"{origin.path}:{locate(origin, offset + at - index if origin.verbatim else offset)[0]}"
    return ""


def without_useless_mark(finding: Finding, groups: Sequence[GroupTotals]) -> Finding:
    """Return a finding about a missing cache breakpoint as information, where the marks of its group work and no other one wins."""
    works = any(group.name == finding.group and group.hit_tokens for group in groups)
    if not (works and finding.no_gain and finding.code == KV203.code):
        return finding
    told = "nothing to fix: other cache breakpoints gain nothing (tested)"
    return finding.model_copy(update={"severity": "info", "fix": told})
