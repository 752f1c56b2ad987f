"""Sessions of Claude Code, as calls."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from kvtool.workload.logs.formats.agents import claude_code
from kvtool.workload.logs.records.incomplete_prompts import LOST, NO_SYSTEM
from kvtool.workload.logs.records.record import Record, Where
from tests.conftest import some
from tests.workload.logs.formats.agent_rows import lines, refusal, rows, said

_SESSION = "5d1c"


def user(uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    line = {"parentUuid": parent, "sessionId": _SESSION, "type": "user", "message": message, "uuid": uuid}
    return {**line, "timestamp": f"2026-01-05T10:00:{len(uuid):02}.000Z", **more}


def result(uuid: str, parent: str, tool: str, text: str) -> dict[str, Any]:
    return user(uuid, parent, [{"type": "tool_result", "tool_use_id": tool, "content": text}])


def part(uuid: str, parent: str | None, id_: str, content: Any, **more: Any) -> dict[str, Any]:
    usage = more.pop("usage", {"input_tokens": 3, "cache_read_input_tokens": 10, "output_tokens": 7})
    message = {"id": id_, "role": "assistant", "model": "claude-sonnet-4-5", "content": [content], "usage": usage}
    line = {"parentUuid": parent, "sessionId": _SESSION, "type": "assistant", "message": message, "uuid": uuid}
    return {**line, "timestamp": "2026-01-05T10:01:00.000Z", **more}


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def use(id_: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "Read", "input": {"path": id_}}


def test_parts_of_one_message_are_one_call_and_its_tokens_count_once(tmp_path: Path) -> None:
    early = {"input_tokens": 3, "cache_read_input_tokens": 10, "output_tokens": 1}
    path = lines(
        tmp_path / "s.jsonl",
        [
            {"type": "summary", "summary": "x", "leafUuid": "a2"},
            {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False},
            user("u1", None, "look at two files"),
            part("a1", "u1", "msg_1", {"type": "thinking", "thinking": "hm", "signature": "s"}, usage=early),
            part("a2", "a1", "msg_1", text("I read both."), usage=early),
            part("a3", "a2", "msg_1", use("t1")),
            result("r1", "a3", "t1", "one"),
            part("a4", "a3", "msg_1", use("t2")),
            result("r2", "a4", "t2", "two"),
            {"type": "system", "subtype": "informational", "uuid": "s1", "parentUuid": "r2", "sessionId": _SESSION},
            part("b1", "s1", "msg_2", text("done")),
        ],
    )
    (first, second), source = rows(path)
    assert said(first) == ["look at two files"]
    assert [role for role, _ in second["messages"]] == ["user", "assistant", "tool", "tool"]
    assert said(second)[1:] == ["I read both.", "one", "two"], "what a tool beside the chain gave was sent, too"
    assert [(row["prompt_tokens"], row["cached_tokens"], row["output_tokens"]) for row in (first, second)] == [
        (13, 10, 7),
        (13, 10, 7),
    ]
    assert (first["model"], first["session"], second["turn"]) == ("claude-sonnet-4-5", _SESSION, 1)
    assert first["incomplete"] == NO_SYSTEM
    assert not source.left_out.counts


@pytest.mark.parametrize("new", ["telepathy", "telepathy-2"])
def test_a_line_of_a_new_kind_is_counted_and_the_conversation_goes_on_through_it(tmp_path: Path, new: str) -> None:
    between = {"type": new, "uuid": "n1", "parentUuid": "a1", "sessionId": _SESSION}
    path = lines(
        tmp_path / "s.jsonl",
        [
            user("u1", None, "one"),
            part("a1", "u1", "msg_1", text("1")),
            between,
            user("u2", "n1", "two"),
            part("a2", "u2", "msg_2", text("2")),
        ],
    )
    found, source = rows(path)
    assert [said(row) for row in found] == [["one"], ["one", "1", "two"]]
    assert source.left_out.counts == {"record of an unknown kind": 1}


def test_what_was_undone_is_not_in_the_next_prompt(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "s.jsonl",
        [
            user("u1", None, "first"),
            part("a1", "u1", "msg_1", text("one")),
            user("u2", "a1", "wrong way"),
            part("a2", "u2", "msg_2", text("two")),
            user("u3", "a1", "right way"),
            part("a3", "u3", "msg_3", text("three")),
        ],
    )
    found, _ = rows(path)
    assert [said(row) for row in found] == [["first"], ["first", "one", "wrong way"], ["first", "one", "right way"]]


def test_a_compacted_conversation_begins_again(tmp_path: Path) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "logicalParentUuid": "a1"}
    path = lines(
        tmp_path / "s.jsonl",
        [
            user("u1", None, "first"),
            part("a1", "u1", "msg_1", text("one")),
            {**boundary, "uuid": "c1", "sessionId": _SESSION},
            user("u2", "c1", "what was said so far", isCompactSummary=True),
            user("u3", "u2", "go on"),
            part("a2", "u3", "msg_2", text("two")),
        ],
    )
    found, _ = rows(path)
    assert [said(row) for row in found] == [["first"], ["what was said so far", "go on"]]


def test_agents_are_sessions_of_their_own(tmp_path: Path) -> None:
    side = {"isSidechain": True, "agentId": "b7"}
    path = lines(
        tmp_path / "s.jsonl",
        [
            user("u1", None, "ask an agent"),
            part("a1", "u1", "msg_1", use("t1")),
            user("v1", None, "you are an agent", **side),
            part("w1", "v1", "msg_7", text("yes"), **side),
            user("v2", "w1", "more", **side),
            part("w2", "v2", "msg_8", text("no"), **side),
            result("r1", "a1", "t1", "it says no"),
            part("a2", "r1", "msg_2", text("no")),
        ],
    )
    found, _ = rows(path)
    calls = {(row["session"], *said(row)[-2:]) for row in found}
    assert (_SESSION, "ask an agent") in calls
    assert (f"{_SESSION}/b7", "you are an agent") in calls
    assert (f"{_SESSION}/b7", "yes", "more") in calls
    assert [said(row)[-1] for row in found if row["session"] == _SESSION] == ["ask an agent", "it says no"]


def test_a_session_that_was_gone_on_with_in_a_second_file_counts_once(tmp_path: Path) -> None:
    before = [user("u1", None, "first"), part("a1", "u1", "msg_1", text("one"))]
    after = [user("u2", "a1", "second"), part("a2", "u2", "msg_2", text("two"))]
    paths = lines(tmp_path / "s.jsonl", before), lines(tmp_path / "t.jsonl", [*before, *after])
    found, _ = rows(*paths)
    assert [said(row) for row in found] == [["first"], ["first", "one", "second"]]


def test_answers_that_no_model_gave_are_left_out(tmp_path: Path) -> None:
    error = part("a1", "u1", "x", text("API Error: 529"), isApiErrorMessage=True)
    synthetic = part("a2", "u2", "y", text("No response requested."))
    synthetic["message"]["model"] = "<synthetic>"
    path = lines(
        tmp_path / "s.jsonl",
        [user("u1", None, "hi"), error, user("u2", "a1", "hello"), synthetic, part("a3", "u2", "msg_3", text("yes"))],
    )
    (only,), source = rows(path)
    assert said(only) == ["hi", "hello"]
    assert source.left_out.counts == {"failed": 1, "synthetic answer": 1}


def test_half_the_fields_are_enough(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "s.jsonl",
        [
            {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "hi"}},
            {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "message": {"role": "assistant", "content": "yes"}},
            {"type": "assistant", "uuid": "a2", "parentUuid": "gone", "message": {"content": [text("no")]}},
            {"type": "user", "uuid": "u3", "parentUuid": "a2", "message": {"content": "and?"}},
            {"type": "assistant", "uuid": "a3", "parentUuid": "u3", "message": {"content": [text("so")]}},
        ],
    )
    found, source = rows(path)
    assert [(said(row), row["incomplete"]) for row in found] == [(["hi"], NO_SYSTEM), (["no", "and?"], LOST)]
    assert source.left_out.counts == {"promptless call": 1}


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        ({"input_tokens": "12"}, "must be a whole number of tokens, not text"),
        ({"input_tokens": 1.5}, "must be a whole number of tokens"),
    ],
)
def test_counts_that_cannot_be_are_an_error_of_their_line(tmp_path: Path, usage: Any, message: str) -> None:
    path = lines(tmp_path / "s.jsonl", [user("u1", None, "SECRET"), part("a1", "u1", "m", text("SECRET"), usage=usage)])
    error = refusal(path)
    assert message in error.message
    assert "SECRET" not in error.message + str(error.hint)
    assert error.place is not None
    assert (error.place.line, (error.place.column or 0) > 1) == (2, True)


def test_a_line_that_was_cut_can_be_skipped(tmp_path: Path) -> None:
    whole = [user("u1", None, "hi"), part("a1", "u1", "m", text("yes"))]
    path = lines(tmp_path / "s.jsonl", [*whole, '{"parentUuid": "a1", "sessionId": "5d1c", "type": "us'])
    assert refusal(path).message.startswith("not JSON")
    (only,), source = rows(path, on_bad_line="skip")
    assert (said(only), source.skipped) == (["hi"], 1)


@pytest.mark.parametrize("seed", some(range(8), 2))
def test_each_answer_of_a_random_session_is_one_call_with_its_own_chain(tmp_path: Path, seed: int) -> None:
    """Parts, tools, what was undone and notes between, in random order: the prompt is always the way to the first line."""
    random = Random(seed)
    written: list[dict[str, Any]] = []
    chains: dict[str, list[str]] = {}
    """By the last line of each message, the texts up to it."""
    expected: list[list[str]] = []
    for number in range(30):
        parent = random.choice([*chains][-3:]) if chains else None
        before = chains.get(parent, []) if parent else []
        ask = f"u{number}"
        written.append(user(ask, parent, f"ask {number}"))
        last, texts = ask, []
        expected.append([*before, f"ask {number}"])
        for at in range(random.randint(1, 3)):
            if random.random() < 0.3:
                note = f"n{number}.{at}"
                written.append(
                    {"type": "progress", "uuid": note, "parentUuid": last, "sessionId": _SESSION, "data": {"a": 1}}
                )
                last = note
            line = f"a{number}.{at}"
            written.append(part(line, last, f"msg_{number}", text(f"[{number}.{at}]")))
            texts.append(f"[{number}.{at}]")
            last = line
        chains[last] = [*before, f"ask {number}", "".join(texts)]
    found, _ = rows(lines(tmp_path / "s.jsonl", written))
    assert [said(row) for row in found] == expected
    assert [row["turn"] for row in found] == list(range(30))


def test_of_many_sessions_in_a_file_old_ones_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_code, "_MOST_HELD", 5_000)
    made: list[dict[str, Any]] = []
    for number in range(40):
        of = {"sessionId": f"s{number}"}
        made += [
            user(f"u{number}", None, f"{number} " + "x" * 1_000, **of),
            part(f"a{number}", f"u{number}", f"m{number}", text("y" * 500), **of),
            user(f"v{number}", f"a{number}", "more", **of),
            part(f"b{number}", f"v{number}", f"n{number}", text("z"), **of),
            user(f"w{number}", f"a{number}", "agent", isSidechain=True, agentId=f"g{number}", **of),
            part(f"c{number}", f"w{number}", f"o{number}", text("z"), isSidechain=True, agentId=f"g{number}", **of),
        ]
    path = lines(tmp_path / "s.jsonl", made)
    few, _ = rows(path)
    state = claude_code.ClaudeCodeSession(Where("s"))
    for line in made:
        state.read(Record(line, Where("s")))
    assert len(state._nodes) < 40
    assert len(state._open) < 10
    monkeypatch.setattr(claude_code, "_MOST_HELD", 1 << 30)
    all_, _ = rows(path)
    assert len(few) == 120
    assert sorted(map(str, map(said, few))) == sorted(map(str, map(said, all_)))


def test_what_goes_on_from_a_forgotten_session_has_lost_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claude_code, "_MOST_HELD", 100)
    made = [user("u", None, "x" * 500), part("a", "u", "m", text("one"))]
    made += [user("v", None, "y" * 500, sessionId="other"), part("b", "v", "n", text("two"), sessionId="other")]
    made += [user("w", "a", "again"), part("c", "w", "o", text("three"))]
    found, _ = rows(lines(tmp_path / "s.jsonl", made))
    assert [row["incomplete"] for row in found] == [NO_SYSTEM, NO_SYSTEM, LOST]
