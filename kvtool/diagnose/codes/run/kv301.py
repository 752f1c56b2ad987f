"""KV301: evicted before reuse.

Found by `kvtool.diagnose.run_findings.run_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV301 = CodeEntry(
    "KV301",
    name="evicted before reuse",
    what="The cache evicted a prefix before the next request with this prefix came.",
    why="Between two uses of the prefix, requests need more blocks than the cache has.",
    before="--capacity 2000 (blocks): 31 % of the prompt tokens evicted",
    after="--capacity 8000 (blocks), or --kv-cache-dtype fp8: none",
    remedies=(
        CodeRemedy("raise the capacity, or choose a smaller KV cache type (which changes results slightly)", "P0"),
        CodeRemedy("for offline batches: send requests with one prefix one after the other", "P0"),
    ),
    ignore="There is no more memory, and you cannot choose the order of the requests.",
    wins=("evicted",),
)
