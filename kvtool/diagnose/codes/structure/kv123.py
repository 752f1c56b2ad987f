"""KV123: double beginning-of-sequence token.

Found by `kvtool.fixes.chat.chat_templates.check_chat_template`, in prompts and in the template that writes them.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV123 = CodeEntry(
    "KV123",
    name="double beginning-of-sequence token",
    what="Prompts begin with two beginning-of-sequence tokens: one from the chat template, one from the tokenizer.",
    why="Prompts with one and with two share nothing after the first token. Models were not trained with two.",
    before="<s><s>[INST] ...",
    after="<s>[INST] ...",
    remedies=(CodeRemedy("render the template without the token, or tokenize with add_special_tokens=False", "P1"),),
    ignore="All requests have both, and the model answers well.",
    wins=("blocked",),
)
