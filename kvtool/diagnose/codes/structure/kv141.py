"""KV141: history cut from the front (sliding window).

Found in the messages (`kvtool.diagnose.compare.messages.compare_messages`) or texts
(`kvtool.diagnose.compare.compare_texts.compare_texts`) of two turns.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV141 = CodeEntry(
    "KV141",
    name="history cut from the front (sliding window)",
    what="When a conversation is too long, each turn drops its oldest messages.",
    why="The remaining messages come after another prefix. From then on, every turn is computed in full.",
    before="turn 40: messages 1-39    turn 41: messages 3-41    turn 42: messages 5-43",
    after="cut 20 messages at once, every 20 turns",
    remedies=(
        CodeRemedy("cut rarely, many messages at once: the turns in between then share a prefix", "P3"),
        CodeRemedy("summarize the oldest half in place, once", "P3"),
    ),
    ignore="Conversations rarely reach the limit.",
    wins=("blocked",),
    varies="session",
    between_two="Cut the history rarely, many messages at once.",
)
WINDOW = DifferenceKind("window", "history cut from the front", KV141.code)
