"""Trajectories in ATIF, the format of Harbor and Terminal-Bench: steps of a user, of the system and of an agent.

A step of the agent is one call, unless it says that it made none or repeats one of another trajectory. `prompt_tokens` counts
the whole prompt with `cached_tokens`.
"""

from __future__ import annotations

import json
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.records.call_fields import decimal_of, names_of
from kvtool.workload.logs.records.chat_records import content_of, tools_of
from kvtool.workload.logs.records.incomplete_prompts import NO_SYSTEM, NO_TOOLS
from kvtool.workload.logs.records.record import Record, kind, object_of, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import count_of, usage_of

_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


def read(record: Record) -> Reading:
    """Return the calls of a trajectory, and of those of the subagents in it."""
    return _calls_of(record, subagent=False)


def _calls_of(record: Record, *, subagent: bool) -> Several:
    fields = record.fields
    agent = record.inner("agent")
    listed = agent is not None and isinstance(agent.fields.get("tool_definitions"), list)
    tools = None
    if agent is not None and listed:
        tools = tools_of(agent.holding({"tools": agent.fields["tool_definitions"]}))
    own, shared = fields.get("trajectory_id"), fields.get("session_id")
    name = names_of([own, shared] if subagent else [shared, own]) or record.where.session
    steps = record.list_of("steps")
    system = any(object_of(each).get("source") == "system" for each in steps)
    incomplete = None if tools and system else NO_TOOLS if system else NO_SYSTEM
    calls = SessionCalls(session=name, tools=tools, incomplete=incomplete, subagent=subagent)
    side = SessionCalls(session=f"{name}/sidechain", subagent=True)
    model = names_of([agent.fields.get("model_name")]) if agent is not None else None
    for at in range(len(steps)):
        step = record.inner("steps", at)
        if step is None:
            raise record.error(f"steps[{at}] must be an object, not {kind(steps[at])}", "steps", at)
        aside = object_of(step.fields.get("extra")).get("is_sidechain") is True
        _add(side if aside else calls, step, at, model)
    found = Several([*calls.close(), *side.close()])
    inner = fields.get("subagent_trajectories")
    for at in range(len(inner) if isinstance(inner, list) else 0):
        trajectory = record.inner("subagent_trajectories", at)
        if trajectory is not None and isinstance(trajectory.fields.get("steps"), list):
            found += _calls_of(trajectory, subagent=True)
    return found


def _add(calls: SessionCalls, step: Record, at: int, model: str | None) -> None:
    fields = step.fields
    role = _ROLES.get(str(fields.get("source")))
    if role is None:
        calls.leave_out(NEW_KIND)
        return
    time = seconds(fields.get("timestamp"), "s")
    said = _message(step, role, at)
    results = _results(step, at)
    if role != "assistant":
        calls.say([said, *results], time)
        return
    if fields.get("is_copied_context") is True or fields.get("llm_call_count") == 0:
        calls.say([said, *results], time)
        return
    metrics = object_of(fields.get("metrics"))
    calls.answer(
        SessionAnswer(
            record=step,
            messages=[said],
            usage=_usage(step, metrics),
            model=names_of([fields.get("model_name"), model]),
            cost=decimal_of(metrics.get("cost_usd")),
            end=time,
        ),
        whole=True,
    )
    calls.say(results, time)


def _message(step: Record, role: str, at: int) -> Message:
    content = content_of(step, step.fields.get("message"), ("message",), f"steps[{at}] ({role})")
    made: Message = {"role": role, "content": content}
    asked = step.fields.get("tool_calls")
    calls = [_call(each) for each in asked if isinstance(each, dict)] if isinstance(asked, list) else []
    return made | {"tool_calls": calls} if calls else made


def _call(call: Fields) -> dict[str, Any]:
    arguments = json.dumps(call.get("arguments") or {}, ensure_ascii=False)
    function = {"name": call.get("function_name"), "arguments": arguments}
    return {"id": call.get("tool_call_id"), "type": "function", "function": function}


def _results(step: Record, at: int) -> list[Message]:
    """Return what came of a step: of its tools, or for the agent to read as of a user."""
    listed = object_of(step.fields.get("observation")).get("results")
    found: list[Message] = []
    for nth, each in enumerate(listed if isinstance(listed, list) else []):
        result = object_of(each)
        if result.get("content") is None:
            continue
        of = result.get("source_call_id")
        role = "user" if of is None else "tool"
        path = ("observation", "results", nth, "content")
        content = content_of(step, result["content"], path, f"steps[{at}] ({role})")
        made: Message = {"role": role, "content": content}
        if of is not None:
            made["tool_call_id"] = of
        found.append(made)
    return found


def _usage(step: Record, metrics: Fields) -> Usage | None:
    """Return the tokens of a step; what was written to the cache and the reasoning are in `extra`, as its API calls them."""
    extra = object_of(metrics.get("extra"))
    counts: Fields = {
        name: metrics[name] for name in ("prompt_tokens", "completion_tokens", "cached_tokens") if name in metrics
    }
    beside: Fields = {name: each for name, each in extra.items() if name not in counts}
    if "reasoning_tokens" in extra:
        beside["completion_tokens_details"] = {"reasoning_tokens": extra["reasoning_tokens"]}
    if not counts:
        return None
    at = (*step.pointer, "metrics")
    prompt, cached = (count_of(counts.get(name) or 0, name, at) for name in ("prompt_tokens", "cached_tokens"))
    written = beside.get("cache_creation_input_tokens")
    if isinstance(written, int) and written > prompt - cached:
        counts["prompt_tokens"] = prompt + written  # a converter that adds only what the cache gave
    return usage_of(beside | counts, at)


def fits(fields: Fields) -> bool:
    """Return whether a record is a trajectory."""
    return str(fields.get("schema_version")).startswith("ATIF") and isinstance(fields.get("steps"), list)


_EXAMPLE = """
{"schema_version": "ATIF-v1.4", "session_id": "s1", "agent": {"name": "terminus", "version": "2",
 "model_name": "claude-sonnet-4-5"}, "steps": [{"step_id": 1, "timestamp": "2026-02-02T09:00:00Z", "source": "system",
 "message": "You are Mina."}, {"step_id": 2, "timestamp": "2026-02-02T09:00:00Z", "source": "user",
 "message": "Is it open?"}, {"step_id": 3, "timestamp": "2026-02-02T09:00:01Z", "source": "agent", "message": "Yes.",
 "metrics": {"prompt_tokens": 24, "completion_tokens": 2, "cached_tokens": 16}}]}
"""
FORMAT = RecordFormat("atif", "schema_version: ATIF-… + steps", fits, read, example=_EXAMPLE, ending=".json")
