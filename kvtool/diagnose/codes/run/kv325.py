"""KV325: last block lost to draft tokens.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV325 = CodeEntry(
    "KV325",
    name="last block lost to draft tokens",
    what=(
        "Prompts share a prefix to the end of a block. Its last block misses, because the server drafts tokens ahead."
    ),
    why=(
        "With EAGLE or MTP a block hash covers the next token, or vLLM drops the last block of a hit. "
        "A repeated prompt hits one block less."
    ),
    before="a prompt of 4 blocks is sent again: 3 blocks hit without drafts, 2 with drafts",
    after="the same without --speculative-config",
    remedies=(CodeRemedy("there is no setting that keeps the drafts; --disable-lookahead-block-hashes loses more"),),
    ignore="Drafts save more time than one block costs.",
    wins=("drafts",),
)
