"""KV306: sensitive-looking text inside a prefix shared by several tenants.

Found by `kvtool.diagnose.run_findings.sensitive_findings`; it wins no tokens, it is about who may know what.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV306 = CodeEntry(
    "KV306",
    name="sensitive-looking text inside a prefix shared by several tenants",
    what="Something that looks like an email address, a key or a card number stands in a prefix that tenants share.",
    why="Not a loss: who can measure the time to the first token can find out whether a prefix is in the cache.",
    before="API key: sk-live-...\n<shared rules>",
    after="<shared rules>, and the key where the tool needs it, outside the prompt",
    remedies=(CodeRemedy("look at it; take it out, or give tenants salts of their own"),),
    ignore="It is a made-up value or public, such as the address of the support desk.",
)
