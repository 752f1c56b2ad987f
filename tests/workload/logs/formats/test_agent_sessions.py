"""Sessions of agents whose file has messages one after another: the same made-up sessions, as each agent writes them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kvtool.errors import KvtoolError
from tests.workload.logs.reading_made import Read, lines

START = 1_770_000_000
MODEL = "model-x"


@dataclass(frozen=True)
class Step:
    """A call: what was said before it (None: only the results of tools), its answer, a tool that it calls, and its tokens."""

    asked: str | None
    said: str
    tool: tuple[str, str] | None
    fresh: int
    cached: int
    written: int
    output: int
    thoughts: int

    @property
    def prompt(self) -> int:
        return self.fresh + self.cached + self.written


def made(seed: int, *, writes: bool) -> list[Step]:
    """A session in which a call comes after the result of a tool or the question of a user."""
    random = Random(seed)
    steps: list[Step] = []
    for at in range(random.randint(1, 6)):
        asked = f"question {at}" if not steps or steps[-1].tool is None else random.choice([None, f"question {at}"])
        tool = (f"t{at}", f"result {at}") if random.random() < 0.5 else None
        counts = [random.randint(1, 9_000) for _ in range(4)]
        written = random.randint(0, 500) if writes else 0
        steps.append(Step(asked, f"answer {at}", tool, counts[0], counts[1], written, counts[2], counts[3]))
    return steps


def time(at: int, part: int = 0) -> str:
    return datetime.fromtimestamp(START + 10 * at + part, UTC).isoformat().replace("+00:00", "Z")


def gemini_messages(steps: list[Step]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for at, step in enumerate(steps):
        if step.asked:
            found.append({"id": f"u{at}", "timestamp": time(at), "type": "user", "content": [{"text": step.asked}]})
        tokens = {"input": step.prompt, "output": step.output, "cached": step.cached, "thoughts": step.thoughts}
        answer = {"id": f"a{at}", "timestamp": time(at, 5), "type": "gemini", "content": step.said, "model": MODEL}
        answer |= {"thoughts": [{"subject": "s"}], "tokens": {**tokens, "tool": 0, "total": 1}}
        if step.tool:
            reply = {"functionResponse": {"id": step.tool[0], "name": "ls", "response": {"output": step.tool[1]}}}
            call = {"id": step.tool[0], "name": "ls", "args": {"at": at}, "status": "success", "result": [reply]}
            answer["toolCalls"] = [call]
        found.append(answer)
        found.append({"id": f"n{at}", "timestamp": time(at, 6), "type": "info", "content": "a note"})
    return found


def gemini(path: Path, steps: list[Step]) -> Path:
    facts = {"sessionId": "s", "projectHash": "ab", "startTime": time(0), "lastUpdated": time(9)}
    path.write_text(json.dumps({**facts, "messages": gemini_messages(steps)}))
    return path


def gemini_lines(path: Path, steps: list[Step]) -> Path:
    """Each answer first without its tokens, then with them, and at last all of it."""
    written: list[dict[str, Any]] = [{"sessionId": "s", "projectHash": "ab", "startTime": time(0)}]
    for each in gemini_messages(steps):
        if each["type"] == "gemini":
            written.append({name: value for name, value in each.items() if name not in ("tokens", "toolCalls")})
            written.append({name: value for name, value in each.items() if name != "toolCalls"})
        written += [each, {"$set": {"lastUpdated": each["timestamp"]}}]
    return lines(path, *written)


def qwen(path: Path, steps: list[Step]) -> Path:
    written: list[dict[str, Any]] = []

    def add(type_: str, at: int, part: int, role: str, said: list[Any], **more: Any) -> None:
        parent = written[-1]["uuid"] if written else None
        common = {"uuid": f"l{len(written)}", "parentUuid": parent, "sessionId": "s", "cwd": "/srv/shop"}
        message = {"role": role, "parts": said}
        written.append({**common, "timestamp": time(at, part), "type": type_, "message": message, **more})

    for at, step in enumerate(steps):
        if step.asked:
            add("user", at, 0, "user", [{"text": step.asked}])
        said: list[Any] = [{"text": "hidden", "thought": True}, {"text": step.said}]
        if step.tool:
            said.append({"functionCall": {"id": step.tool[0], "name": "ls", "args": {"at": at}}})
        usage = {"promptTokenCount": step.prompt, "cachedContentTokenCount": step.cached}
        usage |= {"candidatesTokenCount": step.output, "thoughtsTokenCount": step.thoughts}
        usage["totalTokenCount"] = step.prompt + step.output + step.thoughts
        add("assistant", at, 5, "model", said, model=MODEL, usageMetadata=usage)
        if step.tool:
            reply = {"functionResponse": {"id": step.tool[0], "name": "ls", "response": {"output": step.tool[1]}}}
            add("tool_result", at, 6, "user", [reply])
        add("system", at, 6, "user", [], subtype="ui_telemetry", systemPayload={"uiEvent": {}})
        del written[-1]["message"]
    return lines(path, *written)


def opencode(path: Path, steps: list[Step]) -> Path:
    messages: list[Any] = []
    for at, step in enumerate(steps):
        begun = {"created": (START + 10 * at) * 1000}
        if step.asked:
            asked = [{"type": "text", "text": step.asked}, {"type": "text", "text": "aside", "ignored": True}]
            messages.append({"info": {"id": f"u{at}", "role": "user", "time": begun}, "parts": asked})
        parts: list[Any] = [{"type": "step-start"}, {"type": "reasoning", "text": "x"}]
        parts.append({"type": "text", "text": step.said})
        if step.tool:
            end = {"start": 1, "end": (START + 10 * at + 6) * 1000}
            state = {"status": "completed", "input": {"at": at}, "output": step.tool[1], "time": end}
            parts.append({"type": "tool", "callID": step.tool[0], "tool": "ls", "state": state})
        tokens = {"input": step.fresh, "output": step.output, "reasoning": step.thoughts}
        tokens["cache"] = {"read": step.cached, "write": step.written}
        parts.append({"type": "step-finish", "tokens": tokens, "cost": 0.5})
        info = {"id": f"a{at}", "role": "assistant", "modelID": MODEL, "providerID": "p", "tokens": tokens, "cost": 0.5}
        info["time"] = {**begun, "completed": (START + 10 * at + 5) * 1000}
        messages.append({"info": info, "parts": parts})
    path.write_text(json.dumps({"info": {"id": "s", "directory": "/srv/shop"}, "messages": messages}))
    return path


def atif(path: Path, steps: list[Step]) -> Path:
    written: list[dict[str, Any]] = []
    for at, step in enumerate(steps):
        if step.asked:
            written.append({"timestamp": time(at), "source": "user", "message": step.asked})
        extra = {"cache_creation_input_tokens": step.written, "reasoning_tokens": step.thoughts}
        metrics = {"prompt_tokens": step.prompt, "completion_tokens": step.output + step.thoughts, "extra": extra}
        metrics |= {"cached_tokens": step.cached, "cost_usd": 0.5}
        agent = {"timestamp": time(at, 5), "source": "agent", "message": step.said, "metrics": metrics}
        if step.tool:
            agent["tool_calls"] = [
                {"tool_call_id": step.tool[0], "function_name": "ls", "arguments": {"at": at}},
            ]
            agent["observation"] = {"results": [{"source_call_id": step.tool[0], "content": step.tool[1]}]}
        written.append(agent)
    listed = [{"step_id": at, **each} for at, each in enumerate(written, 1)]
    agent = {"name": "terminus", "version": "2", "model_name": MODEL}
    path.write_text(json.dumps({"schema_version": "ATIF-v1.6", "session_id": "s", "agent": agent, "steps": listed}))
    return path


def goose_messages(steps: list[Step]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def add(role: str, at: int, part: int, content: list[Any]) -> None:
        found.append({"id": f"m{len(found)}", "role": role, "created": START + 10 * at + part, "content": content})

    for at, step in enumerate(steps):
        if step.asked:
            add("user", at, 0, [{"type": "text", "text": step.asked}])
        add("assistant", at, 5, [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": step.said}])
        if step.tool:
            value = {"name": "ls", "arguments": {"at": at}}
            call = {"type": "toolRequest", "id": step.tool[0], "toolCall": {"status": "success", "value": value}}
            add("assistant", at, 5, [call])
            result = {"status": "success", "value": [{"type": "text", "text": step.tool[1]}]}
            add("user", at, 6, [{"type": "toolResponse", "id": step.tool[0], "toolResult": result}])
    return found


def goose(path: Path, steps: list[Step]) -> Path:
    facts = {"id": "s", "working_dir": "/srv/shop", "message_count": 1, "total_tokens": 9}
    return lines(path, facts, *goose_messages(steps))


def goose_export(path: Path, steps: list[Step]) -> Path:
    facts = {"id": "s", "working_dir": "/srv/shop", "message_count": 1, "model_config": {"model_name": MODEL}}
    path.write_text(json.dumps({**facts, "conversation": goose_messages(steps)}))
    return path


def pi_entry(number: int, type_: str, when: str, **more: Any) -> dict[str, Any]:
    return {
        "type": type_,
        "id": f"e{number}",
        "parentId": f"e{number - 1}" if number else None,
        "timestamp": when,
        **more,
    }


def pi(path: Path, steps: list[Step]) -> Path:
    header = {"type": "session", "version": 3, "id": "s", "timestamp": time(0), "cwd": "/srv/shop"}
    written: list[dict[str, Any]] = [pi_entry(0, "model_change", time(0), provider="p", modelId=MODEL)]

    def add(role: str, at: int, part: int, content: Any, **more: Any) -> None:
        message = {"role": role, "content": content, "timestamp": (START + 10 * at + part) * 1000, **more}
        written.append(pi_entry(len(written), "message", time(at, part), message=message))

    for at, step in enumerate(steps):
        if step.asked:
            add("user", at, 0, step.asked if at % 2 else [{"type": "text", "text": step.asked}])
        said: list[Any] = [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": step.said}]
        if step.tool:
            said.append({"type": "toolCall", "id": step.tool[0], "name": "ls", "arguments": {"at": at}})
        usage: dict[str, Any] = {"input": step.fresh, "output": step.output + step.thoughts, "cacheRead": step.cached}
        usage |= {
            "cacheWrite": step.written,
            "totalTokens": step.prompt + step.output + step.thoughts,
            "cost": {"total": 0.5},
        }
        add("assistant", at, 5, said, provider="p", model=MODEL, usage=usage, stopReason="stop")
        if step.tool:
            result = [{"type": "text", "text": step.tool[1]}]
            add("toolResult", at, 6, result, toolCallId=step.tool[0], toolName="ls", isError=False)
    return lines(path, header, *written)


Writer = Callable[[Path, list[Step]], Path]
WRITERS: dict[str, tuple[Writer, str]] = {
    "gemini": (gemini, "gemini-cli"),
    "gemini-lines": (gemini_lines, "gemini-cli"),
    "qwen": (qwen, "qwen-code"),
    "opencode": (opencode, "opencode"),
    "atif": (atif, "atif"),
    "pi": (pi, "pi"),
    "goose": (goose, "goose"),
    "goose-export": (goose_export, "goose"),
}
TOKENLESS = ("goose", "goose-export")
WRITES = ("opencode", "atif", "pi")


@pytest.mark.parametrize("name", WRITERS)
def test_each_answer_of_a_made_up_session_is_one_call(tmp_path: Path, name: str) -> None:
    write, format_ = WRITERS[name]
    for seed in range(12):
        steps = made(seed, writes=name in WRITES)
        read = Read(write(tmp_path / f"{seed}.{'json' if name in ('gemini', 'atif') else 'jsonl'}", steps))
        assert (list(read.source.formats.values()), read.left_out, len(read.rows)) == ([format_], {}, len(steps))
        said: list[tuple[str, str]] = []
        tool_before = False
        for at, (step, row) in enumerate(zip(steps, read.rows, strict=True)):
            said += [("user", step.asked)] if step.asked else []
            assert [role for role, _ in row["messages"]] == [role for role, _ in said]
            for (_, text), (_, expected) in zip(row["messages"], said, strict=True):
                assert expected in text
            assert row["said"].startswith(step.said)
            assert ("ls" in row["said"]) == (step.tool is not None)
            assert (row["session"], row["turn"], row["incomplete"] is not None) == ("s", at, True)
            first = START + 10 * at if step.asked else START + 10 * (at - 1)
            assert row["time"] == pytest.approx(
                first if step.asked else first + (5 if "gemini" in name or name == "atif" else 6)
            )
            assert step.asked or tool_before
            said.append(("assistant", step.said))
            said += [("tool", step.tool[1])] if step.tool else []
            tool_before = step.tool is not None
            if name != "goose":
                assert row["model"] == MODEL
            usage = row["call"].usage
            if name in TOKENLESS:
                assert usage is None
                continue
            assert (usage.prompt, usage.cached) == (step.prompt, step.cached)
            thoughts = None if name == "pi" else step.thoughts
            assert (usage.output, usage.reasoning) == (step.output + step.thoughts, thoughts)
            if name in WRITES:
                assert (usage.written, float(row["call"].cost)) == (step.written, 0.5)


JUNK = (None, True, -1, 2**70, "x", "{}", [], {}, [None], {"type": "text"}, {"parts": [1]}, [{"text": 1}])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a value, as the way to it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in items for place in places(each, (*path, key)))]


def test_whatever_is_in_the_place_of_a_value_is_read_or_refused(tmp_path: Path) -> None:
    for name in WRITERS:
        written = WRITERS[name][0](tmp_path / "whole.jsonl", made(3, writes=True)).read_text().splitlines()
        random = Random(name)
        read = 0
        for _ in range(40):
            records = [json.loads(line) for line in written]
            *way, last = random.choice([each for each in places(records) if len(each) > 1])
            holder = records
            for step in way:
                holder = holder[step]
            holder[last] = deepcopy(random.choice(JUNK))
            with suppress(KvtoolError):
                Read(lines(tmp_path / "a.jsonl", *records))
                read += 1
        assert read


def test_pi_compacts_forks_and_writes_new_kinds(tmp_path: Path) -> None:
    """A compaction keeps the entries from the one it names on; a branch begins at any entry; unknown entries are counted."""

    def said(role: str, text: str, **more: Any) -> dict[str, Any]:
        return {"message": {"role": role, "content": [{"type": "text", "text": text}], **more}}

    usage = {"input": 5, "output": 1, "cacheRead": 7, "cacheWrite": 2, "totalTokens": 15}
    answer = {"provider": "anthropic", "model": MODEL, "usage": usage, "stopReason": "stop"}
    failed = {**answer, "usage": dict.fromkeys(usage, 0), "stopReason": "error", "errorMessage": "overloaded"}
    entries = [
        pi_entry(0, "message", time(0), **said("user", "first")),
        pi_entry(1, "message", time(0, 1), **said("assistant", "one", **answer)),
        pi_entry(2, "message", time(1), **said("user", "second")),
        pi_entry(3, "message", time(1, 1), **said("assistant", "lost", **failed)),
        pi_entry(4, "message", time(1, 2), **said("assistant", "two", **answer)),
        pi_entry(5, "compaction", time(2), summary="short", firstKeptEntryId="e2", tokensBefore=20),
        pi_entry(6, "message", time(3), **said("user", "third")),
        pi_entry(7, "message", time(3, 1), **said("assistant", "three", **answer)),
        {**pi_entry(8, "telepathy", time(4)), "parentId": "e1"},
        pi_entry(9, "message", time(5), **said("user", "instead")),
        pi_entry(10, "message", time(5, 1), **said("assistant", "four", **answer)),
        {**pi_entry(11, "message", time(6), **said("assistant", "far", **answer)), "parentId": "e99"},
    ]
    header = {"type": "session", "version": 3, "id": "s", "timestamp": time(0), "cwd": "/srv/shop"}
    read = Read(lines(tmp_path / "pi.jsonl", header, *entries))
    prompts = [" ".join(text for _, text in row["messages"]) for row in read.rows]
    assert prompts == ["first", "first one second", "short second two third", "first one instead"]
    assert [row["call"].began for row in read.rows] == [None, None, "compacted", None]
    assert all((row["call"].usage.prompt, row["call"].usage.written) == (14, 2) for row in read.rows)
    assert read.left_out == {"failed": 1, "record of an unknown kind": 1, "promptless call": 1}


def test_entries_of_pi_without_ids_follow_one_another(tmp_path: Path) -> None:
    """The first version: no ids, and a compaction counts the lines of the file up to the first entry that it keeps."""
    whole = [json.loads(row) for row in pi(tmp_path / "now.jsonl", made(5, writes=True)).read_text().splitlines()]
    old = [{name: value for name, value in row.items() if name not in ("id", "parentId")} for row in whole[1:]]
    now, then = (Read(lines(tmp_path / f"{at}.jsonl", whole[0], *rows)) for at, rows in enumerate((whole[1:], old)))
    assert len(now.rows) > 2
    for name in ("messages", "said", "time"):
        assert now.of(name) == then.of(name)
    compaction = {"type": "compaction", "timestamp": time(90), "summary": "short", "firstKeptEntryIndex": len(old)}
    asked = {"type": "message", "timestamp": time(91), "message": {"role": "user", "content": "last"}}
    answer = next(row for row in reversed(old) if row["message"]["role"] == "assistant")
    last = Read(lines(tmp_path / "c.jsonl", whole[0], *old, compaction, asked, answer)).rows[-1]
    said = [text for _, text in last["messages"]]
    assert (said[0], said[-1], len(said)) == ("short", "last", 3)


def test_lines_of_qwen_code_with_one_id_are_one_call(tmp_path: Path) -> None:
    rows = [json.loads(row) for row in qwen(tmp_path / "q.jsonl", made(2, writes=False)).read_text().splitlines()]
    whole = Read(tmp_path / "q.jsonl")
    at = next(at for at, row in enumerate(rows) if row["type"] == "assistant")
    tokens = rows[at].pop("usageMetadata")
    first, second = rows[at]["message"]["parts"][:1], rows[at]["message"]["parts"][1:]
    pieces = [{**rows[at], "message": {"role": "model", "parts": first}}]
    pieces.append({**rows[at], "message": {"role": "model", "parts": second}, "usageMetadata": tokens})
    found = Read(lines(tmp_path / "q.jsonl", *rows[:at], *pieces, *rows[at + 1 :]))
    assert [row["call"].usage for row in found.rows] == [row["call"].usage for row in whole.rows]
    assert (found.of("said"), found.of("messages")) == (whole.of("said"), whole.of("messages"))


def test_a_result_that_gemini_cli_writes_twice_is_sent_once_and_a_resumed_history_is_the_one_that_is_sent(
    tmp_path: Path,
) -> None:
    def message(name: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        return {"id": name, "timestamp": "2026-02-02T09:00:00Z", "type": kind, "content": content, **more}

    result = [{"functionResponse": {"id": "k", "name": "ls", "response": {"output": "etc"}}}]
    called = {"toolCalls": [{"id": "k", "name": "ls", "args": {}, "result": result}]}
    told = {"model": "gemini-2.5-flash", "tokens": {"input": 24, "output": 2, "cached": 16, "thoughts": 1}}
    context, asked = message("m0", "user", [{"text": "context"}]), message("m1", "user", [{"text": "list"}])
    wrote = [{"functionCall": {"id": "k", "name": "ls", "args": {}}}]
    history = [
        context,
        asked,
        message("m2", "gemini", wrote),
        message("m2", "user", result),
        message("m4", "gemini", "done"),
    ]
    path = lines(
        tmp_path / "s.jsonl",
        *({"sessionId": "s", "projectHash": "p"}, {"$set": {"messages": [context]}}, asked),
        *(message("m2", "gemini", "", **told, **called), message("m3", "user", result)),
        message("m4", "gemini", "done", **told),
        *({"sessionId": "s", "projectHash": "p"}, {"$set": {"messages": [context]}}, {"$set": {"messages": history}}),
        *(message("m5", "user", "more"), message("m6", "gemini", "end", **told)),
    )
    read = Read(path)
    sent = ["context", "list", "etc", "done", "more"]
    assert [[role for role, _ in row["messages"]] for row in read.rows] == [
        ["user", "user"],
        ["user", "user", "assistant", "tool"],
        ["user", "user", "assistant", "tool", "assistant", "user"],
    ]
    assert [text for role, text in read.rows[-1]["messages"] if role != "tool"][-2:] == sent[-2:]
    assert [row["call"].usage.reasoning for row in read.rows] == [1, 1, 1]


PACKAGES = os.environ.get("KVTOOL_NODE_MODULES", "")
"""A `node_modules` folder with the packages of agents."""
PI_SCRIPT = """
import { pathToFileURL } from "node:url";
const [modules, folder, given] = process.argv.slice(-3);
const { SessionManager } = await import(pathToFileURL(modules + "/@earendil-works/pi-coding-agent/dist/index.js"));
const session = SessionManager.create("/srv/shop", folder);
for (const each of JSON.parse(given)) session.appendMessage(each);
"""


@pytest.mark.skipif(
    not (PACKAGES and shutil.which("node") and Path(PACKAGES, "@earendil-works/pi-coding-agent").is_dir()),
    reason="no package of Pi: npm install @earendil-works/pi-coding-agent, and set KVTOOL_NODE_MODULES",
)
def test_a_file_that_pi_itself_writes(tmp_path: Path) -> None:
    steps = made(5, writes=True)
    entries = [json.loads(line) for line in pi(tmp_path / "made.jsonl", steps).read_text().splitlines()]
    messages = json.dumps([each["message"] for each in entries if each["type"] == "message"])
    command = ["node", "--input-type=module", "-e", PI_SCRIPT, "--", PACKAGES, str(tmp_path / "s"), messages]
    subprocess.run(command, check=True)
    [written] = (tmp_path / "s").glob("*.jsonl")
    read = Read(written)
    assert (list(read.source.formats.values()), read.left_out) == (["pi"], {})
    assert [row["said"].startswith(step.said) for row, step in zip(read.rows, steps, strict=True)] == [True] * len(
        steps
    )
    assert [row["call"].usage.prompt for row in read.rows] == [step.prompt for step in steps]
