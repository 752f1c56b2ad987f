"""Turns into prompts: the chat template, then the tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from kvtool.errors import KvtoolError
from kvtool.text.message import Message, answer_message
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.traced import Traced
from kvtool.workload.growing_prompts import GrowingPrompts
from kvtool.workload.request_fields import (
    continues_final_message,
    generation_prompt,
    special_tokens,
    template_variables,
    truncation,
)
from kvtool.workload.turn import Turn

_MOST_SESSIONS = 100_000  # sessions whose last arrival is kept


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
        """Return the same tokenizer with another chat template."""
        return Renderer(lambda: self.tokenizer, lambda _: change(self.chat_template))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self._load_tokenizer()

    @cached_property
    def chat_template(self) -> ChatTemplate:
        return self._load_template(self.tokenizer)

    def answer_text(self, turn: Turn, prompt: Prompt) -> str | None:
        """Return a recorded answer with tool calls as the chat template writes it in the next prompt: nearly as the model did.

        None for an answer without any, and where the template does not continue the prompt with it.
        """
        text, before = turn.output_text, prompt.text
        if text is None or before is None or turn.messages is None or (message := answer_message(text)) is None:
            return None
        template, end = self.chat_template, self.tokenizer.eos_token
        try:
            if template.by_message and not turn.fields and not turn.extra:
                whole, known = template.render([message], add_generation_prompt=False), template.render([])
            else:
                whole, known = self._rendered(turn, [*turn.messages, message], answers=False), before
        except KvtoolError:
            return None  # it takes no such answer; the next request reports it
        if not str.startswith(whole, known):
            return None
        written = str.__getitem__(whole, slice(len(known), None))
        return written.partition(end)[0] if end and end in written else written.removesuffix("\n")

    @cached_property
    def _growing(self) -> GrowingPrompts | None:
        """Make prompts that continue others, where the template allows it."""
        template = self.chat_template
        return GrowingPrompts(template, self.tokenizer) if template.by_message else None

    def loaded(self, name: str) -> bool:
        """Return whether `tokenizer` or `chat_template` was needed so far."""
        return name in self.__dict__

    def prompt(self, turn: Turn) -> Prompt:
        """Render and tokenize a turn: messages go through the chat template, which writes BOS itself; a text gets the tokenizer's
        special tokens.

        What the request's own fields say goes before both.
        """
        if turn.token_ids is not None:
            return self._truncated(turn, Prompt(turn.token_ids))
        fields, text = turn.fields, turn.text
        if turn.messages is not None:
            if not fields and not turn.extra and self._growing is not None:
                grown = self._growing.prompt(turn.messages, turn.tools, answers=True)
                if grown is not None:
                    return grown
            text = self._rendered(turn, turn.messages, answers=generation_prompt(fields))
        if text is None:
            raise ValueError("a turn of block hashes has no prompt to render")
        special = special_tokens(fields, chat=turn.messages is not None)
        return self._truncated(turn, self.tokenizer.encode(text, add_special_tokens=special), special=special)

    def _rendered(self, turn: Turn, messages: list[Message], *, answers: bool) -> Traced:
        """Return the text of a turn with these messages; `answers`: the beginning of the answer follows them."""
        fields, template = turn.fields, self.chat_template
        return template.render(
            messages,
            turn.tools,
            add_generation_prompt=answers,
            continue_final_message=answers is generation_prompt(fields) and continues_final_message(fields),
            extra={**template_variables(fields), **turn.extra},
            seconds=self._arrival(turn) if template.contains_time else 0.0,
        )

    def _truncated(self, turn: Turn, prompt: Prompt, *, special: bool = False) -> Prompt:
        """Return the prompt as far as the request lets it be read. A truncated one has no text: it begins or ends anywhere."""
        asked = truncation(turn.fields)
        if asked is None or len(prompt) <= asked.tokens:
            return prompt
        if asked.side == "right":
            return Prompt(prompt.ids[: asked.tokens])
        kept = 0
        if special and asked.side is None:  # the tokenizer truncates what is between its special tokens
            kept = min(self.tokenizer.num_prefix_tokens, asked.tokens)
        left = asked.tokens - kept
        return Prompt(np.concatenate([prompt.ids[:kept], prompt.ids[len(prompt) - left :]]))

    def _arrival(self, turn: Turn) -> float:
        """Return when a turn arrives; a later one of a session without a time of its own, as far as is known: with the one
        before."""
        if turn.session is None:
            return turn.arrival or 0.0
        key = f"{turn.group}\0{turn.session}"
        if turn.arrival is not None:
            self._latest[key] = turn.arrival
            if len(self._latest) > _MOST_SESSIONS:
                del self._latest[next(iter(self._latest))]
        return self._latest.get(key, 0.0)
