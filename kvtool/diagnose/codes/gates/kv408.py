"""KV408: cost of requests above its gate.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV408 = CodeEntry(
    "KV408",
    name="cost of requests above its gate",
    what="1,000 requests to hosted models cost more than the gate allows, at the prices of their dates.",
    why="An uncached token costs several times as much as a cached one. A breakpoint that is never read costs extra.",
    before="gate: {cost_per_1k_requests: '<=$4'}    1,000 requests cost $5.12",
    after="gate: {cost_per_1k_requests: '<=$4'}    1,000 requests cost $3.40",
    remedies=(
        CodeRemedy("see the cost section of the report: it prices each cause and finds the cheapest breakpoints"),
    ),
    ignore="Never: change the gate instead.",
)
