"""KV402: hit rate fell below the baseline.

Found by `kvtool.gate.comparing.compare`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV402 = CodeEntry(
    "KV402",
    name="hit rate fell below the baseline",
    what=(
        "A hit rate is lower than when the baseline was written, by more than --max-drop (0.5 % unless said otherwise)."
    ),
    why=(
        "Something in the prompts, the templates or their order changed, and earlier requests no longer begin as "
        "later ones do."
    ),
    before="kvtool-baseline.json: 88.9%    hit rate 62.0%",
    after="kvtool-baseline.json: 88.9%    hit rate 88.7%",
    remedies=(
        CodeRemedy("mend what the findings beside it name; kvtool profile shows where the tokens went"),
        CodeRemedy("where the fall is meant: kvtool check --update-baseline, and commit the file with the change"),
    ),
    ignore="Never: update the baseline instead.",
)
