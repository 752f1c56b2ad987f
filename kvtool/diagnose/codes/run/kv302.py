"""KV302: salt or LoRA splits a shared prefix.

Found by `kvtool.diagnose.run_findings.run_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV302 = CodeEntry(
    "KV302",
    name="salt or LoRA splits a shared prefix",
    what="Requests with the same prefix have different cache salts or adapters, so they cannot share it.",
    why="Each tenant or adapter computes and keeps its own copy.",
    before="tenant: acme    tenant: globex    (same system prompt)",
    after="one salt for the public system prompt, if your threat model allows it",
    remedies=(CodeRemedy("decide this for security, not for speed; kvtool never proposes to share a salt"),),
    ignore="You want the isolation. This is its price.",
    wins=("isolated",),
)
