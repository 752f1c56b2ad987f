"""Langfuse: observations as its API and its exports give them, alone or in their trace, and as SDKs send them."""

from __future__ import annotations

from typing import Any

from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.observability.otel_spans import Span
from kvtool.workload.logs.records.call_context import FieldsAround, call_from
from kvtool.workload.logs.records.call_fields import decimal_of, names_of
from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record, object_of, parsed_text, seconds
from kvtool.workload.logs.records.record_format import Fields, FoundCall, LeftOut, RecordFormat, Several
from kvtool.workload.logs.records.usage import checked, count_of, details_name_of, usage_of

_KINDS = frozenset(("event", "span", "agent", "tool", "chain", "retriever", "evaluator", "embedding", "guardrail"))
_TYPES = frozenset(("GENERATION", "generation", *(kind.upper() for kind in _KINDS)))
_OF_TRACES = frozenset(("projectId", "sessionId", "timestamp"))
_MODELS = ("model", "providedModelName", "provided_model_name", "model_name", "internalModel")
_READ = (
    *("input_cached_tokens", "cache_read_input_tokens", "input_cache_read", "cached_tokens", "input_cached"),
    *("prompt_details.cache_read", "input_details.cache_read"),
)
_WRITTEN = (
    *("cache_creation_input_tokens", "input_cache_creation", "input_cache_write", "cache_write_tokens"),
    *("input_cache_write_tokens", "prompt_details.cache_write"),
)
_WRITTEN_5M = ("input_cache_creation_5m", "cache_creation_ephemeral_5m_input_tokens")
_WRITTEN_1H = ("input_cache_creation_1h", "cache_creation_ephemeral_1h_input_tokens")
_WRITTEN_12H = ("input_cache_write_12h_tokens", "cache_write_12h_tokens")
_REASONING = ("output_reasoning", "output_reasoning_tokens")
LANGFUSE_TYPE, LANGFUSE_INPUT = "langfuse.observation.type", "langfuse.observation.input"
_OF_SPAN = {
    **{name: name for name in ("input", "output", "level")},
    "model": "model.name",
    "modelParameters": "model.parameters",
    "completionStartTime": "completion_start_time",
    "usageDetails": "usage_details",
    "costDetails": "cost_details",
}
"""Fields of an observation, by what they are called in a span."""
_HOLDS = "langfuse generation around another"
_UPDATE, _TRACE = "langfuse update of a generation", "langfuse trace"
_ABOUT = {"generation-update": _UPDATE, "trace-create": _TRACE}
_AROUND = LeftOut("second record of the same call")
_CALLED_WITH = frozenset(("args", "kwargs"))
"""What a decorated function was called with, where a framework logs its call."""
_WITHOUT = LeftOut("call without a prompt", hint="Langfuse has no input: it is masked, or the export leaves it out")


def keys_of(record: Record) -> list[Key]:
    """Return the generation that a generation was made in."""
    holder = _holder(record.fields)
    return [] if holder is None else [(_HOLDS, holder)]


def _holder(fields: dict[str, Any]) -> str | None:
    if not _is_generation(fields) or not fields.get("input"):
        return None
    return names_of([fields.get("parentObservationId"), fields.get("parent_observation_id")])


def _is_generation(fields: dict[str, Any]) -> bool:
    return str(fields.get("type")).lower() == "generation"


def read(record: Record) -> FoundCall | LeftOut:
    """Return an observation; a generation is a call, the innermost of several."""
    joins, own = record.where.joins, names_of([record.fields.get("id")])
    if _is_generation(record.fields) and joins is not None and own is not None and joins.has(_HOLDS, own):
        return _AROUND
    return _observation(record, record.fields, {})


def read_trace(record: Record) -> Several:
    """Return a trace with its observations: beside its fields, or beside an object of these, as the download of the web page."""
    trace = {**object_of(record.fields.get("trace")), **record.fields}
    given = [each for each in trace["observations"] if isinstance(each, dict)]
    around = {holder for each in given if (holder := _holder(each)) is not None}
    inner = [each for each in given if not (_is_generation(each) and names_of([each.get("id")]) in around)]
    found: Several = Several(_observation(record, each, trace) for each in inner)
    found += [_AROUND] * (len(given) - len(inner))
    return found


def keys_of_event(record: Record) -> list[Key]:
    """Return what an event is about, where others ask for it: the trace, or the generation that it updates."""
    about = _ABOUT.get(record.fields["type"])
    own = names_of([object_of(record.fields.get("body")).get("id")])
    return [] if about is None or own is None else [(about, own)]


def read_event(record: Record) -> FoundCall | LeftOut:
    """Return an event of the API that takes in what SDKs send: `generation-create` is a call, to which later updates add."""
    kind = record.fields["type"]
    if kind != "generation-create":
        return LeftOut("trace event")
    inner = record.inner("body")
    if inner is None:
        return LeftOut("trace event")

    def found(about: str, name: str) -> dict[str, Any]:
        own, joins = names_of([inner.fields.get(name)]), record.where.joins
        bodies = [] if own is None or joins is None else [each.fields["body"] for each in joins.find(about, own)]
        return {key: value for body in bodies for key, value in body.items() if value is not None}

    whole = {**inner.fields, **found(_UPDATE, "id"), "type": "GENERATION"}
    return _observation(inner, whole, found(_TRACE, "traceId"))


def _observation(record: Record, fields: dict[str, Any], trace: dict[str, Any]) -> FoundCall | LeftOut:
    def first(*names: str) -> Any:
        return next((fields[name] for name in names if fields.get(name) is not None), None)

    if (left := left_out_of_type(str(first("type") or ""))) is not None:
        return left
    answer = first("output")
    if first("level") == "ERROR" and not answer:
        return LeftOut("failed")
    parameters = object_of(_parsed(first("modelParameters", "model_parameters")))
    cost = object_of(_parsed(first("costDetails", "cost_details")))
    sent, tools = _sent(first("input"))
    around = FieldsAround(
        session=names_of(
            [first("sessionId", "session_id"), trace.get("sessionId"), first("traceId", "trace_id"), trace.get("id")]
        ),
        tenant=names_of([first("userId", "user_id"), trace.get("userId")]),
        time=seconds(first("startTime", "start_time"), "s"),
        end=seconds(first("endTime", "end_time"), "s"),
        first_answer=seconds(first("completionStartTime", "completion_start_time"), "s"),
        identity=names_of([first("id")]),
        value=fields,
        model=names_of([first(*_MODELS)]),
        usage=_usage(record, first("usageDetails", "usage_details", "usage")),
        cost=decimal_of(cost.get("total") or first("calculatedTotalCost", "totalPrice")),
    )
    beside = {**parameters, **({"tools": tools} if tools else {})}
    return call_from(record, sent, around, answer=answer, beside=beside) or _WITHOUT


def left_out_of_type(type_: str) -> LeftOut | None:
    """Return what an observation of this type is left out as; None for a generation, which is a call."""
    kind = type_.lower()
    if kind == "generation":
        return None
    return LeftOut(
        "embedding" if kind == "embedding" else f"{kind} span" if kind in _KINDS - {"span"} else "other span"
    )


def observation_of_span(record: Record, span: Span) -> FoundCall | None:
    """Return the call of a span as Langfuse's SDK sends it; None where it has no prompt."""
    said = span.attributes
    fields = {
        **{name: said.get(f"langfuse.observation.{key}") for name, key in _OF_SPAN.items()},
        "type": "generation",
        "id": span.identity,
        "traceId": span.trace,
        "sessionId": said.get("session.id", "langfuse.session.id"),
        "userId": said.get("user.id", "langfuse.user.id"),
        "startTime": span.start,
        "endTime": span.end,
    }
    found = _observation(record, fields, {})
    return found if isinstance(found, FoundCall) else None


def _sent(value: Any) -> tuple[Any, list[Any]]:
    """Return what a generation was called with, and the tools that LangChain's handler logs as messages behind the others."""
    said = _parsed(value)
    if isinstance(said, dict) and said and said.keys() <= _CALLED_WITH:
        named, listed = object_of(said.get("kwargs")), said.get("args")
        held = next((named[name] for name in ("messages", "prompt", "input") if named.get(name)), None)
        return _sent(held if held is not None else listed[0] if isinstance(listed, list) and listed else None)
    if not isinstance(said, list):
        return said, []
    tools = [each["content"] for each in said if _is_logged_tool(each)]
    return [each for each in said if not _is_logged_tool(each)], tools


def _parsed(value: Any) -> Any:
    """Return what a text is the JSON of: exports of tables and of the web page write objects as texts."""
    return (parsed_text(value) or value) if isinstance(value, str) else value


def _is_logged_tool(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) and message.get("role") == "tool" else None
    return isinstance(content, dict) and content.get("type") == "function" and isinstance(content.get("function"), dict)


def _usage(record: Record, value: Any) -> Usage | None:
    """Return the tokens: Langfuse counts what was read from a cache or written to it beside `input` or as a part of it; the
    total reports."""
    value = _parsed(value)
    if not isinstance(value, dict):
        return None
    if details_name_of(value):  # as the model's API counted them
        return usage_of(value, record.pointer)

    def count(*names: str) -> int | None:
        name = next((name for name in names if value.get(name) is not None), None)
        return None if name is None else count_of(value[name], name, record.pointer)

    sent, output, total = (
        count("input", "promptTokens", "prompt_tokens", "input_tokens"),
        count("output", "completionTokens", "completion_tokens", "output_tokens"),
        count("total", "totalTokens"),
    )
    cached, written = count(*_READ), count(*_WRITTEN)
    written_5m, written_1h = count(*_WRITTEN_5M), count(*_WRITTEN_1H)
    if sent is cached is written is written_5m is written_1h is output is None:
        return None
    parts = (written_5m or 0) + (written_1h or 0)
    if parts:  # beside what is written without a time, or parts of all that is written
        written = written if written is not None and written >= parts else (written or 0) + parts
    half_day = count(*_WRITTEN_12H)
    if half_day is not None:
        written = (written or 0) + half_day
    reasoned = count(*_REASONING)
    kept, reasoning = (cached or 0) + (written or 0), reasoned or 0
    sums = {
        (sent or 0) + (kept if prompt else 0) + (output or 0) + (reasoning if answer else 0): (prompt, answer)
        for prompt in (True, False)
        for answer in (True, False)
    }
    beside, thought = sums.get(-1 if total is None else total, (False, False))
    if sent is not None and kept:
        unsaid = total is None and "cache_read_input_tokens" in value and "input_tokens" not in value
        if beside or kept > sent or unsaid:
            sent += kept
    if output is not None and thought:
        output += reasoning
    return checked(Usage(sent, cached, written, written_5m, written_1h, output, reasoned, half_day))


def _is_observation(fields: Fields) -> bool:
    """Return whether a record is an observation, also of a type that came after these."""
    kind = fields.get("type")
    if not isinstance(kind, str) or ("traceId" not in fields and "trace_id" not in fields):
        return False
    return kind in _TYPES or ("id" in fields and ("startTime" in fields or "start_time" in fields))


def _is_trace(fields: Fields) -> bool:
    said = not _OF_TRACES.isdisjoint(fields) or isinstance(fields.get("trace"), dict)
    return isinstance(fields.get("observations"), list) and said


def _is_event(fields: Fields) -> bool:
    kind = fields.get("type")
    return "body" in fields and isinstance(kind, str) and kind.endswith(("-create", "-update"))


_LANGFUSE_EXAMPLE = """
{"id": "o1", "traceId": "t1", "type": "GENERATION", "startTime": "2026-02-02T09:00:00Z", "model": "gpt-5.5",
 "input": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}],
 "output": {"role": "assistant", "content": "Yes."}, "usageDetails": {"input": 8, "input_cached_tokens": 16,
 "output": 2}}
{"id": "o2", "traceId": "t1", "type": "SPAN", "input": "Is it open?"}
"""
_LANGFUSE_TRACES_EXAMPLE = """
{"id": "t1", "sessionId": "s1", "timestamp": "2026-02-02T09:00:00Z", "observations": [{"id": "o1",
 "traceId": "t1", "type": "GENERATION", "startTime": "2026-02-02T09:00:00Z", "model": "gpt-5.5",
 "input": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}],
 "output": {"role": "assistant", "content": "Yes."}, "usageDetails": {"input": 8, "input_cached_tokens": 16,
 "output": 2}}]}
"""
_LANGFUSE_EVENTS_EXAMPLE = """
{"id": "e1", "type": "generation-create", "timestamp": "2026-02-02T09:00:00Z", "body": {"id": "o1",
 "traceId": "t1", "type": "GENERATION", "startTime": "2026-02-02T09:00:00Z", "model": "gpt-5.5",
 "input": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}],
 "output": {"role": "assistant", "content": "Yes."}, "usageDetails": {"input": 8, "input_cached_tokens": 16,
 "output": 2}}}
"""
FORMATS = (
    RecordFormat(
        "langfuse", "traceId + type: GENERATION", _is_observation, read, keys=keys_of, example=_LANGFUSE_EXAMPLE
    ),
    RecordFormat(
        "langfuse-traces",
        "observations + projectId, sessionId, timestamp or trace",
        _is_trace,
        read_trace,
        example=_LANGFUSE_TRACES_EXAMPLE,
    ),
    RecordFormat(
        "langfuse-events",
        "type: generation-create + body",
        _is_event,
        read_event,
        keys=keys_of_event,
        example=_LANGFUSE_EVENTS_EXAMPLE,
    ),
)
