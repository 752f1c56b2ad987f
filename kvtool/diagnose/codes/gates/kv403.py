"""KV403: an unlimited cache would hit much more.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV403 = CodeEntry(
    "KV403",
    name="an unlimited cache would hit much more",
    what="The gap between the hit rate and the one with a cache that never evicts is wider than what is allowed.",
    why="The prompts could share more than the memory lets them: capacity, routing or order loses it, not the text.",
    before="gate: {reachable_gap: '<=5%'}    hit rate 62.0%, reachable 89.5%",
    after="gate: {reachable_gap: '<=5%'}    hit rate 87.1%, reachable 89.5%",
    remedies=(
        CodeRemedy("more capacity, a smaller KV cache type, or requests of one prefix close together (KV301, KV304)"),
    ),
    ignore="Never: change the gate instead.",
)
