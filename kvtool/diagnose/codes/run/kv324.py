"""KV324: previous answer not reused.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV324 = CodeEntry(
    "KV324",
    name="previous answer not reused",
    what="A chat turn hits up to the end of the last prompt, and computes the last answer again.",
    why=(
        "Only full attention keeps the blocks of an answer. By default vLLM's window and linear attention "
        "keep only the end of the prompt."
    ),
    before="turn 5 hits 4,096 tokens: the prompt of turn 4, but not its answer of 900",
    after="--prefix-cache-retention-interval 512: 4,608 tokens",
    remedies=(CodeRemedy("keep more boundaries: set prefix_cache_retention_interval", "P0"),),
    ignore="Answers are short compared to prompts.",
    wins=("answer_not_kept",),
)
