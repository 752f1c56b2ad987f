"""Logs of the formats that tools write, as they are and in turn mutated: made by the tests of those formats."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from tests.fuzz.corpus import SYSTEM
from tests.workload.logs.formats import (
    test_agents,
    test_batches,
    test_bedrock,
    test_benchmarks_written,
    test_claude_code,
    test_codex,
    test_evaluations,
    test_gemini,
    test_har,
    test_server_logs,
    test_wrapped_lines,
)
from tests.workload.logs.test_junk_in_records import RECORDS

Samples = dict[str, bytes]
_ASKED = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": 'Where is "7",\n or [8]?'}]


def json_samples() -> Samples:
    """Files of JSON lines, by the name of what they hold; some say one thing in several records."""
    claude, codex, batch = test_claude_code, test_codex, test_batches
    body = test_wrapped_lines.body
    made: dict[str, list[Any]] = {f"record-{number}": [record] * 2 for number, record in enumerate(RECORDS)}
    made |= {
        "claude-code": [
            claude.user("u1", None, "look at two files"),
            claude.part("a1", "u1", "m1", claude.text("I read both.")),
            claude.part("a2", "a1", "m1", claude.use("t1")),
            claude.result("r1", "a2", "t1", "one"),
            claude.part("b1", "r1", "m2", claude.text("done")),
        ],
        "codex": [
            codex.meta(**codex.BASE),
            codex.line("turn_context", {"model": "gpt-5.5"}),
            codex.message("developer", "no network"),
            codex.message("user", "look", 2),
            codex.call("k1"),
            codex.output("k1", "one"),
            codex.tokens(100, 0, 9, 100),
            codex.message("assistant", "seen", 9),
            codex.tokens(130, 90, 4, 230),
        ],
        "openhands": test_agents.openhands(),
        "batches": [*map(batch.asked, range(3)), *map(batch.answered, range(3))],
        "bedrock": [test_bedrock.record("Converse", test_bedrock.converse("Where?"), {"usage": {"inputTokens": 9}})]
        * 2,
        "gemini": [test_gemini.asked("Where?"), {**test_gemini.asked("Why?"), **test_gemini.answered("So.")}],
        "aiperf": [test_benchmarks_written.raw("Where?", [test_benchmarks_written.said("So.")])] * 2,
        "guidellm": [
            {"benchmarks": [{"requests": {"successful": [test_benchmarks_written.request("r", body(1))] * 2}}]}
        ],
        "inspect": [
            test_evaluations.sample(test_evaluations.model_event(test_evaluations.SYSTEM, test_evaluations.OPEN))
        ],
        "promptfoo": [test_evaluations.result(json.dumps(_ASKED))] * 2,
        "lm-eval": [test_evaluations.lm_sample(number, {"gen_args_0": {"arg_0": SYSTEM}}) for number in range(2)],
        "har": [
            {
                "log": {
                    "entries": [test_har.entry(test_har.CHAT, test_har.said("Where?"), {"usage": test_har.USAGE})] * 2
                }
            }
        ],
        "docker": [json.loads(test_wrapped_lines.docker(json.dumps(body(number)), number)) for number in range(2)],
        "swe-agent": [{"trajectory": [{"query": _ASKED, "response": "ls", "observation": "a"}] * 2}],
        "streamed": [
            {"request": {"model": "m", "messages": _ASKED}, "response": 'data: {"choices": []}\n\ndata: [DONE]\n\n'}
        ],
    }
    return {name: "".join(json.dumps(record) + "\n" for record in records).encode() for name, records in made.items()}


def text_samples() -> Samples:
    """Files that hold no JSON, or lines of it behind something else."""
    server, wrapped = test_server_logs, test_wrapped_lines
    table = io.StringIO()
    csv.writer(table).writerows(
        [
            ["session", "timestamp", "prompt_tokens", "messages"],
            ["s", "2025-10-27 09:00:00", "20", json.dumps(_ASKED)],
            ["s", "2025-10-27T09:00:05+00:00", "NULL", repr(_ASKED)],
        ]
    )
    lines = {
        "vllm-old": [server.old(own, SYSTEM + own) for own in "ab"],
        "vllm-new": [server.came("a"), server.new("a", SYSTEM), server.new("b", None, "[5, 6, 7]")],
        "sglang": [server.finish(own, SYSTEM + own, prompt_tokens=9, cached_tokens=3) for own in "ab"],
        "logger": [wrapped.logger(json.dumps(wrapped.body(number)), number) for number in range(2)],
        "syslog": [wrapped.syslog(json.dumps(wrapped.body(number)), number) for number in range(2)],
        "cri": [wrapped.cri(json.dumps(wrapped.body(number)), number) for number in range(2)],
        "docker-lines": [wrapped.docker(server.old("a", SYSTEM), 0), wrapped.docker(server.old("b", SYSTEM), 1)],
        "aider": [
            "TO LLM 2026-01-05T09:00:00",
            "-------",
            f"SYSTEM {SYSTEM}",
            "USER Where?",
            "LLM RESPONSE 2026-01-05T09:00:01",
            "ASSISTANT So.",
        ],
        "table": table.getvalue().splitlines(),
    }
    return {name: "".join(f"{line}\n" for line in each).encode() for name, each in lines.items()}
