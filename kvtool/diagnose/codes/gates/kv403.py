"""KV403: an unlimited cache hits much more.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV403 = CodeEntry(
    "KV403",
    name="an unlimited cache hits much more",
    what="An unlimited cache hits more tokens than the configured one, by more than the gate allows.",
    why="The prompts share more than the cache keeps. Capacity, routing or request order loses it, not the text.",
    before="gate: {reachable_gap: '<=5%'}    hit rate 62.0%, maximum 89.5%",
    after="gate: {reachable_gap: '<=5%'}    hit rate 87.1%, maximum 89.5%",
    remedies=(
        CodeRemedy(
            "raise the capacity, choose a smaller KV cache type, or send requests with one prefix close together "
            "(KV301, KV304)"
        ),
    ),
    ignore="Never: change the gate instead.",
)
