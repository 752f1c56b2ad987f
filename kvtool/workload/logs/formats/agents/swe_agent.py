"""Trajectories of SWE-agent whose steps hold what was sent in `query`; where they do not, the history of the run is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from kvtool.text.files.json_stream import is_message
from kvtool.text.message import Message
from kvtool.workload.logs.records.call_context import FieldsAround, found_call
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.chat_records import message_at
from kvtool.workload.logs.records.record import Record, kind, parsed_text, text_of
from kvtool.workload.logs.records.record_format import Fields, Reading, RecordFormat, Several

_OWN = frozenset(("agent", "message_type", "thought", "action", "is_demo", "tags", "thinking_blocks"))
"""What a message has for the program itself."""


def read(record: Record) -> Reading:
    """Return the call of each step."""
    bare = replace(record, fields={})
    shared: dict[str, list[Message]] = {}
    found = Several()
    model, tools = _configured(record.fields.get("replay_config"))
    around = FieldsAround(session=record.session, model=model)
    for at, step in enumerate(record.fields["trajectory"]):
        if not isinstance(step, dict) or not step.get("query"):
            continue  # a step without a call, as where the run was ended
        query = step["query"]
        if not isinstance(query, list):
            raise record.error(f"`query` must be a list of messages, not {kind(query)}", "trajectory", at, "query")
        messages: list[Message] = []
        for i, each in enumerate(query):
            plain = {key: value for key, value in each.items() if key not in _OWN} if isinstance(each, dict) else each
            written = json.dumps(plain)
            if written not in shared:
                shared[written] = message_at(bare, plain, f"query[{i}]", "trajectory", at, "query", i)
            messages += shared[written]
        answer = {"content": step.get("response"), "tool_calls": step.get("tool_calls")}
        found.append(found_call(bare, messages, around=around, tools=tools, answer=text_of(answer)))
    return found


def _configured(config: Any) -> tuple[str | None, Any]:
    """Return the model and the tools that a run was configured with."""
    config = parsed_text(config) if isinstance(config, str) else config
    agent = config.get("agent") if isinstance(config, dict) else None
    model = agent.get("model") if isinstance(agent, dict) else None
    tools = agent.get("tools") if isinstance(agent, dict) else None
    name = names_of([model.get("name")]) if isinstance(model, dict) else None
    return name, tools if isinstance(tools, list) else None


def fits(fields: Fields) -> bool:
    """Return whether a record is a trajectory whose steps contain their prompts."""
    steps = fields.get("trajectory")
    if not isinstance(steps, list):
        return False
    queries = [step["query"] for step in steps if isinstance(step, dict) and step.get("query")]
    return bool(queries) and all(isinstance(each, list) and is_message(each[0]) for each in queries)


_EXAMPLE = """
{"trajectory": [{"query": [{"role": "system", "content": "You are Mina."}, {"role": "user",
 "content": "Is it open?"}], "response": "Yes."}], "history": []}
"""
FORMAT = RecordFormat("swe-agent", "trajectory[].query", fits, read, example=_EXAMPLE, ending=".traj")
