"""KV107: A/B flag or conditional section.

Found where one of two requests has text that the other lacks (`kvtool.diagnose.compare.messages.compare_turns`), or by
the name of a variable (`kvtool.diagnose.values.variable_names.kind_of_name`).
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV107 = CodeEntry(
    "KV107",
    name="A/B flag or conditional section",
    what="A section that some requests have and others lack stands before shared text.",
    why=(
        "With it the tokens behind it stand elsewhere, after another prefix; each combination of flags has a cache "
        "of its own."
    ),
    before="{% if beta %}Use the new tone.{% endif %}\n<shared rules>",
    after="<shared rules>\n{% if beta %}Use the new tone.{% endif %}",
    remedies=(CodeRemedy("give the section a fixed place behind the shared text", "P2"),),
    ignore="The flag divides traffic in two halves that are large enough to keep both prefixes warm.",
    wins=("blocked",),
    between_two="Keep what is there only at times in a fixed place behind the shared text.",
)
FLAG = DifferenceKind("flag", "flag or variant", KV107.code)
OPTIONAL = DifferenceKind("optional", "section that is there or not", KV107.code)
