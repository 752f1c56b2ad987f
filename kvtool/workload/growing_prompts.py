"""Prompts of conversations whose requests share messages: what the one before has made of them is not made again."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from kvtool.errors import KvtoolError
from kvtool.text.message import Message
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.templates.work import MAX_OUTPUT
from kvtool.text.tokens.prompt import Continued, Prompt
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.traced import Mark, Traced

_MOST_KEPT = 16
"""Conversations whose latest prompt is kept; of more, the least recently used ones are made as a whole again."""
_MOST_TEXT = MAX_OUTPUT // 16
"""Characters of a prompt above which the template is rendered as a whole, so that its limits are those of any other."""


@dataclass(slots=True)
class _Latest:
    """The latest request of a conversation: for each message the ends of its text and of its marks in the prompt.

    Both are empty for a request that nothing was continued from so far.
    """

    messages: list[Message]
    tools: list[Any]
    text_ends: list[int]
    mark_ends: list[int]
    prompt: Prompt | None


class GrowingPrompts:
    """Make prompts of messages by a template that writes them one after another.

    A conversation goes on where a request begins with the same objects as messages. The prompt is then the same as of the whole.
    """

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        assert template.by_message
        self._template = template
        self._tokenizer = tokenizer
        self._begun = template.render([], add_generation_prompt=False)
        self._last = template.render([])[len(self._begun) :]
        self._latest: dict[int, _Latest] = {}
        """By the identity of the first message, the least recently used first."""

    def prompt(self, messages: list[Message], tools: list[Any] | None, *, answers: bool) -> Prompt | None:
        """Return the prompt of a request that continues another one; None for one that does not. `answers`: the beginning of the
        answer follows."""
        if not messages:
            return None
        own, known = tools or [], self._latest.pop(id(messages[0]), None)
        shared = 0 if known is None else _same(known.messages, messages)
        if known is None or not shared or len(known.tools) != len(own) or _same(known.tools, own) < len(own):
            return self._keep(_Latest(list(messages), own, [], [], None))
        ends, mark_ends = known.text_ends[:shared], known.mark_ends[:shared]
        if known.prompt is None:
            head, ends, mark_ends = self._template.render([], tools, add_generation_prompt=False), [], []
        else:
            assert known.prompt.text is not None
            head = known.prompt.text
        texts = [str.__getitem__(head, slice(ends[-1] if ends else len(head)))]
        marks: list[Mark] = list(head.marks[: mark_ends[-1]] if mark_ends else head.marks)
        size = len(texts[0])
        for message in messages[len(ends) :]:
            try:
                written = self._template.render([message], add_generation_prompt=False)[len(self._begun) :]
            except KvtoolError:
                return None  # rendering all of them reports it
            texts.append(written)
            marks += written.marks
            size += len(written)
            ends.append(size)
            mark_ends.append(len(marks))
        if size > _MOST_TEXT:
            return None
        if answers:
            texts.append(self._last)
            marks += self._last.marks
        text = Traced.with_marks("".join(texts), tuple(marks))
        return self._keep(_Latest(list(messages), own, ends, mark_ends, self._tokenized(text, known, shared)))

    def _tokenized(self, text: Traced, known: _Latest, shared: int) -> Prompt:
        before = known.prompt
        if before is None:
            return self._tokenizer.encode(text, add_special_tokens=False)
        prompt, chars, tokens = self._tokenizer.encode_continued(text, before, known.text_ends[shared - 1])
        before.forget_continued()  # nothing is kept but the latest two prompts
        prompt.continued = Continued(before, shared, chars, tokens)
        return prompt

    def _keep(self, latest: _Latest) -> Prompt | None:
        self._latest[id(latest.messages[0])] = latest
        if len(self._latest) > _MOST_KEPT:
            forgotten = self._latest.pop(next(iter(self._latest))).prompt
            if forgotten is not None:  # others may keep the prompt for long, and need nothing of this
                forgotten.forget_continued()
                forgotten.notes.clear()
        return latest.prompt


def _same(first: Sequence[object], second: Sequence[object]) -> int:
    """Return how many values at the front are the same objects."""
    return sum(1 for _ in takewhile(bool, map(operator.is_, first, second)))
