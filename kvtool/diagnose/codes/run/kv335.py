"""KV335: no tenants in this engine.

Found by `kvtool.diagnose.run_findings.engine_findings`, from salts that the rules leave out.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV335 = CodeEntry(
    "KV335",
    name="no tenants in this engine",
    what=(
        "The workload has salts or tenants, and the engine whose rules are followed knows none: all of them share"
        " its cache."
    ),
    why=("Not a loss: how fast an answer comes, and cached_tokens, tell a tenant that another one sent the same text."),
    before="tenant a and tenant b at one llama.cpp server",
    after="a server for each, or an engine with cache_salt",
    remedies=(CodeRemedy("run a server for each tenant, or an engine that knows salts"),),
    ignore="The tenants may know of each other's prompts.",
)
