"""KV116: one text under several roles.

Found in the messages of two requests (`kvtool.diagnose.compare.messages.compare_messages`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV116 = CodeEntry(
    "KV116",
    name="one text under several roles",
    what="A message says what it said in an earlier request, word for word, under another role: system, developer or user.",
    why="Chat templates write the role before the text, so the prompt differs there and all that follows is computed again.",
    before='server A: {"role": "system", "content": rules}    server B: {"role": "developer", "content": rules}',
    after='both: {"role": "developer", "content": rules}',
    remedies=(CodeRemedy("send the text under one role everywhere", "P3"),),
    ignore="The role is another one on purpose: it says how much the text counts.",
    wins=("blocked",),
    between_two="Send the text under the same role.",
)
ROLE_CHANGED = DifferenceKind("role_changed", "role of the same text", KV116.code)
