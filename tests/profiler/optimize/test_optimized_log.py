"""Logs with the fixes in their records: what is promised is what a run of the written log reaches."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kvtool.profiler.optimize.optimized_log import OptimizedLog
from kvtool.profiler.optimize.request_diff import RequestEdit, request_diff
from kvtool.workload.logs.records.usage import record_without_reads
from kvtool.workload.turn import Turn
from tests.conftest import Command, some
from tests.profiler.optimize.block_logs import BlockLog, BlockPlace
from tests.profiler.optimize.hosted_logs import HostedLog, Place

ONE = HostedLog("anthropic", 1, ("system",), {"time": 0}, sessions=20, gap=60)
SYSTEM_LAST = HostedLog("openai-5.6", 12, (), {"time": 10}, turns=5)
SEVERAL = HostedLog("anthropic", 2, ("system", "last"), {"time": 0}, sessions=3, turns=4, tools=2)


def written(bodies: list[dict[str, Any]], path: str) -> str:
    Path(path).write_text("".join(json.dumps(body) + "\n" for body in bodies))
    return path


def document(in_folder: Command, *words: str) -> dict[str, Any]:
    _, out, _ = in_folder(*words, "--json")
    found: dict[str, Any] = json.loads(out)
    return found


def cost_of(in_folder: Command, path: str) -> tuple[float, Decimal]:
    """The hit rate and the cost of a log as it is."""
    found = document(in_folder, "profile", path, "--no-advice")
    return found["totals"]["hit_rate"], Decimal(found["money"]["predicted"])


@pytest.mark.parametrize(("log", "least"), [(ONE, 0.92), (SEVERAL, 0.85)], ids=["one", "several"])
def test_a_clock_before_a_mark_moves_behind_it(in_folder: Command, log: HostedLog, least: float) -> None:
    path = written(log.bodies(), "log.jsonl")
    found = document(in_folder, "optimize", path, "--allow", "P2", "-o", "better.jsonl")
    rate, cost = cost_of(in_folder, "better.jsonl")
    edited = found["edited_log"]
    assert edited["hit_rate"]["after"] == pytest.approx(rate)
    assert rate > least
    assert Decimal(edited["cost"]["after"]) == cost < Decimal(edited["cost"]["before"]) / 4
    profiled = document(in_folder, "profile", path)
    assert Decimal(profiled["money"]["with_marks"] or profiled["money"]["with_fixes"]) == cost
    assert max(each["rerun"]["total_after"] for each in profiled["findings"] if each["rerun"]) == pytest.approx(rate)
    assert len(Path("better.jsonl").read_text().splitlines()) == len(log.bodies())


@pytest.mark.parametrize("seed", some([102, 103, 104, 101, 105, 106], 1))
def test_no_other_place_is_much_cheaper(in_folder: Command, seed: int) -> None:
    """Brute force over the places that a person would try; and the figures beside the fix are those of the written log."""
    log = HostedLog.at_random(seed)
    path = written(log.bodies(), "log.jsonl")
    found = document(in_folder, "optimize", path, "--allow", "P2", "-o", "better.jsonl")
    places: list[Place] = ["system", "last", *(("after",) if log.provider != "anthropic" else ())]
    _, now = cost_of(in_folder, path)
    least = min([now, *(cost_of(in_folder, written(log.bodies(place), "by_hand.jsonl"))[1] for place in places)])
    edited = found["edited_log"]
    after = now if edited is None else Decimal(edited["cost"]["after"])
    assert now - after >= (now - least) * Decimal("0.95") - now / 100
    if edited is not None:
        rate, cost = cost_of(in_folder, "better.jsonl")
        assert (edited["hit_rate"]["after"], Decimal(edited["cost"]["after"])) == (pytest.approx(rate), cost)


@pytest.mark.parametrize("seed", some([904, 7013, 905, 916], 1))
def test_no_other_place_of_a_block_in_a_conversation_is_much_cheaper(in_folder: Command, seed: int) -> None:
    """Passages and personas in questions and instructions of several turns: each place that a person would try, with its marks."""

    def cheapest(path: str, allowed: str) -> tuple[Decimal, Decimal]:
        """The cost of a log as it is, and with what is allowed; promised is what the written log costs."""
        now = cost_of(in_folder, path)[1]
        edited = document(in_folder, "optimize", path, "--allow", allowed, "-o", f"better-{path}")["edited_log"]
        if edited is None or not edited["allowed"]:
            return now, now
        after = Decimal(edited["cost"]["after"])
        assert after == cost_of(in_folder, f"better-{path}")[1]
        return now, after

    log = BlockLog.at_random(seed)
    now, after = cheapest(written(log.bodies(), "log.jsonl"), "P2")
    places: list[BlockPlace] = ["last", "instructions"]
    least = min(min(cheapest(written(log.bodies(place), f"{place}.jsonl"), "P1")) for place in places)
    assert now - after >= (now - least) * Decimal("0.95") - now / 100


def test_moves_and_settings_that_win_only_together_are_made_together(in_folder: Command) -> None:
    """A clock at the front, a cache key for each request, pauses of 12 minutes: each wins nothing without the others."""
    log = HostedLog("openai", 5, (), {"time": 0}, rules=75, sessions=4, gap=700)
    asked = {"model": "gpt-5.1", "prompt_cache_retention": "in_memory"}
    bodies = [body | asked | {"prompt_cache_key": f"k{at}"} for at, body in enumerate(log.bodies())]
    path = written(bodies, "log.jsonl")
    edited = document(in_folder, "optimize", path, "--allow", "P2", "-o", "better.jsonl")
    rate, cost = cost_of(in_folder, "better.jsonl")
    assert (
        cost == Decimal(edited["edited_log"]["cost"]["after"]) < Decimal(edited["edited_log"]["cost"]["before"]) * 3 / 4
    )
    assert len(edited["settings"]) == 2
    [step] = edited["steps"]
    assert (step["hit_rate"]["before"], step["hit_rate"]["after"]) == (0.0, pytest.approx(rate))
    profiled = document(in_folder, "profile", path)
    assert Decimal(profiled["money"]["with_fixes"]) == cost
    assert [each["rerun"]["total_after"] for each in profiled["findings"] if each["rerun"]] == [pytest.approx(rate)]


def test_a_key_and_a_mark_that_win_only_together_are_made_together(in_folder: Command) -> None:
    """Changing text ends the instructions: one key shares nothing that no mark ends, and no other key reads a mark."""
    rules = "\n".join(f"Rule {n}: answer questions on topic {n} by its own section." for n in range(120))
    bodies = [
        {
            "timestamp": f"2026-11-20T09:{at:02}:00Z",
            "model": "gpt-5.6",
            "prompt_cache_key": f"k{at}",
            "messages": [
                {"role": "system", "content": f"{rules}\nThe customer is of branch {at}{at}."},
                {"role": "user", "content": f"Question {at}?"},
            ],
        }
        for at in range(6)
    ]
    path = written(bodies, "log.jsonl")
    found = document(in_folder, "optimize", path, "--allow", "P1", "-o", "better.jsonl")
    cost = cost_of(in_folder, "better.jsonl")[1]
    before, after = (Decimal(found["edited_log"]["cost"][at]) for at in ("before", "after"))
    assert (after, len(found["settings"]), len(found["marks"])) == (cost, 1, 1)
    assert cost < before / 2
    assert Decimal(document(in_folder, "profile", path)["money"]["with_marks"]) == cost


def test_a_provider_that_marks_the_last_question_gets_the_line_after_it(in_folder: Command) -> None:
    """GPT-5.6 stores what ends at the last question: a line in it would be new with each turn, a message after it is not stored."""
    path = written(SYSTEM_LAST.bodies(), "log.jsonl")
    found = document(in_folder, "optimize", path, "--allow", "P2", "-o", "better.jsonl")
    messages = [json.loads(line)["messages"] for line in Path("better.jsonl").read_text().splitlines()]
    assert all(each[-1]["role"] == "system" and "Current time" in each[-1]["content"] for each in messages)
    assert found["edited_log"]["hit_rate"]["after"] == pytest.approx(cost_of(in_folder, "better.jsonl")[0])
    assert (
        Decimal(found["edited_log"]["cost"]["after"])
        == cost_of(in_folder, written(SYSTEM_LAST.bodies("after"), "b.jsonl"))[1]
    )


def test_a_request_is_shown_before_and_after_with_its_places(in_folder: Command) -> None:
    _, out, _ = in_folder("optimize", written(SEVERAL.bodies(), "log.jsonl"), "--allow", "P2")
    assert "@@ system[0].text, line 2 @@\n You are a support agent.\n-Current time: " in out
    assert "@@ messages[0].content[1] @@\n+{" in out
    assert '"cache_control": {"type": "ephemeral"}},\n' in out
    assert "-o log.optimized.jsonl" in out


def test_a_written_log_is_named_after_its_groups_and_a_replaced_file_is_said(in_folder: Command) -> None:
    rows = [{**body, "team": "a/b c"} for body in SEVERAL.bodies()]
    path = written(rows, "log.jsonl")
    line = ("optimize", path, "--allow", "P2", "--group-by", "team", "--group", "a/b c")
    assert "-o log.a-b-c.optimized.jsonl" in " ".join(in_folder(*line)[1].split())
    said = [in_folder(*line, "-o", "better.jsonl")[1] for _ in range(2)]
    assert "Written with the edits: better.jsonl" in said[0]
    assert "Written with the edits, in place of an existing file: better.jsonl" in said[1]


def test_the_request_with_most_edits_is_shown() -> None:
    for changes, shown in [((1, 1, 3, 2), 2), ((1, 1, 1), 1), ((2, 1), 0), ((1,), 0)]:
        log = OptimizedLog({}, None, 0, Counter())
        turn = Turn(id="0", group="g")
        for number, count in enumerate(changes):
            before = {"prompt": "\n".join(f"{name}\nkept {name}" for name in range(5))}
            after = {"prompt": "\n".join(f"{'new' if name < count else name}\nkept {name}" for name in range(5))}
            log.show(RequestEdit("log.jsonl", number, before, after, turn, turn))
        assert log.changed == len(changes)
        assert log.example is not None
        assert log.example.record == shown
        assert request_diff(log.example).count("@@ prompt") == changes[shown]


def test_no_text_of_a_prompt_is_in_the_document(in_folder: Command) -> None:
    _, out, _ = in_folder("optimize", written(ONE.bodies(), "log.jsonl"), "--allow", "P2", "--json")
    assert json.loads(out)["edited_log"]["places"] == ["system[0].text", "system[1]"]
    assert "Current time" not in out
    assert "You are" not in out


def test_without_consent_the_edit_is_shown_and_nothing_is_written(in_folder: Command) -> None:
    _, out, err = in_folder("optimize", written(ONE.bodies(), "log.jsonl"), "-o", "better.jsonl")
    assert "Nothing was written: these edits need your consent." in out
    assert "$0." in out
    assert "@@ system[1] @@" in out
    assert "consent" in err
    assert not Path("better.jsonl").exists()


def test_reads_and_costs_that_were_reported_are_not_in_the_written_log(in_folder: Command) -> None:
    """What a provider read of requests that were sent says nothing of those that were not, nor what these cost."""
    usage = {"input_tokens": 20, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 4000, "output_tokens": 9}
    bodies = [
        {"request": body, "timestamp": body.pop("timestamp"), "response": {"usage": usage}, "cost_usd": 9.5}
        for body in ONE.bodies()
    ]
    in_folder("optimize", written(bodies, "log.jsonl"), "--allow", "P2", "-o", "better.jsonl")
    for line in Path("better.jsonl").read_text().splitlines()[1:]:
        assert json.loads(line)["response"]["usage"] == {"input_tokens": 4020, "output_tokens": 9}
        assert "cost_usd" not in line


def test_arguments_and_parameters_of_that_name_stay() -> None:
    call = {"type": "tool_use", "name": "buy", "input": {"cost": 3}}
    tools = [{"name": "buy", "input_schema": {"properties": {"cost": {"type": "number"}}}}]
    schema = {"properties": {"cost": {"type": "number", "minimum": 0}, "input_tokens": {}}, "required": ["cost"]}
    request = {
        "tools": tools,
        "messages": [{"role": "assistant", "content": [call]}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "bill", "schema": schema}},
        "contents": [{"role": "model", "parts": [{"functionCall": {"name": "buy", "args": {"cost": 3}}}]}],
    }
    reported = {"cost": 3, "costDetails": {"total": 3, "input": None}, "metadata": {"spend": "1.5"}}
    for same in (True, False):
        left = record_without_reads({"request": request, **reported}, same_prompt=same)
        assert left == {"request": request, "metadata": {}}


@pytest.mark.parametrize(
    ("change", "sdk", "said"),
    [
        ({}, "Anthropic", "client.messages.create("),
        ({"model": "anthropic/claude-sonnet-5"}, "LiteLLM", "litellm.completion("),
        ({"metadata": {"lc": 1}}, "LangChain", "SystemMessage(content=["),
        ({"metadata": {"ai.operationId": "ai.generateText"}}, "AI SDK", 'cacheControl: { type: "ephemeral" }'),
    ],
)
def test_the_code_is_of_the_library_in_use(in_folder: Command, change: dict[str, Any], sdk: str, said: str) -> None:
    path = written([{**body, **change} for body in ONE.bodies()], "log.jsonl")
    _, out, _ = in_folder("optimize", path, "--allow", "P2")
    assert f"Send it like this ({sdk}):" in out
    assert said in out


def test_lines_that_go_into_the_workload_are_told(in_folder: Command) -> None:
    """The application fills the template alone: what moves into the user message of the workload, it has to send."""
    Path("p.j2").write_text(
        'Now: {{ now }} in {{ town or "Graz" }}\n' + "You answer questions about parcels and invoices.\n" * 30
    )
    Path("w.yaml").write_text(
        "version: 1\nvars:\n  now: {datetime: 1m}\n  town: {choice: [Graz, Linz]}\ngroups:\n  - name: a\n    requests: 12\n"
        "    messages:\n      - {role: system, file: p.j2}\n      - {role: user, text: 'What now?'}\n"
    )
    _, out, _ = in_folder("optimize", "w.yaml", "--allow", "P2")
    assert "Lines move from p.j2 into w.yaml." in " ".join(out.split())
    Path("w.yaml").write_text(
        Path("w.yaml").read_text().replace("{role: system, file: p.j2}", "{role: user, file: p.j2}")
    )
    _, out, _ = in_folder("optimize", "w.yaml", "--allow", "P2")
    assert "Lines move" not in out
