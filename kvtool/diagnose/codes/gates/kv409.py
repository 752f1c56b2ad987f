"""KV409: less is read than the provider's rules say.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV409 = CodeEntry(
    "KV409",
    name="less is read than the provider's rules say",
    what="The hit rate that providers report is lower than the one by their rules, by more than what is allowed.",
    why="Too many requests a minute with one prefix and key, routing or eviction at the provider lose what the prompts share.",
    before="gate: {reported_gap: '<=10%'}    reported 31.2%, predicted 58.9%",
    after="gate: {reported_gap: '<=10%'}    reported 55.0%, predicted 58.9%",
    remedies=(CodeRemedy("spread traffic over several keys, or name the key that requests with one prefix share"),),
    ignore="Never: change the gate instead.",
)
