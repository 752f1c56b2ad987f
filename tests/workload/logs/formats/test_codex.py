"""Rollouts of Codex, as calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvtool.workload.logs.records.incomplete_prompts import NO_SYSTEM, NO_TOOLS
from tests.workload.logs.formats.agent_rows import lines, refusal, rows, said


def line(type_: str, payload: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return {"timestamp": f"2026-02-03T04:05:{second:02}.000Z", "type": type_, "payload": payload}


def meta(id_: str = "c-1", **more: Any) -> dict[str, Any]:
    return line("session_meta", {"id": id_, "model_provider": "openai", **more})


def message(role: str, text: str, second: int = 0) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    item = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return line("response_item", item, second)


def call(id_: str) -> dict[str, Any]:
    return line("response_item", {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": id_})


def output(id_: str, text: str) -> dict[str, Any]:
    return line("response_item", {"type": "function_call_output", "call_id": id_, "output": text})


def tokens(prompt: int, cached: int, out: int, total: int) -> dict[str, Any]:
    last = {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": out}
    info = {"total_token_usage": {"input_tokens": total, "cached_input_tokens": 0, "output_tokens": 0}}
    return line("event_msg", {"type": "token_count", "info": {**info, "last_token_usage": last}})


BASE = {"base_instructions": {"text": "be brief"}}


def test_a_call_ends_where_its_tokens_are_told(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "r.jsonl",
        [
            meta(**BASE),
            line("turn_context", {"model": "gpt-5.5", "effort": "high"}),
            message("developer", "no network"),
            message("user", "look", 2),
            line("event_msg", {"type": "token_count", "info": None}),
            line("response_item", {"type": "reasoning", "summary": [], "encrypted_content": "g"}),
            call("k1"),
            call("k2"),
            output("k1", "one"),
            output("k2", "two"),
            tokens(100, 0, 9, 100),
            tokens(100, 0, 9, 100),
            message("assistant", "seen", 9),
            tokens(130, 90, 4, 230),
        ],
    )
    (first, second), _ = rows(path)
    assert said(first) == ["be brief", "no network", "look"]
    assert [role for role, _ in second["messages"]] == ["system", "developer", "user", "assistant", "tool", "tool"]
    assert (first["prompt_tokens"], first["cached_tokens"], first["output_tokens"]) == (100, 0, 9)
    assert (second["prompt_tokens"], second["cached_tokens"], second["turn"]) == (130, 90, 1)
    assert (first["model"], first["session"], first["incomplete"]) == ("gpt-5.5", "c-1", NO_TOOLS)


def test_counts_may_come_before_the_items_of_their_answer(tmp_path: Path) -> None:
    """Files of 2025: the count of a call, its items, what it gets, the same count again, the count of the next call."""
    path = lines(
        tmp_path / "r.jsonl",
        [
            meta(),
            message("user", "look"),
            tokens(100, 0, 9, 100),
            call("k1"),
            output("k1", "one"),
            tokens(100, 0, 9, 100),
            tokens(130, 90, 4, 230),
            call("k2"),
            output("k2", "two"),
            call("k3"),
            output("k3", "three"),
            tokens(140, 120, 5, 370),
            message("assistant", "seen"),
            message("user", "more"),
            tokens(150, 130, 6, 520),
            message("assistant", "yes"),
        ],
    )
    found, source = rows(path)
    assert [(row["prompt_tokens"], row["output_tokens"]) for row in found] == [(100, 9), (130, 4), (140, 5), (150, 6)]
    assert [len(said(row)) for row in found] == [1, 3, 7, 9]
    assert not source.left_out.counts


def test_a_count_without_items_is_no_answer_of_others(tmp_path: Path) -> None:
    """Codex counts the call that makes a summary, too; nothing of it is in the file."""
    turn = [message("user", "more"), tokens(70, 60, 5, 170)]
    for summary in ([], [line("compacted", {"message": "summed up"})]):
        path = lines(
            tmp_path / "r.jsonl",
            [
                meta(),
                message("user", "look"),
                message("assistant", "seen"),
                tokens(100, 0, 9, 100),
                *turn,
                *summary,
                message("assistant", "yes"),
                tokens(20, 0, 4, 190),
                tokens(80, 0, 4, 270),
                call("k1"),
                output("k1", "one"),
                tokens(30, 0, 2, 300),
            ],
        )
        found, source = rows(path)
        assert [(row["prompt_tokens"], row["output_tokens"]) for row in found] == [(100, 9), (20, 4), (30, 2)]
        assert dict(source.left_out.counts) == {"promptless call": 2}


def test_without_counts_each_input_ends_an_answer(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "r.jsonl",
        [
            meta(),
            message("user", "look"),
            call("k1"),
            output("k1", "one"),
            message("assistant", "seen"),
            message("user", "again"),
            message("assistant", "yes"),
        ],
    )
    found, _ = rows(path)
    assert [len(said(row)) for row in found] == [1, 3, 5]
    assert {row["incomplete"] for row in found} == {NO_SYSTEM}
    assert not any("prompt_tokens" in row for row in found)


def test_totals_are_enough_for_the_counts_of_each_call(tmp_path: Path) -> None:
    def total(prompt: int, cached: int, out: int) -> dict[str, Any]:
        usage = {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": out}
        return line("event_msg", {"type": "token_count", "info": {"total_token_usage": usage}})

    path = lines(
        tmp_path / "r.jsonl",
        [
            meta(),
            message("user", "a"),
            message("assistant", "b"),
            total(10, 0, 1),
            message("user", "c"),
            message("assistant", "d"),
            total(25, 8, 3),
        ],
    )
    found, _ = rows(path)
    assert [(r["prompt_tokens"], r["cached_tokens"], r["output_tokens"]) for r in found] == [(10, 0, 1), (15, 8, 2)]


def test_compaction_and_undone_turns_change_what_is_sent(tmp_path: Path) -> None:
    replaced = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "so far"}]}
    path = lines(
        tmp_path / "r.jsonl",
        [
            meta(),
            message("user", "a"),
            message("assistant", "b"),
            line("compacted", {"message": "summed up"}),
            message("user", "c"),
            message("assistant", "d"),
            line("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
            message("user", "e"),
            message("assistant", "f"),
            line("compacted", {"message": "", "replacement_history": [replaced, {"type": "compaction"}]}),
            message("user", "g"),
            message("assistant", "h"),
        ],
    )
    found, _ = rows(path)
    assert [said(row) for row in found] == [["a"], ["a", "summed up", "c"], ["a", "summed up", "e"], ["so far", "g"]]


def test_a_rollout_of_the_first_year_has_bare_items(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "r.jsonl",
        [
            {"id": "c-0", "timestamp": "2025-06-01T00:00:00Z", "instructions": None, "git": {}},
            {"record_type": "state"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
        ],
    )
    (only,), _ = rows(path)
    assert (said(only), only["session"]) == (["hi"], "c-0")


def test_a_call_whose_items_are_not_there_is_told(tmp_path: Path) -> None:
    path = lines(tmp_path / "r.jsonl", [meta(), tokens(9, 0, 1, 9), message("user", "a"), message("assistant", "b")])
    _, source = rows(path)
    assert source.left_out.counts == {"promptless call": 1}


def test_counts_that_contradict_each_other_are_unknown(tmp_path: Path) -> None:
    path = lines(tmp_path / "r.jsonl", [meta(), message("user", "hi"), message("assistant", "b"), tokens(9, 12, 1, 9)])
    (only,), source = rows(path)
    assert (said(only), "prompt_tokens" in only, source.prompts.wrong) == (["hi"], False, 1)


def test_a_type_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    path = lines(tmp_path / "r.jsonl", [meta(), line("response_item", {"type": ["message"], "role": "user"})])
    assert refusal(path).message == "an item has a `type` that is a list"
    path = lines(tmp_path / "r.jsonl", [{"input": [{"type": ["message"], "content": "SECRET"}], "model": "m"}])
    assert refusal(path).message == "input[0] has a `type` that is not text"
    path = lines(tmp_path / "r.jsonl", [{"type": {}, "payload": {}}])
    assert refusal(path).message.startswith("no prompt found")


def test_a_session_in_which_nothing_was_answered_yet_is_not_called_empty(tmp_path: Path) -> None:
    assert (
        refusal(lines(tmp_path / "r.jsonl", [meta(), message("user", "a")])).message == "it contains no model request"
    )
