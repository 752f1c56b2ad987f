"""KV132: chat template drops earlier reasoning.

Found by `kvtool.fixes.chat.chat_templates.dropped_reasoning`, which renders an answer and the turn behind it.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV132 = CodeEntry(
    "KV132",
    name="chat template drops earlier reasoning",
    what=(
        "The chat template drops the reasoning of earlier turns. The history then differs from the generated tokens."
    ),
    why="The cache contains the answer with its reasoning. The next prompt lacks the reasoning, so reuse ends there.",
    before="turn 1: <think>...</think>42    history in turn 2: 42",
    after="history in turn 2: <think>...</think>42   (preserve_thinking, if the template has such a flag)",
    remedies=(CodeRemedy("set the flag of the template that keeps reasoning", "P3"),),
    ignore="The reasoning is longer than what its reuse saves, or the model was trained without it in the history.",
    wins=("blocked", "displaced"),
)
