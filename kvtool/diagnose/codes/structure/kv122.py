"""KV122: token boundary drift where texts are joined.

Found by `kvtool.diagnose.gap_names.Namer`, in a gap whose characters are the same on both sides.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV122 = CodeEntry(
    "KV122",
    name="token boundary drift where texts are joined",
    what=(
        "Two prompts agree in more characters than tokens: where shared text ends and own text begins, the tokenizer "
        "joined both."
    ),
    why=(
        "A token that holds the end of the shared text and the start of the own one is another token, so the last "
        "block of shared text is lost."
    ),
    before="'Answer:' + ' yes'   ->  [..., ':', ' yes']\n'Answer: ' + 'yes'   ->  [..., ': ', 'yes']",
    after="end shared text with a line feed or a special token",
    remedies=(CodeRemedy("put the boundary at a line feed or a special token", "P1"),),
    ignore="The shared text ends inside of a block all the same, so that no whole block is lost by it.",
    wins=("seam",),
)
SEAM = DifferenceKind("seam", "token boundary where texts are joined", KV122.code)
