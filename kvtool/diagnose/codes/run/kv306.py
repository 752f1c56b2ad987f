"""KV306: sensitive-looking text in a prefix that tenants share.

Found by `kvtool.diagnose.run_findings.sensitive_findings`; it wins no tokens, it is about who may know what.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV306 = CodeEntry(
    "KV306",
    name="sensitive-looking text in a prefix that tenants share",
    what="A prefix that tenants share contains what looks like an email address, a key or a card number.",
    why=(
        "It costs no tokens. But anyone who measures the time to first token can find out whether a prefix is cached."
    ),
    before="API key: sk-live-...\n<shared rules>",
    after="<shared rules>, and the key where the tool needs it, outside the prompt",
    remedies=(CodeRemedy("check the text; remove it, or give each tenant a salt"),),
    ignore="The value is made up or public, such as the address of a support desk.",
)
