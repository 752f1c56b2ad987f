"""KV124: generated text retokenizes differently in the next turn.

Found by `kvtool.diagnose.gap_names.Namer`, in a gap whose characters are the same and that lies in an answer.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV124 = CodeEntry(
    "KV124",
    name="generated text retokenizes differently in the next turn",
    what=(
        "An answer came back as text; in the next turn the tokenizer cut the same text into other tokens than the "
        "model chose."
    ),
    why="The KV cache holds the generated tokens. The history has others, so reuse ends inside the answer.",
    before="generated: ['Hel', 'lo']   next turn: ['Hello']",
    after="send the generated ids back: token in, token out",
    remedies=(CodeRemedy("keep the token ids of answers and send ids instead of text", "P0"),),
    ignore="Answers are short beside the rest of the prompt.",
    wins=("seam",),
)
GENERATED = DifferenceKind("generated", "answer that is tokenized differently as a prompt", KV124.code)
