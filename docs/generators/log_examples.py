"""A small example of each format of logs, and what kvtool reads in it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from docs.generators.pages import fenced
from kvtool.errors import KvtoolError
from kvtool.results.documents.log_contents import LogsDocument
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.overview import overview_of

_ASKED = [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]
_SAID = {"role": "assistant", "content": "Yes."}
_BODY = {"model": "gpt-5.5", "messages": _ASKED}
_USAGE = {"prompt_tokens": 24, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}}
_ANSWER = {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": _SAID}], "usage": _USAGE}
_PARTS = [{"role": "user", "parts": [{"type": "text", "content": "Is it open?"}]}]
_TIME = "2026-02-02T09:00:00Z"
_ROW = {"prompt": {"raw": json.dumps(_ASKED), "label": "p"}, "vars": {}, "provider": {"id": "openai:gpt-5.5"}}
_RESULT = {**_ROW, "response": {"output": "Yes.", "tokenUsage": {"prompt": 24, "completion": 2}}}
_GENERATION = {"id": "o1", "traceId": "t1", "type": "GENERATION", "startTime": _TIME, "model": "gpt-5.5"}
_GENERATION |= {"input": _ASKED, "output": _SAID, "usageDetails": {"input": 8, "input_cached_tokens": 16, "output": 2}}
_STEPS = [
    {"id": 0, "timestamp": _TIME, "source": "agent", "action": "system", "args": {"content": "You are Mina."}},
    {"id": 1, "timestamp": _TIME, "source": "user", "action": "message", "args": {"content": "Is it open?"}},
    {"id": 2, "timestamp": _TIME, "source": "agent", "action": "message", "args": {"content": "Yes."}},
]


def _otlp(**told: str) -> dict[str, Any]:
    attributes = [{"key": name.replace("__", "."), "value": {"stringValue": value}} for name, value in told.items()]
    span = {"traceId": "t1", "spanId": "s1", "startTimeUnixNano": "1770022800000000000", "attributes": attributes}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def _vllm(level: str, text: str) -> str:
    return (
        f"{level} 02-02 09:00:00 [logger.py:43] Received request cmpl-1-0: prompt: {text!r}, params: SamplingParams()"
    )


_MANY: dict[str, list[Any]] = {
    "chat": [{"timestamp": _TIME, "user": "north", "request": _BODY, "response": _ANSWER}],
    "responses": [{"model": "gpt-5.5", "instructions": "You are Mina.", "input": "Is it open?"}],
    "gemini-caches": [
        {
            "name": "cachedContents/c1",
            "model": "models/gemini-2.5-flash",
            "createTime": _TIME,
            "expireTime": "2026-02-02T10:00:00Z",
            "usageMetadata": {"totalTokenCount": 2048},
        }
    ],
    "gemini": [{"contents": [{"role": "user", "parts": [{"text": "Is it open?"}]}], "model": "gemini-2.5-flash"}],
    "converse": [{"modelId": "amazon.nova", "messages": [{"role": "user", "content": [{"text": "Is it open?"}]}]}],
    "bedrock": [
        {
            "schemaType": "ModelInvocationLog",
            "timestamp": _TIME,
            "operation": "Converse",
            "modelId": "amazon.nova",
            "input": {"inputBodyJson": {"messages": [{"role": "user", "content": [{"text": "Is it open?"}]}]}},
            "output": {"outputBodyJson": {"usage": {"inputTokens": 8, "cacheReadInputTokens": 16, "outputTokens": 2}}},
        }
    ],
    "batch": [{"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": _BODY}],
    "batch-answers": [{"custom_id": "r1", "response": {"status_code": 200, "body": _ANSWER}, "error": None}],
    "stored-completion": [{**_ANSWER, "model": "gpt-5.5", "messages": _ASKED}],
    "answers": [_ANSWER],
    "otlp": [_otlp(gen_ai__operation__name="chat", gen_ai__input__messages=json.dumps(_PARTS))],
    "otel-spans": [
        {
            "name": "chat",
            "context": {"trace_id": "t1", "span_id": "s1"},
            "start_time": _TIME,
            "attributes": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(_PARTS)},
        }
    ],
    "langfuse": [_GENERATION, {"id": "o2", "traceId": "t1", "type": "SPAN", "input": "Is it open?"}],
    "langfuse-traces": [{"id": "t1", "sessionId": "s1", "timestamp": _TIME, "observations": [_GENERATION]}],
    "langfuse-events": [{"id": "e1", "type": "generation-create", "timestamp": _TIME, "body": _GENERATION}],
    "langsmith": [{"id": "r1", "run_type": "llm", "start_time": _TIME, "inputs": _BODY, "outputs": {"choices": []}}],
    "litellm": [
        {"id": "c1", "call_type": "acompletion", "startTime": 1770022800.0, "model_parameters": {}, "end_user": "north"}
        | {"messages": _ASKED, "response": _ANSWER, "status": "success"}
    ],
    "helicone": [{"request_id": "r1", "request_created_at": _TIME, "request_body": _BODY, "response_body": _ANSWER}],
    "mlflow": [
        {
            "info": {"trace_id": "t1"},
            "data": {
                "spans": [
                    {
                        "span_id": "s1",
                        "start_time_unix_nano": 1770022800000000000,
                        "attributes": {
                            "mlflow.spanType": '"CHAT_MODEL"',
                            "mlflow.spanInputs": json.dumps(_BODY),
                            "mlflow.spanOutputs": json.dumps(_ANSWER),
                        },
                    }
                ]
            },
        }
    ],
    "weave": [{"id": "c1", "op_name": "weave:///o/p/op/openai.create:v1", "started_at": _TIME, "inputs": _BODY}],
    "braintrust": [
        {"span_id": "s1", "root_span_id": "s0", "span_attributes": {"type": "llm"}, "input": _ASKED, "output": _SAID}
        | {"metrics": {"start": 1770022800, "prompt_tokens": 24, "prompt_cached_tokens": 16, "completion_tokens": 2}}
    ],
    "promptfoo": [{"results": {"version": 3, "results": [_RESULT]}, "config": {}}],
    "promptfoo-rows": [_RESULT],
    "har": [
        {
            "log": {
                "version": "1.2",
                "entries": [
                    {
                        "startedDateTime": _TIME,
                        "time": 900,
                        "request": {
                            "method": "POST",
                            "url": "https://api.openai.com/v1/chat/completions",
                            "postData": {"mimeType": "application/json", "text": json.dumps(_BODY)},
                        },
                        "response": {"status": 200, "content": {"text": json.dumps(_ANSWER)}},
                    }
                ],
            }
        }
    ],
    "claude-code": [
        {"type": "user", "sessionId": "s1", "uuid": "u1", "parentUuid": None, "timestamp": _TIME, "message": _ASKED[1]},
        {"type": "assistant", "sessionId": "s1", "uuid": "u2", "parentUuid": "u1", "timestamp": _TIME}
        | {
            "message": {
                **_SAID,
                "id": "msg_1",
                "model": "claude-opus-4-5",
                "usage": {"input_tokens": 8, "cache_read_input_tokens": 16, "output_tokens": 2},
            }
        },
    ],
    "codex": [
        {"timestamp": _TIME, "type": "session_meta", "payload": {"id": "s1", "base_instructions": {"text": "Help."}}},
        {"timestamp": _TIME, "type": "response_item"}
        | {"payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Is it open?"}]}},
        {"timestamp": _TIME, "type": "response_item"}
        | {"payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}},
    ],
    "openhands": _STEPS,
    "openhands-run": [{"instance_id": "i1", "history": _STEPS}],
    "swe-agent": [{"trajectory": [{"query": _ASKED, "response": "Yes."}], "history": []}],
    "cline-shown": [
        {"ts": 1, "type": "say", "say": "api_req_started", "text": json.dumps({"tokensIn": 8, "tokensOut": 2})}
    ],
    "openai-evals": [
        {"spec": {"completion_fns": ["gpt-5.5"], "run_id": "r1"}},
        {"run_id": "r1", "event_id": 0, "sample_id": "a.0", "type": "sampling", "data": {"prompt": _ASKED}},
    ],
    "lm-eval": [
        {"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "Q: Is it open?", "arg_1": {}}}, "resps": [["Yes."]]}
    ],
    "inspect-ai": [
        {"id": 1, "epoch": 1, "input": "Is it open?", "target": "Yes."}
        | {
            "events": [
                {
                    "event": "model",
                    "timestamp": _TIME,
                    "model": "openai/gpt-5.5",
                    "input": _ASKED,
                    "output": {
                        "choices": [{"message": _SAID}],
                        "usage": {"input_tokens": 8, "input_tokens_cache_read": 16, "output_tokens": 2},
                    },
                }
            ]
        }
    ],
    "aiperf-raw": [
        {
            "metadata": {"conversation_id": "s1", "turn_index": 0, "request_start_ns": 1770022800000000000},
            "payload": _BODY,
        }
    ],
    "aiperf-inputs": [{"data": [{"session_id": "s1", "payloads": [_BODY]}]}],
    "aiperf-figures": [{"metadata": {"request_start_ns": 1770022800000000000}, "metrics": {}}],
    "guidellm": [
        {
            "benchmarks": [
                {"requests": {"successful": [{"request_id": "r1", "request_args": json.dumps({"body": _BODY})}]}}
            ]
        }
    ],
    "sharegpt": [{"conversations": [{"from": "human", "value": "Is it open?"}, {"from": "gpt", "value": "Yes."}]}],
    "trajectory": [{"history": [*_ASKED, _SAID]}],
    "alpaca": [{"instruction": "Answer.", "input": "Is it open?", "output": "Yes."}],
    "bfcl": [{"id": "q1", "question": [[_ASKED[1]]], "function": []}],
    "turns": [{"turns": ["Is it open?", "And on Sunday?"]}],
    "prompt": [{"prompt": "Is it open?", "output_tokens": 2}],
    "mooncake": [{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [0, 1]}],
    "bailian": [
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0, "input_length": 20, "output_length": 2, "hash_ids": [0, 1]}
    ],
    "weka": [{"id": "w1", "block_size": 64, "requests": [{"t": 0, "in": 70, "out": 2, "hash_ids": [0, 1]}]}],
    "lmcache-lookups": [{"timestamp": 0, "chunk_hashes": ["0a", "0b"], "seq_len": 300, "chunk_size": 256}],
    "token-ids": [{"token_ids": [1, 15, 27]}],
    "sglang-log": [
        {"event": "request.finished", "timestamp": _TIME, "rid": "r1", "obj": {"text": "Is it open?"}}
        | {"out": {"meta_info": {"id": "r1", "prompt_tokens": 24, "cached_tokens": 16, "completion_tokens": 2}}}
    ],
    "server-line": [{"timestamp": _TIME, "line": "GET /health 200"}, {"timestamp": _TIME, "line": json.dumps(_BODY)}],
}
_ONE_FILE: dict[str, tuple[str, str]] = {
    "vllm-log": ("vllm.log", _vllm("INFO", "Is it open?") + "\n"),
    "written-lines": (
        "pod.log",
        f"2026-02-02T09:00:00.000000000Z stdout F ready\n2026-02-02T09:00:01.000000000Z stdout F {json.dumps(_BODY)}\n",
    ),
    "sonnet": (
        "sonnet.txt",
        "FROM fairest creatures we desire increase,\nThat thereby beauty's rose might never die,\n",
    ),
    "aider-chat": (".aider.chat.history.md", "# aider chat started at 2026-02-02 09:00:00\n\n#### Is it open?\n"),
    "aider": (
        "llm.log",
        "TO LLM 2026-02-02T09:00:00\n-------\nUSER Is it open?\nLLM RESPONSE 2026-02-02T09:00:01\nASSISTANT Yes.\n",
    ),
    "table": ("export.csv", "session_id,prompt,prompt_tokens,cached_tokens\ns1,Is it open?,24,16\n"),
}
_ENDINGS = {"har": ".har", "promptfoo": ".json", "guidellm": ".json", "aiperf-inputs": ".json", "swe-agent": ".traj"}


def examples() -> dict[str, tuple[str, str]]:
    """By format, the name of a file and what is in it."""
    made = {
        name: (f"{name}{_ENDINGS.get(name, '.jsonl')}", "".join(json.dumps(each) + "\n" for each in records))
        for name, records in _MANY.items()
    }
    return made | _ONE_FILE


def log_examples() -> str:
    """Each format with its example, and what is read in it."""
    shown = []
    with tempfile.TemporaryDirectory() as made:
        folder = str(Path(made) / "logs")
        Path(folder).mkdir()
        for name, (file, text) in sorted(examples().items()):
            path = Path(folder) / file
            path.write_text(text, encoding="utf-8")
            shown.append(f"### {name}\n\n{fenced(text.rstrip(chr(10)), _language(file))}\n\n{_read(path, folder)}")
            path.unlink()
    return "\n\n".join(shown)


def _language(file: str) -> str:
    return "json" if file.endswith((".jsonl", ".json", ".har", ".traj")) else "text"


def _read(path: Path, folder: str) -> str:
    try:
        document = overview_of(LogSource([str(path)]), rows=True, full=True)
    except KvtoolError as error:
        told = f"Refused: {error.message.replace(folder + '/', '')}."
        return f"{told} {error.hint[:1].upper()}{error.hint[1:]}." if error.hint else told
    return f"Read as `{document.format}`: {_said(document)}.".replace(f"{folder}/", "")


def _said(document: LogsDocument) -> str:
    rows = document.rows or []
    told = [plural(document.requests, "request")]
    for name in ("session", "tenant", "model"):
        told += [
            f"{name} `{value}`" for value in dict.fromkeys(getattr(row, name) for row in rows) if value is not None
        ]
    first = rows[0]
    counts = {"prompt": first.prompt_tokens, "cached": first.cached_tokens, "output": first.output_tokens}
    if said := [f"{name} {count}" for name, count in counts.items() if count is not None]:
        told.append(f"tokens: {', '.join(said)}")
    told += [f"left out: {kind} {count}" for kind, count in document.left_out.items()]
    told += [f"not whole: {why}" for why in document.incomplete]
    return "; ".join(told)
