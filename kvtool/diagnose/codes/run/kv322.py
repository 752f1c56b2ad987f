"""KV322: no boundary is kept in mid-prompt.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV322 = CodeEntry(
    "KV322",
    name="no boundary is kept in mid-prompt",
    what=(
        "Another request computed this prefix, and the model's window or linear attention kept no boundary where it ends."
    ),
    why=(
        "vLLM keeps one boundary of a request in window and linear attention groups, the end of its prompt "
        "(prefix_cache_retention_interval 0). The second request of a shared prefix finds where they part and keeps that; "
        "the third is the first to hit."
    ),
    before="prefix_cache_retention_interval 0: the second of two siblings hits nothing",
    after="--prefix-cache-retention-interval 512: it hits up to a multiple of 512",
    remedies=(
        CodeRemedy("keep more boundaries: prefix_cache_retention_interval", "P0"),
        CodeRemedy("send two requests of each shared prefix first, one after the other", "P0"),
        CodeRemedy(
            "plan all groups as full attention: disable_hybrid_kv_cache_manager (takes more memory a token)", "P0"
        ),
    ),
    ignore="Each prefix is used so often that two requests more do not count.",
    wins=("not_kept",),
)
