"""KV303: requests of one prefix start together, cold.

Found by `kvtool.diagnose.run_findings.run_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV303 = CodeEntry(
    "KV303",
    name="requests of one prefix start together, cold",
    what="Several requests with a new prefix start before any of them has computed it.",
    why="Nothing can be reused that is not there yet: each of them computes the prefix.",
    before="asyncio.gather(*(ask(document, question) for question in questions))",
    after="await ask(document, questions[0]), then the others together",
    remedies=(CodeRemedy("send one request first, the others when its prompt is computed", "P0"),),
    ignore="The wait for the first one costs more than the work.",
    wins=("in_flight",),
)
