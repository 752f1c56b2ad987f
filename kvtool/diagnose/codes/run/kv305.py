"""KV305: time to live passed before reuse.

Found by `kvtool.diagnose.run_findings.run_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV305 = CodeEntry(
    "KV305",
    name="time to live passed before reuse",
    what="A hosted cache dropped the prefix because it was not used for too long.",
    why="The next request pays for writing it again.",
    before="a request each 7 minutes, time to live 5 minutes",
    after="the longer tier, or a keep-warm request each 4 minutes",
    remedies=(CodeRemedy("a longer time to live, or keeping it warm, where that costs less than what is lost", "P0"),),
    ignore="Traffic is so sparse that keeping it warm costs more.",
    wins=("expired",),
)
