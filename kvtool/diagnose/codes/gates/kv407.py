"""KV407: reuse changed a token.

Found by `kvtool.gate.evaluate.evaluate`, from what an audit tells.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV407 = CodeEntry(
    "KV407",
    name="reuse changed a token",
    what=(
        "With --audit: a token that was sampled after reused keys and values is not the one that computing all of "
        "them gives."
    ),
    why=(
        "In fp32, with the cache in the model's own type, reuse must not change results: this is a fault of kvtool "
        "or of a kernel."
    ),
    before="kvtool profile --audit    1 token differs",
    after="kvtool profile --audit    no token differs",
    remedies=(CodeRemedy("report it, with the workload and what kvtool doctor prints"),),
    ignore="Never.",
)
