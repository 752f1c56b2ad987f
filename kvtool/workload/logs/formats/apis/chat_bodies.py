"""Bodies of the chat APIs of OpenAI and Anthropic, and other lists of messages with roles."""

from __future__ import annotations

from dataclasses import replace

from kvtool.text.message import Message
from kvtool.workload.logs.records.chat_records import content_of, messages_of, requests_of
from kvtool.workload.logs.records.record import Record, parsed_text
from kvtool.workload.logs.records.record_format import Fields, RecordFormat
from kvtool.workload.logs.records.record_readings import Turns

_TRAJECTORIES = ("traj", "history", "trajectory")


def chat(record: Record) -> Turns:
    """A body of the OpenAI or Anthropic chat API, alone or beside its response; or a conversation of a data set."""
    return chat_at(record, "messages")


def chat_at(record: Record, name: str) -> Turns:
    """A chat body whose list of messages has another name."""
    value = record.fields.get(name)
    if isinstance(value, str) and (parsed := parsed_text(value)) is not None:
        record = replace(record.holding({**record.fields, name: parsed}, name), in_text=True)
    messages = [*_system(record), *messages_of(record, record.list_of(name), name)]
    return requests_of(record, messages, transcript="trajectory_format" in record.fields)


def _system(record: Record) -> list[Message]:
    """Anthropic's `system`, which stands beside the messages."""
    value = record.fields.get("system")
    if value is None:
        return []
    return [{"role": "system", "content": content_of(record, value, ("system",), "system")}]


def trajectory(record: Record) -> Turns:
    """What an agent did, as one list of messages; it need not end with an answer."""
    name = record.required(*_TRAJECTORIES, "messages")[0]
    return requests_of(record, messages_of(record, record.list_of(name), name), transcript=True)


def _is_trajectory(fields: Fields) -> bool:
    return any(isinstance(fields.get(name), list) for name in _TRAJECTORIES)


FORMATS = (
    RecordFormat(
        "chat",
        "messages",
        lambda fields: fields.get("messages") not in (None, {}, ""),
        chat,
        "s",
        example="""
{"timestamp": "2026-02-02T09:00:00Z", "user": "north", "request": {"model": "gpt-5.5",
 "messages": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]},
 "response": {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"role": "assistant",
 "content": "Yes."}}], "usage": {"prompt_tokens": 24, "completion_tokens": 2,
 "prompt_tokens_details": {"cached_tokens": 16}}}}
""",
    ),
    RecordFormat(
        "trajectory",
        "traj or history",
        _is_trajectory,
        trajectory,
        example="""
{"history": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"},
 {"role": "assistant", "content": "Yes."}]}
""",
    ),
)
