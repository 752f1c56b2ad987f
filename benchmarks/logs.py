"""How fast logs are read, by format: MB of the file for each second of CPU, with the requests or with what is left out.

`python -m benchmarks.logs [--mb N] [--only FORMAT]` makes a log of N MB in each format. Nothing is tokenized.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvtool.errors import KvtoolError
from kvtool.workload.logs.logs import LogSource

_WORDS = ("shelf", "reader", "atlas", "loan", "return", "note", "library", "fenwick", "the", "of", "and", "is")
_START = 1_770_000_000

Make = Callable[[int, list[dict[str, str]], str], Any]


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=words))


def _chat(number: int, messages: list[dict[str, str]], answer: str) -> Any:
    usage = {"prompt_tokens": 2_000, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 64}}
    choices = [{"message": {"role": "assistant", "content": answer}}]
    response = {"id": f"chatcmpl-{number}", "choices": choices, "usage": usage}
    return {"timestamp": _START + number, "request": {"model": "gpt-5.5", "messages": messages}, "response": response}


def _otlp(number: int, messages: list[dict[str, str]], answer: str, *, operation: str = "chat") -> Any:
    said = [{"role": each["role"], "parts": [{"type": "text", "content": each["content"]}]} for each in messages]
    told = {
        "gen_ai.operation.name": operation,
        "gen_ai.request.model": "gpt-5.5",
        "gen_ai.input.messages": json.dumps(said),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]),
    }
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]
    start = str((_START + number) * 10**9)
    span = {"traceId": f"t{number}", "spanId": "1", "startTimeUnixNano": start, "attributes": attributes}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def _langfuse(number: int, messages: list[dict[str, str]], answer: str, *, kind: str = "GENERATION") -> Any:
    usage = {"input": 2_000, "output": 40, "total": 2_040}
    told = {
        "id": f"o{number}",
        "traceId": f"t{number}",
        "type": kind,
        "startTime": _time(number),
        "usageDetails": usage,
    }
    return {**told, "input": messages, "output": answer}


def _helicone(number: int, messages: list[dict[str, str]], answer: str) -> Any:
    made = _chat(number, messages, answer)
    return {"request_id": f"r{number}", "request_body": made["request"], "response_body": made["response"]}


def _litellm(number: int, messages: list[dict[str, str]], answer: str, *, call: str = "acompletion") -> Any:
    made = _chat(number, messages, answer)
    told = {"id": f"l{number}", "call_type": call, "startTime": _START + number, "status": "success"}
    return {**told, "model_parameters": {}, "messages": messages, "response": made["response"]}


def _session(number: int, messages: list[dict[str, str]], answer: str) -> Any:
    """A question of a session of Claude Code, or its answer."""
    common = {"sessionId": f"s{number // 20}", "uuid": f"u{number}", "timestamp": _time(number)}
    common["parentUuid"] = f"u{number - 1}" if number % 20 else None  # type: ignore[assignment] # the first has none
    if number % 2 == 0:
        return {**common, "type": "user", "message": messages[0] | {"role": "user"}}
    usage = {"input_tokens": 5, "cache_read_input_tokens": 2_000, "output_tokens": 40}
    said = {"id": f"m{number}", "role": "assistant", "content": [{"type": "text", "text": answer}], "usage": usage}
    return {**common, "type": "assistant", "message": said}


def _time(number: int) -> str:
    return f"2026-02-02T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"


def _left_out(number: int, messages: list[dict[str, str]], answer: str, **told: Any) -> Any:
    """A record of which only these fields say what it is."""
    return {**told, "id": f"x{number}", "input": messages, "inputs": {"messages": messages}, "output": answer}


def _har(number: int, messages: list[dict[str, str]], answer: str, *, url: str) -> Any:
    body = json.dumps({"model": "gpt-5.5", "messages": messages})
    request = {"method": "POST", "url": url, "headers": [], "postData": {"text": body}}
    content = {"text": json.dumps(_chat(number, messages, answer)["response"])}
    return {"startedDateTime": _time(number), "request": request, "response": {"status": 200, "content": content}}


def _docker(number: int, messages: list[dict[str, str]], answer: str) -> Any:
    return {"log": json.dumps(_chat(number, messages, answer)) + "\n", "stream": "stdout", "time": _time(number)}


def _noise(number: int, _messages: list[dict[str, str]], answer: str) -> Any:
    return {"log": f"INFO: 127.0.0.1 - POST /v1 {answer}\n", "stream": "stdout", "time": _time(number)}


def _bedrock_embedding(number: int, messages: list[dict[str, str]], _answer: str) -> Any:
    told = {"schemaType": "ModelInvocationLog", "operation": "InvokeModel", "modelId": "amazon.titan-embed-text-v2:0"}
    given = {"inputBodyJson": {"inputText": messages[0]["content"]}}
    return {**told, "timestamp": _time(number), "input": given, "output": {"outputBodyJson": {"embedding": [0.1]}}}


def _mlflow_chain(number: int, messages: list[dict[str, str]], answer: str) -> Any:
    attributes = {"mlflow.spanType": '"CHAIN"', "mlflow.spanInputs": json.dumps(messages), "mlflow.spanOutputs": answer}
    spans = [{"span_id": str(number), "start_time_unix_nano": _START * 10**9, "attributes": attributes}]
    return {"info": {"trace_id": f"t{number}"}, "data": {"spans": spans}}


FORMATS: dict[str, Make] = {
    "chat": _chat,
    "otlp": _otlp,
    "langfuse": _langfuse,
    "helicone": _helicone,
    "otlp, left out": lambda *given: _otlp(*given, operation="invoke_agent"),
    "langfuse, left out": lambda *given: _langfuse(*given, kind="SPAN"),
    "litellm": _litellm,
    "litellm, left out": lambda *given: _litellm(*given, call="aembedding"),
    "claude-code": _session,
    "docker": _docker,
    "docker, left out": _noise,
    "har": lambda *given: _har(*given, url="https://api.openai.com/v1/chat/completions"),
    "har, left out": lambda *given: _har(*given, url="https://api.openai.com/v1/embeddings"),
    "langsmith, left out": lambda *given: _left_out(*given, run_type="chain", start_time=_START),
    "braintrust, left out": lambda *given: _left_out(*given, span_attributes={"type": "task"}, metrics={"start": 1}),
    "weave, left out": lambda *given: _left_out(*given, op_name="weave:///e/p/op/agent:v1", started_at=_START),
    "phoenix, left out": lambda *given: _left_out(*given, span_kind="RETRIEVER", attributes={}, start_time=_START),
    "mlflow, left out": _mlflow_chain,
    "bedrock, left out": _bedrock_embedding,
}


def cpu() -> float:
    """Seconds that this process has computed."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(path: Path) -> tuple[float, float, int]:
    """Seconds of the first pass, with the look through all of it, and of a later one; and the requests."""
    source = LogSource([str(path)])
    seconds, requests = [], 0
    for _ in range(2):
        begun, requests = cpu(), 0
        try:
            for conversation in source.conversations():
                while conversation.next_turn(None) is not None:
                    requests += 1
        except KvtoolError:  # there is no request in it, as it should be
            pass
        seconds.append(cpu() - begun)
    return seconds[0], seconds[1], requests


def main() -> None:
    """A line for each format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=50)
    parser.add_argument("--only", default="", help="formats whose name begins so")
    asked = parser.parse_args()
    size = asked.mb * 1_000_000
    rng = random.Random(1)
    print(f"{'format':<22} {'requests':>9} {'first pass':>12} {'later':>12}  MB for each second of CPU")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in FORMATS.items():
            if not name.startswith(asked.only):
                continue
            path = Path(folder) / "log.jsonl"
            written = number = 0
            with path.open("w", encoding="utf-8") as file:
                # an archive is one object, all else are lines
                written += file.write('{"log": {"version": "1.2", "entries": [') if name.startswith("har") else 0
                while written < size:
                    messages = [{"role": "system", "content": _text(rng, 1_000)}]
                    messages += [{"role": role, "content": _text(rng, 80)} for role in ("user", "assistant", "user")]
                    between = "," if number and name.startswith("har") else ""
                    written += file.write(between + json.dumps(make(number, messages, _text(rng, 40))) + "\n")
                    number += 1
                file.write("]}}" if name.startswith("har") else "")
            first, later, requests = measure(path)
            print(f"{name:<22} {requests:>9,} {size / 1e6 / first:>12.0f} {size / 1e6 / later:>12.0f}")


if __name__ == "__main__":
    main()
