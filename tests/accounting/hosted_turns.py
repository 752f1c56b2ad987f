"""Requests to hosted models as a log tells them, for the tests of rules, bills and differences."""

from __future__ import annotations

from typing import Any

from kvtool.text.message import Message
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.call import Call, CallSettings, Usage
from kvtool.workload.render import Renderer
from kvtool.workload.turn import RequestName, Turn

NO_SETTINGS = CallSettings()
EPOCH = 1_795_000_000.0
"""2026-11-18, in seconds since 1970."""


def hosted_renderer(tokenizer: Tokenizer) -> Renderer:
    """One token for each byte, in the order of providers."""
    return Renderer(lambda: tokenizer, ChatTemplate.hosted)


def text_part(text: str, mark: dict[str, str] | None = None) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "text", "text": text}
    return part if mark is None else {**part, "cache_control": mark}


def asked(
    messages: list[Message],
    at: float,
    model: str,
    *,
    tools: list[Any] | None = None,
    usage: Usage | None = None,
    epoch: float = EPOCH,
    group: str = "g",
    settings: CallSettings = NO_SETTINGS,
    **call: Any,
) -> Turn:
    """A request of a log, `at` seconds after its beginning."""
    return Turn(
        group,
        messages=messages,
        tools=tools,
        output_tokens=1,
        arrival=at,
        epoch=epoch,
        name=RequestName("log", 1),
        call=Call(model=model, usage=usage, settings=settings, **call),
    )


def filled(length: int, *, head: str = "", letter: str = "x") -> str:
    """A text of so many characters."""
    return (head + letter * length)[:length]
