"""Runs of agents, as calls: OpenHands, SWE-agent, mini-swe-agent, Cline, aider."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from kvtool.workload.logs.records.incomplete_prompts import NO_PROMPT, NO_SYSTEM
from tests.workload.logs.formats.agent_rows import lines, refusal, rows, said


def metadata(tool: str, response: str) -> dict[str, Any]:
    return {"function_name": "run", "tool_call_id": tool, "model_response": {"id": response, "model": "gpt-5.5"}}


def metrics(prompt: int, cached: int, out: int) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "cache_read_tokens": cached, "cache_write_tokens": 0, "completion_tokens": out}
    return {"accumulated_cost": 0.1, "accumulated_token_usage": {"model": "gpt-5.5", **counts}}


def openhands() -> list[dict[str, Any]]:
    tools = [{"type": "function", "function": {"name": "run"}}]
    return [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "be brief", "tools": tools}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "look"}, "timestamp": "2026-01-01T00:00:01"},
        {"id": 2, "source": "user", "action": "recall", "args": {"query": "look"}},
        {"id": 3, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "I look."},
         "tool_call_metadata": metadata("k1", "r1"), "llm_metrics": metrics(100, 0, 5)},
        {"id": 4, "source": "agent", "observation": "run", "content": "etc", "extras": {}, "cause": 3,
         "tool_call_metadata": metadata("k1", "r1")},
        {"id": 5, "source": "agent", "action": "run", "args": {"command": "pwd", "thought": ""},
         "tool_call_metadata": metadata("k2", "r1"), "llm_metrics": metrics(100, 0, 5)},
        {"id": 6, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
        {"id": 7, "source": "agent", "action": "message", "args": {"content": "done"},
         "llm_metrics": metrics(230, 90, 9)},
        {"id": 8, "source": "agent", "action": "condensation", "args": {"forgotten_event_ids": [3, 4, 5], "summary": "it looked",
         "summary_offset": 2}},
        {"id": 9, "source": "user", "action": "message", "args": {"content": "more"}},
        {"id": 10, "source": "agent", "action": "message", "args": {"content": "no"}},
    ]  # fmt: skip


def test_events_of_openhands_become_calls(tmp_path: Path) -> None:
    for shape in ["list", "lines", "history", "pairs"]:
        path = tmp_path / "s.json"
        events = openhands()
        match shape:
            case "list":
                path.write_text(json.dumps(events))
            case "lines":
                lines(path, events)
            case "history":
                path.write_text(json.dumps({"instance_id": "i-1", "history": events, "metrics": {}}))
            case _:
                path.write_text(json.dumps({"instance_id": "i-1", "history": [[each] for each in events]}))
        (first, second, third), _ = rows(path)
        assert (said(first), first["tools"], first["model"]) == (["be brief", "look"], ["run"], "gpt-5.5")
        assert (first["prompt_tokens"], first["output_tokens"], first["turn"]) == (100, 5, 0)
        assert [role for role, _ in second["messages"]] == ["system", "user", "assistant", "tool"]
        assert (second["prompt_tokens"], second["cached_tokens"], second["output_tokens"]) == (130, 90, 4)
        assert said(third) == ["be brief", "look", "it looked", "done", "more"]
        assert "prompt_tokens" not in third


def test_events_of_openhands_since_its_first_release(tmp_path: Path) -> None:
    text = {"type": "text", "text": "look"}
    events = [
        {"id": "a", "kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"type": "text", "text": "be brief"},
         "tools": [{"title": "terminal", "description": "d"}]},
        {"id": "b", "kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": [text]},
         "extended_content": [{"type": "text", "text": " closely"}]},
        {"id": "c", "kind": "ActionEvent", "source": "agent", "thought": [], "action": {"command": "ls", "kind": "TerminalAction"},
         "tool_name": "terminal", "tool_call_id": "k", "tool_call": {"id": "k", "name": "terminal", "arguments": "{}"},
         "llm_response_id": "r1"},
        {"id": "d", "kind": "ObservationEvent", "source": "environment", "tool_call_id": "k",
         "observation": {"content": [{"type": "text", "text": "etc"}]}},
        {"id": "e", "kind": "MessageEvent", "source": "agent", "llm_message": {"role": "assistant", "content": [text]},
         "llm_response_id": "r2"},
        {"id": "f", "kind": "ConversationStateUpdateEvent", "source": "environment", "key": "k", "value": 1},
    ]  # fmt: skip
    (first, second), _ = rows(lines(tmp_path / "events.jsonl", events))
    assert (said(first), first["tools"]) == (["be brief", "look closely"], ["terminal"])
    assert [role for role, _ in second["messages"]] == ["system", "user", "assistant", "tool"]


def test_sums_that_go_down_are_no_tokens_of_a_call(tmp_path: Path) -> None:
    events = openhands()
    events[7]["llm_metrics"] = metrics(120, 0, 3)
    _, second, _ = rows(lines(tmp_path / "s.jsonl", events))[0]
    assert "prompt_tokens" not in second
    events[3]["llm_metrics"] = metrics(-1, 0, 0)
    found, source = rows(lines(tmp_path / "s.jsonl", events))
    assert ("prompt_tokens" in found[0], source.prompts.wrong) == (False, 1)


def test_steps_of_swe_agent_say_what_was_sent(tmp_path: Path) -> None:
    system, task = {"role": "system", "content": "be brief", "agent": "main"}, {"role": "user", "content": "fix it"}
    short = {"role": "user", "content": "Old environment output: (3 lines omitted)"}
    steps = [
        {"action": "ls", "response": "I look.", "query": [system, task]},
        {"action": "submit", "response": "done", "query": [system, short], "tool_calls": None},
        {"action": "", "response": "", "query": [{}]},
    ]
    config = json.dumps({"agent": {"model": {"name": "gpt-5.5"}}})
    path = tmp_path / "s.traj"
    path.write_text(json.dumps({"trajectory": steps[:2], "history": [system, task], "replay_config": config}))
    found, _ = rows(path)
    assert [said(row) for row in found] == [["be brief", "fix it"], ["be brief", short["content"]]]
    assert {row["model"] for row in found} == {"gpt-5.5"}
    answer = {"role": "assistant", "content": "done"}
    path.write_text(json.dumps({"trajectory": steps, "history": [system, task, answer]}))
    assert [said(row) for row in rows(path)[0]] == [["be brief", "fix it"]], (
        "a step does not say it, so the history does"
    )


def test_a_count_in_a_trajectory_that_cannot_be_has_its_place(tmp_path: Path) -> None:
    def answer(prompt: float) -> dict[str, Any]:
        response = {"model": "gpt-5.5", "usage": {"prompt_tokens": prompt, "completion_tokens": 1}}
        return {"role": "assistant", "content": "SECRET", "extra": {"response": response, "timestamp": 1767225600.0}}

    ask = {"role": "user", "content": "hi"}
    path = tmp_path / "s.traj.json"
    path.write_text(
        json.dumps({"trajectory_format": "mini-swe-agent-1.1", "messages": [ask, answer(5), ask, answer(9)]})
    )
    (first, second), _ = rows(path)
    assert (first["prompt_tokens"], second["prompt_tokens"], first["model"]) == (5, 9, "gpt-5.5")
    path.write_text(
        json.dumps(
            {"trajectory_format": "mini-swe-agent-1.1", "messages": [ask, answer(5), ask, answer(4.5)]}, indent=1
        )
    )
    error = refusal(path)
    assert error.message == "`prompt_tokens` must be a whole number of tokens, not the number 4.5"
    assert error.place is not None
    assert error.place.line == 33


def cline_task(folder: Path, shown: list[Any] | None) -> Path:
    folder.mkdir(exist_ok=True)
    history = [
        {"role": "user", "content": [{"type": "text", "text": "<task>fix it</task>"}], "ts": 1000},
        {"role": "assistant", "content": [{"type": "text", "text": "how?"}], "ts": 2000, "modelInfo": {"modelId": "m"}},
        {"role": "user", "content": [{"type": "text", "text": "so"}], "ts": 3000},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}], "ts": 4000, "modelInfo": {"modelId": "m"}},
    ]
    (folder / "api_conversation_history.json").write_text(json.dumps(history))
    if shown is not None:
        (folder / "ui_messages.json").write_text(json.dumps(shown))
    return folder / "api_conversation_history.json"


def request(ts: int, **counts: float) -> dict[str, Any]:
    return {"ts": ts, "type": "say", "say": "api_req_started", "text": json.dumps({"request": "x", **counts})}


def test_what_cline_shows_tells_the_tokens_of_its_requests(tmp_path: Path) -> None:
    shown = [
        {"ts": 900, "type": "say", "say": "task", "text": "fix it"},
        request(1100, tokensIn=10, tokensOut=3, cacheWrites=90, cacheReads=0, cost=0.25),
        request(2500, cancelReason=0),
        request(3100, tokensIn=12, tokensOut=4, cacheWrites=8, cacheReads=90, cost=0.5),
    ]
    path = cline_task(tmp_path / "t", shown)
    for paths in ([path], [path, path.with_name("ui_messages.json")]):
        found, _ = rows(*paths)
        told = [(r["prompt_tokens"], r["cached_tokens"], r["cache_write_tokens"], r["output_tokens"]) for r in found]
        assert told == [(100, 0, 90, 3), (110, 90, 8, 4)]
        assert [float(row["cost"]) for row in found] == [0.25, 0.5]
        assert {(row["model"], row["incomplete"]) for row in found} == {("m", NO_SYSTEM)}


def test_what_cline_shows_is_a_bill_where_its_history_is_not_there(tmp_path: Path) -> None:
    asked = request(1_770_022_800_000, tokensIn=10, tokensOut=3, cacheWrites=90, cacheReads=5, cost=0.25)
    info = {"modelInfo": {"modelId": "m", "providerId": "anthropic"}}
    (tmp_path / "ui_messages.json").write_text(json.dumps([{"ts": 1, "type": "say", "say": "text"}, asked | info]))
    (found,), _ = rows(tmp_path / "ui_messages.json")
    counts = [found[name] for name in ("prompt_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")]
    assert (counts, float(found["cost"]), found["model"]) == ([105, 5, 90, 3], 0.25, "m")
    assert (found["incomplete"], found["time"]) == (NO_PROMPT, 1_770_022_800)


def test_a_task_of_cline_without_tokens_is_read_all_the_same(tmp_path: Path) -> None:
    for shown in [None, [], [request(1100, tokensIn=-10)], [5, {"say": "api_req_started", "text": "["}]]:
        found, _ = rows(cline_task(tmp_path / "t", shown))
        assert [len(said(row)) for row in found] == [1, 3]
        assert not any("prompt_tokens" in row for row in found)


def test_a_chat_of_aider_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text("\n# aider chat started at 2026-01-01 00:00:00\n\n#### SECRET\n")
    error = refusal(path)
    assert error.message.startswith("a chat history of aider")
    assert "--llm-history-file" in str(error.hint)
    assert "SECRET" not in f"{error.message}{error.hint}"


def test_what_aider_sent_is_read(tmp_path: Path) -> None:
    path = tmp_path / "llm.txt"
    path.write_text(
        "TO LLM 2026-01-01T00:00:00\n-------\nSYSTEM be brief\nSYSTEM \nSYSTEM always\n-------\nUSER TO LLM 1\n"
        "LLM RESPONSE 2026-01-01T00:00:05\nASSISTANT yes\n"
        "TO LLM 2026-01-01T00:01:00\n-------\nUSER more\n"
    )
    (first, second), source = rows(path)
    assert said(first) == ["be brief\n\nalways", "TO LLM 1"]
    assert (first["time"], said(second), second["time"]) == (1767225600, ["more"], 1767225660)
    assert list(source.formats.values()) == ["chat"]


def test_what_only_resembles_a_session_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    for record in [
        {"type": "event", "sessionId": "s", "data": {"prompt": "SECRET"}},
        {"type": "user", "sessionId": "s", "said": "SECRET"},
        {"type": "note", "payload": {"said": "SECRET"}},
        {"id": 1, "timestamp": "2026-01-01", "instructions": "SECRET", "answer": "b"},
        {"source": "user", "action": "click", "at": 5},
        {"trajectory": 5, "doc": {}, "results": {"results": {}}},
    ]:
        error = refusal(lines(tmp_path / "log.jsonl", [record]))
        assert error.message.startswith("no prompt found in this record")
        assert "SECRET" not in f"{error.message}{error.hint}"


def test_files_may_be_compressed_and_of_several_formats(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    chat = {"messages": [{"role": "user", "content": "hi"}], "timestamp": "2026-01-02T00:00:00"}
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, [*openhands()[:4], chat, *openhands()[9:]])).encode()))
    found, source = rows(path)
    assert [len(said(row)) for row in found] == [1, 2, 4]
    assert list(source.formats.values()) == ["openhands, chat"]


def test_messages_that_roo_replaced_by_a_summary_are_not_sent_again(tmp_path: Path) -> None:
    def item(role: str, text: str, **more: Any) -> dict[str, Any]:
        return {"role": role, "content": text, **more}

    history = [
        *(item("user", "a", condenseParent="c"), item("assistant", "b", condenseParent="c")),
        *(
            item("user", "s", isSummary=True, condenseId="c"),
            item("assistant", "d"),
            item("user", "e", truncationParent="t"),
        ),
        *(item("assistant", "f"), item("user", "cut", truncationId="t"), item("assistant", "g")),
    ]
    path = tmp_path / "api_conversation_history.json"
    path.write_text(json.dumps(history))
    assert [said(row) for row in rows(path)[0]] == [["a"], ["s"], ["s", "d", "e"], ["s", "d", "f", "cut"]]


FILE = 'c<file_content path="f.md">\nd\n</file_content>'


def test_a_session_of_the_command_line_of_cline(tmp_path: Path) -> None:
    counts = {"inputTokens": 24, "outputTokens": 2, "cacheReadTokens": 16, "cacheWriteTokens": 4, "cost": 0.5}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "b"}], "ts": 1770000001000, "metrics": counts}
    messages = [
        {"role": "user", "content": "a"},
        {**answer, "modelInfo": {"id": "gpt-5.5"}},
        {"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "file", "path": "f.md", "content": "d"}]},
    ]
    session = {"version": 1, "agent": "lead", "sessionId": "s", "system_prompt": "You are Mina."}
    (tmp_path / "s.messages.json").write_text(
        json.dumps({**session, "messages": [*messages, {**answer, "metrics": None}]})
    )
    (tmp_path / "s.json").write_text(
        json.dumps({"session_id": "s", "prompt": "a", "messages_path": "p", "status": "completed"})
    )
    (tmp_path / "s.compaction.json").write_text(
        json.dumps({"conversation_id": "s", "source_message_count": 2, "messages": messages})
    )
    (first, second), source = rows(*sorted(tmp_path.iterdir()))
    assert (said(first), said(second)) == (["You are Mina.", "a"], ["You are Mina.", "a", "b", FILE])
    assert (first["prompt_tokens"], first["cached_tokens"], first["cache_write_tokens"]) == (24, 16, 4)
    assert (first["model"], first["cost"], first["incomplete"]) == ("gpt-5.5", 0.5, "tools are not in the file")
    assert source.left_out.counts == {"note on a session": 1}


def test_a_compacted_copy_of_a_session_of_cline_is_no_session(tmp_path: Path) -> None:
    said = {"role": "assistant", "content": "Yes.", "metrics": {"inputTokens": 24, "outputTokens": 2}}
    session = {
        "version": 1,
        "agent": "lead",
        "sessionId": "s1",
        "messages": [{"role": "user", "content": "Open?"}, said],
    }
    (tmp_path / "s1.messages.json").write_text(json.dumps(session))
    (tmp_path / "s1.compaction.json").write_text(json.dumps(session))
    (tmp_path / "s1.json").write_text(json.dumps({"session_id": "s1", "messages_path": "s1.messages.json"}))
    found, source = rows(*sorted(tmp_path.iterdir()))
    assert ([row["prompt_tokens"] for row in found], sum(source.left_out.counts.values())) == ([24], 2)
    refused = refusal(tmp_path / "s1.compaction.json")
    assert ("copy of a session" in refused.message, ".messages.json" in str(refused.hint)) == (True, True)


def test_analytics_of_aider_are_refused_with_the_way_out(tmp_path: Path) -> None:
    event = {"event": "message_send", "properties": {"prompt_tokens": 9}, "user_id": "u", "time": 1770000000}
    assert "--llm-history-file" in str(refusal(lines(tmp_path / "a.jsonl", [event])).hint)


def spans_of_agents() -> list[dict[str, Any]]:
    usage = {"input_tokens": 24, "input_tokens_details": {"cached_tokens": 16}, "output_tokens": 2}
    asked = [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "a"}]
    generation = {
        "type": "generation",
        "input": asked,
        "output": [{"role": "assistant", "content": "b"}],
        "model": "gpt-5.5",
    }
    told = [
        {**generation, "usage": usage},
        {"type": "response", "response_id": "r", "usage": usage},
        {"type": "function"},
    ]
    around = {"object": "trace.span", "trace_id": "t", "started_at": "2026-02-02T09:00:00+00:00", "error": None}
    trace = {"object": "trace", "id": "t", "workflow_name": "w", "group_id": "chat-1"}
    return [trace, *({**around, "id": str(at), "span_data": each} for at, each in enumerate(told))]


def test_traces_of_the_agents_sdk_of_openai(tmp_path: Path) -> None:
    (first, second), source = rows(lines(tmp_path / "a.jsonl", spans_of_agents()))
    assert (said(first), first["session"], first["model"]) == (["You are Mina.", "a"], "chat-1", "gpt-5.5")
    assert second["incomplete"] == "prompts are not in the file"
    assert {(row["prompt_tokens"], row["cached_tokens"]) for row in (first, second)} == {(24, 16)}
    assert source.left_out.counts == {"tool span": 1}


def test_a_session_of_the_agents_sdk_of_openai(tmp_path: Path) -> None:
    items = [
        {"role": "user", "content": "a"},
        {"type": "function_call", "call_id": "k", "name": "hours", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "k", "output": "till six"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
    ]
    with closing(sqlite3.connect(tmp_path / "s.db")) as database, database:
        database.execute("CREATE TABLE agent_sessions (session_id TEXT, created_at TEXT)")
        database.execute(
            "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT, created_at TEXT)"
        )
        database.execute("INSERT INTO agent_sessions VALUES ('s1', '2026-02-02 09:00:00')")
        for item in items:
            values = "s1", json.dumps(item), "2026-02-02 09:00:00"
            database.execute(
                "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, ?)", values
            )
    found, _ = rows(tmp_path / "s.db")
    assert [[role for role, _ in row["messages"]] for row in found] == [["user"], ["user", "assistant", "tool"]]
    assert {row["session"] for row in found} == {"s1"}
