"""Turns into prompts: the chat template, then the tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.turn import Turn

_MOST_SESSIONS = 100_000


class Renderer:
    """Makes the prompt that a server would see of a turn.

    Tokenizer and chat template are loaded when they are first asked for: a trace of block hashes needs neither.
    """

    def __init__(self, tokenizer: Callable[[], Tokenizer], chat_template: Callable[[Tokenizer], ChatTemplate]) -> None:
        self._load_tokenizer = tokenizer
        self._load_template = chat_template
        self._latest: dict[str, float] = {}
        """By session, when its latest turn with a time of its own arrived."""

    def with_template(self, change: Callable[[ChatTemplate], ChatTemplate]) -> Renderer:
        """The same tokenizer with another chat template."""
        return Renderer(lambda: self.tokenizer, lambda _: change(self.chat_template))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self._load_tokenizer()

    @cached_property
    def chat_template(self) -> ChatTemplate:
        return self._load_template(self.tokenizer)

    def loaded(self, name: str) -> bool:
        """Whether `tokenizer` or `chat_template` was needed so far."""
        return name in self.__dict__

    def prompt(self, turn: Turn) -> Prompt:
        """Messages go through the chat template, which writes BOS itself; a text gets the tokenizer's special tokens."""
        if turn.token_ids is not None:
            return Prompt(turn.token_ids)
        if turn.messages is not None:
            template = self.chat_template
            seconds = self._arrival(turn) if template.tells_time else 0.0
            text = template.render(turn.messages, turn.tools, extra=turn.extra, seconds=seconds)
            return self.tokenizer.encode(text, add_special_tokens=False)
        if turn.text is not None:
            return self.tokenizer.encode(turn.text, add_special_tokens=True)
        raise ValueError("a turn of block hashes has no prompt to render")

    def _arrival(self, turn: Turn) -> float:
        """When a turn arrives; a later one of a session without a time of its own, as far as is known: with the one before."""
        if turn.session is None:
            return turn.arrival or 0.0
        key = f"{turn.group}\0{turn.session}"
        if turn.arrival is not None:
            self._latest[key] = turn.arrival
            if len(self._latest) > _MOST_SESSIONS:
                del self._latest[next(iter(self._latest))]
        return self._latest.get(key, 0.0)
