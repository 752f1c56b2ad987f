"""Records that hold a prompt as one text, or as the lists that the completions API takes in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvtool.text.files.json_stream import is_message
from kvtool.text.message import Message
from kvtool.workload.call import Call, Usage
from kvtool.workload.logs.formats import token_traces
from kvtool.workload.logs.formats.apis.chat_bodies import chat_at
from kvtool.workload.logs.records import chat_records
from kvtool.workload.logs.records.call_fields import call_of
from kvtool.workload.logs.records.incomplete_prompts import why_incomplete
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_format import Reading, RecordFormat
from kvtool.workload.request_fields import request_fields, requested_answers

PROMPTS = ("prompt", "text_input", "text", "input", "inputs")
"""Fields that hold one."""


def prompts(record: Record) -> Reading:
    """Return a prompt as text or as token ids; a list of these is one request of the engine for each."""
    name, value = record.required(*PROMPTS)
    if isinstance(value, list) and value and is_message(value[0]):
        return chat_at(record, name)
    several = isinstance(value, list) and bool(value) and isinstance(value[0], str | list)
    prompts = [((name, at), each) for at, each in enumerate(value)] if several else [((name,), value)]
    system = record.fields.get("system")
    if isinstance(system, str) and system and isinstance(value, str):
        contents: list[dict[str, Any]] = [{"messages": _with_system(record, system, value, name)}]
    else:
        contents = [_content(record, each, *path) for path, each in prompts]
    fields = request_fields(record.fields)
    answers = requested_answers(fields)
    said = chat_records.answers_of(record, answers * len(contents), _echoed(contents[0]) if fields.get("echo") else "")
    calls = _calls(_whole_call(record, contents), len(contents))
    turns = []
    for at, (content, call) in enumerate(zip(contents, calls, strict=True)):
        first, *more = said[at * answers : (at + 1) * answers]
        turns.append(
            record.turn(
                index=at,
                turns=len(contents),
                call=call,
                output_text=first.text,
                output_ids=first.ids,
                output_tokens=first.tokens,
                more_answers=tuple(more),
                fields=fields,
                **content,
            )
        )
    return turns


def _content(record: Record, value: Any, *path: str | int) -> dict[str, Any]:
    """Return a prompt as a turn has it."""
    part = "".join(f"[{step}]" if isinstance(step, int) else step for step in path)
    if not isinstance(value, list):
        return {"text": record.text(value, *path, part=part, name=f"`{part}`")}
    ids = token_traces.ids_of(record, value, *path)
    if not len(ids):
        raise record.error(f"`{part}` is empty", *path)
    return {"token_ids": ids}


def _with_system(record: Record, system: str, prompt: str, name: str) -> list[Message]:
    """Return the messages of a prompt with a system text beside it, as Ollama's `/api/generate` has it."""
    return [
        {"role": "system", "content": record.text(system, "system", part="system")},
        {"role": "user", "content": record.text(prompt, name, part=name)},
    ]


def _echoed(content: dict[str, Any]) -> str | None:
    """Return the text of the prompt that an answer repeats; None for token ids, whose text only the server knows."""
    return content.get("text")


def _whole_call(record: Record, contents: list[dict[str, Any]]) -> Call:
    """Return the call of a record, all prompts together."""
    call = call_of(record)
    texts = [text for each in contents for text in _texts(each)]
    usage = call.usage if all(map(_texts, contents)) else None
    why = why_incomplete(texts, None if usage is None else usage.prompt, uncounted=False)
    return call if why is None else replace(call, incomplete=why)


def _texts(content: dict[str, Any]) -> list[str]:
    return [content["text"]] if "text" in content else [each["content"] for each in content.get("messages", ())]


def _calls(call: Call, count: int) -> list[Call]:
    """Return the call of each prompt. Of several, the server's usage has the cached tokens of the last one; of a stream, of the
    first."""
    if count == 1:
        return [call]
    calls = [replace(call, usage=None, cost=None, prompts=count)] * count
    cached = None if call.usage is None or call.usage.cached is None else Usage(cached=call.usage.cached)
    calls[0 if call.streamed else -1] = replace(call, usage=cached, shares_usage=True, prompts=count)
    return calls


_EXAMPLE = """
{"prompt": "Is it open?", "output_tokens": 2}
"""
FORMAT = RecordFormat(
    "prompt",
    "prompt, text or input",
    lambda fields: any(name in fields and not isinstance(fields[name], dict) for name in PROMPTS),
    prompts,
    "s",
    example=_EXAMPLE,
)
