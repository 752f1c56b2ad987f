"""Stored completions as OpenAI lists them: answers, with the messages that were asked beside them where those were fetched, too."""

from __future__ import annotations

from typing import Any, NoReturn

from kvtool.workload.logs.formats.apis.chat_bodies import chat_at
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_format import RecordFormat
from kvtool.workload.logs.records.record_readings import Reading

_ANSWERS = frozenset(("chat.completion", "text_completion", "chat.completion.chunk"))
_ASKED = ("messages", "request_messages", "input_messages")
_OF_ANSWER = ("id", "object", "created", "model", "choices", "usage", "service_tier")


def is_answer(fields: dict[str, Any]) -> bool:
    """Whether a record is the answer of a chat API itself, and not one beside a request."""
    kind = fields.get("object")
    return isinstance(kind, str) and kind in _ANSWERS and "choices" in fields


def has_messages(fields: dict[str, Any]) -> bool:
    """Whether it is one that says what was asked."""
    return is_answer(fields) and any(isinstance(fields.get(name), list) for name in _ASKED)


def read(record: Record) -> Reading:
    """The request of an answer."""
    name = next(name for name in _ASKED if isinstance(record.fields.get(name), list))
    answer = {key: record.fields[key] for key in _OF_ANSWER if key in record.fields}
    return chat_at(record.holding({**record.fields, "response": answer}), name)


def refuse(record: Record) -> NoReturn:
    """An answer that says nothing of what was asked."""
    raise record.error(
        "an answer of the chat API without its request: it holds no prompt",
        hint="of stored completions fetch the messages, too (GET /v1/chat/completions/ID/messages), into `messages` of each",
    )


FORMATS = (
    RecordFormat(
        "stored-completion",
        "object: chat.completion + messages; `request_messages` is experimental",
        has_messages,
        read,
        "s",
        example="""
{"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"role": "assistant",
 "content": "Yes."}}], "usage": {"prompt_tokens": 24, "completion_tokens": 2,
 "prompt_tokens_details": {"cached_tokens": 16}}, "model": "gpt-5.5", "messages": [{"role": "system",
 "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]}
""",
    ),
    RecordFormat(
        "answers",
        "object: chat.completion without its request",
        is_answer,
        refuse,
        example="""
{"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"role": "assistant",
 "content": "Yes."}}], "usage": {"prompt_tokens": 24, "completion_tokens": 2,
 "prompt_tokens_details": {"cached_tokens": 16}}}
""",
    ),
)
