"""KV404: predicted time to first token above its gate.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV404 = CodeEntry(
    "KV404",
    name="predicted time to first token above its gate",
    what="A quantile of the predicted TTFT is higher than the gate allows.",
    why="TTFT grows with every token that misses the cache, and with every request that waits in the queue.",
    before="gate: {ttft_p90: 50ms}    predicted p90 97 ms",
    after="gate: {ttft_p90: 50ms}    predicted p90 41 ms",
    remedies=(
        CodeRemedy("fix the findings next to this one (kvtool profile shows the token breakdown)"),
        CodeRemedy("raise the gate if the prompts grew on purpose"),
    ),
    ignore="Never: change the gate instead.",
)
