"""KV334: block taken over.

Found by `kvtool.diagnose.run_findings.engine_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV334 = CodeEntry(
    "KV334",
    name="block taken over",
    what=(
        "TensorRT-LLM reused part of a block for another prompt, and overwrote the rest. The first prompt "
        "lost the block."
    ),
    why="TensorRT-LLM copies a partly matching block only if other blocks follow it. It takes over a last block.",
    before="prompts that differ in their last block, each asked twice",
    after="a shared prefix that ends with a block",
    remedies=(CodeRemedy("end the shared prefix at the end of a block, or choose smaller blocks", "P0"),),
    ignore="The loss is less than one block per request.",
    wins=("taken_over",),
)
