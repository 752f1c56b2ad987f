"""LangSmith: runs, of which those of type `llm` are calls; LangChain writes their messages as constructors."""

from __future__ import annotations

from typing import Any

from kvtool.workload.logs.records.call_context import FieldsAround, call_from, usage_alone
from kvtool.workload.logs.records.call_fields import decimal_of, names_of
from kvtool.workload.logs.records.record import Record, object_of, seconds
from kvtool.workload.logs.records.record_format import FoundCall, LeftOut, RecordFormat, Several
from kvtool.workload.logs.records.usage import usage_of

_SESSIONS = ("thread_id", "session_id", "conversation_id")
_TENANTS = ("user_id", "tenant_id", "customer_id", "user")
_KINDS = frozenset(("chain", "tool", "retriever", "embedding", "prompt", "parser"))
_WITHOUT = LeftOut("call without a prompt", hint="LangSmith has no inputs: LANGSMITH_HIDE_INPUTS hides them")


def read(record: Record) -> Several:
    """Return a run and those below it."""
    found = Several()
    _add(found, record, record.fields)
    return found


def _add(found: Several, record: Record, run: dict[str, Any]) -> None:
    children = [each for each in run.get("child_runs") or () if isinstance(each, dict)]
    kind = str(run.get("run_type") or "")
    if kind == "llm" and not any(each.get("run_type") == "llm" for each in children):
        found.append(_call(record, run))
    elif kind == "embedding":
        found.append(LeftOut("embedding"))
    else:
        found.append(LeftOut(f"{kind} span" if kind in _KINDS else "other span"))
    for child in children:
        _add(found, record, child)


def _call(record: Record, run: dict[str, Any]) -> FoundCall | LeftOut:
    outputs = object_of(run.get("outputs"))
    if run.get("error") and not outputs:
        return LeftOut("failed")
    extra = object_of(run.get("extra"))
    told, asked = object_of(extra.get("metadata")), object_of(extra.get("invocation_params"))
    answer, usage = _answer(outputs)
    around = FieldsAround(
        session=names_of([*(told.get(name) for name in _SESSIONS), run.get("thread_id"), run.get("trace_id")]),
        tenant=names_of([told.get(name) for name in _TENANTS]),
        time=seconds(run.get("start_time"), "s"),
        end=seconds(run.get("end_time"), "s"),
        first_answer=seconds(run.get("first_token_time"), "s"),
        identity=names_of([run.get("id")]),
        value=run,
        model=names_of([told.get("ls_model_name"), asked.get("model"), asked.get("model_name")]),
        provider=names_of([told.get("ls_provider")]),
        usage=usage_of(usage or told.get("usage_metadata"), record.pointer)
        or usage_of(
            {name: run[name] for name in ("prompt_tokens", "completion_tokens") if run.get(name)}, record.pointer
        ),
        cost=decimal_of(run.get("total_cost")),
    )
    inputs = run.get("inputs")
    if isinstance(inputs, dict) and isinstance(inputs.get("prompts"), list) and inputs["prompts"]:
        inputs = inputs["prompts"][0]
    return call_from(record, inputs, around, answer=answer, beside=asked) or usage_alone(record, around) or _WITHOUT


def _answer(outputs: dict[str, Any]) -> tuple[Any, Any]:
    """Return the message that was answered, and what is said of tokens."""
    usage = outputs.get("usage_metadata") or outputs.get("usage")
    model = object_of(outputs.get("llm_output"))
    usage = usage or model.get("token_usage") or model.get("usage")
    generations = outputs.get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    if isinstance(generations, dict):
        message = generations.get("message") or generations.get("text")
        inner = object_of(message)
        inner = object_of(inner.get("kwargs")) or object_of(inner.get("data")) or inner
        return message, inner.get("usage_metadata") or usage
    if "choices" in outputs or "content" in outputs:
        return outputs, usage
    return outputs.get("message") or outputs.get("messages") or outputs.get("output"), usage


_EXAMPLE = """
{"id": "r1", "run_type": "llm", "start_time": "2026-02-02T09:00:00Z", "inputs": {"model": "gpt-5.5",
 "messages": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]},
 "outputs": {"choices": []}}
"""
FORMAT = RecordFormat(
    "langsmith", "run_type + inputs", lambda fields: "run_type" in fields and "inputs" in fields, read, example=_EXAMPLE
)
