"""KV203: shared prefix shorter than one block, or below the provider's minimum.

Found by `kvtool.diagnose.run_findings.run_findings`, from what a group shares and what the cache rules store.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV203 = CodeEntry(
    "KV203",
    name="shared prefix shorter than one block, or below the provider's minimum",
    what="The shared prefix is shorter than the smallest unit that is cached.",
    why=(
        "Engines cache whole blocks: vLLM's default is 16 tokens. Hosted services cache prefixes from a "
        "minimum length, such as 1,024 tokens. Shorter prefixes are never reused."
    ),
    before="12 shared tokens, block 16: nothing is reused",
    after="more constant text at the front: 40 shared tokens, 2 blocks",
    remedies=(
        CodeRemedy("move more constant text to the front", "P2"),
        CodeRemedy("choose a smaller block", "P0"),
    ),
    ignore="The prompts share no more text.",
    wins=("below_minimum", "unmarked", "partial_block"),
)
