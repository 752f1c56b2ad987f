"""Turns into prompts: the chat template, then the tokenizer."""

from __future__ import annotations

from kvtool.chat import ChatTemplate
from kvtool.prompt import Prompt
from kvtool.tokenize import Tokenizer
from kvtool.workload.turn import Turn


class Renderer:
    """Makes the prompt that a server would see of a turn."""

    def __init__(self, tokenizer: Tokenizer, chat_template: ChatTemplate) -> None:
        self.tokenizer = tokenizer
        self.chat_template = chat_template

    def prompt(self, turn: Turn) -> Prompt:
        """Messages go through the chat template, which writes BOS itself; a text gets the tokenizer's special tokens."""
        if turn.token_ids is not None:
            return Prompt(turn.token_ids)
        if turn.messages is not None:
            text = self.chat_template.render(turn.messages, turn.tools, extra=turn.extra)
            return self.tokenizer.encode(text, add_special_tokens=False)
        if turn.text is not None:
            return self.tokenizer.encode(turn.text, add_special_tokens=True)
        raise ValueError("a turn of block hashes has no prompt to render")
