"""KV305: expired before reuse.

Found by `kvtool.diagnose.run_findings.run_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV305 = CodeEntry(
    "KV305",
    name="expired before reuse",
    what="A hosted cache dropped the prefix because no request used it within its time to live.",
    why="The next request pays to write the prefix again.",
    before="one request every 7 minutes, time to live 5 minutes",
    after="a 1-hour time to live, or a keep-warm request every 4 minutes",
    remedies=(
        CodeRemedy("set a longer time to live or keep the prefix warm, where that costs less than the loss", "P0"),
    ),
    ignore="Requests are so rare that keeping the prefix warm costs more.",
    wins=("expired",),
)
