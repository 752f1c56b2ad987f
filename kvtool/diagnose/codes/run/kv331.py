"""KV331: slot lost.

Found by `kvtool.diagnose.run_findings.engine_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV331 = CodeEntry(
    "KV331",
    name="slot lost",
    what=(
        "A slot of llama.cpp's server took another prompt, and what it held of this one was gone when it was "
        "asked for again."
    ),
    why=(
        "A slot keeps one prompt. A slot that would keep half of its tokens is taken as it is, even where host "
        "memory has the whole prompt."
    ),
    before="--parallel 1 --cache-ram 0: two heads of 800 tokens in turn, 0 % hit",
    after="--cache-ram 8192: 80 % hit",
    remedies=(
        CodeRemedy("host memory for saved prompts, more slots, or moved chunks (which may change answers)", "P0"),
    ),
    ignore="Conversations never come back.",
    wins=("slot_lost",),
)
