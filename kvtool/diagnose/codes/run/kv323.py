"""KV323: no state where the prefix ends.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV323 = CodeEntry(
    "KV323",
    name="no state where the prefix ends",
    what="Linear attention has no state at the end of this prefix. Full attention still has its keys and values.",
    why=(
        "A state exists only where a prefill chunk or a decode step ended. vLLM keeps it for the end of a "
        "prompt, and where a second request diverged."
    ),
    before="40 prompts share a prefix: the first two compute it in full",
    after="two requests with the prefix are sent before the others",
    remedies=(CodeRemedy("send two requests of each shared prefix first, one after the other", "P0"),),
    ignore="Each prefix is used so often that two more requests do not matter.",
    wins=("no_state",),
)
