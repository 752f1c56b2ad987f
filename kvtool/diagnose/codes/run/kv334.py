"""KV334: block taken over.

Found by `kvtool.diagnose.run_findings.engine_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV334 = CodeEntry(
    "KV334",
    name="block taken over",
    what=(
        "TensorRT-LLM reused a part of a block for another prompt and wrote the rest of it anew, so the prompt "
        "that it was of lost it."
    ),
    why="A block of which a part fits is copied only where others follow it; a last block is taken as it is.",
    before="prompts that differ in their last block, each asked twice",
    after="a shared prefix that ends with a block",
    remedies=(CodeRemedy("end what prompts share with a block, or take smaller blocks", "P0"),),
    ignore="It is less than a block a request.",
    wins=("taken_over",),
)
