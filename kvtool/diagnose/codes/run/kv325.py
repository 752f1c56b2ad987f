"""KV325: last block is lost to drafts.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV325 = CodeEntry(
    "KV325",
    name="last block is lost to drafts",
    what=(
        "A prefix is shared to the end of a block, and its last block does not hit, as the server predicts tokens ahead."
    ),
    why=(
        "With EAGLE or MTP a block's hash covers the token behind it, or the last block of a hit is dropped: the layers "
        "that make drafts need it. A prompt that is sent again hits one block less."
    ),
    before="a prompt of 4 blocks is sent again: 3 of them hit without drafts, 2 with block drop",
    after="the same without --speculative-config",
    remedies=(CodeRemedy("nothing that keeps the drafts; --disable-lookahead-block-hashes loses more"),),
    ignore="Drafts win more time than a block costs.",
    wins=("drafts",),
)
