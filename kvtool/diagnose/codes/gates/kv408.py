"""KV408: cost of requests beyond its gate.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV408 = CodeEntry(
    "KV408",
    name="cost of requests beyond its gate",
    what="1,000 requests to hosted models cost more than what is allowed, by the prices of their days.",
    why="Tokens that are not read from the cache cost several times as much, and marks that are not read cost more than none.",
    before="gate: {cost_per_1k_requests: '<=$4'}    1,000 requests cost $5.12",
    after="gate: {cost_per_1k_requests: '<=$4'}    1,000 requests cost $3.40",
    remedies=(
        CodeRemedy("mend what the block of money names: causes with their cost, prefixes with the cheapest mark"),
    ),
    ignore="Never: change the gate instead.",
)
