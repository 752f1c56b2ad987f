"""KV324: previous answer is not reused.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV324 = CodeEntry(
    "KV324",
    name="previous answer is not reused",
    what="A session's turn hits up to the last turn's prompt and computes that turn's answer again.",
    why=(
        "Only full attention keeps the blocks of an answer. Window and linear attention keep the end of the prompt, so "
        "with vLLM's defaults a turn of a chat cannot hit behind it."
    ),
    before="turn 5 hits 4,096 tokens: the prompt of turn 4, not its answer of 900",
    after="--prefix-cache-retention-interval 512: 4,608 tokens",
    remedies=(CodeRemedy("keep more boundaries: prefix_cache_retention_interval", "P0"),),
    ignore="Answers are short beside prompts.",
    wins=("answer_not_kept",),
)
