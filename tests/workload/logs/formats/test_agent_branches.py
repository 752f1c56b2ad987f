"""Sessions of agents in which messages are taken back, summed up, or of a kind that nobody knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvtool.workload.logs.records.incomplete_prompts import LOST, NO_SYSTEM, NO_TOOLS
from tests.workload.logs.reading_made import Read, lines

UNKNOWN = "record of an unknown kind"
DAY = "2026-02-02T09:00:"


def texts(read: Read) -> list[list[str]]:
    return [[text for _, text in row["messages"]] for row in read.rows]


def gemini(id_: str, type_: str, content: str, second: int, prompt: int = 0) -> dict[str, Any]:
    message: dict[str, Any] = {"id": id_, "timestamp": f"{DAY}{second:02}Z", "type": type_, "content": content}
    if prompt:
        message["tokens"] = {"input": prompt, "output": 1, "cached": 0, "thoughts": 0, "tool": 0, "total": prompt + 1}
    return message


def test_messages_of_gemini_that_are_taken_back_or_summed_up_were_sent(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "session.jsonl",
        {"sessionId": "s", "projectHash": "ab", "kind": "subagent"},
        gemini("1", "user", "a", 0),
        gemini("2", "gemini", "b", 1, 10),
        gemini("3", "user", "c", 2),
        gemini("4", "gemini", "d", 3, 20),
        {"$rewindTo": "3"},
        gemini("5", "user", "e", 4),
        gemini("6", "gemini", "f", 5, 30),
        {"$snapshot": True, "messages": [gemini("7", "user", "sum", 6), gemini("8", "gemini", "ok", 6)]},
        gemini("9", "user", "g", 7),
        gemini("10", "gemini", "h", 8, 40),
        gemini("11", "hologram", "i", 9),
    )
    read = Read(path)
    assert texts(read) == [["a"], ["a", "b", "c"], ["a", "b", "e"], ["sum", "ok", "g"]]
    assert read.of("prompt_tokens") == [10, 20, 30, 40]
    assert [row["call"].began for row in read.rows] == [None, None, None, "compacted"]
    assert all(row["call"].subagent for row in read.rows)
    assert read.left_out == {UNKNOWN: 1}


def test_pieces_of_an_answer_of_gemini_are_one_call(tmp_path: Path) -> None:
    last = gemini("3", "gemini", "c", 2, 10) | {"toolCalls": [{"id": "t", "name": "ls", "args": {}}]}
    said = [gemini("1", "user", "a", 0), gemini("2", "gemini", "b", 1), last]
    path = tmp_path / "session-1.json"
    path.write_text(json.dumps({"sessionId": "s", "projectHash": "ab", "messages": said}))
    [row] = Read(path).rows
    assert (row["said"][:2], "ls" in row["said"], row["prompt_tokens"]) == ("bc", True, 10)


def qwen(uuid: str, parent: str | None, type_: str, text: str | None, **more: Any) -> dict[str, Any]:
    record = {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": type_, "timestamp": f"{DAY}00Z", **more}
    return record if text is None else record | {"message": {"role": "user", "parts": [{"text": text}]}}


def test_branches_and_summaries_of_qwen(tmp_path: Path) -> None:
    summary = {"compressedHistory": [{"role": "user", "parts": [{"text": "sum"}]}]}
    path = lines(
        tmp_path / "s.jsonl",
        qwen("1", None, "user", "a"),
        qwen("2", "1", "assistant", "b"),
        qwen("3", "2", "user", "c"),
        qwen("4", "3", "assistant", "d", usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 5}),
        qwen("5", "2", "user", "e"),
        qwen("6", "5", "assistant", "f"),
        qwen("7", "6", "system", None, subtype="chat_compression", systemPayload=summary),
        qwen("8", "7", "user", "g"),
        qwen("9", "8", "assistant", "h"),
        qwen("10", "gone", "user", "i"),
        qwen("11", "10", "assistant", "j"),
        qwen("12", "11", "hologram", "k"),
    )
    read = Read(path)
    assert sorted(texts(read)) == [["a"], ["a", "b", "c"], ["a", "b", "e"], ["i"], ["sum", "g"]]
    assert {row["messages"][0][1]: row["incomplete"] for row in read.rows} == {
        "a": NO_SYSTEM,
        "sum": NO_SYSTEM,
        "i": LOST,
    }
    assert read.left_out == {UNKNOWN: 1}


def test_thoughts_that_a_provider_counts_within_the_answer(tmp_path: Path) -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 8, "thoughtsTokenCount": 3, "totalTokenCount": 18}
    asked = qwen("1", None, "user", "a")
    outputs = []
    for total in (18, 21):
        answer = qwen("2", "1", "assistant", "b", usageMetadata={**usage, "totalTokenCount": total})
        outputs += Read(lines(tmp_path / f"{total}.jsonl", asked, answer)).of("output_tokens")
    assert outputs == [8, 11]


def test_opencode_with_steps_in_a_message_a_failure_and_a_summary(tmp_path: Path) -> None:
    def tokens(fresh: int) -> dict[str, Any]:
        return {"input": fresh, "output": 2, "reasoning": 0, "cache": {"read": 5, "write": 1}}

    def message(role: str, *parts: Any, **info: Any) -> dict[str, Any]:
        return {"info": {"id": "m", "role": role, "time": {"created": 1_770_000_000_000}, **info}, "parts": list(parts)}

    def text(said: str) -> dict[str, Any]:
        return {"type": "text", "text": said}

    tool = {"type": "tool", "callID": "t", "tool": "ls", "state": {"status": "completed", "input": {}, "output": "r"}}
    steps = [text("b"), tool, {"type": "step-finish", "tokens": tokens(1), "cost": 0.1}]
    steps += [text("c"), {"type": "step-finish", "tokens": tokens(2), "cost": 0.2}]
    messages = [
        message("user", text("a"), {"type": "file", "mime": "image/png"}),
        message("assistant", *steps, tokens=tokens(2), cost=0.3, modelID="m", system=["S"]),
        message("assistant", error={"name": "APIError"}, tokens=tokens(0)),
        message("user", {"type": "compaction"}, text("sum up")),
        message("assistant", text("summary"), tokens=tokens(3), summary=True),
        message("user", text("d")),
        message("assistant", text("e"), tokens=tokens(4)),
        message("hologram", text("f")),
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"info": {"id": "s", "parentID": "p", "directory": "/srv/shop"}, "messages": messages}))
    read = Read(path)
    assert [said[-1] for said in texts(read)] == ["a", "r", "sum up", "d"]
    assert texts(read)[3] == ["S", "sum up", "summary", "d"]
    assert read.of("prompt_tokens") == [7, 8, 9, 10]
    assert [str(row["call"].cost) for row in read.rows[:2]] == ["0.1", "0.2"]
    assert (read.rows[0]["call"].subagent, read.rows[0]["call"].project) == (True, "shop")
    assert read.rows[0]["call"].uncounted == (("image", 1),)
    assert set(read.of("incomplete")) == {NO_TOOLS}
    assert read.left_out == {"failed": 1, UNKNOWN: 1}


def test_what_an_agent_of_goose_no_longer_sees_was_sent(tmp_path: Path) -> None:
    def message(role: str, said: str, **seen: bool) -> dict[str, Any]:
        return {"role": role, "created": 1, "content": [{"type": "text", "text": said}], "metadata": seen}

    path = lines(
        tmp_path / "s.jsonl",
        {"working_dir": "/srv/shop", "message_count": 6},
        message("user", "a", agentVisible=False),
        message("assistant", "b", agentVisible=False),
        message("user", "sum", agentVisible=True),
        message("assistant", "go on", agentVisible=True, userVisible=False),
        message("assistant", "c", agentVisible=True),
        message("user", "d"),
        message("assistant", "e"),
        message("hologram", "f"),
    )
    read = Read(path)
    assert texts(read) == [["a"], ["sum", "go on"], ["sum", "go on", "c", "d"]]
    assert [row["call"].began for row in read.rows] == [None, "compacted", None]
    assert read.left_out == {UNKNOWN: 1}


def test_steps_of_atif_that_are_no_calls_and_trajectories_of_subagents(tmp_path: Path) -> None:
    def step(source: str, said: str, **more: Any) -> dict[str, Any]:
        return {"source": source, "message": said, **more}

    inner = {"trajectory_id": "t2", "session_id": "s", "agent": {}, "steps": [step("user", "x"), step("agent", "y")]}
    steps = [
        step("system", "S"),
        step("user", "a"),
        step("agent", "copied", is_copied_context=True),
        step("agent", "made by rule", llm_call_count=0),
        step("agent", "b"),
        step("agent", "c", model_name="other"),
        step("hologram", "d"),
    ]
    tools = [{"type": "function", "function": {"name": "ls"}}]
    agent = {"name": "n", "version": "1", "model_name": "m", "tool_definitions": tools}
    path = tmp_path / "t.json"
    record = {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": agent, "steps": steps}
    path.write_text(json.dumps({**record, "subagent_trajectories": [inner]}))
    read = Read(path)
    assert texts(read) == [["S", "a", "copied", "made by rule"], ["S", "a", "copied", "made by rule", "b"], ["x"]]
    assert (read.of("model"), read.of("session")) == (["m", "other", None], ["s", "s", "t2"])
    assert [row["call"].subagent for row in read.rows] == [False, False, True]
    assert (read.of("tools")[0], read.of("incomplete")) == (["ls"], [None, None, NO_SYSTEM])
    assert read.left_out == {UNKNOWN: 1}


def test_bodies_of_dashscope(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "hours"}}
    body = {"model": "qwen3-max", "input": {"messages": [{"role": "user", "content": "Is it open?"}]}}
    usage = {"input_tokens": 24, "output_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}}
    answer = {"request_id": "r1", "output": {"text": "Yes."}, "usage": usage}
    path = lines(
        tmp_path / "a.jsonl",
        {"request": {**body, "parameters": {"tools": [tool]}}, "response": answer},
        {"model": "qwen-plus", "input": {"prompt": "And Sunday?"}, "parameters": {}},
    )
    read = Read(path)
    assert texts(read) == [["Is it open?"], ["And Sunday?"]]
    assert (read.of("tools")[0], read.of("said")) == (["hours"], ["Yes.", None])
    assert (read.of("prompt_tokens"), read.of("cached_tokens"), read.of("output_tokens")) == (
        [24, None],
        [16, None],
        [2, None],
    )


def test_counts_from_which_the_cache_was_taken_twice_or_left_out(tmp_path: Path) -> None:
    tokens = {"input": -6, "output": 2, "reasoning": 0, "cache": {"read": 5, "write": 4}}
    answer = {"info": {"role": "assistant", "tokens": tokens}, "parts": [{"type": "text", "text": "b"}]}
    asked = {"info": {"role": "user"}, "parts": [{"type": "text", "text": "a"}]}
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"info": {"id": "s"}, "messages": [asked, answer]}))
    assert Read(export).of("prompt_tokens") == [12]
    metrics = {"prompt_tokens": 8, "completion_tokens": 2, "cached_tokens": 5}
    steps: list[Any] = [{"source": "user", "message": "a"}, {"source": "user", "message": "x"}, {}]
    steps[1]["extra"] = {"is_sidechain": True}
    steps[2] = {"source": "agent", "message": "b", "metrics": {**metrics, "extra": {"cache_creation_input_tokens": 4}}}
    steps.append({"source": "agent", "message": "y", "metrics": metrics, "extra": {"is_sidechain": True}})
    trajectory = tmp_path / "trajectory.json"
    trajectory.write_text(json.dumps({"schema_version": "ATIF-v1.2", "session_id": "s", "agent": {}, "steps": steps}))
    read = Read(trajectory)
    assert (read.of("prompt_tokens"), read.of("cache_write_tokens")) == ([12, 8], [4, None])
    assert (texts(read), read.of("session")) == ([["a"], ["x"]], ["s", "s/sidechain"])
