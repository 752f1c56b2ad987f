"""KV143: old messages cut short.

Found in the messages (`kvtool.diagnose.compare.messages.compare_messages`) or texts
(`kvtool.diagnose.compare.compare_texts.compare_texts`) of two turns: of one in the history little is left, or more came back.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV143 = CodeEntry(
    "KV143",
    name="old messages cut short",
    what=(
        "A message of the history, most often the output of a tool, is much shorter than a turn before: it was replaced "
        "by a mark or truncated."
    ),
    why="Each cut saves its own tokens, but all that follows it is computed again, turn after turn as the cut moves on.",
    before="turn 7: the output of turn 5 becomes `[removed]`    turn 8: that of turn 6",
    after="each 10th turn: all outputs but the last 3 become `[removed]`, at once",
    remedies=(
        CodeRemedy("cut many old outputs at once and seldom, so that the turns in between share a prefix", "P3"),
        CodeRemedy("send long outputs short from the first time on", "P3"),
    ),
    ignore="What is cut is much more than what follows it, and a message is cut once.",
    wins=("blocked",),
    varies="session",
    between_two="Cut old messages seldom and many at once, or send them short from the first time on.",
)
CUT_SHORT = DifferenceKind("cut_short", "old messages cut short", KV143.code)
_SHORTER = 2
_LEAST = 80
"""Characters that one of the two must have."""


def is_cut_short(one: int, other: int) -> bool:
    """Return whether of two texts of these lengths one is what was left of the other."""
    return max(one, other) >= _LEAST and _SHORTER * min(one, other) <= max(one, other)
