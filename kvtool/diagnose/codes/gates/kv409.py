"""KV409: provider hit rate below its rules.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV409 = CodeEntry(
    "KV409",
    name="provider hit rate below its rules",
    what="The provider reports a lower hit rate than its published rules predict, by more than the gate allows.",
    why="The provider loses the prefix through rate limits per key, routing or eviction.",
    before="gate: {reported_gap: '<=10%'}    reported 31.2%, predicted 58.9%",
    after="gate: {reported_gap: '<=10%'}    reported 55.0%, predicted 58.9%",
    remedies=(CodeRemedy("spread traffic over several cache keys, or set one cache key for requests with one prefix"),),
    ignore="Never: change the gate instead.",
)
