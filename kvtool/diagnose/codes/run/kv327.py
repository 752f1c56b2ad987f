"""KV327: capacity is far below blocks times their size.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the plan of the model's cache.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV327 = CodeEntry(
    "KV327",
    name="capacity is far below blocks times their size",
    what=(
        "Requests of this model take blocks in several groups, so the cache holds far fewer tokens than its blocks times "
        "their size."
    ),
    why=(
        "All groups take their blocks from one pool. A request of windows, states and full attention takes one block of "
        "each for the same tokens."
    ),
    before="10,000 blocks of 16 tokens, seven groups: 160,000 tokens were expected",
    after="kvtool size MODEL: 27,000 tokens in requests of full length",
    remedies=(CodeRemedy("plan with the tokens that kvtool size tells, not with blocks times their size", "P0"),),
    ignore="The cache was never full.",
)
