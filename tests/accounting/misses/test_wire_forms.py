"""The same request in another form, to a provider that compares what it is sent, is found as that: proven where it is JSON."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.accounting.misses.prompt_states import message_forms, tool_forms
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import Tokenizer
from tests.conftest import some

Json = dict[str, Any]
BEGAN = "2026-11-20T09:{:02}:{:02}Z"


def words(source: random.Random, count: int) -> str:
    return " ".join(source.choice(("alpha", "beta", "gamma", "delta", "omega")) for _ in range(count))


def made_value(source: random.Random, depth: int = 2) -> Any:
    if depth and source.random() < 0.6:
        keys = source.sample(("path", "query", "limit", "lines", "find", "name"), 3)
        return {key: made_value(source, depth - 1) for key in keys}
    return source.choice((words(source, 4), source.randrange(99), [1, 2.5, None], True, "é ✓", ""))


def permuted(source: random.Random, value: Any) -> Any:
    """Return the value with its keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        while len(keys) > 1 and keys == list(value):
            source.shuffle(keys)
        return {key: permuted(source, value[key]) for key in keys}
    return [permuted(source, each) for each in value] if isinstance(value, list) else value


def written_again(source: random.Random, text: str) -> str:
    """Return the same JSON with other spaces, escapes or order of keys."""
    value = json.loads(text)
    found = [
        json.dumps(value, indent=source.choice((1, 2))),
        json.dumps(permuted(source, value)),
        json.dumps(value, separators=(" , ", ": "), ensure_ascii=False),
    ]
    return source.choice([each for each in found if each != text])


def made_turn(source: random.Random, number: int) -> list[Json]:
    arguments = json.dumps({"what": made_value(source), "text": words(source, 30), "n": number})
    call = {"id": f"c{number}", "type": "function", "function": {"name": "get", "arguments": arguments}}
    result = json.dumps({"found": made_value(source), "text": words(source, 60), "at": number})
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        {"role": "assistant", "content": words(source, 60)},
        {"role": "user", "content": words(source, 60)},
    ]


def changed(source: random.Random, kind: str, message: Json) -> Json:
    match kind:
        case "call":
            call = message["tool_calls"][0]
            arguments = written_again(source, call["function"]["arguments"])
            return {**message, "tool_calls": [{**call, "function": {**call["function"], "arguments": arguments}}]}
        case "result":
            return {**message, "content": written_again(source, message["content"])}
        case _:
            return {**message, "content": [{"type": "text", "text": message["content"]}]}


OFFSETS = {"call": 0, "result": 1, "list": 2}


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_another_form_of_the_same_request_is_found(
    seed: int, tmp_path: Path, bytes_json: str, byte_tokenizer: Tokenizer
) -> None:
    source, template = random.Random(seed), ChatTemplate.hosted(byte_tokenizer)
    orders, forms = set[str](), set[str]()

    def size_of(messages: list[Json]) -> int:
        return len(template.render(messages, tools))

    schema = {"type": "object", "description": words(source, 80), "properties": {"a": {"type": "string", "x": 1}}}
    tools: list[Json] = [{"type": "function", "function": {"name": "get", "parameters": schema}}]
    messages: list[Json] = [{"role": "system", "content": words(source, 400)}, {"role": "user", "content": "Go."}]
    for number in range(4):
        messages += made_turn(source, number)
    stored: list[Json] = []
    lines, made = [], {}
    for number in range(14):
        kind = source.choice(("call", "result", "list", "tools", None, None)) if number else None
        if kind == "tools":
            while json.dumps(tools) in orders:
                tools = [permuted(source, each) for each in tools]
            made[f"{number + 1}:0"] = "proven", "tools[0] get"
        elif kind is not None:
            turn = source.randrange(1, len(messages) // 4 - 1)
            at = 2 + 4 * turn + OFFSETS[kind]
            if kind == "list" and isinstance(messages[at]["content"], list):
                kind = None
            else:
                forms.update(map(json.dumps, messages))
                while json.dumps(messages[at]) in forms:  # a form that comes back is in the cache
                    messages[at] = changed(source, kind, messages[at])
                made[f"{number + 1}:0"] = "consistent" if kind == "list" else "proven", f"messages[{at}]"
        orders.add(json.dumps(tools))
        prompt = size_of(messages)
        same = next(
            (at for at, pair in enumerate(zip(stored, messages, strict=False)) if pair[0] != pair[1]), len(stored)
        )
        read = 0 if kind == "tools" or not number else size_of(messages[:same])
        usage = {"prompt_tokens": prompt, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": read}}
        answer = {"choices": [{"message": {"role": "assistant", "content": "ok"}}], "usage": usage}
        request = {"model": "gpt-4o", "tools": tools, "messages": list(messages)}
        time = BEGAN.format(number // 60, number % 60)
        lines.append({"timestamp": time, "session_id": "s", "request": request, "response": answer})
        stored = list(messages)
        messages += made_turn(source, number + 10)
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    misses = kvtool.profile(str(path), tokenizer=bytes_json).misses
    assert misses is not None
    found = {
        event.request: (event.cause, event.certainty == "proven")
        for event in misses.events
        if event.cause != "answer_not_kept"
    }
    assert found == {request: ("wire_form", certainty == "proven") for request, (certainty, _) in made.items()}
    for event in misses.events:
        if event.request in made:
            assert event.place is not None
            assert made[event.request][1] in event.place
    assert misses.promised - misses.read == sum(each.tokens for each in misses.by_cause.values())


@pytest.mark.parametrize("seed", some(range(20), 5))
def test_a_form_tells_the_value_from_how_it_is_written(seed: int) -> None:
    source = random.Random(seed)
    call, result, *_ = made_turn(source, 1)
    for kind, message in (("call", call), ("result", result)):
        other = changed(source, kind, message)
        (was,), (now,) = message_forms([message]), message_forms([other])
        assert was.text == now.text
        assert was.json != now.json
        assert message_forms([json.loads(json.dumps(message))]) == (was,)
    tool = {"type": "function", "function": {"name": "get", "parameters": {"a": made_value(source), "b": 1}}}
    (was_tool,), (now_tool,) = tool_forms([tool]), tool_forms([permuted(source, tool)])
    assert was_tool[:2] == now_tool[:2]
    assert was_tool != now_tool
    edited = json.loads(json.dumps(tool))
    edited["function"]["parameters"]["b"] = 2
    assert tool_forms([edited])[0].text != was_tool.text
