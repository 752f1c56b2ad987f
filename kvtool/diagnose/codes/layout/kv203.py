"""KV203: shared prefix shorter than one block, or below the provider's minimum.

Found by `kvtool.diagnose.run_findings.run_findings`, from what a group shares and what the cache rules store.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV203 = CodeEntry(
    "KV203",
    name="shared prefix shorter than one block, or below the provider's minimum",
    what="Prompts share a prefix, but less of it than the smallest unit that is cached.",
    why=(
        "Engines keep whole blocks (16 tokens by default in vLLM), hosted services whole prefixes of a least "
        "length, such as 1,024 tokens. Less is never reused."
    ),
    before="12 shared tokens, block 16: nothing is reused",
    after="the stable parts gathered at the front: 40 shared tokens, 2 blocks",
    remedies=(
        CodeRemedy("merge the stable parts at the front", "P2"),
        CodeRemedy("choose a smaller block", "P0"),
    ),
    ignore="There is no more text to share.",
    wins=("below_minimum", "unmarked", "partial_block"),
)
