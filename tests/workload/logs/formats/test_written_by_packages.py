"""Files that the packages of agents and of tracing write themselves, after calls of a server on this machine that counts tokens.

Agents of npm: install their packages, and set KVTOOL_NODE_MODULES to the folder. Those of PyPI: beside kvtool.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.workload.logs.reading_made import Read

MODULES = os.environ.get("KVTOOL_NODE_MODULES", "")
WROTE, THOUGHT = 50, 7


class Provider(ThreadingHTTPServer):
    """The APIs of OpenAI, Anthropic and Google, and a collector of traces. Each call has another number of tokens."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sent: list[tuple[int, int]] = []
        """Tokens of each prompt, and those from the cache."""
        self.traces: list[bytes] = []
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def _openai(model: str, sent: int, cached: int) -> list[dict[str, Any]]:
    counts = {"prompt_tokens": sent, "completion_tokens": WROTE, "total_tokens": sent + WROTE}
    details = {
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": THOUGHT},
    }
    base = {"id": f"c-{sent}", "created": 1, "model": model, "object": "chat.completion.chunk"}
    delta = {"role": "assistant", "content": "Yes."}
    answer = {**base, "choices": [{"index": 0, "delta": delta, "message": delta, "finish_reason": "stop"}]}
    return [answer, {**base, "choices": [], "usage": {**counts, **details}}]


def _responses(model: str, sent: int, cached: int) -> list[dict[str, Any]]:
    item = {
        "type": "message",
        "id": f"m-{sent}",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
    }
    counts = {"input_tokens": sent, "output_tokens": WROTE, "total_tokens": sent + WROTE}
    details = {
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens_details": {"reasoning_tokens": THOUGHT},
    }
    response = {
        "id": f"r-{sent}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {**counts, **details},
    }
    return [
        {"type": "response.created", "sequence_number": 0, "response": {**response, "output": [], "usage": None}},
        {"type": "response.output_item.done", "sequence_number": 1, "output_index": 0, "item": item},
        {"type": "response.completed", "sequence_number": 2, "response": response},
    ]


def _anthropic(model: str, sent: int, cached: int) -> list[dict[str, Any]]:
    usage = {"input_tokens": sent - cached, "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}
    message = {"id": f"msg_{sent}", "type": "message", "role": "assistant", "model": model, "content": []}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**message, "usage": {**usage, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Yes."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {**usage, "output_tokens": WROTE}},
        {"type": "message_stop"},
    ]


def _gemini(model: str, sent: int, cached: int) -> list[dict[str, Any]]:
    counts = {"promptTokenCount": sent, "candidatesTokenCount": WROTE - THOUGHT, "thoughtsTokenCount": THOUGHT}
    answer = {"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP", "index": 0}
    usage = {**counts, "cachedContentTokenCount": cached, "totalTokenCount": sent + WROTE}
    return [{"candidates": [answer], "usageMetadata": usage, "modelVersion": model}]


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(b'{"data": [], "models": []}')

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        if path.endswith("/traces"):
            self.server.traces.append(gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data)
        writers = {
            "/chat/completions": _openai,
            "/responses": _responses,
            "/messages": _anthropic,
            "enerateContent": _gemini,
        }
        writer = next((each for ending, each in writers.items() if path.endswith(ending)), None)
        if writer is None:
            self._answer(b'{"input_tokens": 9, "totalTokens": 9}')
            return
        asked = json.loads(data)
        tokens = 30_000 + 10 * len(self.server.sent), 1_000 + len(self.server.sent)
        self.server.sent.append(tokens)
        events = writer(str(asked.get("model") or path.rpartition("/")[2].partition(":")[0]), *tokens)
        if asked.get("stream") or "stream" in path:
            named = [(f"event: {each['type']}\n" if "type" in each else "", json.dumps(each)) for each in events]
            said = "".join(f"{name}data: {event}\n\n" for name, event in named)
            self._answer(
                f"{said}data: [DONE]\n\n".encode() if writer is _openai else said.encode(), "text/event-stream"
            )
        else:
            merged = {**events[-1], "choices": events[0]["choices"]} if writer is _openai else events[-1]
            self._answer(json.dumps(merged.get("response", merged)).encode())

    def _answer(self, data: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def provider() -> Iterator[Provider]:
    server = Provider()
    yield server
    server.shutdown()
    server.server_close()


CODEX = """model = "gpt-5"
model_provider = "x"
[model_providers.x]
name = "x"
base_url = "@/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""
KEYED = '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'
OPENCODE = """{"provider": {"x": {"npm": "@ai-sdk/openai-compatible", "name": "x", "options": {"baseURL": "@/v1",
 "apiKey": "k"}, "models": {"gpt-5": {"name": "g"}}}}, "model": "x/gpt-5", "small_model": "x/gpt-5", "autoupdate": false}"""
AGENTS = {
    "claude": (["-p", "hi"], ["-c", "-p", "more"], None, "", ".claude/projects/*/*.jsonl"),
    "codex": (
        ["exec", "--skip-git-repo-check", "hi"],
        ["exec", "--skip-git-repo-check", "resume", "--last", "more"],
        ".codex/config.toml",
        CODEX,
        ".codex/sessions/**/rollout-*.jsonl",
    ),
    "gemini": (
        ["-m", "gemini-2.5-flash", "-p", "hi"],
        ["-m", "gemini-2.5-flash", "--resume", "latest", "-p", "more"],
        ".gemini/settings.json",
        KEYED,
        ".gemini/tmp/*/chats/*.json*",
    ),
    "qwen": (
        ["--auth-type", "openai", "-p", "hi"],
        ["--auth-type", "openai", "-c", "-p", "more"],
        None,
        "",
        ".qwen/projects/*/chats/*.jsonl",
    ),
    "opencode": (
        ["run", "hi"],
        ["run", "-c", "more"],
        "work/opencode.json",
        OPENCODE,
        ".local/share/opencode/opencode.db",
    ),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_that_an_agent_itself_writes(agent: str, provider: Provider, tmp_path: Path) -> None:
    program = Path(MODULES, ".bin", agent)
    if not (MODULES and program.exists()):
        pytest.skip(f"no package of {agent}: install it with npm, and set KVTOOL_NODE_MODULES")
    first, second, config, text, pattern = AGENTS[agent]
    (tmp_path / "work").mkdir()
    if config is not None:
        (tmp_path / config).parent.mkdir(exist_ok=True)
        (tmp_path / config).write_text(text.replace("@/", f"{provider.url}/"))
    bases = {"ANTHROPIC_BASE_URL": "", "OPENAI_BASE_URL": "/v1", "GOOGLE_GEMINI_BASE_URL": ""}
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), "none")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OPENAI_MODEL": "qwen3-coder-plus", "CI": "1"}
    environment |= {**keys, **{name: provider.url + ending for name, ending in bases.items()}}
    environment |= {"GEMINI_CLI_TRUST_WORKSPACE": "true", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}
    for arguments in (first, second):
        command = [str(program), *arguments]
        subprocess.run(
            command, cwd=tmp_path / "work", env=environment, stdin=subprocess.DEVNULL, check=True, timeout=120
        )
    read = Read(*sorted(tmp_path.glob(pattern)))
    found = [(row["call"].usage.prompt, row["call"].usage.cached) for row in read.rows]
    assert len(found) == 2
    assert set(found) <= set(provider.sent)
    assert [row["call"].usage.output for row in read.rows] == [WROTE, WROTE]


LANGFUSE = """
import sys
from langfuse import get_client
from langfuse.openai import OpenAI
client = get_client()
with client.start_as_current_observation(as_type="span", name="root"):
    OpenAI().chat.completions.create(model="gpt-5", messages=[{"role": "system", "content": "You are Mina."},
        {"role": "user", "content": "hi"}])
client.flush()
"""
AGENTS_SDK = """
import asyncio, json, sys
from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession
from agents.tracing import set_trace_processors
from agents.tracing.processors import BatchTraceProcessor
from openai import AsyncOpenAI
class Exporter:
    def export(self, items):
        with open("traces.jsonl", "a") as file:
            file.writelines(json.dumps(each.export(), default=str) + "\\n" for each in items)
processor = BatchTraceProcessor(Exporter())
set_trace_processors([processor])
agent = Agent(name="mina", instructions="You are Mina.", model=OpenAIChatCompletionsModel("gpt-5", AsyncOpenAI()))
asyncio.run(Runner.run(agent, "hi", session=SQLiteSession("s1", "sessions.db")))
processor.force_flush()
"""


def run(code: str, provider: Provider, folder: Path, **more: str) -> None:
    environment = os.environ | {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{provider.url}/v1", **more}
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, timeout=120)


@pytest.mark.skipif(not (find_spec("langfuse") and find_spec("openai")), reason="langfuse and openai are not installed")
def test_what_the_sdk_of_langfuse_sends(provider: Provider, tmp_path: Path) -> None:
    keys = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}
    run(LANGFUSE, provider, tmp_path, **keys, LANGFUSE_BASE_URL=provider.url, LANGFUSE_HOST=provider.url)
    from google.protobuf.json_format import MessageToJson
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    written = [MessageToJson(ExportTraceServiceRequest.FromString(each), indent=None) for each in provider.traces]
    (tmp_path / "traces.jsonl").write_text("\n".join(written))
    [row] = Read(tmp_path / "traces.jsonl").rows
    usage = row["call"].usage
    assert (usage.prompt, usage.cached, usage.output, usage.reasoning) == (*provider.sent[0], WROTE, THOUGHT)
    assert [role for role, _ in row["messages"]] == ["system", "user"]


@pytest.mark.skipif(
    not find_spec("agents.tracing") if find_spec("agents") else True, reason="openai-agents is not installed"
)
def test_what_the_agents_sdk_of_openai_writes(provider: Provider, tmp_path: Path) -> None:
    run(AGENTS_SDK, provider, tmp_path)
    [row] = Read(tmp_path / "traces.jsonl").rows
    assert (row["call"].usage.prompt, row["call"].usage.cached) == provider.sent[0]
    assert [text for _, text in row["messages"]] == ["You are Mina.", "hi"]
    [row] = Read(tmp_path / "sessions.db").rows
    assert [text for _, text in row["messages"]] == ["hi"]
