"""Rows of data sets: conversations, questions that an engine is to answer, and instructions for training."""

from __future__ import annotations

from typing import Any

from kvtool.text.message import Message
from kvtool.workload.logs.records.call_fields import call_of
from kvtool.workload.logs.records.chat_records import messages_of, requests_of, tools_of
from kvtool.workload.logs.records.record import Dialogue, Record, kind, whole
from kvtool.workload.logs.records.record_format import Fields, RecordFormat, Turns

_SPEAKERS = {
    "human": "user", "user": "user", "prompter": "user",
    "gpt": "assistant", "assistant": "assistant", "model": "assistant", "chatgpt": "assistant", "bot": "assistant",
    "bing": "assistant", "bard": "assistant", "function_call": "assistant",
    "system": "system",
    "tool": "tool", "observation": "tool", "function_response": "tool",
}  # fmt: skip


def sharegpt(record: Record) -> Turns:
    """Read a conversation of ShareGPT: `from` is the speaker, `value` the text."""
    name = record.required("conversations", "conversation")[0]
    return requests_of(record, _spoken(record, record.list_of(name), name), transcript=True)


def bare_list(record: Record, items: list[Any]) -> Turns:
    """Return a conversation that is nothing but a list of messages."""
    return requests_of(record, _spoken(record, items), transcript=True)


def _spoken(record: Record, items: list[Any], *path: str) -> list[Message]:
    messages: list[Message] = []
    label = "".join(path)
    for i, item in enumerate(items):
        if not isinstance(item, dict) or "from" not in item:
            messages += messages_of(record, [item], *path, first=i)
            continue
        speaker = item["from"]
        role = _SPEAKERS.get(speaker.lower()) if isinstance(speaker, str) else None
        if role is None:
            known = ", ".join(sorted(_SPEAKERS))
            raise record.error(
                f"{label}[{i}] has an unknown speaker", *path, i, "from", hint=f"known speakers: {known}"
            )
        if "value" not in item:
            raise record.error(f"{label}[{i}] has no `value`", *path, i)
        text = record.text(item["value"], *path, i, "value", part=f"{label}[{i}] ({role})")
        messages.append({"role": role, "content": text})
    return messages


def bfcl(record: Record) -> Turns:
    """Return the Berkeley function calling benchmark: `question` is a list of turns, each a list of messages."""
    turns: list[list[Message]] = []
    for i, turn in enumerate(record.list_of("question")):
        if not isinstance(turn, list):
            raise record.error(f"question[{i}] must be a list of messages, not {kind(turn)}", "question", i)
        turns.append(messages_of(record, turn, "question", i))
    return _dialogue(record, [turn for turn in turns if turn])


def user_turns(record: Record) -> Turns:
    """Read turns of a user only, to be answered by the engine: AIPerf's multi_turn, or a list of questions."""
    turns: list[list[Message]] = []
    lengths: list[int | None] = []
    for i, turn in enumerate(record.list_of("turns")):
        part = f"turns[{i}] (user)"
        if not isinstance(turn, dict):
            turns.append([{"role": "user", "content": record.text(turn, "turns", i, part=part, name=f"turns[{i}]")}])
            lengths.append(None)
            continue
        if "text" not in turn:
            raise record.error(f"turns[{i}] has no `text`", "turns", i)
        role = turn.get("role", "user")
        text = record.text(turn["text"], "turns", i, "text", part=part)
        turns.append([{"role": role if isinstance(role, str) else "user", "content": text}])
        length = turn.get("output_length", turn.get("output_tokens"))
        lengths.append(None if length is None else whole(record, length, "output_length", "turns", i))
    result = _dialogue(record, turns)
    for made, length in zip(result, lengths, strict=True):
        made.output_tokens = length
    return result


def _dialogue(record: Record, turns: list[list[Message]]) -> Dialogue:
    if not turns:
        raise record.error("it contains no turns")
    tools = tools_of(record)
    return Dialogue(
        record.turn(index=i, turns=len(turns), messages=messages, tools=tools) for i, messages in enumerate(turns)
    )


def alpaca(record: Record) -> Turns:
    """Return the instruction and, after a blank line, its input."""
    text = record.text(record.fields["instruction"], "instruction", part="instruction (user)")
    if isinstance(about := record.fields.get("input"), str) and about:
        text = text + "\n\n" + record.text(about, "input", part="input (user)")
    answer = record.first("output", "response")
    return [
        record.turn(
            call=call_of(record),
            messages=[{"role": "user", "content": text}],
            output_text=answer if isinstance(answer, str) else None,
        )
    ]


def _is_sharegpt(fields: Fields) -> bool:
    return "conversations" in fields or isinstance(fields.get("conversation"), list)


def _is_alpaca(fields: Fields) -> bool:
    return isinstance(fields.get("instruction"), str) and ("output" in fields or "response" in fields)


_SHAREGPT_EXAMPLE = """
{"conversations": [{"from": "human", "value": "Is it open?"}, {"from": "gpt", "value": "Yes."}]}
"""
_ALPACA_EXAMPLE = """
{"instruction": "Answer.", "input": "Is it open?", "output": "Yes."}
"""
_BFCL_EXAMPLE = """
{"id": "q1", "question": [[{"role": "user", "content": "Is it open?"}]], "function": []}
"""
_TURNS_EXAMPLE = """
{"turns": ["Is it open?", "And on Sunday?"]}
"""
FORMATS = (
    RecordFormat("sharegpt", "conversations", _is_sharegpt, sharegpt, example=_SHAREGPT_EXAMPLE),
    RecordFormat("alpaca", "instruction + output", _is_alpaca, alpaca, "s", example=_ALPACA_EXAMPLE),
    RecordFormat(
        "bfcl",
        "question + function",
        lambda fields: isinstance(fields.get("question"), list),
        bfcl,
        example=_BFCL_EXAMPLE,
    ),
    RecordFormat(
        "turns", "turns", lambda fields: isinstance(fields.get("turns"), list), user_turns, example=_TURNS_EXAMPLE
    ),
)
