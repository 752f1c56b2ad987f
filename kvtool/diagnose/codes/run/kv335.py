"""KV335: engine does not separate tenants.

Found by `kvtool.diagnose.run_findings.engine_findings`, from salts that the rules leave out.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV335 = CodeEntry(
    "KV335",
    name="engine does not separate tenants",
    what="The workload has salts or tenants, but this engine does not support salts. All tenants share its cache.",
    why="It costs no tokens. But latency and cached_tokens show a tenant that another one sent the same text.",
    before="tenant a and tenant b on one llama.cpp server",
    after="one server per tenant, or an engine with cache_salt",
    remedies=(CodeRemedy("run one server per tenant, or choose an engine that supports salts"),),
    ignore="The tenants may know each other's prompts.",
)
