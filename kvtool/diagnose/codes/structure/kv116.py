"""KV116: one text under several roles.

Found in the messages of two requests (`kvtool.diagnose.compare.messages.compare_messages`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV116 = CodeEntry(
    "KV116",
    name="one text under several roles",
    what="The same message has another role than in an earlier request: system, developer or user.",
    why="Chat templates write the role before the text. A changed role ends the reuse there.",
    before='server A: {"role": "system", "content": rules}    server B: {"role": "developer", "content": rules}',
    after='both: {"role": "developer", "content": rules}',
    remedies=(CodeRemedy("send the text under one role everywhere", "P3"),),
    ignore="The role differs on purpose, because it sets the priority of the text.",
    wins=("blocked",),
    between_two="Send the text under the same role.",
)
ROLE_CHANGED = DifferenceKind("role_changed", "changed role of a message", KV116.code)
