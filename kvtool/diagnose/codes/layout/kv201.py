"""KV201: volatile text before shared text.

Found where text varies and nothing tells more of it: no form (`kvtool.diagnose.values.detectors.DETECTORS`), no name
(`kvtool.diagnose.values.variable_names.kind_of_name`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV201 = CodeEntry(
    "KV201",
    name="volatile text before shared text",
    what="Text that varies, of no kind that has a code of its own, stands before text that requests share.",
    why="The shared text was computed before but is reachable only through what stands before it.",
    before="Question: {{ question }}\n<handbook>",
    after="<handbook>\nQuestion: {{ question }}",
    remedies=(CodeRemedy("order the template: what never varies first, what varies most last", "P2"),),
    ignore="The order matters to the answers and what is lost is little.",
    wins=("blocked",),
)
OTHER = DifferenceKind("other", "text", KV201.code)
TOOL_REDEFINED = DifferenceKind("tool_redefined", "definition of a tool", KV201.code)
"""The same tools by their names, of which some are described otherwise."""
NUMBER = DifferenceKind("number", "number", KV201.code)
"""A number that follows no series; the detector's own code is that of counters."""
