"""How fast logs are read, by format: MB of the file for each second of CPU, with the requests or with what is left out.

`python -m benchmarks.logs [--mb N]` makes a log of N MB in each format. Nothing is tokenized.
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
    time = f"2026-02-02T02:{number // 60 % 60:02d}:{number % 60:02d}Z"
    usage = {"input": 2_000, "output": 40, "total": 2_040}
    told = {"id": f"o{number}", "traceId": f"t{number}", "type": kind, "startTime": time, "usageDetails": usage}
    return {**told, "input": messages, "output": answer}


def _helicone(number: int, messages: list[dict[str, str]], answer: str) -> Any:
    made = _chat(number, messages, answer)
    return {"request_id": f"r{number}", "request_body": made["request"], "response_body": made["response"]}


FORMATS: dict[str, Make] = {
    "chat": _chat,
    "otlp": _otlp,
    "langfuse": _langfuse,
    "helicone": _helicone,
    "otlp, left out": lambda *given: _otlp(*given, operation="invoke_agent"),
    "langfuse, left out": lambda *given: _langfuse(*given, kind="SPAN"),
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
    size = parser.parse_args().mb * 1_000_000
    rng = random.Random(1)
    print(f"{'format':<20} {'requests':>9} {'first pass':>12} {'later':>12}  MB for each second of CPU")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in FORMATS.items():
            path = Path(folder) / "log.jsonl"
            written = number = 0
            with path.open("w", encoding="utf-8") as file:
                while written < size:
                    messages = [{"role": "system", "content": _text(rng, 1_000)}]
                    messages += [{"role": role, "content": _text(rng, 80)} for role in ("user", "assistant", "user")]
                    written += file.write(json.dumps(make(number, messages, _text(rng, 40))) + "\n")
                    number += 1
            first, later, requests = measure(path)
            print(f"{name:<20} {requests:>9,} {size / 1e6 / first:>12.0f} {size / 1e6 / later:>12.0f}")


if __name__ == "__main__":
    main()
