"""KV144: block of context rewritten in an earlier message.

Found in the messages of two turns (`kvtool.diagnose.compare.context_block.context_block_change`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV144 = CodeEntry(
    "KV144",
    name="block of context rewritten in an earlier message",
    what=(
        "The application puts a block into a user message: retrieved documents, memory, open files. "
        "Later turns send that message with another block, or without it."
    ),
    why="The text of the user is the same. But everything after the changed block is computed again, turn after turn.",
    before="turn 5 puts new memories into the first message",
    after="turn 5 puts new memories after the question, at the end of the last message",
    remedies=(
        CodeRemedy("move the block to the end of the last message, after the question", "P2"),
        CodeRemedy("leave each block in the message where it was first sent", "P3"),
    ),
    ignore="The block changes a few times in a long session.",
    wins=("blocked",),
    varies="session",
    between_two="Move the block of context to the end of the last message.",
)
CONTEXT_BLOCK = DifferenceKind("context_block", "rewritten block of context", KV144.code)
