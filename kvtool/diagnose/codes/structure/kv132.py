"""KV132: chat template drops earlier reasoning.

Found by `kvtool.fixes.chat.chat_templates.dropped_reasoning`, which renders an answer and the turn behind it.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV132 = CodeEntry(
    "KV132",
    name="chat template drops earlier reasoning",
    what="The template leaves the reasoning of earlier turns out, so a turn's history is not what was generated.",
    why=(
        "The cache holds the answer with its reasoning. The next prompt has it without: reuse ends where the "
        "reasoning began."
    ),
    before="turn 1: <think>...</think>42    history in turn 2: 42",
    after="history in turn 2: <think>...</think>42   (preserve_thinking, where there is such a flag)",
    remedies=(CodeRemedy("set the template's flag that preserves reasoning", "P3"),),
    ignore="Reasoning is longer than what its reuse saves, or the model was trained without it in its history.",
    wins=("blocked", "displaced"),
)
