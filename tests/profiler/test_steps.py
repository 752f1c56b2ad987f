"""The verdict by step: in a session each request begins with the one before it, or the profile says which do not and where."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.cli.app import run
from tests.conftest import some
from tests.files import write

FAULTS = ("tool", "system", "history", "order", "duplicate", "late tool")
PLACES = {
    "tool": "tools[0] read.description",
    "system": "system",
    "history": "messages[0]",
    "order": "tools[0]",
    "duplicate": "messages[",
    "late tool": "",
}


def sentences(rng: random.Random, count: int) -> str:
    return " ".join(f"Rule {rng.randint(1, 999)} of part {at} says {rng.randint(1, 999)}." for at in range(count))


def tool(name: str, rng: random.Random) -> dict[str, Any]:
    return {"name": name, "description": f"Runs {name}. {sentences(rng, 6)}", "input_schema": {"type": "object"}}


class Agent:
    """A made agent that sends Anthropic's bodies; `faults` are the steps before which each fault comes."""

    def __init__(self, rng: random.Random, faults: dict[int, str], rules: int = 40) -> None:
        self._rng, self._faults = rng, faults
        self._tools = [tool("read", rng), tool("shell", rng)]
        self._system = sentences(rng, rules)
        self._said: list[dict[str, Any]] = [{"role": "user", "content": f"Task {rng.random()}"}]

    def bodies(self, count: int) -> list[dict[str, Any]]:
        found = []
        for step in range(count):
            if step:
                self._answer(step)
            self._spoil(self._faults.get(step))
            body = {"model": "claude-sonnet-4-6", "max_tokens": 9, "tools": self._tools, "messages": self._said}
            found.append(json.loads(json.dumps({**body, "system": self._system})))
        return found

    def _answer(self, step: int) -> None:
        call = {"type": "tool_use", "id": f"toolu_{step}", "name": "read", "input": {"path": f"{step}.py"}}
        self._said.append({"role": "assistant", "content": [call]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{step}", "content": sentences(self._rng, 3)}
        self._said.append({"role": "user", "content": [result]})

    def _spoil(self, fault: str | None) -> None:
        rng = self._rng
        match fault:
            case "tool":
                self._tools[0]["description"] += f" Now {rng.randint(1, 10**6)}."
            case "system":
                self._system = f"Today is day {rng.randint(1, 10**6)}. " + self._system
            case "history":
                self._said[0]["content"] = f"[{rng.randint(1, 10**6)}] " + self._said[0]["content"]
            case "order":
                self._tools.reverse()
            case "duplicate":
                self._said.insert(1, dict(self._said[0]))
            case "late tool":
                self._tools.append(tool(f"mcp_{rng.randint(1, 10**6)}", rng))


def profile(tmp_path: Path, bodies: list[dict[str, Any]], *more: str) -> dict[str, Any]:
    log = write(tmp_path / "log.jsonl", "".join(json.dumps(each) + "\n" for each in bodies))
    out = tmp_path / "report.json"
    assert run(["profile", str(log), "-o", str(out), *more]) == 0
    report: dict[str, Any] = json.loads(out.read_text())
    return report


@pytest.mark.parametrize("seed", some((19, 22, 15, 24, 25, 0, *range(1, 15), *range(26, 40)), 6))
def test_every_fault_is_found_and_none_is_invented(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    count = rng.randint(4, 9)
    faults = {step: rng.choice(FAULTS) for step in range(2, count) if rng.random() < 0.25}
    bodies = Agent(rng, faults).bodies(count)
    named = rng.random() < 0.5
    if named:
        bodies = [{**body, "metadata": {"user_id": json.dumps({"session_id": "one"})}} for body in bodies]
    if rng.random() < 0.5:  # another session between, and a side call
        other = Agent(random.Random(seed + 999), {}).bodies(count)
        title = {"model": "claude-haiku-4-5", "system": "Titles.", "messages": [{"role": "user", "content": "Title?"}]}
        bodies = [body for pair in zip(bodies, other, strict=True) for body in pair]
        bodies.insert(3, {**title, "max_tokens": 9})
        clean = count - 1
    else:
        clean = 0
    report = profile(tmp_path, bodies)
    steps, totals = report["steps"], report["totals"]
    assert steps["lost_tokens"] <= totals["prompt_tokens"] - totals["hit_tokens"]
    assert steps["steps"] == count - 1 + clean
    assert steps["broken"] == len(faults)
    places = [each["place"] for each in steps["breaks"]]
    for fault in faults.values():
        assert any(place.startswith(PLACES[fault]) for place in places), (fault, places)


def test_a_request_goes_on_with_one_of_its_own_model(tmp_path: Path) -> None:
    bodies = Agent(random.Random(3), {4: "system"}).bodies(8)
    models = ("claude-sonnet-4-6", "claude-haiku-4-5")
    steps = profile(tmp_path, [{**body, "model": models[at % 2]} for at, body in enumerate(bodies)])["steps"]
    assert (steps["steps"], steps["broken"]) == (6, 2)


def test_a_stable_session_has_no_loss_and_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(
        tmp_path / "log.jsonl", "".join(json.dumps(b) + "\n" for b in Agent(random.Random(1), {}, 500).bodies(9))
    )
    assert run(["profile", str(log), "--provider", "gemini", "--plain"]) == 0
    shown = capsys.readouterr().out
    assert "8 of 8 steps begin with the step before" in shown
    assert "Not reused" not in shown


def test_a_step_that_breaks_is_no_all_clear_however_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bodies = Agent(random.Random(2), {}, 500).bodies(9)
    bodies[8]["messages"].insert(14, dict(bodies[8]["messages"][12]))
    log = write(tmp_path / "log.jsonl", "".join(json.dumps(body) + "\n" for body in bodies))
    assert run(["profile", str(log), "--provider", "gemini", "--plain"]) == 0
    shown = capsys.readouterr().out
    assert "1 of 8 steps does not begin with the step before" in shown
    assert "maximum for these prompts as written" not in shown
    assert f"{log.name}:9" in shown


@pytest.mark.parametrize("reads", [True, False])
def test_text_that_the_server_reads_past_breaks_no_step(tmp_path: Path, reads: bool) -> None:
    """A header changes with each request; the server reports to have read all that comes after it, or nothing."""
    bodies = Agent(random.Random(4), {}, 300).bodies(9)
    for number, body in enumerate(bodies):
        body["system"] = f"header: {number * 7919}; {body['system']}"
    sizes = [len(json.dumps(body)) // 4 for body in bodies]
    records = [
        {
            "request": body,
            "response": {
                "usage": {
                    "input_tokens": size if not reads or not at else size - sizes[at - 1],
                    "cache_read_input_tokens": sizes[at - 1] if reads and at else 0,
                    "cache_creation_input_tokens": 0,
                    "output_tokens": 5,
                }
            },
        }
        for at, (body, size) in enumerate(zip(bodies, sizes, strict=True))
    ]
    steps = profile(tmp_path, records)["steps"]
    assert (steps["steps"], steps["broken"], steps["read_past"]) == (8, 0 if reads else 8, 8 if reads else 0)


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_single_questions_are_no_steps(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    system = sentences(rng, 20)
    examples = [{"role": role, "content": sentences(rng, 2)} for role in ("user", "assistant", "user", "assistant")]
    bodies = [
        {
            "model": "gpt-5.5",
            "messages": [
                {"role": "system", "content": system},
                *examples[: rng.choice([0, 2, 4])],
                {"role": "user", "content": f"Question {rng.randint(1, 10**6)}?"},
            ],
        }
        for _ in range(12)
    ]
    assert profile(tmp_path, bodies)["steps"] is None


def test_a_recorded_conversation_says_nothing_of_what_was_sent(tmp_path: Path) -> None:
    said = [{"role": "user" if at % 2 == 0 else "assistant", "content": f"Turn {at}"} for at in range(8)]
    assert profile(tmp_path, [{"messages": said}])["steps"] is None


def test_a_history_of_fixed_length_goes_on_and_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends only the latest messages has as many in each request; its answer shows what it goes on with."""
    monkeypatch.chdir(tmp_path)
    said: list[dict[str, Any]] = []
    lines = []
    for step in range(9):
        said.append({"role": "user", "content": f"Question {step}. {'Tell me more of it. ' * 12}"})
        body = {"model": "gpt-4.1", "messages": [{"role": "system", "content": "Help."}, *said[-4:]]}
        answer = {"role": "assistant", "content": f"Answer {step}. {'It is so. ' * 12}"}
        response = {"choices": [{"message": answer}], "usage": {"prompt_tokens": 300, "completion_tokens": 30}}
        lines.append(json.dumps({"session_id": "s", "request": body, "response": response}))
        said.append(answer)
    write("log.jsonl", "\n".join(lines))
    steps = kvtool.profile("log.jsonl", advice=False).steps
    assert steps is not None
    assert (steps.steps, steps.broken) == (8, 7)
