"""Sessions of GitHub Copilot's command line: calls, their tokens, subagents, compactions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workload.logs.reading_made import Read, lines


def event(kind: str, agent: str | None = None, **data: Any) -> dict[str, Any]:
    made = {"type": kind, "data": data, "id": "e", "timestamp": "2026-02-02T09:00:00Z", "parentId": None}
    return made if agent is None else {**made, "agentId": agent}


def counted(identity: str, prompt: int, cached: int, **more: Any) -> dict[str, Any]:
    counts = {"inputTokens": prompt, "cacheReadTokens": cached, "cacheWriteTokens": 2, "outputTokens": 3}
    return event("session.usage_record", usage={"apiCallId": identity, "model": "gpt-5", **counts, **more})


def answer(identity: str, text: str, *tools: str, agent: str | None = None) -> dict[str, Any]:
    asked = [{"toolCallId": name, "name": name, "arguments": {"day": 1}} for name in tools]
    return event("assistant.message", agent, content=text, apiCallId=identity, toolRequests=asked, model="gpt-5")


START = event("session.start", sessionId="s1", copilotVersion="1", context={"cwd": "/srv/shop"})
SYSTEM = event("system.message", role="system", content="You are Copilot.")
ASKED = event("user.message", content="Open?", transformedContent="<now/>Open?")
END = event("assistant.turn_end", turnId="0")


@pytest.mark.parametrize("counts_last", [False, True])
def test_each_message_of_the_assistant_is_a_call_with_its_tokens(tmp_path: Path, counts_last: bool) -> None:
    pairs = [
        (counted("c1", 24, 16), answer("c1", "", "hours")),
        (counted("c2", 30, 24, reasoningTokens=1), answer("c2", "Yes.")),
    ]
    first, second = (reversed(pair) if counts_last else pair for pair in pairs)
    ran = event("tool.execution_complete", toolCallId="hours", success=True, result={"content": "till six"})
    read = Read(lines(tmp_path / "events.jsonl", START, ASKED, SYSTEM, *first, ran, *second, END))
    assert [[text for _, text in row["messages"]][:2] for row in read.rows] == 2 * [["You are Copilot.", "<now/>Open?"]]
    assert [role for role, _ in read.rows[1]["messages"]] == ["system", "user", "assistant", "tool"]
    assert read.rows[1]["messages"][3][1] == "till six"
    assert [(row["prompt_tokens"], row["cached_tokens"], row["output_tokens"]) for row in read.rows] == [
        (24, 16, 3),
        (30, 24, 3),
    ]
    assert read.rows[1]["reasoning_tokens"] == 1
    assert {(row["session"], row["model"], row["incomplete"]) for row in read.rows} == {
        ("s1", "gpt-5", "tools are not in the file")
    }


def test_a_message_without_a_record_of_its_usage_has_what_it_says_itself(tmp_path: Path) -> None:
    chosen = [event("session.model_change", newModel=name) for name in ("m1", "m2")]
    said = event("assistant.message", content="Yes.", messageId="m", toolRequests=[], outputTokens=7)
    other = event("assistant.message", "a1", content="No.", messageId="n", toolRequests=[])
    asked = event("user.message", "a1", content="Shut?")
    read = Read(lines(tmp_path / "events.jsonl", START, *chosen, ASKED, said, asked, other, END))
    usage = [None if row["call"].usage is None else row["call"].usage.output for row in read.rows]
    assert (read.of("model"), usage) == (["m2", None], [7, None])


def test_a_subagent_has_a_conversation_of_its_own(tmp_path: Path) -> None:
    inner = (event("user.message", "a", content="Look."), answer("c2", "Done.", agent="a"))
    read = Read(
        lines(tmp_path / "events.jsonl", START, SYSTEM, ASKED, *inner, counted("c1", 24, 16), answer("c1", "Yes."))
    )
    rows = {row["session"]: row for row in read.rows}
    assert [text for _, text in rows["s1/a"]["messages"]] == ["Look."]
    assert [text for _, text in rows["s1"]["messages"]] == ["You are Copilot.", "<now/>Open?"]
    assert rows["s1/a"]["call"].subagent
    assert rows["s1/a"]["call"].usage is None


def test_a_summary_takes_the_place_of_what_was_before(tmp_path: Path) -> None:
    summed = event("session.compaction_complete", success=True, summaryContent="They asked.")
    failed = event("session.compaction_complete", success=False)
    again = event("user.message", content="And now?")
    told = (START, SYSTEM, ASKED, answer("c1", "Yes."), summed, again, answer("c2", "No."), failed, again)
    rows = Read(lines(tmp_path / "events.jsonl", *told, answer("c3", "Maybe."))).rows
    assert [text for _, text in rows[1]["messages"]] == ["You are Copilot.", "They asked.", "And now?"]
    assert [row["call"].began for row in rows] == [None, "compacted", None]
    assert len(rows[2]["messages"]) == 5


def test_counts_that_are_not_reported_are_none_and_new_events_are_left_out(tmp_path: Path) -> None:
    unknown = counted("c1", 24, 0, cacheDetailsReported=False)
    others = (event("session.title_changed", title="x"), event("zebra.crossed", stripes=3))
    read = Read(lines(tmp_path / "events.jsonl", START, SYSTEM, ASKED, unknown, *others, answer("c1", "Yes.")))
    [row] = read.rows
    assert (row["prompt_tokens"], row.get("cached_tokens")) == (24, None)
    assert sum(read.left_out.values()) == 1


def test_a_number_that_is_none_has_its_place(tmp_path: Path) -> None:
    broken = json.loads(json.dumps(counted("c1", 24, 16)).replace("24", '"many"'))
    with pytest.raises(Exception, match="inputTokens"):
        Read(lines(tmp_path / "events.jsonl", START, ASKED, broken, answer("c1", "Yes.")))
