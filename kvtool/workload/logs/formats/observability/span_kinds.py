"""Kinds of spans: which are calls of models, in the conventions of OpenTelemetry and of those who write spans."""

from __future__ import annotations

from kvtool.workload.logs.formats.observability.langfuse import LANGFUSE_TYPE, left_out_of_type
from kvtool.workload.logs.formats.observability.otel_spans import Span
from kvtool.workload.logs.records.record_format import LeftOut

_OPERATIONS = {
    "embeddings": "embedding",
    "embedding": "embedding",
    "execute_tool": "tool span",
    "rerank": "rerank",
    "invoke_agent": "agent span",
    "create_agent": "agent span",
    "invoke_workflow": "workflow span",
}
_INFERENCE = frozenset(
    ("chat", "completion", "text_completion", "generate_content", "responses", "message", "messages")
)
_OF_A_CALL = ("gen_ai.request.model", "gen_ai.input.messages", "gen_ai.usage.input_tokens")
"""What a call of a model has whatever its program calls the operation."""
_TRACELOOP = frozenset(("workflow", "task", "agent", "tool"))
_WORDS = frozenset(("retriever", "chain", "embedding", "tool", "agent", "reranker", "guardrail", "evaluator", "prompt"))
INDEXED_INPUTS = ("llm.input_messages", "gen_ai.prompt", "llm.prompts")
"""Attributes with a number for each message."""


def kind_of_span(span: Span) -> LeftOut | None:
    """Return what a span is left out as; None where it is a call of a model."""
    attributes = span.attributes
    observed = attributes.given.get(LANGFUSE_TYPE)
    if isinstance(observed, str):
        return left_out_of_type(observed)
    if attributes.get("logfire.span_type") == "pending_span":
        return LeftOut("pending span")
    kind = attributes.get("openinference.span.kind") or span.kind
    if isinstance(kind, str) and kind:
        word = kind.lower()
        return None if word == "llm" else LeftOut(f"{word} span" if word in _WORDS else "other span")
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str) and operation:
        if (left := _OPERATIONS.get(operation)) is not None:
            return LeftOut(left)
        called = operation in _INFERENCE or all(attributes.get(name) is not None for name in _OF_A_CALL)
        return None if called else LeftOut("other span")
    told = attributes.get("traceloop.span.kind")
    if isinstance(told, str) and told in _TRACELOOP:
        return LeftOut(f"{told} span")
    vercel = attributes.get("ai.operationId")
    if isinstance(vercel, str):
        if vercel.endswith((".doGenerate", ".doStream")):
            return None
        return LeftOut("embedding" if ".embed" in vercel else "tool span" if "toolCall" in vercel else "workflow span")
    asked = attributes.get("llm.request.type")
    if asked in ("embedding", "rerank"):
        return LeftOut(str(asked))
    if isinstance(asked, str) or any(attributes.has(name) for name in ("gen_ai.input", *INDEXED_INPUTS)):
        return None
    if attributes.get("gen_ai.request.model") is not None and attributes.get("gen_ai.tool.name") is None:
        return None
    return LeftOut("other span")
