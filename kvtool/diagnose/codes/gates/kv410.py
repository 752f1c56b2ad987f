"""KV410: fleet larger than its gate.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV410 = CodeEntry(
    "KV410",
    name="fleet larger than its gate",
    what="The requests need more GPUs for the objective than the gate allows, or too few meet the objective.",
    why="Prompts with fewer hits take longer to compute. The same traffic then needs more GPUs.",
    before="[check] max_gpus = 3, slo = 'ttft=2s'    5 GPUs needed",
    after="[check] max_gpus = 3, slo = 'ttft=2s'    3 GPUs needed",
    remedies=(CodeRemedy("run kvtool what-if with the same --slo: its first rows save the most GPUs"),),
    ignore="Never: change the gate instead.",
)
