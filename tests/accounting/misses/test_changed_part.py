"""The part of a request that changed is named by its place in the request: tools, system prompt, a message."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from kvtool.accounting.ledger.alignment import Gap
from kvtool.accounting.misses.changed_part import ChangedPart, find_changed_part
from kvtool.accounting.misses.own_text import has_own_text, repeated_tokens
from kvtool.accounting.misses.prompt_states import CacheKey, PromptState, message_forms, tool_forms
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.call import CallSettings
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn


def state_of(messages: list[dict[str, Any]], tools: list[Any]) -> PromptState:
    key = CacheKey("m", None, None, (None, None, None))
    forms, defined = message_forms(messages), tool_forms(tools)
    return PromptState(key, "s", 0.0, None, CallSettings(), 0, 0, 0, 0, None, (), forms, defined, 0)


def changed(was: tuple[list[Any], list[Any]], now: tuple[list[Any], list[Any]]) -> ChangedPart | None:
    forms, tools = message_forms(now[0]), tool_forms(now[1])
    return find_changed_part(state_of(*was), Turn("g", messages=now[0]), forms, tools)


def made_request(source: random.Random) -> tuple[list[dict[str, Any]], list[Any]]:
    words = [f"w{number}" for number in range(50)]
    messages: list[dict[str, Any]] = [{"role": "system", "content": " ".join(source.sample(words, 9))}]
    for number in range(source.randrange(2, 9)):
        text = " ".join(source.sample(words, 9))
        content: Any = text if source.random() < 0.5 else [{"type": "text", "text": text}]
        messages.append({"role": ("user", "assistant")[number % 2], "content": content})
    tools = [{"name": f"Tool{number}", "description": source.choice(words)} for number in range(source.randrange(2, 6))]
    return messages, tools


def test_each_change_is_named_with_its_place() -> None:
    for seed in range(100):
        source = random.Random(seed)
        messages, tools = made_request(source)
        now, defined = list(messages), list(tools)
        at = source.randrange(1, len(messages))
        number = source.randrange(len(tools))
        expected: tuple[str, str] | None
        match source.choice(["none", "appended", "form", "marks", "message", "system", "tool", "order", "removed"]):
            case "appended":
                now.append({"role": "user", "content": "more"})
                expected = None
            case "form":
                content = now[at]["content"]
                other = content[0]["text"] if isinstance(content, list) else [{"type": "text", "text": content}]
                now[at] = {**now[at], "content": other}
                expected = None
            case "marks":
                text = [{"type": "text", "text": "same", "cache_control": {"type": "ephemeral"}}]
                messages[at] = {"role": messages[at]["role"], "content": [{"type": "text", "text": "same"}]}
                now[at] = {"role": messages[at]["role"], "content": text}
                defined[number] = {**defined[number], "cache_control": {"type": "ephemeral"}}
                expected = None
            case "message":
                now[at] = {**now[at], "content": "edited"}
                expected = "history_edited", f"messages[{at}] ({now[at]['role']})"
            case "system":
                now[0] = {**now[0], "content": "edited"}
                expected = "system_changed", "messages[0] (system)"
            case "tool":
                defined[number] = {**defined[number], "description": "another"}
                expected = "tools_changed", f"tools[{number}] Tool{number}"
            case "order":
                defined[0], defined[-1] = defined[-1], defined[0]
                expected = "tools_changed", f"tools[0] {defined[0]['name']}"
            case "removed":
                defined = defined[:-1]
                expected = "tools_changed", f"tools[{len(defined)}] {tools[-1]['name']}"
            case _:
                expected = None
        found = changed((messages, tools), (now, defined))
        assert (None if found is None else (found.cause, found.place)) == expected, seed


def test_a_tool_without_a_proper_name_is_told_by_its_number() -> None:
    was = [], [{"name": "Bash"}, {"name": "rm -rf [red]"}]
    found = changed(was, ([], [{"name": "Bash"}, {"name": "a prompt\x1b[31m"}]))
    assert found is not None
    assert found.place == "tools[1]"


def test_forms_of_equal_messages_are_kept_once() -> None:
    messages, tools = made_request(random.Random(1))
    before = state_of(messages, tools)
    again = message_forms([*messages, {"role": "user", "content": "more"}], before.forms)
    assert all(one is other for one, other in zip(before.forms, again, strict=False))
    assert tool_forms(tools, before.tools) is before.tools
    assert replace(before, stored=1).forms is before.forms


def test_what_a_template_writes_around_text_is_no_shared_text(byte_tokenizer: Tokenizer) -> None:
    """Random tools of the same fields: what their prompts share counts as far as it is names, descriptions and messages."""
    template = (
        "{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for m in messages %}<m>{{ m.content }}{% endfor %}"
    )
    renderer = Renderer(lambda: byte_tokenizer, lambda _: ChatTemplate("plain", template, {}))
    for seed in range(20):
        source = random.Random(seed)
        names = ["".join(source.choice("abcdefgh") for _ in range(source.randrange(1, 20))) for _ in range(4)]
        fields = {"type": "object", "required": [], "properties": {}}
        tools = [{"type": "tool", "name": name, "description": name[::-1], "fields": fields} for name in names]
        job = JobMaker(renderer, seed=0).make(
            Turn("g", messages=[{"role": "user", "content": "said " * 20}], tools=tools)
        )
        assert job.prompt is not None
        text, own = str(job.prompt.text), 2 * sum(map(len, names))
        before = text.index("<m>")
        assert has_own_text(job, before, own - 1)
        assert not has_own_text(job, before, own)
        gaps = [Gap(0, text.index('", "fields'), 0, 0, 30), Gap(0, before + 3, 0, 0, 40)]  # framing, and a message
        assert repeated_tokens(job, gaps) == 40
