"""KV123: beginning-of-sequence token doubled.

Found by `kvtool.fixes.chat.chat_templates.check_chat_template`, in prompts and in the template that writes them.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV123 = CodeEntry(
    "KV123",
    name="beginning-of-sequence token doubled",
    what=(
        "Prompts begin with the beginning-of-sequence token twice: once from the chat template, once from the "
        "tokenizer."
    ),
    why=(
        "A prompt with one and a prompt with two share nothing behind the first token, and models were not trained "
        "on two."
    ),
    before="<s><s>[INST] ...",
    after="<s>[INST] ...",
    remedies=(CodeRemedy("render the template without it, or tokenize with add_special_tokens=False", "P1"),),
    ignore="All requests have both, and the model answers well with them.",
    wins=("blocked",),
)
