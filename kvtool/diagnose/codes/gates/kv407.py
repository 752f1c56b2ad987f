"""KV407: reuse changed a token.

Found by `kvtool.gate.evaluate.evaluate`, from what an audit tells.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV407 = CodeEntry(
    "KV407",
    name="reuse changed a token",
    what="With --audit, reuse of the KV cache changed a sampled token.",
    why=(
        "Reuse must not change results in fp32 with the cache in the model's own type. This is a bug of "
        "kvtool or of a kernel."
    ),
    before="kvtool profile --audit    1 token differs",
    after="kvtool profile --audit    no token differs",
    remedies=(CodeRemedy("report the bug, with the workload and the output of kvtool doctor"),),
    ignore="Never.",
)
