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
    """A format, its name for people, and the module that declares it; a record has at least one of the fields (between commas)."""

    name: str
    title: str
    module: str
    fields: str


_KNOWN = (
    _Known(
        "unread",
        "files without sent prompts",
        "unread",
        "mapping,chat_messages,chat,responderUsername,RequestMessages,eventName,properties,messages_path,openapi,cells,traceEvents,traceID,localEndpoint,"
        "ncols,root_span_dumps,request_metadata,signed_body_url,function_kwargs,tokens_in,event_id,hrTime,attrs,key",
    ),
    _Known("vllm-log", "vLLM server log", "servers.vllm_log", "vllm_request"),
    _Known("sglang-log", "SGLang server log", "servers.sglang_log", "obj"),
    _Known("har", "HTTP archive (HAR)", "gateways.har", "log,startedDateTime"),
    _Known("batch", "OpenAI, Anthropic or Gemini batch requests", "apis.batches", "custom_id,key"),
    _Known("batch-answers", "OpenAI, Anthropic or Gemini batch answers", "apis.batches", "custom_id,key"),
    _Known(
        "otlp",
        "OpenTelemetry export (OTLP)",
        "observability.otel",
        "resourceSpans,resourceLogs,resource_spans,resource_logs,batches",
    ),
    _Known(
        "otel-spans",
        "OpenTelemetry spans",
        "observability.otel",
        "attributes,context.span_id,attributes.openinference.span.kind",
    ),
    _Known("langfuse", "Langfuse observations", "observability.langfuse", "traceId,trace_id"),
    _Known("langfuse-traces", "Langfuse traces", "observability.langfuse", "observations"),
    _Known("langfuse-events", "Langfuse events", "observability.langfuse", "body"),
    _Known("langsmith", "LangSmith runs", "observability.langsmith", "run_type"),
    _Known("litellm", "LiteLLM request log", "gateways.litellm", "call_type"),
    _Known("mlflow", "MLflow traces", "observability.mlflow", "data,info"),
    _Known("weave", "W&B Weave calls", "observability.weave", "op_name"),
    _Known("braintrust", "Braintrust spans", "observability.braintrust", "span_attributes"),
    _Known("helicone", "Helicone requests", "gateways.helicone", "request_body"),
    _Known("helicone-page", "Helicone's page of requests", "gateways.helicone", "heliconeMetadata"),
    _Known("aiperf-raw", "NVIDIA AIPerf requests", "evaluations.aiperf", "payload"),
    _Known("aiperf-inputs", "NVIDIA AIPerf inputs", "evaluations.aiperf", "payloads"),
    _Known("aiperf-figures", "NVIDIA AIPerf metrics", "evaluations.aiperf", "metrics"),
    _Known("guidellm", "GuideLLM report", "evaluations.guidellm", "benchmarks"),
    _Known("gemini-cli", "Gemini CLI sessions", "agents.gemini_cli", "projectHash,$set,$rewindTo,$snapshot,content"),
    _Known("qwen-code", "Qwen Code sessions", "agents.qwen_code", "sessionId"),
    _Known("pi", "Pi sessions", "agents.pi", "cwd,parentId,message,thinkingLevel,modelId,firstKeptEntryIndex"),
    _Known("opencode", "opencode sessions", "agents.opencode", "info"),
    _Known("opencode-stored", "opencode's storage folder", "agents.opencode", "projectID"),
    _Known("opencode-inner", "messages and parts of opencode's storage folder", "agents.opencode", "sessionID"),
    _Known("goose", "Goose sessions", "agents.goose", "working_dir,created"),
    _Known("copilot-cli", "GitHub Copilot CLI sessions", "agents.copilot_cli", "data,parentId"),
    _Known("copilot-chat", "Copilot Chat debug logs", "agents.copilot_chat", "prompts,logs,requestMessages"),
    _Known("crush", "Crush sessions", "agents.crush", "crush_session"),
    _Known("openai-agents", "OpenAI Agents SDK traces", "agents.openai_agents", "object"),
    _Known("openai-agents-session", "OpenAI Agents SDK sessions", "agents.openai_agents", "agents_session"),
    _Known("atif", "ATIF trajectories (Harbor, Terminal-Bench)", "agents.atif", "schema_version"),
    _Known(
        "claude-code",
        "Claude Code sessions",
        "agents.claude_code",
        "sessionId,uuid,parentUuid,leafUuid,isSnapshotUpdate,messageId",
    ),
    _Known("codex", "OpenAI Codex sessions", "agents.codex", "type,record_type,instructions"),
    _Known("openhands", "OpenHands events", "agents.openhands", "kind,action,observation"),
    _Known("openhands-run", "OpenHands runs", "agents.openhands", "history,trajectory,events"),
    _Known("swe-agent", "SWE-agent trajectories", "agents.swe_agent", "trajectory"),
    _Known("cline-shown", "Cline messages", "agents.cline", "say,ask,files_in_context,source_message_count"),
    _Known("cline-session", "Cline sessions", "agents.cline", "agent"),
    _Known("openai-evals", "OpenAI Evals records", "evaluations.openai_evals", "spec,final_report,event_id"),
    _Known("lm-eval", "lm-evaluation-harness samples", "evaluations.lm_eval", "arguments"),
    _Known("promptfoo", "promptfoo results", "evaluations.promptfoo", "results"),
    _Known("promptfoo-rows", "promptfoo rows", "evaluations.promptfoo", "prompt"),
    _Known("inspect-ai", "Inspect AI samples", "evaluations.inspect_ai", "epoch"),
    _Known("bailian", "Alibaba Bailian block trace", "token_traces", "hash_ids"),
    _Known("block-trace", "kvtool block trace", "parquet", "kvtool_requests"),
    _Known("mooncake", "Mooncake block trace", "token_traces", "hash_ids"),
    _Known("weka", "WEKA block trace", "token_traces", "requests"),
    _Known("lmcache-lookups", "LMCache lookups", "token_traces", "chunk_hashes"),
    _Known("token-ids", "token id records", "token_traces", "token_ids,prompt_token_ids,input_tok_ids,input_ids"),
    _Known("bedrock", "Amazon Bedrock invocation log", "apis.bedrock", "schemaType,modelId,message,@message"),
    _Known(
        "gemini-caches",
        "Google Gemini cached contents",
        "apis.gemini",
        "cachedContents,cached_contents,ttl,expireTime,expire_time,createTime,create_time",
    ),
    _Known("gemini", "Google Gemini requests", "apis.gemini", "contents,content"),
    _Known("converse", "Amazon Bedrock Converse requests", "apis.converse", "messages"),
    _Known("stored-completion", "OpenAI stored completions", "apis.chat_bodies", "object"),
    _Known("chat", "OpenAI or Anthropic chat requests", "apis.chat_bodies", "messages"),
    _Known("sharegpt", "ShareGPT conversations", "datasets", "conversations,conversation"),
    _Known("trajectory", "agent trajectories", "apis.chat_bodies", "traj,history,trajectory"),
    _Known("dashscope", "Alibaba DashScope requests", "apis.dashscope", "input"),
    _Known("responses", "OpenAI Responses requests", "apis.responses", "input"),
    _Known("alpaca", "Alpaca instructions", "datasets", "instruction"),
    _Known("bfcl", "BFCL questions", "datasets", "question"),
    _Known("turns", "multi-turn prompts", "datasets", "turns"),
    _Known("prompt", "prompt records", "apis.prompt_texts", "prompt,text_input,text,input,inputs"),
    _Known("answers", "OpenAI Chat Completions answers", "apis.chat_bodies", "object"),
    _Known("usage-export", "usage exports of OpenAI, Anthropic and OpenRouter", "usage_exports", "billed_by"),
    _Known("usage", "usage without prompts", "servers.usage_records", "without_prompt"),
    _Known(
        SERVER_LINE,
        "server log lines",
        "servers.wrapped_lines",
        "message,@message,msg,MESSAGE,log,line,textPayload,event,other lines",
    ),
)
_ROWS: dict[str, tuple[int, ...]] = {
    field: tuple(number for number, known in enumerate(_KNOWN) if field in known.fields.split(","))
    for field in ",".join(known.fields for known in _KNOWN).split(",")
}
"""By field, the numbers of the formats that may have it."""
_TITLES = {"cline": "Cline tasks", "messages": "lists of messages", TEXT_FORMAT: "plain text"}
"""Names of formats that have no records."""
FORMAT_NAMES = (*(each.name for each in _KNOWN), TEXT_FORMAT)


def format_of(fields: Fields) -> RecordFormat | None:
    """Return the first format that fits a record; None where none does."""
    numbers = {number for field in fields if field in _ROWS for number in _ROWS[field]}
    for number in sorted(numbers):
        format_ = _declared(number)
        if format_.fits(fields):
            return format_
    return None


def format_titles(names: str) -> str:
    """Return formats (between commas) by the names of their vendors; of another name the name itself."""
    titles = {each.name: each.title for each in _KNOWN} | _TITLES
    return ", ".join(titles.get(name, name) for name in names.split(", "))


def record_formats() -> Iterator[RecordFormat]:
    """Yield all formats; imports their modules."""
    return map(_declared, range(len(_KNOWN)))


def list_format(path: str) -> tuple[str, Callable[[Any, list[Any]], Turns]]:
    """Return name and reader of the format of a record that is a bare list of messages."""
    if PurePosixPath(path.replace("\\", "/")).name.startswith(_CLINE_HISTORY):
        cline: Any = import_module("kvtool.workload.logs.formats.agents.cline")
        return "cline", cline.read_history
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
