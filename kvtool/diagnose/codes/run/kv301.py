"""KV301: evicted before reuse.

Found by `kvtool.diagnose.run_findings.run_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV301 = CodeEntry(
    "KV301",
    name="evicted before reuse",
    what="A prefix was in the cache and was evicted before the next request that begins with it.",
    why="The cache holds less than what is in use between two uses of the prefix.",
    before="--capacity 2000 (blocks): 31 % of the prompt tokens evicted before reuse",
    after="--capacity 8000 (blocks), or --kv-cache-dtype fp8: none",
    remedies=(
        CodeRemedy("more capacity, or KV cache in a smaller type (which changes results slightly)", "P0"),
        CodeRemedy("for offline batches: order requests so that those of one prefix are neighbours", "P0"),
    ),
    ignore="The memory is not to be had, and requests come in an order that nobody chooses.",
    wins=("evicted",),
)
