"""KV410: fleet beyond its gate.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV410 = CodeEntry(
    "KV410",
    name="fleet beyond its gate",
    what="The requests need more accelerators for their objective than what is allowed, or too few of them are served within it.",
    why="Prompts that hit less take longer to compute, so the same traffic takes more accelerators.",
    before="[check] max_gpus = 3, slo = 'ttft=2s'    5 GPUs needed",
    after="[check] max_gpus = 3, slo = 'ttft=2s'    3 GPUs needed",
    remedies=(CodeRemedy("run kvtool what-if with the same --slo: its first rows save most accelerators"),),
    ignore="Never: change the demand instead.",
)
