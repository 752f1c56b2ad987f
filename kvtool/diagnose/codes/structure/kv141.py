"""KV141: history cut from the front (sliding window).

Found in the messages (`kvtool.diagnose.compare.messages.compare_messages`) or texts
(`kvtool.diagnose.compare.compare_texts.compare_texts`) of two turns.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV141 = CodeEntry(
    "KV141",
    name="history cut from the front (sliding window)",
    what="Once a conversation is too long, its oldest messages are dropped, a few with each turn.",
    why=(
        "What remains is the same text at another place behind another prefix: from then on every turn is computed "
        "in full."
    ),
    before="turn 40: messages 1-39    turn 41: messages 3-41    turn 42: messages 5-43",
    after="cut 20 messages at once, each twentieth turn",
    remedies=(
        CodeRemedy("cut rarely and much: on a stride, so that the turns in between share a prefix", "P3"),
        CodeRemedy("summarize the oldest half in place, once", "P3"),
    ),
    ignore="Conversations seldom reach the limit.",
    wins=("blocked",),
    varies="session",
    between_two="Cut the history on a stride: then it begins the same for many turns.",
)
WINDOW = DifferenceKind("window", "history cut from the front", KV141.code)
