"""KV142: history edited or compacted mid-session.

Found in the messages (`kvtool.diagnose.compare.messages.compare_messages`) or texts
(`kvtool.diagnose.compare.compare_texts.compare_texts`) of two turns.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV142 = CodeEntry(
    "KV142",
    name="history edited or compacted mid-session",
    what="A message in the middle of the history changed since the last turn.",
    why="Everything after the edit is computed again.",
    before="turn 5 rewrites the result of a tool call of turn 2",
    after="turn 5 appends: 'the result of turn 2 is out of date: ...'",
    remedies=(CodeRemedy("append a new message instead of editing an old one; compact rarely, and at once", "P3"),),
    ignore="The edit makes the prompt much shorter, and happens once.",
    wins=("blocked",),
    varies="session",
    between_two="Append to the history instead of editing it.",
)
HISTORY_EDITED = DifferenceKind("history_edited", "edited or compacted history", KV142.code)
