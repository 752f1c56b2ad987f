"""Bodies of the OpenAI Responses API: `instructions`, and `input` as a text or as a list of items; chains of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.logs.records.call_fields import answer_object
from kvtool.workload.logs.records.chat_records import content_of, message_at, requests_of
from kvtool.workload.logs.records.incomplete_prompts import kind_of_part
from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_format import Fields, FoundCall, Reading, RecordFormat

ANSWERS, CONTINUED = "response", "continued response"
"""What records are joined by: the id of their answer, and that of the answer before it."""
MISSING = "an earlier answer in its chain is not in the log"
_LONGEST_CHAIN = 1_000  # answers in a chain: a bound for hostile logs
_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "mcp_call": "arguments",
}
_OUTPUTS = frozenset(
    ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output")
) | {"apply_patch_call_output"}


def responses_api(record: Record) -> Reading:
    """Return the request; where it continues an answer that the log holds, with all that was said before."""
    items = ResponseItems(record)
    items.instructions()
    incomplete, root = _add_chain(record, items)
    items.add_input()
    if incomplete is None and _keeps_items(record):
        incomplete = "the server keeps its conversation"
    turns = requests_of(record, items.messages, uncounted=items.uncounted, incomplete=incomplete)
    for index in range(len(turns)):
        turn = turns[index]
        turn.call = replace(turn.call, responses=True)
        if root is not None:
            turn.session = turn.session or root
    return FoundCall(turns, _answer_id(record))


def keys_of(record: Record) -> list[Key]:
    """Return the keys by which other records find this one."""
    keys = [] if (own := _answer_id(record)) is None else [(ANSWERS, own)]
    return keys if (previous := previous_of(record)) is None else [*keys, (CONTINUED, previous)]


def previous_of(record: Record) -> str | None:
    """Return the answer that a request continues."""
    value = record.fields.get("previous_response_id") or answer_object(record)[0].get("previous_response_id")
    return value if isinstance(value, str) and value else None


class ResponseItems:
    """Messages made of items, and those items that cannot be."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.messages: list[Message] = []
        self.uncounted: Counter[str] = Counter()

    def instructions(self) -> None:
        """Add what the request says before all items."""
        value = self._record.fields.get("instructions")
        if isinstance(value, str):
            text = self._record.text(value, "instructions", part="instructions (system)")
            self.messages.append({"role": "system", "content": text})
        elif value is not None:
            self.add_list("instructions")

    def add_input(self) -> None:
        """Add what the request itself sends."""
        value = self._record.required("input")[1]
        if isinstance(value, str):
            text = self._record.text(value, "input", part="input (user)")
            self.messages.append({"role": "user", "content": text})
        else:
            self.add_list("input")

    def add_list(self, name: str) -> None:
        for i, item in enumerate(self._record.list_of(name)):
            self.add(item, self._record, name, i)

    def add(self, item: Any, record: Record, *path: str | int) -> None:
        """Add one item of a request or of an answer."""
        type_ = item.get("type") if isinstance(item, dict) else None
        label = f"{path[-2]}[{path[-1]}]" if len(path) > 1 else "".join(map(str, path)) or "item"
        if not isinstance(type_, str | None):
            raise record.error(f"{label} has a `type` that is not text", *path, "type")
        if type_ in _CALLS:
            said = item.get(_CALLS[type_])
            said = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
            function = {"name": item.get("name") or type_.removesuffix("_call"), "arguments": said}
            call = {"id": item.get("call_id") or item.get("id"), "type": "function", "function": function}
            if self.messages and self.messages[-1]["role"] == "assistant":
                last = self.messages[-1]
                last["tool_calls"] = last.get("tool_calls") or []
                last["tool_calls"].append(call)
            else:
                self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            if type_ == "mcp_call" and isinstance(item.get("output"), str):
                text = record.text(item["output"], *path, "output", part=f"{label} (tool)")
                self.messages.append({"role": "tool", "tool_call_id": item.get("id"), "content": text})
        elif type_ in _OUTPUTS:
            output = item.get("output")
            if isinstance(output, dict):
                output = json.dumps(output, ensure_ascii=False)
            content = content_of(record, output, (*path, "output"), f"{label} (tool)")
            self.messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
        elif type_ in (None, "message") or (isinstance(item, dict) and "role" in item and "content" in item):
            self.messages += message_at(record, item, label, *path)
        else:
            self.uncounted[kind_of_part(type_)] += 1


def _add_chain(record: Record, items: ResponseItems) -> tuple[str | None, str | None]:
    """Put what was said before in front: why it is not all of that, if it is not, and the first answer of the chain."""
    previous = previous_of(record)
    joins = record.where.joins
    own = _answer_id(record)
    if previous is None:
        begun = joins is not None and own is not None and joins.has(CONTINUED, own)
        return None, own if begun else None
    if joins is None:
        return MISSING, previous
    chain: list[Record] = []
    incomplete, root = None, previous
    seen: set[str] = set()
    while previous is not None:
        root = previous
        found = joins.find(ANSWERS, previous)
        if not found or previous in seen or len(chain) >= _LONGEST_CHAIN:
            incomplete = MISSING
            break
        seen.add(previous)
        chain.append(found[0])
        previous = previous_of(found[0])
    for before in reversed(chain):
        made = ResponseItems(before)
        made.add_input()
        answer, at = answer_object(before)
        around = Record(answer, before.where, at, (), before.in_text)
        output = answer.get("output")
        if isinstance(output, list):
            for i, item in enumerate(output):
                made.add(item, around, "output", i)
        items.messages += made.messages
        items.uncounted.update(made.uncounted)
    return incomplete, root


def _answer_id(record: Record) -> str | None:
    value = answer_object(record)[0].get("id")
    return value if isinstance(value, str) and value else None


def _keeps_items(record: Record) -> bool:
    """Return whether the request adds to a conversation of the server, so that it holds only what is new."""
    conversation = record.fields.get("conversation")
    return (isinstance(conversation, str) and conversation.startswith("conv_")) or isinstance(conversation, dict)


def fits(fields: Fields) -> bool:
    """Return whether a record is a body of the API."""
    if "input" not in fields:
        return False
    items = fields["input"]
    return (
        "instructions" in fields
        or (isinstance(items, list) and (not items or isinstance(items[0], dict)))
        or "previous_response_id" in fields
    )


_EXAMPLE = """
{"model": "gpt-5.5", "instructions": "You are Mina.", "input": "Is it open?"}
"""
FORMAT = RecordFormat("responses", "instructions + input", fits, responses_api, "s", keys_of, example=_EXAMPLE)
