"""A chat template that drops earlier reasoning, found by asking one more question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvtool.diagnose.codes.structure.kv132 import KV132
from kvtool.fixes.chat.chat_probe import (
    AGAIN,
    ANSWERED,
    ASKED,
    Checked,
    finding,
    ids_of,
    opening,
    place_in_source,
    rendered,
)
from kvtool.fixes.fix import Fix
from kvtool.text.align import common_prefix
from kvtool.text.message import Message
from kvtool.text.templates.chat import ChatTemplate
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn

_REASONING = "Some reasoning, number 4714."
_THINK = re.compile(r"<think>(.{1,100000}?)</think>", re.DOTALL)
_KEEPS: tuple[tuple[str, bool], ...] = (
    ("preserve_thinking", True),
    ("keep_thinking", True),
    ("preserve_reasoning", True),
    ("clear_thinking", False),
    ("truncate_history_thinking", False),
    ("drop_thinking", False),
)
"""Variables with which templates are told to keep earlier reasoning."""


def dropped_reasoning(renderer: Renderer, template: ChatTemplate, chats: Sequence[Turn]) -> Checked | None:
    """KV132: the next question makes a template leave out reasoning that the cache has."""
    if not re.search(r"reasoning|think", template.source):
        return None  # it knows of none, so what it shows of a message is what it always shows
    for turn, upto, reasoning in _reasoned(chats):
        messages = (turn.messages or [])[: upto + 1]
        now = rendered(template, turn, messages=messages, prompted=False)
        asked: list[Message] = [*messages, {"role": "user", "content": AGAIN}]
        then = rendered(template, turn, messages=asked)
        if now is None or then is None or reasoning in then:
            continue
        computed = now if reasoning in now else _as_generated(template, turn, messages, reasoning)
        if computed is None:
            continue
        ids, later = ids_of(renderer, computed), ids_of(renderer, then)
        lost = len(ids) - common_prefix(ids, later)
        message = (
            f"the chat template drops earlier reasoning: with the next question {lost:,} of the {len(ids):,} tokens computed "
            "for the conversation looked at do not come back"
        )
        place = place_in_source(template, r"reasoning_content", r"</think>", r"reasoning|think")
        flag = _keeping(template, turn, asked, reasoning)
        what = "keep earlier reasoning in the prompt"
        fix = f"{what}: chat_template_kwargs {flag[0]}={flag[1]}" if flag else f"{what}, with a chat template that can"
        found = finding(KV132.code, "info", template, turn.group, message, fix, place=place, lost=lost, tier="P3")
        return Checked(found, _reasoning_fix(fix, flag) if flag else None)
    return None


def _reasoned(chats: Sequence[Turn]) -> Iterator[tuple[Turn, int, str]]:
    """Turns with an answer that has reasoning, and which; last, where conversations go on, one made up for the first of them."""
    for turn in chats:
        for number, message in enumerate(turn.messages or []):
            reasoning = _reasoning_of(message)
            if reasoning:
                yield turn, number, reasoning
                break
    talk = next((turn for turn in chats if any(m.get("role") == "assistant" for m in turn.messages or [])), None)
    if talk is not None:
        answer = {"role": "assistant", "content": ANSWERED, "reasoning_content": _REASONING}
        made: list[Message] = [*opening(talk), {"role": "user", "content": ASKED}, answer]
        yield Turn(talk.group, messages=made, tools=talk.tools, extra=talk.extra), len(made) - 1, _REASONING


def _reasoning_of(message: Mapping[str, Any]) -> str:
    if message.get("role") != "assistant":
        return ""
    for name in ("reasoning_content", "reasoning"):
        value = message.get(name)
        if isinstance(value, str) and value.strip():
            return str.__str__(value).strip()
    content = message.get("content")
    match = _THINK.search(content) if isinstance(content, str) else None
    return match[1].strip() if match else ""


def _as_generated(template: ChatTemplate, turn: Turn, messages: list[Message], reasoning: str) -> str | None:
    """What the cache has once the model has written its reasoning and its answer."""
    asked = rendered(template, turn, messages=messages[:-1])
    if asked is None:
        return None
    content = messages[-1].get("content")
    answer = str.split(content, "</think>")[-1].strip() if isinstance(content, str) else ""
    opened = "" if str.rstrip(asked).endswith("<think>") else "<think>\n"
    return f"{str.__str__(asked)}{opened}{reasoning}\n</think>\n\n{answer}"


def _keeping(template: ChatTemplate, turn: Turn, messages: list[Message], reasoning: str) -> tuple[str, bool] | None:
    """The variable with which the template keeps reasoning, where it has one."""
    for name, value in _KEEPS:
        if name in template.source:
            kept = rendered(template.changed(extra={name: value}), turn, messages=messages)
            if kept is not None and reasoning in kept:
                return name, value
    return None


def _reasoning_fix(what: str, flag: tuple[str, bool]) -> Fix:
    extra = {flag[0]: flag[1]}
    return Fix(
        "chat-template:keep-reasoning",
        KV132.code,
        "P3",
        None,
        what,
        warnings=("prompts grow by the reasoning, and the model sees it again",),
        renderer=lambda renderer: renderer.with_template(lambda own: own.changed(extra=extra)),
    )
