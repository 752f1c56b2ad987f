"""KV201: changing text before shared text.

Found where text varies and nothing tells more of it: no form (`kvtool.diagnose.values.detectors.DETECTORS`), no name
(`kvtool.diagnose.values.variable_names.kind_of_name`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV201 = CodeEntry(
    "KV201",
    name="changing text before shared text",
    what="Changing text comes before text that requests share, and no other code describes it.",
    why="A prefix cache stops at the first difference. The shared text after it is computed again.",
    before="Question: {{ question }}\n<handbook>",
    after="<handbook>\nQuestion: {{ question }}",
    remedies=(CodeRemedy("order the template: constant text first, the text that changes most last", "P2"),),
    ignore="The order matters for the answers, and the loss is small.",
    wins=("blocked",),
)
OTHER = DifferenceKind("other", "text", KV201.code)
TOOL_REDEFINED = DifferenceKind("tool_redefined", "changed tool definition", KV201.code)
"""The same tools by their names, some with another description."""
NUMBER = DifferenceKind("number", "number", KV201.code)
"""A number that follows no series; the detector's own code is that of counters."""
