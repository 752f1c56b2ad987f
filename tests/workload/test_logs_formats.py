"""What each record format turns into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtool.errors import KvtoolError
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.logs.records.record import seconds
from kvtool.workload.turn import HashedPrompt, Output, Turn

_NO_ANSWER = Output("ok")


def turns(*paths: Path | str, **options: Any) -> list[Turn]:
    """All turns of a source, each conversation answered with `ok`."""
    found: list[Turn] = []
    for conversation in LogSource([str(path) for path in paths], LogOptions(**options)).conversations():
        turn = conversation.next_turn(None)
        while turn is not None:
            found.append(turn)
            turn = conversation.next_turn(_NO_ANSWER)
    return found


@pytest.fixture
def of(tmp_path: Path) -> Any:
    """The turns of records written as JSON lines."""

    def read(*records: object, **options: Any) -> list[Turn]:
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return turns(path, **options)

    return read


def chat(*roles: str) -> list[dict[str, str]]:
    return [{"role": role, "content": f"{role} {i}"} for i, role in enumerate(roles)]


def contents(turn: Turn) -> list[Any]:
    assert turn.messages is not None
    return [message["content"] for message in turn.messages]


@pytest.mark.parametrize("wrapper", [None, "body", "request", "params", "payload"])
def test_a_chat_body_is_one_request_whatever_is_around_it(of: Any, wrapper: str | None) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = {"model": "m", "messages": chat("system", "user"), "tools": tools, "cache_salt": "t1"}
    record = body if wrapper is None else {"custom_id": "c7", "url": "/v1/chat/completions", wrapper: body}
    (turn,) = of(record)
    assert contents(turn) == ["system 0", "user 1"]
    assert turn.tools == tools
    assert (turn.salt, turn.session, turn.index) == ("t1", None, 0)
    assert turn.id == ("1:0" if wrapper is None else "c7")
    assert turn.messages is not None
    origin, offset = turn.messages[1]["content"].at(3)
    assert (origin.pointer[-3:], origin.part, offset) == (("messages", 1, "content")[-3:], "messages[1] (user)", 3)


def test_a_record_that_ends_with_the_assistant_is_a_transcript(of: Any) -> None:
    found = of({"messages": chat("system", "user", "assistant", "user", "assistant")})
    assert [len(turn.messages) for turn in found] == [2, 4]
    assert [turn.output_text for turn in found] == ["assistant 2", "assistant 4"]
    assert [(turn.id, turn.index) for turn in found] == [("1:0", 0), ("1:1", 1)]
    assert found[0].session == found[1].session is not None
    assert found[0].messages[0]["content"] is found[1].messages[0]["content"], "text is shared, not copied"


def test_a_response_beside_the_request_is_the_answer_of_one_request(of: Any) -> None:
    reply = {"choices": [{"message": {"role": "assistant", "content": "hi"}}], "usage": {"completion_tokens": 3}}
    record = {"request": {"messages": chat("user", "assistant")}, "response": {**reply, "created": 1}}
    (turn,) = of(record)
    assert (turn.output_text, turn.output_tokens) == ("hi", 3)
    (batch,) = of({"request": {"messages": chat("user")}, "response": {"status_code": 200, "body": reply}})
    assert batch.output_text == "hi"
    content = [{"type": "text", "text": "Let me see. "}, {"type": "tool_use", "name": "f", "input": {}}]
    (anthropic,) = of(
        {"params": {"messages": chat("user")}, "response": {"content": content, "usage": {"output_tokens": 9}}}
    )
    assert anthropic.output_text.startswith('Let me see. [{"type":"tool_use"')
    assert anthropic.output_tokens == 9


def test_tool_calls_count_as_output(of: Any) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    found = of({"messages": [*chat("user"), {"role": "assistant", "content": None, "tool_calls": [call]}]})
    assert json.loads(found[0].output_text) == [call]


def test_anthropic_system_and_tool_blocks(of: Any) -> None:
    body = {
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "42"}]},
        ],
    }
    (turn,) = of(body)
    assert turn.messages is not None
    assert [message["role"] for message in turn.messages] == ["system", "user", "assistant", "tool"]
    assert turn.messages[0]["content"][0]["text"].at(0)[0].pointer == ("system", 0, "text")
    assert turn.messages[2]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert turn.messages[3]["content"].at(0)[0].pointer == ("messages", 2, "content", 0, "content")
    assert turn.tools == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    ]


def test_responses_api(of: Any) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "42"},
    ]
    (turn,) = of(
        {"model": "m", "instructions": "be brief", "input": items, "tools": [{"type": "function", "name": "f"}]}
    )
    assert turn.messages is not None
    assert [message["role"] for message in turn.messages] == ["system", "user", "assistant", "tool"]
    assert turn.messages[1]["content"][0]["text"] == "hi"
    assert turn.tools == [{"type": "function", "function": {"name": "f"}}]
    (single,) = of({"instructions": "be brief", "input": "hi"})
    assert contents(single) == ["be brief", "hi"]


@pytest.mark.parametrize("name", ["prompt", "text", "input"])
def test_plain_prompts(of: Any, name: str) -> None:
    first, second = of(
        {name: "Hello", "timestamp": 100, "output": "there", "session_id": "s"},
        {name: "Hello again", "timestamp": 102.5, "session_id": "s"},
    )
    assert (first.text, first.output_text, first.session, first.arrival) == ("Hello", "there", "s", 0.0)
    assert (second.arrival, second.index, second.id) == (2.5, 1, "2:0")
    assert second.text.at(0)[0].pointer == (name,)


def test_the_lists_of_the_completions_api(of: Any) -> None:
    found = of({"prompt": ["a", "b"]}, {"prompt": [5, 6, 7]}, {"prompt": chat("user")})
    assert [turn.text for turn in found] == ["a", "b", None, None]
    assert found[2].token_ids.tolist() == [5, 6, 7]
    assert contents(found[3]) == ["user 0"]


def test_sharegpt_and_trajectories_are_transcripts_even_if_a_user_has_the_last_word(of: Any) -> None:
    said = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "c"}]
    found = of(
        {"id": "x", "conversations": said},
        {"task_id": 1, "traj": chat("system", "user", "assistant", "user")},
        {"trajectory": [{"action": "ls"}], "history": chat("user", "assistant", "tool")},
        chat("system", "user", "assistant", "user"),
    )
    assert [(turn.id, len(turn.messages), turn.output_text) for turn in found] == [
        ("x:0", 1, "b"),
        ("2:0", 2, "assistant 2"),
        ("3:0", 1, "assistant 1"),
        ("4:0", 2, "assistant 2"),
    ]


def test_dialogues_grow_by_the_answers_of_the_engine(of: Any) -> None:
    question = [[{"role": "user", "content": "one"}], [{"role": "user", "content": "two"}]]
    found = of(
        {"id": "q", "question": question, "function": [{"name": "f"}]}, {"turns": [{"text": "x"}, {"text": "y"}]}
    )
    assert [contents(turn) for turn in found] == [["one"], ["one", "ok", "two"], ["x"], ["x", "ok", "y"]]
    assert found[1].tools == [{"type": "function", "function": {"name": "f"}}]
    assert [(turn.id, turn.index) for turn in found] == [("q:0", 0), ("q:1", 1), ("2:0", 0), ("2:1", 1)]
    assert of({"question_id": 1, "turns": ["x", "y"]})[1].messages[-1]["content"] == "y"


def test_token_ids(of: Any) -> None:
    first, second = of(
        {"token_ids": [1, 2, 3], "output_ids": [4]},
        {"input_toks": 2, "output_toks": 9, "arrival_time_ns": 2_000_000_000, "input_tok_ids": [5, 6]},
    )
    assert first.token_ids.dtype == np.int32
    assert (first.token_ids.tolist(), first.output_ids.tolist()) == ([1, 2, 3], [4])
    assert (second.output_tokens, second.arrival) == (9, 0.0)


def test_hash_traces(of: Any) -> None:
    ids = {"hash_ids": [0, 1, 7]}
    mooncake, later = of(
        {"timestamp": 500, "input_length": 1100, "output_length": 5, **ids},
        {"timestamp": 2500, "input_length": 1536, **ids},
    )
    assert mooncake.hashed == HashedPrompt([0, 1, 7], 1100, 512)
    assert (mooncake.output_tokens, mooncake.arrival, later.arrival) == (5, 0.0, 2.0)
    (bailian,) = of(
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 3.5, "input_length": 40, "type": "text", "turn": 1, **ids}
    )
    assert bailian.hashed.block_size == 16
    (other,) = of({"input_length": 10, **ids}, trace_block_size=4)
    assert other.hashed == HashedPrompt([0, 1, 7], 10, 4)
    (lookup,) = of(
        {"timestamp": 1.5, "request_id": "r", "chunk_size": 256, "seq_len": 600, "chunk_hashes": ["0x1f", "0x2"]}
    )
    assert (lookup.hashed, lookup.id) == (HashedPrompt([31, 2], 600, 256), "r")


def test_a_trace_has_the_salt_of_its_tenant(of: Any) -> None:
    ids = {"hash_ids": [0, 1]}
    weka = {"block_size": 16, "requests": [{"t": t, "in": 32, "out": 1, **ids} for t in (0, 1)]}
    lookup = {"timestamp": 1.5, "request_id": "r", "chunk_size": 256, "seq_len": 300, "chunk_hashes": [1, 2]}
    bailian = {
        "chat_id": 1,
        "parent_chat_id": -1,
        "timestamp": 3.5,
        "input_length": 32,
        "type": "text",
        "turn": 1,
        **ids,
    }
    for record in ({"input_length": 600, **ids}, bailian, lookup, weka):
        plain, salted = of(record), of({**record, "cache_salt": "tenant 5"})
        assert {turn.salt for turn in plain} == {None}
        assert {turn.salt for turn in salted} == {"tenant 5"}
        assert [turn.hashed for turn in salted] == [turn.hashed for turn in plain]


def test_local_hash_ids_of_two_weka_traces_never_meet(of: Any) -> None:
    agent = {"type": "subagent", "t": 1, "requests": [{"t": 1.5, "in": 64, "out": 1, "hash_ids": [9]}]}
    requests = [
        {"t": 0.0, "in": 130, "out": 3, "hash_ids": [1, 2]},
        agent,
        {"t": 1.0, "in": 64, "out": 4, "hash_ids": [1]},
    ]
    trace = {"block_size": 64, "hash_id_scope": "local", "requests": requests}
    found = of({"id": "a", **trace}, {"id": "b", **trace})
    assert [turn.id for turn in found] == ["a:0", "a:1", "a:2", "b:0", "b:1", "b:2"]
    assert [turn.arrival for turn in found[:3]] == [0.0, 1.0, 1.5]
    a, b = (set(found[i].hashed.hash_ids) | set(found[i + 2].hashed.hash_ids) for i in (0, 3))
    assert len(a) == len(b) == 3
    assert not a & b
    assert found[0].hashed.hash_ids[0] == found[1].hashed.hash_ids[0]


def test_ids_must_fit_the_length_and_the_hint_knows_the_block_size(of: Any) -> None:
    with pytest.raises(KvtoolError, match="140 blocks of 512") as caught:
        of({"input_length": 71175, "hash_ids": list(range(1112))})
    assert caught.value.hint is not None
    assert "--trace-block-size 64" in caught.value.hint
    assert caught.value.place is not None
    assert caught.value.place.column == 18
    with pytest.raises(KvtoolError, match="hash_ids"):
        of({"input_length": 2000, "hash_ids": [1, 2]})
    assert of({"input_length": 1535, "hash_ids": [1, 2]})[0].hashed.num_tokens == 1535, (
        "a partial block may be left out"
    )


@pytest.mark.parametrize(
    ("record", "message", "column"),
    [
        ({"messages": {"role": "user"}}, "must be a list", 14),
        ({"messages": []}, "empty", 1),
        ({"messages": ["hi"]}, r"messages\[0\] must be a message object", 15),
        ({"messages": [{"content": "x"}]}, r"messages\[0\] has no `role`", 15),
        ({"messages": [{"role": "user", "content": 5}]}, "content of messages.*number 5", 43),
        ({"messages": chat("user"), "tools": {}}, "`tools` must be a list", 64),
        (
            {"messages": [{"role": "user", "content": [{"type": ["text"], "text": "a"}]}]},
            r"messages\[0\] \(user\) has a part with a `type` that is a list, not text",
            53,
        ),
        ({"messages": [{"role": "user", "content": [{"type": {}, "tool_use": 1}]}]}, "a `type` that is an object", 53),
        ({"prompt": 5}, "must be text, not the number 5", 12),
        ({"token_ids": [1, "x"]}, "list of token ids", 15),
        ({"token_ids": [[[]]]}, "list of token ids", 15),
        ({"prompt": [[], []]}, r"`prompt\[0\]` is empty", 13),
        ({"prompt": [[1], ["a"]]}, r"`prompt\[1\]` must be a list of token ids", 18),
        ({"token_ids": [1, 2.5]}, "list of token ids", 15),
        ({"token_ids": [1, -3]}, "-3, which is not a token id", 19),
        ({"token_ids": [4294967296]}, "not a token id", 16),
        ({"token_ids": []}, "is empty", 15),
        ({"token_ids": [[1], [2, 3]]}, "list of token ids", 15),
        ({"input_length": 5, "hash_ids": [1, "a"]}, r"hash_ids\[1\] must be a whole number", 37),
        ({"input_length": -5, "hash_ids": [1]}, "from 1 to 2,147,483,647, not the number -5", 18),
        ({"input_length": 5, "output_length": -1, "hash_ids": [1]}, "from 0 to 2,147,483,647, not the number -1", 38),
        ({"hash_ids": [1]}, "`input_length` is missing", 1),
        ({"chunk_size": 0, "chunk_hashes": [], "seq_len": 1}, "not the number 0", 16),
        ({"conversations": [{"from": "martian", "value": "x"}]}, "unknown speaker", 29),
        ({"mesages": []}, "no format knows its 1 key", 1),
        ({"completely": 1, "model": 2}, "its keys are `model` and 1 other", 1),
        ([1, 2], "a record must be an object, not a list", 1),
        (7, "a record must be an object", 1),
    ],
)
def test_wrong_records_are_told_with_their_place(of: Any, record: object, message: str, column: int) -> None:
    with pytest.raises(KvtoolError, match=message) as caught:
        of({"prompt": "a good line"}, record)
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (2, column)
    assert len(of({"prompt": "a good line"}, record, on_bad_line="skip")) == 1


def test_a_near_key_is_suggested(of: Any) -> None:
    with pytest.raises(KvtoolError) as caught:
        of({"promt": "x"})
    assert caught.value.hint == "did you mean `prompt` for `promt`?"


def test_the_format_can_be_forced(of: Any) -> None:
    record = {"text": "a", "messages": chat("user")}
    assert of(record)[0].messages is not None
    assert of(record, format="prompt")[0].text == "a"
    with pytest.raises(KvtoolError, match="not a mooncake record"):
        of(record, format="mooncake")
    with pytest.raises(KvtoolError, match="unknown log format") as caught:
        of(record, format="moncake")
    assert caught.value.hint == "did you mean `mooncake`?"


def test_times() -> None:
    for value, unit, expected in [
        (1_760_995_776, "s", 1_760_995_776),
        (1_760_995_776_640, "s", 1_760_995_776.64),
        (1_760_995_776_640_783, "ms", 1_760_995_776.640783),
        (1_760_995_776_640_783_000, "s", 1_760_995_776.640783),
        (2500, "ms", 2.5),
        (2500, "s", 2500),
        ("2026-11-20T10:15:01Z", "s", 1795169701),
        ("2026-11-20T11:15:01.5+01:00", "ms", 1795169701.5),
        ("yesterday", "s", None),
        (float("nan"), "s", None),
        (True, "s", None),
        (None, "s", None),
    ]:
        assert seconds(value, unit) == (None if expected is None else pytest.approx(expected, abs=1e-6))
