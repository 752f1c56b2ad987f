"""KV405: findings that are not allowed.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV405 = CodeEntry(
    "KV405",
    name="findings that are not allowed",
    what="There are findings of a code, or of a severity, of which the gate allows none.",
    why="Each of them says what it costs.",
    before="gate: {findings: {KV1: error}}    1 finding: KV101",
    after="gate: {findings: {KV1: error}}    no finding",
    remedies=(
        CodeRemedy("mend what they name; kvtool lint --fix and kvtool optimize write the edits"),
        CodeRemedy("ignore a single one where it stands, with a reason: # kvtool: ignore[KV101] reason"),
    ),
    ignore="Never: ignore the finding, or make an exception (findings: {KV101: off}).",
)
