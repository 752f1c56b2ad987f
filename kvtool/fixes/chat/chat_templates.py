"""Losses by a chat template: a doubled BOS, the date, dropped reasoning, tools that move. They are found by rendering twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from kvtool.diagnose.codes.structure.kv123 import KV123
from kvtool.diagnose.codes.structure.kv131 import KV131
from kvtool.diagnose.codes.structure.kv132 import KV132
from kvtool.diagnose.codes.structure.kv133 import KV133
from kvtool.errors import KvtoolError
from kvtool.fixes.chat.chat_probe import (
    AGAIN,
    ANSWERED,
    ASKED,
    Checked,
    finding,
    ids_of,
    opening,
    place_in_source,
    place_of,
    rendered,
)
from kvtool.fixes.fix import Fix
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding
from kvtool.text.align import common_prefix
from kvtool.text.message import Message
from kvtool.text.templates.built_in import BUILT_IN_TEMPLATES
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
_DAY, _LATER, _OTHER_DAY = datetime(2025, 1, 1), datetime(2025, 1, 1, 17, 45, 12), datetime(2031, 10, 23)
_PROBE = "kvtool_probe_4715"


def check_chat_template(renderer: Renderer, turns: Sequence[Turn]) -> list[Checked]:
    """Return everything that these turns, and conversations made of them, show. Tokens are counted on the one conversation looked
    at.

    A rendering that the template refuses shows nothing.
    """
    chats = [turn for turn in turns if turn.messages]
    checks: list[Checked | None] = [_doubled_start(renderer, turns)]
    if chats:
        template = renderer.chat_template
        checks += [
            check(renderer, template, chats)
            for check in (_start_written_and_added, _date, dropped_reasoning, _moving_tools)
        ]
    return [found for found in checks if found is not None]


def _doubled_start(renderer: Renderer, turns: Sequence[Turn]) -> Checked | None:
    """Return KV123: a prompt that begins with BOS twice."""
    if not any(turn.messages or turn.text is not None for turn in turns):
        return None  # nothing to be rendered, so no tokenizer to be loaded
    start = renderer.tokenizer.bos_token
    found = []
    for turn in turns:
        if turn.hashed is not None or turn.token_ids is not None or not start:
            continue
        try:
            prompt = renderer.prompt(turn)
        except KvtoolError:
            continue
        one = ids_of(renderer, start)
        if len(one) == 1 and len(prompt) > 1 and int(prompt.ids[0]) == int(prompt.ids[1]) == int(one[0]):
            found.append(turn)
    if not found:
        return None
    first = found[0]
    count = f"{len(found):,} of {len(turns):,} sampled requests"
    if first.messages is None:
        message = f"the text begins with BOS, and the tokenizer adds a second one: {count}"
        path, line, column = "", 0, 0
        origin, offset = first.text.at(0) if first.text else (None, 0)
        if origin is not None:
            path, (line, column) = origin.path, origin.position(offset)
        fix = "remove BOS from the text"
        severity: Severity = "warning"
        return Checked(
            Finding.of(KV123.code, severity, first.group, path, line, column, message, len(found), fix, tier=KV123.tier)
        )
    template = renderer.chat_template
    text = rendered(template, first)
    place = place_of(text, len(start or "")) if text is not None else (0, 0)
    message = f"the chat template writes BOS twice: {count}"
    fix = "remove one `bos_token` from the chat template"
    return Checked(finding(KV123, "warning", template, first.group, message, fix, place=place, lost=len(found)))


def _start_written_and_added(renderer: Renderer, template: ChatTemplate, chats: Sequence[Turn]) -> Checked | None:
    """Return KV123: a template that writes BOS for a tokenizer that adds it. kvtool adds none to a
    rendered chat; a server might.
    """
    if template.name.startswith(BUILT_IN_TEMPLATES):
        return None
    text = rendered(template, chats[0])
    if not text:
        return None
    written = renderer.tokenizer.encode(text, add_special_tokens=False).ids[:2]
    added = renderer.tokenizer.encode(text, add_special_tokens=True).ids[:2]
    start = ids_of(renderer, renderer.tokenizer.bos_token or "")
    if len(start) != 1 or len(added) < 2 or len(written) < 2:
        return None
    if int(written[0]) != int(start[0]) or int(written[1]) == int(start[0]) or int(added[1]) != int(start[0]):
        return None
    message = "the chat template writes BOS, and the tokenizer adds it too: tokenized text then begins with two"
    fix = "tokenize rendered chats with add_special_tokens=False, as kvtool does"
    return Checked(finding(KV123, "info", template, chats[0].group, message, fix, place=place_of(text, 0)))


def _date(renderer: Renderer, template: ChatTemplate, chats: Sequence[Turn]) -> Checked | None:
    """Return KV131: a template that writes what time it is."""
    if not template.contains_time:
        return None
    clocks = [template.changed(clock=_always(moment)) for moment in (_DAY, _LATER, _OTHER_DAY)]
    for turn in chats:
        today, later, other = (rendered(clock, turn) for clock in clocks)
        if today is None or later is None or other is None or today == other:
            continue
        what = "the time" if today != later else "the date"
        at = common_text(today, other)
        before, total = len(ids_of(renderer, str.__getitem__(today, slice(0, at)))), len(ids_of(renderer, today))
        message = (
            f"the chat template writes {what}: each change makes {total - before:,} of the {total:,} tokens "
            "of a sample conversation miss the cache"
        )
        fix = "set a fixed date in the chat template (`date_string`), or write the date into the last message"
        found = finding(
            KV131,
            "warning",
            template,
            turn.group,
            message,
            fix,
            place=place_of(today, at),
            lost=total - before,
        )
        pinned = Fix(
            "chat-template:pin-date",
            KV131.code,
            KV131.proof,
            None,
            "set a fixed date in the chat template",
            renderer=lambda renderer: renderer.with_template(lambda own: own.changed(clock=_always(_DAY))),
        )
        return Checked(found, pinned)
    return None


def _always(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


def common_text(a: str, b: str) -> int:
    """Return how many characters two texts begin with alike."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if str.startswith(a, str.__getitem__(b, slice(low, middle)), low):
            low = middle
        else:
            high = middle - 1
    return low


def _moving_tools(renderer: Renderer, template: ChatTemplate, chats: Sequence[Turn]) -> Checked | None:
    """Return KV133: a template that writes the tools before the last question, so that they move with every turn."""
    turn = next((turn for turn in chats if turn.tools), None)
    if turn is None:
        return None
    first: list[Message] = [*opening(turn), {"role": "user", "content": ASKED}]
    second: list[Message] = [*first, {"role": "assistant", "content": ANSWERED}, {"role": "user", "content": AGAIN}]
    function = {"name": _PROBE, "description": _PROBE, "parameters": {"type": "object", "properties": {}}}
    tools = [*(turn.tools or []), {"type": "function", "function": function}]
    now = rendered(template, turn, messages=first, tools=tools, prompted=False)
    then = rendered(template, turn, messages=second, tools=tools, prompted=False)
    if now is None or then is None:
        return None
    if not 0 <= now.find(_PROBE) < now.find(ASKED) or not 0 <= then.find(ASKED) < then.find(_PROBE):
        return None
    real = [rendered(template, turn, messages=messages, prompted=False) for messages in (first, second)]
    if real[0] is None or real[1] is None:
        return None
    ids, later = ids_of(renderer, real[0]), ids_of(renderer, real[1])
    lost = len(ids) - common_prefix(ids, later)
    message = (
        f"the chat template moves the tools to the last question: each turn computes {lost:,} of the {len(ids):,} tokens "
        "of a conversation with one question again"
    )
    fix = "use a chat template that writes the tools once, after the system prompt (kvtool's own does: omit --chat-template)"
    found = finding(
        KV133,
        "warning",
        template,
        turn.group,
        message,
        fix,
        place=place_of(then, then.find(_PROBE)),
        lost=lost,
    )
    other = Fix(
        "chat-template:tools-first",
        KV133.code,
        KV133.proof,
        None,
        "use kvtool's own chat template, which writes the tools once, after the system prompt",
        warnings=("another chat template changes the prompt: compare answers",),
        renderer=lambda renderer: renderer.with_template(lambda _: ChatTemplate.own(renderer.tokenizer)),
    )
    return Checked(found, other)


def dropped_reasoning(renderer: Renderer, template: ChatTemplate, chats: Sequence[Turn]) -> Checked | None:
    """Return KV132: the next question makes a template leave out reasoning that the cache has."""
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
            f"the chat template drops earlier reasoning: the next question makes {lost:,} of the {len(ids):,} tokens "
            "of a sample conversation miss the cache"
        )
        place = place_in_source(template, r"reasoning_content", r"</think>", r"reasoning|think")
        flag = _keeping(template, turn, asked, reasoning)
        what = "keep earlier reasoning in the prompt"
        fix = (
            f"{what}: chat_template_kwargs {flag[0]}={flag[1]}"
            if flag
            else f"{what}: use a chat template that supports it"
        )
        found = finding(KV132, "info", template, turn.group, message, fix, place=place, lost=lost)
        return Checked(found, _reasoning_fix(fix, flag) if flag else None)
    return None


def _reasoned(chats: Sequence[Turn]) -> Iterator[tuple[Turn, int, str]]:
    """Yield turns with an answer that has reasoning, and which; last, where conversations go on, one made up for the first of
    them.
    """
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
    """Return what the cache has once the model has written its reasoning and its answer."""
    asked = rendered(template, turn, messages=messages[:-1])
    if asked is None:
        return None
    content = messages[-1].get("content")
    answer = str.split(content, "</think>")[-1].strip() if isinstance(content, str) else ""
    opened = "" if str.rstrip(asked).endswith("<think>") else "<think>\n"
    return f"{str.__str__(asked)}{opened}{reasoning}\n</think>\n\n{answer}"


def _keeping(template: ChatTemplate, turn: Turn, messages: list[Message], reasoning: str) -> tuple[str, bool] | None:
    """Return the variable with which the template keeps reasoning, where it has one."""
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
        KV132.proof,
        None,
        what,
        warnings=("prompts get longer by the reasoning, and the model reads it again",),
        renderer=lambda renderer: renderer.with_template(lambda own: own.changed(extra=extra)),
    )
