"""KV204: shared prefix ends mid-block.

Found by `kvtool.diagnose.run_findings.run_findings`, where text that is shared anyway would fill the block.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV204 = CodeEntry(
    "KV204",
    name="shared prefix ends mid-block",
    what="The shared prefix is not a whole number of blocks long.",
    why="The tokens behind its last whole block are computed by each request: at most a block less one token.",
    before="100 shared tokens, block 16: 96 reused",
    after="a shared sentence of 12 tokens moved to the front: 112 shared, 112 reused",
    remedies=(CodeRemedy("information; move small shared segments forward where it is free", "P2"),),
    ignore="Nearly always: it is a small loss, which most prefixes have.",
    wins=("partial_block", "last_token"),
)
