"""Prompts whose last message stays open, so that the answer continues it (`continue_final_message`), cut as transformers does."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.errors import MessageRefusedError
from kvtool.text.message import Message
from kvtool.text.templates.served_messages import Served, place_of
from kvtool.text.traced import Traced

_MARK = "\ue000end of the last message\ue001"
"""Marks the end of the last message in the prompt. A space is added: without it in the prompt, the template strips texts."""


def check_continued(messages: Sequence[Message], *, add_generation_prompt: bool) -> None:
    """MessageRefusedError for a request that a server refuses."""
    last = messages[-1] if messages else {}
    if add_generation_prompt:
        raise MessageRefusedError(
            "the request sets `continue_final_message`, and `add_generation_prompt` is not false",
            hint='servers refuse both; set "add_generation_prompt": false',
            place=place_of(last),
        )
    if not last.get("content"):
        raise MessageRefusedError(
            "the request sets `continue_final_message`, and its last message has no text",
            hint="end the messages with the text that the answer continues",
            place=next((place for each in reversed(messages) if (place := place_of(each))), None),
        )


def with_end_mark(messages: list[Served]) -> list[Served]:
    """The messages with a mark after the text of the last one."""
    last = dict(messages[-1])
    content = last["content"]
    if isinstance(content, list):
        *before, part = content
        last["content"] = [*before, {**part, "text": part["text"] + _MARK + " "}]
    elif isinstance(content, str):
        last["content"] = Traced(content) + _MARK + " "
    return [*messages[:-1], last]


def up_to_end_mark(text: Traced, messages: Sequence[Message]) -> Traced:
    """A rendered prompt up to the mark; MessageRefusedError where the template leaves the last message out."""
    at = str.rfind(text, _MARK)
    if at < 0:
        raise MessageRefusedError(
            "the chat template does not show the last message, which the request continues",
            place=place_of(messages[-1]),
        )
    if str.startswith(text, _MARK + " ", at):
        return text[:at]
    return text[: len(str.rstrip(str.__getitem__(text, slice(at))))]  # the template strips texts
