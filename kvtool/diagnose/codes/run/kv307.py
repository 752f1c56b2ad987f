"""KV307: tokens observable across tenants.

Found by `kvtool.diagnose.run_findings.observable_findings`; it wins no tokens, it is about who may know what.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV307 = CodeEntry(
    "KV307",
    name="tokens observable across tenants",
    what="A tenant hit tokens that only other tenants had sent, beyond what all of them send.",
    why="Not a loss: hosted APIs report such hits in `cached_tokens`, engines show them in the time to the first token.",
    before="tenant a: <shared rules><text of a>    tenant b sends the same text, and it is cached",
    after="the same prompts, each tenant with a salt or a cache key of its own",
    remedies=(CodeRemedy("give tenants salts or cache keys of their own; the report says what that costs"),),
    ignore="What they share is public, such as a document that everybody may read.",
)
