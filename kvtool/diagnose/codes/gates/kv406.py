"""KV406: a required baseline cannot be compared with.

Found by `kvtool.gate.comparing.required_check`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV406 = CodeEntry(
    "KV406",
    name="a required baseline cannot be compared with",
    what="--require-baseline is set, and the baseline lacks the workload or was written under other settings.",
    why="Hit rates under another tokenizer, block size or capacity say nothing about a change of the prompts.",
    before="kvtool-baseline.json: block size 16    this run: block size 32",
    after="both: block size 16",
    remedies=(
        CodeRemedy("run with the settings of the baseline"),
        CodeRemedy("or record the new ones: kvtool check --update-baseline, and commit the file"),
    ),
    ignore="Never: leave --require-baseline out, and the same is a notice.",
)
