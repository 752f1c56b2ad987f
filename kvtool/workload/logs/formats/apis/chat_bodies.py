"""Bodies of the chat APIs of OpenAI and Anthropic, and other lists of messages with roles.

Stored completions, as OpenAI lists them, are answers with the messages that were asked beside them, where those were fetched, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from kvtool.text.message import Message
from kvtool.workload.logs.records.chat_records import content_of, messages_of, requests_of
from kvtool.workload.logs.records.incomplete_prompts import NO_TOOLS
from kvtool.workload.logs.records.record import Record, parsed_text
from kvtool.workload.logs.records.record_format import Fields, Reading, RecordFormat, Turns

_ANSWERS = frozenset(("chat.completion", "text_completion", "chat.completion.chunk"))
_ASKED = ("messages", "request_messages", "input_messages")
_OF_ANSWER = ("id", "object", "created", "model", "choices", "usage", "service_tier")
_TRAJECTORIES = ("traj", "history", "trajectory")


def chat(record: Record) -> Turns:
    """Return a body of the OpenAI or Anthropic chat API, alone or beside its response; or a conversation of a data set."""
    return chat_at(record, "messages")


def chat_at(record: Record, name: str) -> Turns:
    """Return a chat body whose list of messages has another name."""
    value = record.fields.get(name)
    if isinstance(value, str) and (parsed := parsed_text(value)) is not None:
        record = replace(record.holding({**record.fields, name: parsed}, name), in_text=True)
    messages = [*_system(record), *messages_of(record, record.list_of(name), name)]
    return requests_of(
        record,
        messages,
        transcript="trajectory_format" in record.fields,
        incomplete=NO_TOOLS if _lacks_tools(record, messages) else None,
    )


def _lacks_tools(record: Record, messages: list[Message]) -> bool:
    """Return whether a saved session calls tools that it does not contain."""
    if "system_prompt" not in record.fields or record.fields.get("tools"):
        return False
    return any(message.get("tool_calls") or message.get("role") == "tool" for message in messages)


def _system(record: Record) -> list[Message]:
    """Return what is beside the messages: Anthropic's `system`, or the `system_prompt` of a saved session."""
    name = next((name for name in ("system", "system_prompt") if record.fields.get(name) is not None), None)
    if name is None or (name != "system" and not isinstance(record.fields[name], str)):
        return []
    value = record.fields[name]
    numbered = isinstance(value, list) and len(value) > 1
    return [{"role": "system", "content": content_of(record, value, (name,), "system", numbered=numbered)}]


def trajectory(record: Record) -> Turns:
    """Read the steps of an agent: one list of messages, which need not end with an answer."""
    name = record.required(*_TRAJECTORIES, "messages")[0]
    return requests_of(record, messages_of(record, record.list_of(name), name), transcript=True)


def _is_trajectory(fields: Fields) -> bool:
    return any(isinstance(fields.get(name), list) for name in _TRAJECTORIES)


def is_answer(fields: Fields) -> bool:
    """Return whether a record is the answer of a chat API itself, and not one beside a request."""
    kind = fields.get("object")
    return isinstance(kind, str) and kind in _ANSWERS and "choices" in fields


def has_messages(fields: Fields) -> bool:
    """Return whether it is one that says what was asked."""
    return is_answer(fields) and any(isinstance(fields.get(name), list) for name in _ASKED)


def read_stored(record: Record) -> Reading:
    """Return the request of an answer."""
    name = next(name for name in _ASKED if isinstance(record.fields.get(name), list))
    answer = {key: record.fields[key] for key in _OF_ANSWER if key in record.fields}
    return chat_at(record.holding({**record.fields, "response": answer}), name)


def refuse(record: Record) -> NoReturn:
    """Return an answer that says nothing of what was asked."""
    raise record.error(
        "an answer of the chat API without its request contains no prompt",
        hint="for stored completions, add `messages` to each (GET /v1/chat/completions/ID/messages)",
    )


_CHAT_EXAMPLE = """
{"timestamp": "2026-02-02T09:00:00Z", "user": "north", "request": {"model": "gpt-5.5",
 "messages": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]},
 "response": {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"role": "assistant",
 "content": "Yes."}}], "usage": {"prompt_tokens": 24, "completion_tokens": 2,
 "prompt_tokens_details": {"cached_tokens": 16}}}}
"""
_TRAJECTORY_EXAMPLE = """
{"history": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"},
 {"role": "assistant", "content": "Yes."}]}
"""
_STORED_COMPLETION_EXAMPLE = """
{"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"role": "assistant",
 "content": "Yes."}}], "usage": {"prompt_tokens": 24, "completion_tokens": 2,
 "prompt_tokens_details": {"cached_tokens": 16}}, "model": "gpt-5.5", "messages": [{"role": "system",
 "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]}
"""
_ANSWERS_EXAMPLE = """
{"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"role": "assistant",
 "content": "Yes."}}], "usage": {"prompt_tokens": 24, "completion_tokens": 2,
 "prompt_tokens_details": {"cached_tokens": 16}}}
"""
FORMATS = (
    RecordFormat(
        "chat",
        "messages",
        lambda fields: fields.get("messages") not in (None, {}, ""),
        chat,
        "s",
        example=_CHAT_EXAMPLE,
    ),
    RecordFormat("trajectory", "traj or history", _is_trajectory, trajectory, example=_TRAJECTORY_EXAMPLE),
    RecordFormat(
        "stored-completion",
        "object: chat.completion + messages; `request_messages` is experimental",
        has_messages,
        read_stored,
        "s",
        example=_STORED_COMPLETION_EXAMPLE,
    ),
    RecordFormat("answers", "object: chat.completion without its request", is_answer, refuse, example=_ANSWERS_EXAMPLE),
)
