"""KV122: token boundary shifts where texts are joined.

Found by `kvtool.diagnose.causes.gap_namer.GapNamer`, in a gap whose characters are the same on both sides.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV122 = CodeEntry(
    "KV122",
    name="token boundary shifts where texts are joined",
    what=(
        "Two prompts share more characters than tokens. The tokenizer merged the end of the shared text with "
        "the next text."
    ),
    why="The merged token differs between the prompts, so the last block of shared text is lost.",
    before="'Answer:' + ' yes'   ->  [..., ':', ' yes']\n'Answer: ' + 'yes'   ->  [..., ': ', 'yes']",
    after="end shared text with a line feed or a special token",
    remedies=(CodeRemedy("end the shared text with a newline or a special token", "P1"),),
    ignore="The shared text ends inside a block, so no whole block is lost.",
    wins=("seam",),
)
SEAM = DifferenceKind("seam", "shifted token boundary", KV122.code)
