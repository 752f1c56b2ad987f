"""KV303: requests with one prefix start together, without a cache.

Found by `kvtool.diagnose.run_findings.run_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV303 = CodeEntry(
    "KV303",
    name="requests with one prefix start together, without a cache",
    what="Several requests with a new prefix start before the first one has computed it.",
    why="The cache is still empty, so each request computes the prefix.",
    before="asyncio.gather(*(ask(document, question) for question in questions))",
    after="await ask(document, questions[0]), then the others together",
    remedies=(CodeRemedy("send one request first, and the others after its prefill", "P0"),),
    ignore="Waiting for the first request costs more than computing the prefix several times.",
    wins=("in_flight",),
)
