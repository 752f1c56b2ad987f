"""KV406: required baseline does not match.

Found by `kvtool.gate.comparing.required_check`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV406 = CodeEntry(
    "KV406",
    name="required baseline does not match",
    what="--require-baseline is set. The baseline lacks the workload or was written with other settings.",
    why="A change of tokenizer, block size or capacity changes the hit rate even if the prompts stay the same.",
    before="kvtool-baseline.json: block size 16    this run: block size 32",
    after="both: block size 16",
    remedies=(
        CodeRemedy("run with the settings of the baseline"),
        CodeRemedy("or record the new settings: run kvtool check --update-baseline, and commit the file"),
    ),
    ignore="Never: without --require-baseline the same is only a notice.",
)
