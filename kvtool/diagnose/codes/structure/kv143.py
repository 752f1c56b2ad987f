"""KV143: old messages shortened.

Found in the messages (`kvtool.diagnose.compare.messages.compare_messages`) or texts
(`kvtool.diagnose.compare.compare_texts.compare_texts`) of two turns: of one in the history little is left, or more came back.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV143 = CodeEntry(
    "KV143",
    name="old messages shortened",
    what=(
        "A message of the history, often a tool output, is much shorter than in the last turn. It was removed "
        "or truncated."
    ),
    why="Each cut saves its own tokens. But everything after it is computed again, turn after turn.",
    before="turn 7: the output of turn 5 becomes `[removed]`    turn 8: the output of turn 6",
    after="every 10 turns: all outputs but the last 3 become `[removed]`, at once",
    remedies=(
        CodeRemedy("cut many old outputs at once, and rarely: the turns in between then share a prefix", "P3"),
        CodeRemedy("send long outputs short from the start", "P3"),
    ),
    ignore="The cut removes far more than what follows it, and each message is cut once.",
    wins=("blocked",),
    varies="session",
    between_two="Cut old messages rarely, many at once. Or send them short from the start.",
)
CUT_SHORT = DifferenceKind("cut_short", "shortened old message", KV143.code)
_SHORTER = 2
_LEAST = 80
"""Characters that one of the two must have."""


def is_cut_short(one: int, other: int) -> bool:
    """Return whether of two texts of these lengths one is what was left of the other."""
    return max(one, other) >= _LEAST and _SHORTER * min(one, other) <= max(one, other)
