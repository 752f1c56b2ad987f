"""KV411: agent that breaks its prefix.

Found by `kvtool.gate.agent_gate.judge_probe`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV411 = CodeEntry(
    "KV411",
    name="agent that breaks its prefix",
    what="A request of an agent does not begin with the request before it, or a first request keeps less than the baseline.",
    why="A cache reuses a prompt only up to the first token that differs. An agent sends its whole prompt again in each step.",
    before="base: 1 of 8 steps does not begin with the step before: tools[1] Bash.description",
    after="base: 8 of 8 steps begin with the step before",
    remedies=(
        CodeRemedy("send the field that the probe names as in the request before it: kvtool probe --agent NAME"),
        CodeRemedy("if the change is intended: run kvtool probe with --write-baseline, and commit the file"),
    ),
    ignore="Never: write the baseline again instead.",
)
