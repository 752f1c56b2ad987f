"""KV107: A/B flag or optional block.

Found where one of two requests has text that the other lacks (`kvtool.diagnose.compare.messages.compare_turns`), or by
the name of a variable (`kvtool.diagnose.values.variable_names.kind_of_name`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV107 = CodeEntry(
    "KV107",
    name="A/B flag or optional block",
    what="An optional block comes before shared text. Some requests have it and others lack it.",
    why="The block changes the prefix of all text after it. Each combination of flags needs its own cache.",
    before="{% if beta %}Use the new tone.{% endif %}\n<shared rules>",
    after="<shared rules>\n{% if beta %}Use the new tone.{% endif %}",
    remedies=(CodeRemedy("move the optional block after the shared text", "P2"),),
    ignore="Each side of the flag has enough traffic to keep its own prefix warm.",
    wins=("blocked",),
    between_two="Move optional blocks after the shared text.",
)
FLAG = DifferenceKind("flag", "flag or variant", KV107.code)
OPTIONAL = DifferenceKind("optional", "optional block", KV107.code)
