"""KV405: findings that the gate forbids.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV405 = CodeEntry(
    "KV405",
    name="findings that the gate forbids",
    what="There are findings with a code or a severity that the gate forbids.",
    why="Each finding names its own cost.",
    before="gate: {findings: {KV1: error}}    1 finding: KV101",
    after="gate: {findings: {KV1: error}}    no finding",
    remedies=(
        CodeRemedy("fix the findings; kvtool lint --fix and kvtool optimize write the edits"),
        CodeRemedy("ignore one finding at its line, with a reason: # kvtool: ignore[KV101] reason"),
    ),
    ignore="Never: ignore the finding, or add an exception (findings: {KV101: off}).",
)
