"""KV322: no boundary kept inside the prompt.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV322 = CodeEntry(
    "KV322",
    name="no boundary kept inside the prompt",
    what="Another request computed this prefix. The model's window or linear attention kept no boundary at its end.",
    why=(
        "By default vLLM keeps one boundary per request for window and linear attention: the end of its "
        "prompt. The second request of a shared prefix finds where they diverge. Only the third request hits."
    ),
    before="prefix_cache_retention_interval 0: the second of two siblings hits nothing",
    after="--prefix-cache-retention-interval 512: it hits up to a multiple of 512",
    remedies=(
        CodeRemedy("keep more boundaries: set prefix_cache_retention_interval", "P0"),
        CodeRemedy("send two requests of each shared prefix first, one after the other", "P0"),
        CodeRemedy(
            ("treat all groups as full attention: set disable_hybrid_kv_cache_manager (needs more memory per token)"),
            "P0",
        ),
    ),
    ignore="Each prefix is used so often that two more requests do not matter.",
    wins=("not_kept",),
)
