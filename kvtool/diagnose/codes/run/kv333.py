"""KV333: beyond the window.

Found by `kvtool.diagnose.run_findings.engine_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV333 = CodeEntry(
    "KV333",
    name="beyond the window",
    what=(
        "A prefix was in a slot of llama.cpp's server, and layers with a sliding window no longer had the tokens "
        "before its end."
    ),
    why=(
        "Such layers keep the last window and a batch. A prefix that ends before them needs a checkpoint, and "
        "without one all of the prompt is computed."
    ),
    before="head of 1,000 and own part of 900 tokens, window of 64: 0 % hit",
    after="--swa-full: 48 % hit",
    remedies=(
        CodeRemedy("--swa-full, which takes memory for the whole context in all layers", "P0"),
        CodeRemedy("--no-cache-idle-slots with it, as of a saved prompt only the window is kept", "P0"),
    ),
    ignore="The memory is not to be had.",
    wins=("window",),
)
