"""KV202: shared text that is not at the front.

Found by `kvtool.diagnose.run_findings.run_findings`, from the fate `displaced`, where no line of a group is to blame.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV202 = CodeEntry(
    "KV202",
    name="shared text that is not at the front",
    what="Long runs of equal text stand in many prompts at various places, but not at the front.",
    why="A prefix cache finds text only at the front; the same text anywhere else is computed each time.",
    before="<own introduction>\n<shared appendix>",
    after="<shared appendix>\n<own introduction>",
    remedies=(CodeRemedy("move the shared run to the front", "P2"),),
    ignore="The text is quoted from users, who happen to send the same.",
    wins=("displaced",),
)
