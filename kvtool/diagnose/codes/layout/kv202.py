"""KV202: shared text not at the front.

Found by `kvtool.diagnose.run_findings.run_findings`, from the fate `displaced`, where no line of a group is to blame.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV202 = CodeEntry(
    "KV202",
    name="shared text not at the front",
    what="Many prompts contain the same long text, but not at the front.",
    why="A prefix cache reuses text only at the front. The same text elsewhere is computed each time.",
    before="<own introduction>\n<shared appendix>",
    after="<shared appendix>\n<own introduction>",
    remedies=(CodeRemedy("move the shared text to the front", "P2"),),
    ignore="Users happen to quote the same text.",
    wins=("displaced",),
)
