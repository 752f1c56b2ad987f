"""KV122: token boundary drift at a seam.

Found by `kvtool.diagnose.naming.Namer`, in a gap whose characters are the same on both sides.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy
from kvtool.diagnose.difference_kind import DifferenceKind

KV122 = CodeEntry(
    "KV122",
    name="token boundary drift at a seam",
    what=(
        "Two prompts agree in more characters than tokens: at the seam between shared and own text the tokenizer "
        "joined both."
    ),
    why=(
        "A token that holds the end of the shared text and the start of the own one is another token, so the last "
        "block before the seam is lost."
    ),
    before="'Answer:' + ' yes'   ->  [..., ':', ' yes']\n'Answer: ' + 'yes'   ->  [..., ': ', 'yes']",
    after="end shared text with a line feed or a special token",
    remedies=(CodeRemedy("put the boundary at a line feed or a special token", "P1"),),
    ignore="The seam does not fall on the end of a block, so that no whole block is lost by it.",
    wins=("seam",),
)
SEAM = DifferenceKind("seam", "token boundary where texts are joined", KV122.code)
