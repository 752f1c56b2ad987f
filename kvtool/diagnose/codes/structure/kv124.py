"""KV124: generated text tokenized differently in the next turn.

Found by `kvtool.diagnose.causes.gap_namer.GapNamer`, in a gap whose characters are the same and that lies in an answer.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV124 = CodeEntry(
    "KV124",
    name="generated text tokenized differently in the next turn",
    what=(
        "The next turn sends the answer as text. The tokenizer splits it into other tokens than the model generated."
    ),
    why="The KV cache contains the generated tokens. The history has other tokens, so reuse ends inside the answer.",
    before="generated: ['Hel', 'lo']   next turn: ['Hello']",
    after="send the generated ids back: token in, token out",
    remedies=(CodeRemedy("keep the token ids of answers, and send ids instead of text", "P0"),),
    ignore="Answers are short compared to the rest of the prompt.",
    wins=("seam",),
)
GENERATED = DifferenceKind("generated", "answer with other tokens in the history", KV124.code)
