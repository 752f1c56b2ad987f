"""Requests of every API of OpenAI's, and servers other than vLLM: each is told with what it reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="needs the extra `live`")
pytest.importorskip("prometheus_client", reason="needs the extra `live`")
pytest.importorskip("zmq", reason="needs the extra `live`")

from kvtool.cli.app import run
from kvtool.measure.servers.request_body import SentAs, to_send
from kvtool.workload.call import Call
from kvtool.workload.logs.logs import LogOptions
from kvtool.workload.prompts_in_memory import MemorySource
from kvtool.workload.turn import Turn
from tests.measure.servers.fake_vllm import MODELS, FakeHandler, fake_vllm
from tests.profiler.made_sessions import SECRET, MadeSession, made_session


def completion_body(text: str) -> dict[str, Any]:
    return {"model": "m", "prompt": text, "max_tokens": 4}


def responses_body(text: str) -> dict[str, Any]:
    return {"model": "m", "input": [{"role": "user", "content": text}], "max_output_tokens": 4}


def sent(
    capsys: pytest.CaptureFixture[str], url: str, session: MadeSession, folder: Path, *more: str
) -> tuple[int, dict[str, Any]]:
    """The exit code and the document; no prompt is in what was written."""
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(row["body"]) + "\n" for row in session.rows))
    code = run(["replay", str(path), "--server", url, "--yes", "--json", "-q", *more])
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    assert out, err
    return code, json.loads(out)


@pytest.mark.parametrize(
    ("body_of", "page", "length"),
    [
        (completion_body, "/v1/completions", "max_tokens"),
        (responses_body, "/v1/responses", "max_output_tokens"),
    ],
)
def test_each_request_goes_to_the_page_that_it_is_written_for(
    body_of: Any, page: str, length: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session, kept = made_session(body_of=body_of), tmp_path / "kept"
    with fake_vllm(session) as server:
        asked = ["--max-tokens", "4", "--record", str(kept)]
        code, document = sent(capsys, server.url, session, tmp_path, *asked)
    assert (code, document["answered"], document["agree"], document["counters_agree"]) == (0, 12, 12, True)
    assert document["reported_cached_tokens"] > 0
    bodies = [body for path, body in server.asked if path == page]
    assert len(bodies) == 12
    assert {(body["stream"], body[length]) for body in bodies} == {(True, 4)}
    assert len(server.prompts) == len(set(server.prompts)) == 12
    assert run(["replay", "--recorded", str(kept), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agree"] == 12


def test_items_of_a_conversation_are_sent_as_they_were_written() -> None:
    items = [
        {"type": "message", "role": "developer", "content": "Be kind."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "The weather?"}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "rain"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Rain."}]},
        {"type": "message", "role": "user", "content": "Thanks"},
    ]
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}}

    def turn_of(body: dict[str, Any]) -> Turn:
        (conversation,) = MemorySource([body], LogOptions()).conversations()
        turn = conversation.next_turn(None)
        assert turn is not None
        return turn

    first = turn_of({"model": "m", "instructions": "Short.", "input": items, "tools": [tool]})
    request = to_send(first, SentAs("m"), 5)
    assert request.endpoint == "/v1/responses"
    again = turn_of(request.body)
    assert [untyped(each) for each in again.messages or ()] == [untyped(each) for each in first.messages or ()]
    assert again.tools == first.tools
    assert [item["type"] for item in request.body["input"]][3:5] == ["function_call", "function_call_output"]
    assert to_send(Turn("g", messages=first.messages, call=Call()), SentAs("m"), 5).endpoint == "/v1/chat/completions"


def untyped(message: dict[str, Any]) -> dict[str, Any]:
    """Without the type of an item, which every message has."""
    return {name: value for name, value in message.items() if name != "type"}


def models(owner: str | None) -> dict[str, str]:
    """The pages of a server that has no /metrics."""
    row = {"id": "m"} if owner is None else {"id": "m", "owned_by": owner}
    return {"/v1/models": json.dumps({"object": "list", "data": [row]})}


def says(**counts: Any) -> Any:
    """A server that streams an answer with these beside its choices, at its end."""

    def answers(handler: FakeHandler, _: int) -> bool:
        handler.begin_stream()
        handler.event({"choices": [{"index": 0, "delta": {"content": "x"}}]})
        handler.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        handler.event({"choices": [], **counts})
        handler.event("[DONE]")
        return True

    return answers


def usage(cached: int | None) -> dict[str, Any]:
    details = None if cached is None else {"cached_tokens": cached}
    return {"prompt_tokens": 90, "completion_tokens": 1, "prompt_tokens_details": details}


@pytest.mark.parametrize(
    ("owner", "counts", "server", "cached"),
    [
        pytest.param("tensorrt_llm", {"usage": usage(64)}, "TensorRT-LLM", 64, id="TensorRT-LLM"),
        pytest.param("sglang", {"usage": usage(64)}, "SGLang", 64, id="SGLang with --enable-cache-report"),
        pytest.param("sglang", {"usage": usage(None)}, "SGLang", None, id="SGLang without"),
        pytest.param(
            None, {"usage": usage(None), "meta_info": {"cached_tokens": 64}}, "SGLang", 64, id="SGLang unnamed"
        ),
        pytest.param("llamacpp", {"timings": {"cache_n": 64, "prompt_n": 26}}, "llama.cpp", 64, id="llama.cpp"),
        pytest.param(
            None,
            {"usage": usage(None), "timings": {"cache_n": 64, "prompt_n": 26}},
            "llama.cpp",
            64,
            id="llama.cpp unnamed",
        ),
        pytest.param("library", {"usage": usage(None)}, "Ollama", None, id="Ollama says nothing there"),
    ],
)
def test_a_server_with_rules_of_its_own_is_told_and_not_predicted(
    owner: str | None,
    counts: dict[str, Any],
    server: str,
    cached: int | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    session, kept = made_session(), tmp_path / "kept"
    with fake_vllm(session, says(**counts), models(owner)) as fake:
        code, document = sent(capsys, fake.url, session, tmp_path, "--record", str(kept))
    assert code == 0
    assert document["not_predicted"].startswith(server)
    assert (document["agree"], document["disagree"], document["predicted_cached_tokens"]) == (0, [], None)
    assert (document["answered"], document["prompt_tokens"]) == (12, 12 * 90)
    assert document["reported_cached_tokens"] == 12 * (cached or 0)
    assert document["unreported"] == (0 if cached is not None else 12)
    assert not any({"return_token_ids", "session_id"} & set(body) for _, body in fake.asked)
    if owner is not None:  # nobody asks how it reads prompts
        assert [path for path, _ in fake.asked] == ["/v1/chat/completions"] * 12
    assert run(["replay", "--recorded", str(kept)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Predicted nothing:" in shown
    assert f"{12 * 64:,} of 1,080 tokens cached" in shown if cached else "none reports cached tokens" in shown


def test_a_server_without_metrics_that_is_not_known_is_assumed_and_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session, kept = made_session(), tmp_path / "kept"
    with fake_vllm(session, pages={"/v1/models": MODELS}) as server:
        code, document = sent(capsys, server.url, session, tmp_path, "--record", str(kept))
    assert (code, document["agree"], document["counters_agree"]) == (0, 12, None)
    assert "block size: unknown" in document["assumed"]
    assert any("has no known /metrics" in note for note in document["notes"])
    assert {body["model"] for path, body in server.asked if path != "/tokenize"} == {"m"}
    assert run(["replay", "--recorded", str(kept), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["agree"], again["assumed"]) == (12, document["assumed"])
