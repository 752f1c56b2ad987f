"""Bodies of Alibaba's own API for Qwen (DashScope): messages in `input`, settings in `parameters`, the answer in `output`."""

from __future__ import annotations

from typing import Any

from kvtool.workload.logs.records.call_fields import answer_object
from kvtool.workload.logs.records.chat_records import messages_of, requests_of
from kvtool.workload.logs.records.record import Record, object_of
from kvtool.workload.logs.records.record_format import Fields, RecordFormat, Turns


def read(record: Record) -> Turns:
    """Return the request of a body."""
    asked = record.inner("input")
    assert asked is not None
    if isinstance(asked.fields.get("messages"), list):
        messages = messages_of(asked, asked.fields["messages"], "messages")
    else:
        prompt = asked.text(asked.fields["prompt"], "prompt", part="prompt")
        messages = [{"role": "user", "content": prompt}]
    parameters = object_of(record.fields.get("parameters"))
    body: Fields = {**parameters, **{name: each for name, each in record.fields.items() if name not in _MOVED}}
    answer = answer_object(record)[0]
    if answer:
        body["response"] = _answer(answer)
    return requests_of(record.holding(body), messages, single=True)


_MOVED = ("input", "parameters", "output", "response")


def _answer(answer: Fields) -> Fields:
    """Return an answer in the form of the chat API."""
    output = object_of(answer.get("output"))
    choices: Any = output.get("choices")
    if not isinstance(choices, list):
        choices = [{"message": {"role": "assistant", "content": output.get("text")}}]
    rest = {name: each for name, each in answer.items() if name != "output"}
    return {"id": answer.get("request_id"), **rest, "choices": choices}


def fits(fields: Fields) -> bool:
    """Return whether a record is a body of the API: its messages or its prompt are in `input`."""
    asked = fields.get("input")
    if not isinstance(asked, dict) or not isinstance(fields.get("model"), str):
        return False
    return isinstance(asked.get("messages"), list) or isinstance(asked.get("prompt"), str)


_EXAMPLE = """
{"request": {"model": "qwen3-max", "input": {"messages": [{"role": "system", "content": "You are Mina."},
 {"role": "user", "content": "Is it open?"}]}, "parameters": {"result_format": "message"}}, "response": {"output":
 {"choices": [{"message": {"role": "assistant", "content": "Yes."}}]}, "usage": {"input_tokens": 24, "output_tokens": 2,
 "prompt_tokens_details": {"cached_tokens": 16}}}}
"""
FORMAT = RecordFormat("dashscope", "input.messages + model", fits, read, "s", example=_EXAMPLE)
