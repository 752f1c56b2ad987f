"""Fields of requests: what is read of them in logs, and what they make of a prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import MessageRefusedError
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.traced import Traced
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.request_fields import engine_requests, reads_cache
from kvtool.workload.turn import Turn

_ASKED = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "well "}]


@pytest.fixture
def of(tmp_path: Path) -> Any:
    """The turns of a record."""

    def read(record: object) -> list[Turn]:
        path = tmp_path / "log.jsonl"
        path.write_text(json.dumps(record) + "\n")
        turns = []
        for conversation in LogSource([str(path)]).conversations():
            while (turn := conversation.next_turn(None)) is not None:
                turns.append(turn)
        return turns

    return read


@pytest.mark.parametrize(
    ("record", "messages", "answer"),
    [
        ({"messages": _ASKED}, 1, "well "),
        ({"messages": _ASKED, "model": "m", "usage": {"prompt_tokens": 5}, "max_tokens": 4}, 1, "well "),
        ({"messages": _ASKED, "max_tokens": 4}, 2, None),
        ({"messages": _ASKED, "continue_final_message": True}, 2, None),
        ({"custom_id": "a", "url": "/v1/chat/completions", "body": {"messages": _ASKED}}, 2, None),
        ({"request": {"messages": _ASKED}, "response": {"choices": [{"message": {"content": "yes"}}]}}, 2, "yes"),
        (
            {
                "request": {"messages": _ASKED, "echo": True, "n": 1},
                "response": {"choices": [{"message": {"content": "well yes"}}]},
            },
            2,
            "yes",
        ),
        ({"messages": [*_ASKED, *_ASKED]}, 1, "well "),
    ],
)
def test_a_request_that_ends_with_the_assistant_is_all_prompt(
    record: dict[str, Any], messages: int, answer: str | None, of: Any
) -> None:
    turn = of(record)[0]
    assert (len(turn.messages), turn.output_text) == (messages, answer)


def test_each_prompt_and_each_answer_is_a_request(of: Any) -> None:
    choices = [{"index": at, "text": f"p{at}"} for at in (3, 0, 1, 2)]
    record = {"prompt": ["p", [1, 2]], "n": 2, "echo": True, "response": {"choices": choices}}
    turns = list(engine_requests(of(record)))
    assert [turn.output_text for turn in turns] == ["0", "1", "2", "3"]
    assert [turn.text is None for turn in turns] == [False, False, True, True]
    record = {"prompt": [[1], [2, 3]], "response": {"usage": {"prompt_tokens": 3, "cached_tokens": 1}}}
    calls = [turn.call for turn in of(record)]
    assert [None if call.usage is None else call.usage.cached for call in calls] == [None, 1]
    assert [call.shares_usage for call in calls] == [False, True]
    assert [call.shares_usage for call in (turn.call for turn in of({**record, "stream": True}))] == [True, False]


@given(st.none() | st.integers(-1, 3), st.none() | st.booleans(), st.none() | st.integers(0, 2), st.booleans())
def test_the_cache_is_read_unless_a_prompt_needs_log_probabilities(
    prompt: int | None, echo: bool | None, logprobs: int | None, chat: bool
) -> None:
    given_fields = {"prompt_logprobs": prompt, "echo": echo, ("top_logprobs" if chat else "logprobs"): logprobs}
    fields = {name: value for name, value in given_fields.items() if value is not None}
    assert reads_cache(fields, chat=chat) == (prompt is None and not (echo and logprobs is not None))


def _renderer(tokenizer: Tokenizer, *, strips: bool = False) -> Renderer:
    content = "message.content | trim" if strips else "message.content"
    source = (
        "{% for message in messages %}<{{ message.role }}>{{ " + content + " }}</{{ message.role }}>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}{{ reasoning_effort }}"
    )
    return Renderer(lambda: tokenizer, lambda _: ChatTemplate("made", source, {}))


@pytest.mark.parametrize(
    ("fields", "strips", "text"),
    [
        ({}, False, "<user>hi</user><assistant>well </assistant><assistant>"),
        ({"reasoning_effort": "low"}, False, "<user>hi</user><assistant>well </assistant><assistant>low"),
        ({"add_generation_prompt": False}, False, "<user>hi</user><assistant>well </assistant>"),
        ({"add_generation_prompt": False, "continue_final_message": True}, False, "<user>hi</user><assistant>well "),
        ({"add_generation_prompt": False, "continue_final_message": True}, True, "<user>hi</user><assistant>well"),
        ({"truncate_prompt_tokens": 5}, False, "tant>"),
        ({"truncate_prompt_tokens": 5, "truncation_side": "right"}, False, "<user"),
        ({"truncate_prompt_tokens": 500}, False, "<user>hi</user><assistant>well </assistant><assistant>"),
    ],
)
def test_a_prompt_is_as_its_fields_say(
    fields: dict[str, Any], strips: bool, text: str, byte_tokenizer: Tokenizer
) -> None:
    messages = [{**each, "content": Traced(each["content"])} for each in _ASKED]
    prompt = _renderer(byte_tokenizer, strips=strips).prompt(Turn("g", messages=messages, fields=fields))
    assert byte_tokenizer.decode(prompt.ids) == text


@pytest.mark.parametrize(
    ("fields", "content", "why"),
    [
        ({"continue_final_message": True}, "well", "needs `add_generation_prompt` to be false"),
        ({"continue_final_message": True, "add_generation_prompt": False}, None, "has no text"),
    ],
)
def test_what_no_server_continues_is_refused(
    fields: dict[str, Any], content: str | None, why: str, byte_tokenizer: Tokenizer
) -> None:
    messages = [_ASKED[0], {"role": "assistant", "content": content}]
    with pytest.raises(MessageRefusedError, match=why):
        _renderer(byte_tokenizer).prompt(Turn("g", messages=messages, fields=fields))


class _WithBos:
    """A tokenizer of characters, which begins a prompt with BOS."""

    num_prefix_tokens = 1

    def encode(self, text: str, *, add_special_tokens: bool) -> Prompt:
        return Prompt(np.array([*([0] if add_special_tokens else []), *map(ord, text)], dtype=np.int32))


@pytest.mark.parametrize(
    ("fields", "ids"),
    [
        ({}, [0, 97, 98, 99]),
        ({"add_special_tokens": False}, [97, 98, 99]),
        ({"truncate_prompt_tokens": 2}, [0, 99]),
        ({"truncate_prompt_tokens": 1}, [0]),
        ({"truncate_prompt_tokens": 2, "truncation_side": "left"}, [98, 99]),
        ({"truncate_prompt_tokens": 2, "truncation_side": "right"}, [0, 97]),
        ({"truncate_prompt_tokens": 2, "add_special_tokens": False}, [98, 99]),
    ],
)
def test_truncation_keeps_special_tokens_unless_a_side_is_named(fields: dict[str, Any], ids: list[int]) -> None:
    tokenizer: Any = _WithBos()
    renderer = Renderer(lambda: tokenizer, lambda _: pytest.fail("a text needs no template"))
    assert renderer.prompt(Turn("g", text=Traced("abc"), fields=fields)).ids.tolist() == ids


def test_a_batch_has_its_answers_in_another_file(tmp_path: Path) -> None:
    body = {"prompt": [[1, 2], [3, 4, 5]], "n": 2}
    choices = [{"index": at, "token_ids": [at]} for at in range(4)]
    usage = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2}}
    answer = {"id": "a", "choices": choices, "usage": usage}
    for name, record in (
        ("in.jsonl", {"custom_id": "q", "body": body}),
        ("out.jsonl", {"custom_id": "q", "response": {"status_code": 200, "body": answer}}),
    ):
        (tmp_path / name).write_text(json.dumps(record) + "\n")
    source = LogSource([str(tmp_path / name) for name in ("in.jsonl", "out.jsonl")])
    source.each_answer = True
    turns = []
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            turns.append(turn)
    assert [None if turn.output_ids is None else turn.output_ids.tolist() for turn in turns] == [[0], [1], [2], [3]]
    assert [None if turn.call.usage is None else turn.call.usage.cached for turn in turns] == [None, None, None, 2]
