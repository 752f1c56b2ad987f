"""KV331: server slot lost.

Found by `kvtool.diagnose.run_findings.engine_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV331 = CodeEntry(
    "KV331",
    name="server slot lost",
    what="A server slot of llama.cpp took another prompt, so this prompt was gone at its next request.",
    why=(
        "A server slot keeps one prompt. llama.cpp takes the server slot if half of its tokens fit the new prompt. "
        "It does so even if host memory has the whole new prompt."
    ),
    before="--parallel 1 --cache-ram 0: two prefixes of 800 tokens in turn, 0 % hit",
    after="--cache-ram 8192: 80 % hit",
    remedies=(
        CodeRemedy(
            "save prompts in host memory, add server slots, or reuse moved chunks (which may change answers)", "P0"
        ),
    ),
    ignore="Conversations never come back.",
    wins=("slot_lost",),
)
