"""KV304: replicas scatter a prefix.

Found by `kvtool.diagnose.run_findings.run_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV304 = CodeEntry(
    "KV304",
    name="replicas scatter a prefix",
    what="Requests with one prefix go to different replicas. Each replica has its own cache.",
    why="With n replicas a prefix is computed up to n times, and takes memory on each.",
    before="round robin over 8 replicas",
    after="a consistent hash of the first blocks, or a router that knows the caches",
    remedies=(CodeRemedy("use sticky or cache-aware routing", "P0"),),
    ignore="The prefix is used so often that each replica keeps it in its cache.",
    wins=("scattered",),
)
