"""KV204: shared prefix ends mid-block.

Found by `kvtool.diagnose.run_findings.run_findings`, where text that is shared anyway would fill the block.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV204 = CodeEntry(
    "KV204",
    name="shared prefix ends mid-block",
    what="The shared prefix ends inside a block.",
    why="Each request computes the tokens after the last whole block again: at most one block less one token.",
    before="100 shared tokens, block 16: 96 reused",
    after="a shared sentence of 12 tokens added at the front: 112 shared, 112 reused",
    remedies=(CodeRemedy("add shared text at the front, until it fills the block", "P3"),),
    ignore="Nearly always: the loss is small, and most prefixes have it.",
    wins=("partial_block", "last_token"),
)
