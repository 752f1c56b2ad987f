"""The record formats in their order: the first one that fits a record reads it.

A format is declared as `FORMAT`, or one of the `FORMATS`, of its module, with its reader and its example.
A module is imported when the first record comes that has one of the fields below: a log loads only the formats that it may have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from kvtool.errors import KvtoolError
from kvtool.workload.logs.files.plain_text_files import TEXT_FORMAT
from kvtool.workload.logs.records.record_format import Fields, RecordFormat, Turns

SERVER_LINE = "server-line"
"""The format of a line of a server that contains no request."""
_CLINE_HISTORY = "api_conversation_history.json"
"""The name of the file that contains a task of Cline."""


class _Known(NamedTuple):
    """A format and the module that declares it; each of its records has at least one of the fields (between commas)."""

    name: str
    module: str
    fields: str


_KNOWN = (
    _Known("vllm-log", "servers.vllm_log", "vllm_request"),
    _Known("sglang-log", "servers.sglang_log", "obj"),
    _Known("har", "gateways.har", "log,startedDateTime"),
    _Known("batch", "apis.batches", "custom_id,key"),
    _Known("batch-answers", "apis.batches", "custom_id,key"),
    _Known("otlp", "observability.otel", "resourceSpans,resourceLogs,resource_spans,resource_logs,batches"),
    _Known("otel-spans", "observability.otel", "attributes,context.span_id,attributes.openinference.span.kind"),
    _Known("langfuse", "observability.langfuse", "traceId,trace_id"),
    _Known("langfuse-traces", "observability.langfuse", "observations"),
    _Known("langfuse-events", "observability.langfuse", "body"),
    _Known("langsmith", "observability.langsmith", "run_type"),
    _Known("litellm", "gateways.litellm", "call_type"),
    _Known("mlflow", "observability.mlflow", "data,info"),
    _Known("weave", "observability.weave", "op_name"),
    _Known("braintrust", "observability.braintrust", "span_attributes"),
    _Known("helicone", "gateways.helicone", "request_body"),
    _Known("aiperf-raw", "evaluations.aiperf", "payload"),
    _Known("aiperf-inputs", "evaluations.aiperf", "payloads"),
    _Known("aiperf-figures", "evaluations.aiperf", "metrics"),
    _Known("guidellm", "evaluations.guidellm", "benchmarks"),
    _Known("claude-code", "agents.claude_code", "sessionId,uuid,parentUuid,leafUuid,isSnapshotUpdate,messageId"),
    _Known("codex", "agents.codex", "type,record_type,instructions"),
    _Known("openhands", "agents.openhands", "kind,action,observation"),
    _Known("openhands-run", "agents.openhands", "history,trajectory,events"),
    _Known("swe-agent", "agents.swe_agent", "trajectory"),
    _Known("cline-shown", "agents.cline", "say,ask,files_in_context"),
    _Known("openai-evals", "evaluations.openai_evals", "spec,final_report,event_id"),
    _Known("lm-eval", "evaluations.lm_eval", "arguments"),
    _Known("promptfoo", "evaluations.promptfoo", "results"),
    _Known("promptfoo-rows", "evaluations.promptfoo", "prompt"),
    _Known("inspect-ai", "evaluations.inspect_ai", "epoch"),
    _Known("bailian", "token_traces", "hash_ids"),
    _Known("block-trace", "parquet", "kvtool_requests"),
    _Known("mooncake", "token_traces", "hash_ids"),
    _Known("weka", "token_traces", "requests"),
    _Known("lmcache-lookups", "token_traces", "chunk_hashes"),
    _Known("token-ids", "token_traces", "token_ids,prompt_token_ids,input_tok_ids,input_ids"),
    _Known("bedrock", "apis.bedrock", "schemaType,modelId,message,@message"),
    _Known(
        "gemini-caches",
        "apis.gemini",
        "cachedContents,cached_contents,ttl,expireTime,expire_time,createTime,create_time",
    ),
    _Known("gemini", "apis.gemini", "contents,content"),
    _Known("converse", "apis.converse", "messages"),
    _Known("stored-completion", "apis.chat_bodies", "object"),
    _Known("chat", "apis.chat_bodies", "messages"),
    _Known("sharegpt", "datasets", "conversations,conversation"),
    _Known("trajectory", "apis.chat_bodies", "traj,history,trajectory"),
    _Known("responses", "apis.responses", "input"),
    _Known("alpaca", "datasets", "instruction"),
    _Known("bfcl", "datasets", "question"),
    _Known("turns", "datasets", "turns"),
    _Known("prompt", "apis.prompt_texts", "prompt,text_input,text,input,inputs"),
    _Known("answers", "apis.chat_bodies", "object"),
    _Known(
        SERVER_LINE,
        "servers.wrapped_lines",
        "message,@message,msg,MESSAGE,log,line,textPayload,event,other lines",
    ),
)
_ROWS: dict[str, tuple[int, ...]] = {
    field: tuple(number for number, known in enumerate(_KNOWN) if field in known.fields.split(","))
    for field in ",".join(known.fields for known in _KNOWN).split(",")
}
"""By field, the numbers of the formats that may have it."""
FORMAT_NAMES = (*(each.name for each in _KNOWN), TEXT_FORMAT)


def format_of(fields: Fields) -> RecordFormat | None:
    """Return the first format that fits a record; None where none does."""
    numbers = {number for field in fields if field in _ROWS for number in _ROWS[field]}
    for number in sorted(numbers):
        format_ = _declared(number)
        if format_.fits(fields):
            return format_
    return None


def record_formats() -> Iterator[RecordFormat]:
    """Yield all formats; imports their modules."""
    return map(_declared, range(len(_KNOWN)))


def list_format(path: str) -> tuple[str, Callable[[Any, list[Any]], Turns]]:
    """Return name and reader of the format of a record that is a bare list of messages."""
    if PurePosixPath(path.replace("\\", "/")).name.startswith(_CLINE_HISTORY):
        from kvtool.workload.logs.formats.agents.cline import read_history

        return "cline", read_history
    from kvtool.workload.logs.formats.datasets import bare_list

    return "messages", bare_list


def format_named(name: str) -> RecordFormat:
    """Return the format of a name; KvtoolError where there is none."""
    from difflib import get_close_matches

    for number, each in enumerate(_KNOWN):
        if each.name == name:
            return _declared(number)
    near = get_close_matches(name, FORMAT_NAMES, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known formats: {', '.join(FORMAT_NAMES)}"
    raise KvtoolError(f"unknown log format `{name}`", hint=hint)


@cache
def _declared(number: int) -> RecordFormat:
    known = _KNOWN[number]
    module: Any = import_module(f"kvtool.workload.logs.formats.{known.module}")
    declared: tuple[RecordFormat, ...] = module.FORMATS if hasattr(module, "FORMATS") else (module.FORMAT,)
    return next(each for each in declared if each.name == known.name)
