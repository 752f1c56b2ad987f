"""KV402: hit rate fell below the baseline.

Found by `kvtool.gate.comparing.compare`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV402 = CodeEntry(
    "KV402",
    name="hit rate fell below the baseline",
    what="The hit rate fell below the baseline by more than --max-drop (default 0.5 %).",
    why="The prompts, the templates or their order changed. Later requests no longer begin like earlier ones.",
    before="kvtool-baseline.json: 88.9%    hit rate 62.0%",
    after="kvtool-baseline.json: 88.9%    hit rate 88.7%",
    remedies=(
        CodeRemedy("fix the findings next to this one (kvtool profile shows the token breakdown)"),
        CodeRemedy("if the drop is intended: run kvtool check --update-baseline, and commit the file with the change"),
    ),
    ignore="Never: update the baseline instead.",
)
