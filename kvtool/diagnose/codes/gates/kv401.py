"""KV401: hit rate below its gate.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV401 = CodeEntry(
    "KV401",
    name="hit rate below its gate",
    what="The part of the prompt tokens that are cache hits is less than what is demanded of a workload or a group.",
    why="Tokens that are not hit are computed again: they cost time to the first token and room in each step.",
    before="gate: {hit_rate: '>=80%'}    hit rate 62.0%",
    after="gate: {hit_rate: '>=80%'}    hit rate 89.5%",
    remedies=(
        CodeRemedy("mend what the findings beside it name; kvtool profile shows where the tokens went"),
        CodeRemedy("demand less, on purpose, where the prompts are as they have to be"),
    ),
    ignore="Never: change the gate, or its level (off, warn, error), where the demand is written.",
)
