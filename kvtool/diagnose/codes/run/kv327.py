"""KV327: capacity far below blocks times block size.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the plan of the model's cache.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV327 = CodeEntry(
    "KV327",
    name="capacity far below blocks times block size",
    what=(
        "A request of this model takes blocks in several groups. The cache keeps far fewer tokens than blocks "
        "times block size."
    ),
    why=(
        "All groups share one pool of blocks. Windows, states and full attention each take a block for the same tokens."
    ),
    before="10,000 blocks of 16 tokens, seven groups: you expect 160,000 tokens",
    after="kvtool size MODEL: 27,000 tokens in requests of full length",
    remedies=(CodeRemedy("plan with the tokens that kvtool size prints", "P0"),),
    ignore="The cache was never full.",
)
