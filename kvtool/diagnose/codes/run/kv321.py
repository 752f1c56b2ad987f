"""KV321: prefix ends inside the model's long block.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV321 = CodeEntry(
    "KV321",
    name="prefix ends inside the model's long block",
    what="A shared prefix ends inside of a block, and the blocks of this model are longer than 16 tokens.",
    why=(
        "Models with linear attention keep one state for a block, and a block is as long as the keys and values of "
        "attention that fill the same page: 544 tokens for Qwen3-Next, 2,096 for Nemotron-3-Nano. What is shared beyond "
        "the last whole block is computed again by every request; a prefix shorter than a block is never reused."
    ),
    before="1,500 shared tokens, block 2,096: nothing is reused",
    after=(
        "the same with a state in bf16, keys and values that are not fp8, --tensor-parallel or --prefix-match-unit, tried by "
        "running again"
    ),
    remedies=(
        CodeRemedy("keys and values in bf16 instead of fp8, or a state in bf16: the block becomes shorter", "P3"),
        CodeRemedy("more accelerators that share the model: each keeps a smaller state", "P0"),
        CodeRemedy("a match unit below the block, for prompts that are repeated or continued", "P0"),
        CodeRemedy("move shared text to the front until it fills the block", "P2"),
    ),
    ignore="The requests of this model share nothing else.",
    wins=("long_block",),
)
