"""KV203: shared prefix too short, or without a cache breakpoint at its end.

Found by `kvtool.diagnose.run_findings.run_findings`, from what a group shares and what the cache rules store.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV203 = CodeEntry(
    "KV203",
    name="shared prefix too short, or without a cache breakpoint at its end",
    what=(
        "The shared prefix is shorter than the smallest unit that is cached. "
        "Or no cache breakpoint (cache_control) is on its last block."
    ),
    why=(
        "Engines cache whole blocks: vLLM's default is 16 tokens. Hosted services cache prefixes from a "
        "minimum length, such as 1,024 tokens. Shorter prefixes are never reused. "
        "Anthropic stores a prefix only up to a breakpoint. A breakpoint on text that changes stores a prefix "
        "that no other request has."
    ),
    before=(
        "12 shared tokens, block 16: nothing is reused\n"
        "system: rules | build 4711 [cache_control]: stored, and never read"
    ),
    after=(
        "more constant text at the front: 40 shared tokens, 2 blocks\n"
        "system: rules [cache_control] | build 4711: the rules are read"
    ),
    remedies=(
        CodeRemedy("move more constant text to the front", "P2"),
        CodeRemedy("choose a smaller block", "P0"),
        CodeRemedy("set a cache breakpoint on the last block of the shared text", "P0"),
    ),
    ignore="The prompts share no more text.",
    wins=("below_minimum", "unmarked", "partial_block"),
)
