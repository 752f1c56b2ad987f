"""KV307: tokens observable across tenants.

Found by `kvtool.diagnose.run_findings.observable_findings`; it wins no tokens, it is about who may know what.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV307 = CodeEntry(
    "KV307",
    name="tokens observable across tenants",
    what="A tenant hit tokens that only other tenants had sent.",
    why=(
        "It costs no tokens. But hosted APIs show such hits in `cached_tokens`, and engines in the time to first token."
    ),
    before="tenant a: <shared rules><text of a>    tenant b sends the same text, and it is cached",
    after="the same prompts, each tenant with its own salt or cache key",
    remedies=(CodeRemedy("give each tenant a salt or cache key; the report shows the cost"),),
    ignore="The shared text is public, such as a document that everybody may read.",
)
