"""Instructions of a conversation stay as they were sent first: values of one conversation never get into another one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kvtool.fixes.instructions_kept import InstructionsKept, change_in_conversations
from kvtool.workload.turn import Turn
from tests.conftest import Command, some

RULES = "\n".join(
    f"- Rule {n}: answer part {n} of a question in at most {n + 3} lines of plain text." for n in range(90)
)


def turns(rng: random.Random, *, named: bool) -> list[Turn]:
    """Conversations that take turns; each request has another value in its instructions."""
    found: list[Turn] = []
    left = {n: rng.randint(1, 6) for n in range(rng.randint(1, 5))}
    said: dict[int, list[dict[str, Any]]] = {n: [] for n in left}
    while left:
        n = rng.choice(sorted(left))
        said[n].append({"role": "user", "content": f"Question {len(said[n])} of conversation {n}."})
        system = {"role": "system", "content": f"You help.\nFact of {n}: {len(said[n])}.\n{RULES}"}
        messages = [system, *({**each} for each in said[n])]
        if rng.random() < 0.5:  # another form of the same text, with a mark
            text = messages[-1]["content"]
            messages[-1]["content"] = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        found.append(Turn("chat", messages=messages, session=f"s{n}" if named else None))
        said[n].append({"role": "assistant", "content": f"Answer {len(said[n])}."})
        left[n] -= 1
        if not left[n]:
            del left[n]
    return found


def test_each_conversation_keeps_its_own_first_values() -> None:
    for seed in some(range(30), 8):
        rng = random.Random(seed)
        named = rng.random() < 0.5
        kept = InstructionsKept("system")
        first: dict[str, str] = {}
        for turn in turns(rng, named=named):
            assert turn.messages is not None
            before = json.dumps(turn.messages)
            after = kept(turn)
            assert after.messages is not None
            assert json.dumps(turn.messages) == before, "the turn itself stays"
            assert after.messages[1:] == turn.messages[1:]
            text = after.messages[0]["content"]
            who = text.split("Fact of ")[1][0]
            assert who == turn.messages[0]["content"].split("Fact of ")[1][0]
            assert text == first.setdefault(who, text)
            assert text == turn.messages[0]["content"] or after is not turn


def test_another_agent_of_a_session_keeps_its_instructions() -> None:
    agents = ["You help.\n" + RULES, "You name conversations.\nAt most five words."]
    found = [
        Turn("g", messages=[{"role": "system", "content": text}, {"role": "user", "content": "Hi."}], session="s")
        for text in (*agents, *agents)
    ]
    assert not change_in_conversations(found, "system")


def claude_log(path: Path, middle: str, *, sessions: int = 4, turns: int = 5) -> str:
    rng = random.Random(len(middle))
    records: list[dict[str, Any]] = []
    for n in range(sessions):
        history: list[dict[str, Any]] = []
        facts: list[str] = []
        for turn in range(turns):
            facts.append(f"- The user has order {rng.randrange(10**6)} of article {rng.randrange(10**6)}.")
            system = "You help.\n" + middle.format(facts="\n".join(facts), n=n * 100 + turn) + RULES
            block = {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}
            ask = f"Where is order {rng.randrange(10**6)}? " + "I wait for it. " * 20
            last = {"role": "user", "content": [{"type": "text", "text": ask, "cache_control": {"type": "ephemeral"}}]}
            body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": [block], "messages": [*history, last]}
            at = f"2026-11-20T{8 + n:02}:{turn:02}:00Z"
            records.append({"timestamp": at, "session_id": f"s{n}", **body})
            history += [{"role": "user", "content": ask}, {"role": "assistant", "content": "It is on its way. " * 30}]
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return str(path)


def optimized(command: Command, path: str, *flags: str) -> dict[str, Any]:
    code, out, err = command("optimize", path, "--json", *flags)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_memory_block_moves_after_the_history(in_folder: Command, tmp_path: Path) -> None:
    path = claude_log(tmp_path / "log.jsonl", "# Memory\nWhat you know of this user:\n{facts}\n\n# Rules\n")
    found = optimized(in_folder, path, "--allow", "P2")
    assert found["edited_log"]["hit_rate"]["before"] == 0
    assert found["edited_log"]["hit_rate"]["after"] > 0.7
    assert {step["tier"] for step in found["steps"]} == {"P2"}


def test_a_value_that_cannot_move_keeps_its_first_value(in_folder: Command, tmp_path: Path) -> None:
    """The number is in numbered rules, of which none can move."""
    rules = "".join(f"{at}. In matter {at} you must name case {{n}} and say how to go on.\n" for at in range(1, 9))
    path = claude_log(tmp_path / "log.jsonl", rules)
    found = optimized(in_folder, path, "--unsafe-fixes")
    after = found["edited_log"]["hit_rate"]["after"]
    kept = [step for step in found["steps"] if "as its first request had it" in step["fix"]]
    assert after > 0.7
    assert [step["tier"] for step in kept] == ["P3"]
    assert "first values" in kept[0]["warnings"][0]
    code, _, err = in_folder("optimize", path, "--unsafe-fixes", "-o", "out.jsonl")
    assert code == 0, err
    _, out, _ = in_folder("profile", "out.jsonl", "--json", "--no-advice")
    group = json.loads(out)["groups"][0]
    assert group["hit_tokens"] / group["prompt_tokens"] == pytest.approx(after, abs=1e-6)
