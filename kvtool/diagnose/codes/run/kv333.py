"""KV333: outside the attention window, or without a saved state.

Found by `kvtool.diagnose.run_findings.engine_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV333 = CodeEntry(
    "KV333",
    name="outside the attention window, or without a saved state",
    what=(
        "A llama.cpp server had the prefix, but the model cannot go back to its end. Sliding-window layers had "
        "dropped the tokens before it, or state layers (Mamba, Gated DeltaNet) had no state there."
    ),
    why=(
        "Sliding-window layers keep the last window and one batch, and state layers keep the last state. An earlier "
        "prefix needs a checkpoint. Without one, llama.cpp computes the whole prompt."
    ),
    before="shared prefix of 1,000 tokens, 900 more per request, window of 64: 0 % hit",
    after="--swa-full: 48 % hit",
    remedies=(
        CodeRemedy("set --swa-full, which takes memory for the whole context in all layers with a window", "P0"),
        CodeRemedy("with state layers, set --ubatch-size so that a checkpoint is before the last message", "P0"),
        CodeRemedy("add --no-cache-idle-slots: a saved prompt keeps only the window", "P0"),
    ),
    ignore="There is no more memory.",
    wins=("window", "no_state"),
)
