"""KV133: chat template moves tools to the last user turn.

Found by `kvtool.fixes.chat.chat_templates.check_chat_template`, which renders a conversation and its next turn.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV133 = CodeEntry(
    "KV133",
    name="chat template moves tools to the last user turn",
    what="The chat template writes the tool descriptions into the latest user message, not before the conversation.",
    why="The tools move with each turn. The history between their old and new place is computed again.",
    before="[system][user 1][answer 1][TOOLS][user 2]",
    after="[system][TOOLS][user 1][answer 1][user 2]",
    remedies=(CodeRemedy("use a template that writes the tools once, at the front", "P3"),),
    ignore="Conversations have one turn.",
    wins=("blocked", "displaced"),
)
