"""KV105: counter, version, retry or step number.

Found by values that go up in even steps (`kvtool.diagnose.values.slot_values.Series`), by its form
(`kvtool.diagnose.values.detectors.DETECTORS`) or by the name of a variable (`kvtool.diagnose.values.variable_names.kind_of_name`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV105 = CodeEntry(
    "KV105",
    name="counter, version, retry or step number",
    what="A number that counts requests, steps, retries or builds comes before shared text.",
    why="Each new value ends the reuse at its first digit that differs.",
    before="Step 7 of at most 30.\n<tools and instructions>",
    after="<tools and instructions>\nStep 7 of at most 30.",
    remedies=(
        CodeRemedy("move it to the end of the prompt", "P2"),
        CodeRemedy("remove it", "P3"),
    ),
    ignore="It changes rarely, like a release number. One miss per value costs little.",
    wins=("blocked",),
    varies="value",
)
COUNTER = DifferenceKind("counter", "counter", KV105.code)
