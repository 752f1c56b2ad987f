"""The record formats, in a visible list: what each looks like, and what makes requests of one record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from kvtool.errors import KvtoolError
from kvtool.text.files.json_stream import is_message
from kvtool.workload.logs import agent_shapes, chat_records, responses_records, trace_records
from kvtool.workload.logs.joins import Key
from kvtool.workload.logs.not_answered import left_out_of
from kvtool.workload.logs.reading import FoundCall, LeftOut, Reading, Several
from kvtool.workload.logs.record import Record, RecordError, Unit, Where, kind
from kvtool.workload.logs.told_calls import answer_object, call_of, sampled_of
from kvtool.workload.logs.whole_prompts import why_incomplete

Fields = dict[str, Any]

WRAPPERS = ("body", "request", "params", "payload", "request_body", "full_request", "kwargs")
"""Fields that logs wrap a request in; the rest of what is needed (ids, times, responses) may stand around them."""
LISTS = (
    "data",
    "requests",
    "records",
    "items",
    "logs",
    "runs",
    "calls",
    "spans",
    "results",
    "samples",
    "events",
    "logEvents",
)
"""Fields that hold the records of a file that is one object."""

_PROMPTS = ("prompt", "text_input", "text", "input", "inputs")
_BATCH_IDS = {"custom_id", "key"}
_BAILIAN_ONLY = {"chat_id", "parent_chat_id"}
_LANGFUSE = frozenset(
    (
        *("GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"),
        "generation",
    )
)
_OTLP = {"resourceSpans", "resourceLogs", "resource_spans", "resource_logs", "batches"}
_SHOWN_KEYS = 12
_MAX_DEPTH = 4  # of wrappers in wrappers

Reader = Callable[[Record], Reading]


class FileState(Protocol):
    """What a format knows of a file while its records come one after another, always in the order of the file."""

    def read(self, record: Record) -> Reading: ...
    def end(self) -> Reading:
        """What is still to be told behind the last record."""
        ...


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A shape of records. The first format in the list whose `fits` says yes reads the record.

    `reader` is what makes requests of it; or, as `module.function` below `formats/`, what is imported when the first such record
    comes. `unit` says that a record is one request, whose time it says itself, in this unit where small numbers are meant; None:
    only reading it tells. `keys` gives the ids by which other records may ask for it. With `state`, `reader` makes a FileState for
    a file, told the Where of its first record.
    """

    name: str
    shape: str
    fits: Callable[[Fields], bool]
    reader: Callable[..., Any] | str
    unit: Unit | None = None
    keys: Callable[[Record], Sequence[Key]] | str | None = None
    state: bool = False

    def read(self, record: Record, states: dict[str, FileState]) -> Reading:
        """What a record of this format holds."""
        reader: Any = loaded(self.reader)
        if not self.state:
            reading: Reading = reader(record)
            return reading
        if self.name not in states:
            states[self.name] = reader(record.where)
        return states[self.name].read(record)

    def keys_of(self, record: Record) -> Sequence[Key]:
        """The ids by which other records may ask for one."""
        keys: Sequence[Key] = loaded(self.keys)(record) if self.keys is not None else ()
        return keys


@cache
def _imported(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"kvtool.workload.logs.formats.{module}"), function)


def loaded(function: Callable[..., Any] | str) -> Any:
    """A function of a format, imported where it is named."""
    return _imported(function) if isinstance(function, str) else function


def prompts(record: Record) -> Reading:
    """A prompt as text; also the lists that the completions API takes in its place."""
    name, value = record.required(*_PROMPTS)
    if isinstance(value, list) and value:
        if is_message(value[0]):
            return chat_records.chat_at(record, name)
        if isinstance(value[0], str):
            return [
                record.turn(index=i, turns=len(value), text=record.text(each, name, i, part=f"{name}[{i}]"))
                for i, each in enumerate(value)
            ]
        return [record.turn(call=call_of(record), token_ids=trace_records.ids_of(record, value, name))]
    output, length = chat_records.answer_of(record.found("output", "response", "response_body", "completion")[0])
    text = record.text(value, name, part=name)
    call = call_of(record)
    if (why := why_incomplete([text], None if call.usage is None else call.usage.prompt, uncounted=False)) is not None:
        call = replace(call, incomplete=why)
    ids = sampled_of(record)
    return [record.turn(call=call, text=text, output_text=output, output_ids=ids, output_tokens=length)]


RECORD_FORMATS: tuple[RecordFormat, ...] = (
    RecordFormat("vllm-log", "a line of vLLM's log", lambda f: "vllm_request" in f, "vllm_log.read"),
    RecordFormat(
        "sglang-log",
        "event: request.finished + obj",
        lambda f: bool("event" in f and "obj" in f and loaded("sglang_log.is_event")(f)),
        "sglang_log.read",
        keys="sglang_log.keys_of",
    ),
    RecordFormat(
        "har",
        "log.entries",
        lambda f: isinstance(f.get("log"), dict) and "entries" in f["log"],
        "har.read",
    ),
    RecordFormat(
        "batch",
        "custom_id + body or params",
        lambda f: bool(not _BATCH_IDS.isdisjoint(f) and loaded("batches.is_request")(f)),
        "batches.read_request",
        keys="batches.keys_of",
    ),
    RecordFormat(
        "batch-answers",
        "custom_id + response or result",
        lambda f: bool(not _BATCH_IDS.isdisjoint(f) and loaded("batches.is_answer")(f)),
        "batches.read_answer",
        keys="batches.keys_of",
    ),
    RecordFormat(
        "otlp",
        "resourceSpans or resourceLogs",
        lambda f: not _OTLP.isdisjoint(f),
        "otel.read",
        keys="otel.keys_of",
    ),
    RecordFormat(
        "otel-spans",
        "context.span_id or span_kind + attributes",
        lambda f: _is_span(f),
        "otel.read_printed",
        keys="otel.keys_of_printed",
    ),
    RecordFormat(
        "langfuse",
        "traceId + type: GENERATION",
        lambda f: ("traceId" in f or "trace_id" in f) and isinstance(f.get("type"), str) and f["type"] in _LANGFUSE,
        "langfuse.read",
    ),
    RecordFormat(
        "langfuse-traces",
        "observations + projectId, sessionId or timestamp",
        lambda f: isinstance(f.get("observations"), list) and not {"projectId", "sessionId", "timestamp"}.isdisjoint(f),
        "langfuse.read_trace",
    ),
    RecordFormat(
        "langfuse-events",
        "type: generation-create + body",
        lambda f: "body" in f and isinstance(f.get("type"), str) and f["type"].endswith(("-create", "-update")),
        "langfuse.read_event",
    ),
    RecordFormat("langsmith", "run_type + inputs", lambda f: "run_type" in f and "inputs" in f, "langsmith.read"),
    RecordFormat(
        "litellm",
        "call_type + model_parameters or spend",
        lambda f: "call_type" in f and not {"model_parameters", "spend", "proxy_server_request"}.isdisjoint(f),
        "litellm.read",
    ),
    RecordFormat(
        "mlflow",
        "info + data.spans",
        lambda f: _has_spans(f.get("data")) or ("info" in f and _has_spans(f)),
        "mlflow.read",
    ),
    RecordFormat(
        "weave",
        "op_name + started_at",
        lambda f: "op_name" in f and "started_at" in f,
        "weave.read",
        keys="weave.keys_of",
    ),
    RecordFormat(
        "braintrust",
        "span_attributes + root_span_id or metrics",
        lambda f: isinstance(f.get("span_attributes"), dict),
        "braintrust.read",
    ),
    RecordFormat(
        "helicone",
        "request_body + request_id or response_status",
        lambda f: "request_body" in f and not {"request_id", "response_status", "request_created_at"}.isdisjoint(f),
        "helicone.read",
    ),
    RecordFormat(
        "aiperf-raw",
        "payload + metadata.conversation_id",
        lambda f: (
            "payload" in f
            and isinstance(f.get("metadata"), dict)
            and not {"conversation_id", "request_start_ns"}.isdisjoint(f["metadata"])
        ),
        "aiperf.read_raw",
    ),
    RecordFormat(
        "aiperf-inputs",
        "session_id + payloads",
        lambda f: isinstance(f.get("payloads"), list),
        "aiperf.read_inputs",
    ),
    RecordFormat(
        "aiperf-figures",
        "metrics + metadata.request_start_ns",
        lambda f: isinstance(f.get("metadata"), dict) and "metrics" in f and "request_start_ns" in f["metadata"],
        "aiperf.refuse_numbers",
    ),
    RecordFormat(
        "guidellm",
        "benchmarks[].requests",
        lambda f: bool("benchmarks" in f and loaded("guidellm.is_report")(f)),
        "guidellm.read",
    ),
    RecordFormat(
        "claude-code",
        "sessionId + uuid + type",
        agent_shapes.is_claude_code,
        "claude_code.ClaudeCodeSession",
        state=True,
    ),
    RecordFormat("codex", "payload + type: response_item", agent_shapes.is_codex, "codex.CodexRollout", state=True),
    RecordFormat(
        "openhands",
        "source + action or observation",
        agent_shapes.is_openhands_event,
        "openhands.OpenHandsEvents",
        state=True,
    ),
    RecordFormat("openhands-run", "history of such events", agent_shapes.is_openhands_run, "openhands.read_run"),
    RecordFormat("swe-agent", "trajectory[].query", agent_shapes.is_swe_agent, "swe_agent.read"),
    RecordFormat("cline-shown", "ts + say", agent_shapes.is_cline_shown, "cline.read_shown"),
    RecordFormat(
        "openai-evals",
        "run_id + event_id + data",
        agent_shapes.is_openai_evals,
        "openai_evals.EvalsRun",
        state=True,
    ),
    RecordFormat("lm-eval", "doc_id + arguments", agent_shapes.is_lm_eval, "lm_eval.read"),
    RecordFormat("promptfoo", "results.results + prompt.raw", agent_shapes.is_promptfoo, "promptfoo.read_file"),
    RecordFormat("promptfoo-rows", "prompt.raw + response", agent_shapes.is_promptfoo_row, "promptfoo.read_row"),
    RecordFormat("inspect-ai", "samples + events + epoch", agent_shapes.is_inspect_sample, "inspect_ai.read"),
    RecordFormat(
        "bailian",
        "hash_ids + input_length + chat_id",
        lambda f: "hash_ids" in f and not _BAILIAN_ONLY.isdisjoint(f),
        trace_records.bailian,
        "s",
    ),
    RecordFormat("mooncake", "hash_ids + input_length", lambda f: "hash_ids" in f, trace_records.mooncake, "ms"),
    RecordFormat(
        "weka",
        "requests + block_size",
        lambda f: "requests" in f and ("block_size" in f or "hash_id_scope" in f or _begins_weka(f["requests"])),
        trace_records.weka,
    ),
    RecordFormat(
        "lmcache-lookups", "chunk_hashes + seq_len", lambda f: "chunk_hashes" in f, trace_records.lmcache_lookups, "s"
    ),
    RecordFormat(
        "token-ids",
        "token_ids",
        lambda f: any(name in f for name in trace_records.TOKEN_FIELDS),
        trace_records.token_ids,
        "s",
    ),
    RecordFormat(
        "bedrock",
        "schemaType: ModelInvocationLog, or modelId + input.inputBodyJson",
        lambda f: bool(
            not {"schemaType", "modelId", "message", "@message"}.isdisjoint(f) and loaded("bedrock.is_record")(f)
        ),
        "bedrock.read",
    ),
    RecordFormat(
        "gemini",
        "contents",
        lambda f: (
            isinstance(f.get("contents"), list | dict)
            or ("contents" in f and "model" in f)
            or (isinstance(f.get("content"), dict) and "parts" in f["content"])
        ),
        "gemini.read",
        "s",
    ),
    RecordFormat(
        "converse",
        "messages + toolConfig or blocks without a type",
        lambda f: isinstance(f.get("messages"), list) and bool(loaded("converse.is_body")(f)),
        "converse.read",
        "s",
    ),
    RecordFormat(
        "stored-completion",
        "object: chat.completion + messages; `request_messages` is experimental",
        lambda f: bool("object" in f and loaded("stored_completions.has_messages")(f)),
        "stored_completions.read",
        "s",
    ),
    RecordFormat("chat", "messages", lambda f: f.get("messages") not in (None, {}, ""), chat_records.chat, "s"),
    RecordFormat(
        "sharegpt",
        "conversations",
        lambda f: "conversations" in f or isinstance(f.get("conversation"), list),
        chat_records.sharegpt,
    ),
    RecordFormat(
        "trajectory",
        "traj or history",
        lambda f: any(isinstance(f.get(name), list) for name in ("traj", "history", "trajectory")),
        chat_records.trajectory,
    ),
    RecordFormat(
        "responses",
        "instructions + input",
        lambda f: "input" in f and ("instructions" in f or _is_items(f["input"]) or "previous_response_id" in f),
        responses_records.responses_api,
        "s",
        responses_records.keys_of,
    ),
    RecordFormat(
        "alpaca",
        "instruction + output",
        lambda f: isinstance(f.get("instruction"), str) and ("output" in f or "response" in f),
        "alpaca.read",
        "s",
    ),
    RecordFormat("bfcl", "question + function", lambda f: isinstance(f.get("question"), list), chat_records.bfcl),
    RecordFormat("turns", "turns", lambda f: isinstance(f.get("turns"), list), chat_records.user_turns),
    RecordFormat(
        "prompt",
        "prompt, text or input",
        lambda f: any(name in f and not isinstance(f[name], dict) for name in _PROMPTS),
        prompts,
        "s",
    ),
    RecordFormat(
        "answers",
        "object: chat.completion without its request",
        lambda f: bool("object" in f and loaded("stored_completions.is_answer")(f)),
        "stored_completions.refuse",
    ),
)
TEXT_FORMAT = "text"
FORMAT_NAMES = (*(each.name for each in RECORD_FORMATS), TEXT_FORMAT)


def format_named(name: str) -> RecordFormat:
    """The format that a user asked for by name, or described by a map."""
    if "=" in name:
        from kvtool.workload.logs.mapped_records import mapped_format

        return mapped_format(name)
    from difflib import get_close_matches

    for each in RECORD_FORMATS:
        if each.name == name:
            return each
    near = get_close_matches(name, FORMAT_NAMES, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"the formats are {', '.join(FORMAT_NAMES)}"
    raise KvtoolError(f"unknown log format `{name}`", hint=hint)


def read_record(
    value: Any,
    where: Where,
    format_: RecordFormat | None = None,
    states: dict[str, FileState] | None = None,
    around: Fields | None = None,
) -> tuple[str, Several]:
    """The name of a record's format, and all that it holds; `around` is what stands around it in the file. Raises RecordError."""
    if isinstance(value, list) and value and all(map(is_message, value)):
        if agent_shapes.is_cline_history(where.path):
            return "cline", Several([FoundCall(loaded("cline.read_history")(Record({}, where), value))])
        return "messages", Several([FoundCall(chat_records.bare_list(Record({}, where), value))])
    if not isinstance(value, dict):
        raise RecordError(f"a record must be an object, not {kind(value)}")
    name, items = "", Several()
    for record, found in _held(_whole(value, where, around), format_):
        name = found.name
        _add(items, record, found, states)
    return name, items


def _add(items: Several, record: Record, found: RecordFormat, states: dict[str, FileState] | None) -> None:
    """Put in what a record of a format holds."""
    left = None if found.unit is None else left_out_of(record)
    made = collected(left or found.read(record, {} if states is None else states))
    for item in made:
        if isinstance(item, FoundCall):
            if item.identity is None and len(made) == 1:
                item.identity, item.weak = identity_of(record)
            if item.value is None and record.pointer and isinstance(record.pointer[-1], int):
                item.value = record.fields
        items.append(item)


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call, before it is read: when it was made, and what it is called."""

    time: float | None
    identity: str | None


Look = tuple[list[SeenCall | None], list[Key], bool]


def look_at(
    value: Any,
    where: Where,
    format_: RecordFormat | None,
    states: dict[str, FileState],
    around: Fields | None = None,
) -> Look:
    """What a record holds, as far as an order needs it (None: no call); the ids that others may ask for it by; whether it must be
    read in the order of its file. Raises RecordError."""
    if not isinstance(value, dict):
        _, items = read_record(value, where, format_, states, around)
        return calls_seen(items), [], False
    seen: list[SeenCall | None] = []
    keys: list[Key] = []
    state = False
    for record, found in _held(_whole(value, where, around), format_):
        keys += found.keys_of(record)
        state = state or found.state
        if found.unit is not None:
            left = left_out_of(record) is not None
            seen.append(None if left else SeenCall(record.arrival(found.unit), identity_of(record)[0]))
            continue
        items = Several()
        _add(items, record, found, states)
        seen += calls_seen(items)
    return seen, keys, state


def _whole(value: Fields, where: Where, around: Fields | None) -> Record:
    return Record(value, where) if around is None else Record(value, where, (), (around,))


def collected(reading: Reading) -> Several:
    """All that a reader found, as a list."""
    if isinstance(reading, Several):
        return reading
    if isinstance(reading, LeftOut | FoundCall):
        return Several([reading])
    return Several([FoundCall(reading)])


def calls_seen(items: Several) -> list[SeenCall | None]:
    """What an order needs of all that was found; None where that is no call."""
    return [None if isinstance(item, LeftOut) else SeenCall(item.turns[0].arrival, item.identity) for item in items]


def identity_of(record: Record) -> tuple[str | None, bool]:
    """What a call is called wherever it is logged: the id of its answer; else one that may also be that of something else."""
    answer = answer_object(record)[0]
    own = answer.get("id") or answer.get("responseId")
    if isinstance(own, str) and own:
        return own, False
    own = record.first("request_id", "id", "custom_id")
    return (str(own), True) if isinstance(own, str | int) and own != "" else (None, False)


def asked_for(value: Any, where: Where, around: Fields | None, key: Key) -> Record:
    """The object of a record, or of one of those in it, that answers to a key; the record itself where none does."""
    whole = _whole(value if isinstance(value, dict) else {}, where, around)
    try:
        held = _held(whole, None)
    except RecordError:
        return whole
    if len(held) == 1:
        return held[0][0]
    return next((record for record, found in held if key in found.keys_of(record)), whole)


def read_inner(record: Record) -> Reading | None:
    """What an object inside a record holds, where it is a body of some API, or has one; None where it is none."""
    found = _found(record, None)
    return None if found is None else found[1].read(found[0], {})


def opens(around: Fields, name: str, first: Any) -> bool:
    """Whether a list of objects, a member of the one object of a file behind others, holds its records."""
    if name not in LISTS or _found(Record({**around, name: [first]}, _NOWHERE), None) is not None:
        return False
    return first is None or (isinstance(first, dict) and _found(Record(first, _NOWHERE), None) is not None)


def _held(record: Record, format_: RecordFormat | None) -> list[tuple[Record, RecordFormat]]:
    """The objects of a record that hold prompts, with their formats: the record itself, one inside it, or those of a list in it."""
    found = _found(record, format_)
    if found is not None:
        return [found]
    for name in LISTS:
        values = record.fields.get(name)
        if isinstance(values, list) and values and all(isinstance(value, dict) for value in values):
            inner = [Record(each, record.where, (name, at), ({}, record.fields)) for at, each in enumerate(values)]
            held = [_found(each, format_) for each in inner]
            if held[0] is not None:
                missing = next((at for at, each in enumerate(held) if each is None), None)
                if missing is not None:
                    raise _unknown(inner[missing])
                return [each for each in held if each is not None]
    if format_ is not None:
        mapped = format_.name not in FORMAT_NAMES
        hint = "--format NAME, if it is of a known format; --on-bad-line skip, if not" if mapped else None
        raise record.error(f"this is no record of the format {format_.name}, which has {format_.shape}", hint=hint)
    raise _unknown(record)


def _format_of(fields: Fields) -> RecordFormat | None:
    for each in RECORD_FORMATS:
        if each.fits(fields):
            return each
    return None


def _found(record: Record, format_: RecordFormat | None) -> tuple[Record, RecordFormat] | None:
    """The object that holds the prompt, the record itself or one inside it, and its format."""
    inner = record
    for _ in range(_MAX_DEPTH):
        found = _format_of(inner.fields) if format_ is None else format_ if format_.fits(inner.fields) else None
        if found is not None:
            return inner, found
        held = next((each for name in WRAPPERS if name in inner.fields and (each := inner.inner(name))), None)
        if held is None:
            return None
        inner = held
    return None


def _unknown(record: Record) -> RecordError:
    from difflib import get_close_matches

    keys = [str(key)[:40] for key in record.fields]
    shown = ", ".join(f"`{key}`" for key in keys[:_SHOWN_KEYS])
    more = f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else ""
    named = f"its keys are {shown}{more}" if keys else "it is empty"
    message = f"no prompt found in this record: {named}"
    known = {"messages", "prompt", "conversations", "history", "token_ids", "hash_ids", "instructions", *WRAPPERS}
    for key in keys:
        near = get_close_matches(key, known - set(keys), n=1, cutoff=0.75)
        if near:
            return record.error(message, hint=f"did you mean `{near[0]}` for `{key}`?")
    shapes = "; ".join(each.shape for each in RECORD_FORMATS)
    return record.error(message, hint=f"a record has one of these: {shapes}")


def _begins_weka(requests: object) -> bool:
    first = requests[0] if isinstance(requests, list) and requests else None
    return isinstance(first, dict) and "hash_ids" in first and "in" in first


def _has_spans(value: object) -> bool:
    """Spans of MLflow."""
    spans = value.get("spans") if isinstance(value, dict) else None
    first = spans[0] if isinstance(spans, list) and spans else None
    attributes = first.get("attributes") if isinstance(first, dict) else None
    return isinstance(attributes, dict) and any(name.startswith("mlflow.") for name in attributes)


def _is_span(fields: Fields) -> bool:
    """A span as the SDKs of OpenTelemetry print it, or as Phoenix exports it, as objects or as a row."""
    context = fields.get("context")
    return (
        (isinstance(context, dict) and "span_id" in context and "attributes" in fields)
        or ("span_kind" in fields and ("attributes" in fields or "context.span_id" in fields))
        or "attributes.openinference.span.kind" in fields
    )


def _is_items(value: object) -> bool:
    return isinstance(value, list) and (not value or isinstance(value[0], dict))


_NOWHERE = Where("")
