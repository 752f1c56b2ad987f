"""KV321: prefix ends inside the model's long block.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV321 = CodeEntry(
    "KV321",
    name="prefix ends inside the model's long block",
    what="A shared prefix ends inside a block, and the blocks of this model are longer than 16 tokens.",
    why=(
        "Linear attention keeps one state per block, so vLLM makes blocks as large as a state. Qwen3-Next has "
        "blocks of 544 tokens, Nemotron-3-Nano of 2,096. Every request computes the tokens after the last "
        "whole block again. A prefix shorter than a block is never reused."
    ),
    before="1,500 shared tokens, block 2,096: nothing is reused",
    after=(
        "the same with a bf16 state, a KV cache that is not fp8, --tensor-parallel or --prefix-match-unit (verified)"
    ),
    remedies=(
        CodeRemedy("keep the KV cache in bf16 instead of fp8, or the state in bf16: the block becomes shorter", "P3"),
        CodeRemedy("share the model among more GPUs: each keeps a smaller state", "P0"),
        CodeRemedy("set a match unit smaller than the block, for prompts that are repeated or continued", "P0"),
        CodeRemedy("move shared text to the front until it fills the block", "P2"),
    ),
    ignore="The requests of this model share nothing else.",
    wins=("long_block",),
)
