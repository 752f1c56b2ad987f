"""KV401: hit rate below its gate.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV401 = CodeEntry(
    "KV401",
    name="hit rate below its gate",
    what="The hit rate of a workload or a group is lower than its gate demands.",
    why="Tokens that miss the cache are computed again. They delay the first token and take room in each step.",
    before="gate: {hit_rate: '>=80%'}    hit rate 62.0%",
    after="gate: {hit_rate: '>=80%'}    hit rate 89.5%",
    remedies=(
        CodeRemedy("fix the findings next to this one (kvtool profile shows the token breakdown)"),
        CodeRemedy("lower the gate if the prompts have to be like this"),
    ),
    ignore="Never: change the gate, or set its level to off, warn or error.",
)
