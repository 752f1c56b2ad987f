"""The record formats, in a visible list: the first one that fits a record reads it."""

from __future__ import annotations

from kvtool.errors import KvtoolError
from kvtool.workload.logs.files.plain_text_files import TEXT_FORMAT
from kvtool.workload.logs.formats import token_traces
from kvtool.workload.logs.formats.apis import responses
from kvtool.workload.logs.formats.apis.prompt_texts import PROMPTS, prompts
from kvtool.workload.logs.records import agent_records as agent_shapes
from kvtool.workload.logs.records import chat_records
from kvtool.workload.logs.records.record_format import Fields, RecordFormat, loaded

_BATCH_IDS = {"custom_id", "key"}
_BAILIAN_ONLY = {"chat_id", "parent_chat_id"}
_LANGFUSE = frozenset(
    (
        *("GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"),
        "generation",
    )
)
_LINES = {"message", "@message", "msg", "MESSAGE", "log", "line", "textPayload", "event", "other lines"}
SERVER_LINE = "server-line"
"""A line of a server that holds no request."""
_OTLP = {"resourceSpans", "resourceLogs", "resource_spans", "resource_logs", "batches"}

RECORD_FORMATS: tuple[RecordFormat, ...] = (
    RecordFormat("vllm-log", "a line of vLLM's log", lambda f: "vllm_request" in f, "servers.vllm_log.read"),
    RecordFormat(
        "sglang-log",
        "event: request.finished + obj",
        lambda f: bool("event" in f and "obj" in f and loaded("servers.sglang_log.is_event")(f)),
        "servers.sglang_log.read",
        keys="servers.sglang_log.keys_of",
    ),
    RecordFormat(
        "har",
        "log.entries; startedDateTime + request + response",
        lambda f: (
            (isinstance(f.get("log"), dict) and "entries" in f["log"]) or ("startedDateTime" in f and "request" in f)
        ),
        "gateways.har.read",
    ),
    RecordFormat(
        "batch",
        "custom_id + body or params",
        lambda f: bool(not _BATCH_IDS.isdisjoint(f) and loaded("apis.batches.is_request")(f)),
        "apis.batches.read_request",
        keys="apis.batches.keys_of",
    ),
    RecordFormat(
        "batch-answers",
        "custom_id + response or result",
        lambda f: bool(not _BATCH_IDS.isdisjoint(f) and loaded("apis.batches.is_answer")(f)),
        "apis.batches.read_answer",
        keys="apis.batches.keys_of",
    ),
    RecordFormat(
        "otlp",
        "resourceSpans or resourceLogs",
        lambda f: not _OTLP.isdisjoint(f),
        "observability.otel.read",
        keys="observability.otel.keys_of",
    ),
    RecordFormat(
        "otel-spans",
        "context.span_id or span_kind + attributes",
        lambda f: _is_span(f),
        "observability.otel.read_printed",
        keys="observability.otel.keys_of_printed",
    ),
    RecordFormat(
        "langfuse",
        "traceId + type: GENERATION",
        lambda f: ("traceId" in f or "trace_id" in f) and isinstance(f.get("type"), str) and f["type"] in _LANGFUSE,
        "observability.langfuse.read",
    ),
    RecordFormat(
        "langfuse-traces",
        "observations + projectId, sessionId or timestamp",
        lambda f: isinstance(f.get("observations"), list) and not {"projectId", "sessionId", "timestamp"}.isdisjoint(f),
        "observability.langfuse.read_trace",
    ),
    RecordFormat(
        "langfuse-events",
        "type: generation-create + body",
        lambda f: "body" in f and isinstance(f.get("type"), str) and f["type"].endswith(("-create", "-update")),
        "observability.langfuse.read_event",
    ),
    RecordFormat(
        "langsmith", "run_type + inputs", lambda f: "run_type" in f and "inputs" in f, "observability.langsmith.read"
    ),
    RecordFormat(
        "litellm",
        "call_type + model_parameters or spend",
        lambda f: "call_type" in f and not {"model_parameters", "spend", "proxy_server_request"}.isdisjoint(f),
        "gateways.litellm.read",
    ),
    RecordFormat(
        "mlflow",
        "info + data.spans",
        lambda f: _has_spans(f.get("data")) or ("info" in f and _has_spans(f)),
        "observability.mlflow.read",
    ),
    RecordFormat(
        "weave",
        "op_name + started_at",
        lambda f: "op_name" in f and "started_at" in f,
        "observability.weave.read",
        keys="observability.weave.keys_of",
    ),
    RecordFormat(
        "braintrust",
        "span_attributes + root_span_id or metrics",
        lambda f: isinstance(f.get("span_attributes"), dict),
        "observability.braintrust.read",
    ),
    RecordFormat(
        "helicone",
        "request_body + request_id or response_status",
        lambda f: "request_body" in f and not {"request_id", "response_status", "request_created_at"}.isdisjoint(f),
        "gateways.helicone.read",
    ),
    RecordFormat(
        "aiperf-raw",
        "payload + metadata.conversation_id",
        lambda f: (
            "payload" in f
            and isinstance(f.get("metadata"), dict)
            and not {"conversation_id", "request_start_ns"}.isdisjoint(f["metadata"])
        ),
        "evaluations.aiperf.read_raw",
    ),
    RecordFormat(
        "aiperf-inputs",
        "session_id + payloads",
        lambda f: isinstance(f.get("payloads"), list),
        "evaluations.aiperf.read_inputs",
    ),
    RecordFormat(
        "aiperf-figures",
        "metrics + metadata.request_start_ns",
        lambda f: isinstance(f.get("metadata"), dict) and "metrics" in f and "request_start_ns" in f["metadata"],
        "evaluations.aiperf.refuse_numbers",
    ),
    RecordFormat(
        "guidellm",
        "benchmarks[].requests",
        lambda f: bool("benchmarks" in f and loaded("evaluations.guidellm.is_report")(f)),
        "evaluations.guidellm.read",
    ),
    RecordFormat(
        "claude-code",
        "sessionId + uuid + type",
        agent_shapes.is_claude_code,
        "agents.claude_code.ClaudeCodeSession",
        state=True,
    ),
    RecordFormat(
        "codex", "payload + type: response_item", agent_shapes.is_codex, "agents.codex.CodexRollout", state=True
    ),
    RecordFormat(
        "openhands",
        "source + action or observation",
        agent_shapes.is_openhands_event,
        "agents.openhands.OpenHandsEvents",
        state=True,
    ),
    RecordFormat("openhands-run", "history of such events", agent_shapes.is_openhands_run, "agents.openhands.read_run"),
    RecordFormat("swe-agent", "trajectory[].query", agent_shapes.is_swe_agent, "agents.swe_agent.read"),
    RecordFormat("cline-shown", "ts + say", agent_shapes.is_cline_shown, "agents.cline.read_shown"),
    RecordFormat(
        "openai-evals",
        "run_id + event_id + data",
        agent_shapes.is_openai_evals,
        "evaluations.openai_evals.EvalsRun",
        state=True,
    ),
    RecordFormat("lm-eval", "doc_id + arguments", agent_shapes.is_lm_eval, "evaluations.lm_eval.read"),
    RecordFormat(
        "promptfoo", "results.results + prompt.raw", agent_shapes.is_promptfoo, "evaluations.promptfoo.read_file"
    ),
    RecordFormat(
        "promptfoo-rows", "prompt.raw + response", agent_shapes.is_promptfoo_row, "evaluations.promptfoo.read_row"
    ),
    RecordFormat(
        "inspect-ai", "samples + events + epoch", agent_shapes.is_inspect_sample, "evaluations.inspect_ai.read"
    ),
    RecordFormat(
        "bailian",
        "hash_ids + input_length + chat_id",
        lambda f: "hash_ids" in f and not _BAILIAN_ONLY.isdisjoint(f),
        token_traces.bailian,
        "s",
    ),
    RecordFormat("block-trace", "a file of kvtool trace", lambda f: "kvtool_requests" in f, "block_traces.read"),
    RecordFormat("mooncake", "hash_ids + input_length", lambda f: "hash_ids" in f, token_traces.mooncake, "ms"),
    RecordFormat(
        "weka",
        "requests + block_size",
        lambda f: "requests" in f and ("block_size" in f or "hash_id_scope" in f or _begins_weka(f["requests"])),
        token_traces.weka,
    ),
    RecordFormat(
        "lmcache-lookups", "chunk_hashes + seq_len", lambda f: "chunk_hashes" in f, token_traces.lmcache_lookups, "s"
    ),
    RecordFormat(
        "token-ids",
        "token_ids",
        lambda f: any(name in f for name in token_traces.TOKEN_FIELDS),
        token_traces.token_ids,
        "s",
    ),
    RecordFormat(
        "bedrock",
        "schemaType: ModelInvocationLog, or modelId + input.inputBodyJson",
        lambda f: bool(
            not {"schemaType", "modelId", "message", "@message"}.isdisjoint(f) and loaded("apis.bedrock.is_record")(f)
        ),
        "apis.bedrock.read",
    ),
    RecordFormat(
        "gemini-caches",
        "cachedContents, or name: cachedContents/… with its times",
        lambda f: (
            ("cachedContents" in f or "cached_contents" in f or "cachedContents/" in str(f.get("name")))
            and bool(loaded("apis.gemini_caches.is_cache")(f))
        ),
        "apis.gemini_caches.read",
    ),
    RecordFormat(
        "gemini",
        "contents",
        lambda f: (
            isinstance(f.get("contents"), list | dict)
            or ("contents" in f and "model" in f)
            or (isinstance(f.get("content"), dict) and "parts" in f["content"])
        ),
        "apis.gemini.read",
        "s",
    ),
    RecordFormat(
        "converse",
        "messages + toolConfig or blocks without a type",
        lambda f: isinstance(f.get("messages"), list) and bool(loaded("apis.converse.is_body")(f)),
        "apis.converse.read",
        "s",
    ),
    RecordFormat(
        "stored-completion",
        "object: chat.completion + messages; `request_messages` is experimental",
        lambda f: bool("object" in f and loaded("apis.stored_completions.has_messages")(f)),
        "apis.stored_completions.read",
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
        responses.responses_api,
        "s",
        responses.keys_of,
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
        lambda f: any(name in f and not isinstance(f[name], dict) for name in PROMPTS),
        prompts,
        "s",
    ),
    RecordFormat(
        "answers",
        "object: chat.completion without its request",
        lambda f: bool("object" in f and loaded("apis.stored_completions.is_answer")(f)),
        "apis.stored_completions.refuse",
    ),
    RecordFormat(
        SERVER_LINE,
        "a text in message, msg, log or line beside a time",
        lambda f: bool(not _LINES.isdisjoint(f) and loaded("servers.wrapped_lines.is_other")(f)),
        "servers.wrapped_lines.leave_out",
    ),
)
FORMAT_NAMES = (*(each.name for each in RECORD_FORMATS), TEXT_FORMAT)


def format_named(name: str) -> RecordFormat:
    """The format that a user asked for by name, or described by a map."""
    if "=" in name:
        from kvtool.workload.logs.records.mapped_records import mapped_format

        return mapped_format(name)
    from difflib import get_close_matches

    for each in RECORD_FORMATS:
        if each.name == name:
            return each
    near = get_close_matches(name, FORMAT_NAMES, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"the formats are {', '.join(FORMAT_NAMES)}"
    raise KvtoolError(f"unknown log format `{name}`", hint=hint)


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
