"""KV323: no state where the prefix ends.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV323 = CodeEntry(
    "KV323",
    name="no state where the prefix ends",
    what=(
        "Linear attention has no state at the end of this prefix, though the keys and values of full attention are there."
    ),
    why=(
        "A state exists only where a chunk of a prefill or a decode step ended. It is kept for the end of a prompt, and "
        "where a second request found that prompts part; nothing brings it back for other places."
    ),
    before="40 prompts that share a head: the first two compute all of it",
    after="two requests of the head are sent before the others",
    remedies=(CodeRemedy("send two requests of each shared prefix first, one after the other", "P0"),),
    ignore="Each prefix is used so often that two requests more do not count.",
    wins=("no_state",),
)
