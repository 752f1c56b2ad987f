"""The table of a log of hosted models: every row costs what a log with that change costs."""

from __future__ import annotations

import json
import re
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kvtool.accounting.prices.bill import shown_money
from kvtool.profiler.what_if import hosted_table
from kvtool.results.choices import ChangeKind
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.numbers import percent
from tests.conftest import Command
from tests.profiler.test_history_kept import bodies
from tests.profiler.test_money import HEAD, Sent, profiled, written

CLAUDE = "claude-sonnet-4-5"


def table(in_folder: Command, requests: list[Sent]) -> dict[str, dict[str, Any]]:
    code, out, err = in_folder("what-if", written(requests), "--json")
    assert code == 0, err
    return {row["change"]: row for row in json.loads(out)["rows"]}


def cost(in_folder: Command, requests: list[Sent]) -> Decimal:
    return Decimal(profiled(in_folder, requests, "--no-advice")["money"]["predicted"])


def test_marks_and_times_to_live(in_folder: Command) -> None:
    def sent(mark: dict[str, str] | None) -> list[Sent]:
        return [Sent(CLAUDE, 1200.0 * n, 5100, None, system=5000 - HEAD, output=10, mark=mark) for n in range(5)]

    five, hour = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
    rows = table(in_folder, sent(five))
    assert list(rows) == ["today", "cheapest breakpoints", "all breakpoints 1h", "no breakpoints"]
    for name, mark in (
        ("today", five),
        ("cheapest breakpoints", hour),
        ("all breakpoints 1h", hour),
        ("no breakpoints", None),
    ):
        assert Decimal(rows[name]["cost"]) == cost(in_folder, sent(mark))


def test_a_time_to_live_of_marks_is_that_of_no_other_request(in_folder: Command) -> None:
    """Requests to OpenAI, which has no marks, keep their prefix for as long as before."""

    def sent(mark: dict[str, str]) -> list[Sent]:
        own = [Sent("gpt-5.2", 1200.0 * n, cached=None) for n in range(5)]
        return [*own, *(Sent(CLAUDE, 1200.0 * n, 5100, None, system=5000 - HEAD, mark=mark) for n in range(5))]

    rows = table(in_folder, sent({"type": "ephemeral"}))
    assert "all breakpoints 5m" not in rows  # it is today
    assert Decimal(rows["all breakpoints 1h"]["cost"]) == cost(in_folder, sent({"type": "ephemeral", "ttl": "1h"}))


def test_one_cache_key(in_folder: Command) -> None:
    def sent(keyed: bool) -> list[Sent]:
        bodies = [{"prompt_cache_key": f"k{n}"} if keyed else {} for n in range(6)]
        return [Sent("gpt-5.2", 10.0 * n, cached=None, body=bodies[n]) for n in range(6)]

    rows = table(in_folder, sent(True))
    assert rows["today"]["hit_blocks"] == 0
    assert Decimal(rows["fewer cache keys"]["cost"]) == cost(in_folder, sent(False)) < Decimal(rows["today"]["cost"])


def test_one_cache_key_with_other_marks(in_folder: Command) -> None:
    """Requests of many keys read nothing of each other, wherever a mark is; and one key alone shares what no mark ends."""

    def sent(keyed: bool) -> list[Sent]:
        bodies = [{"prompt_cache_key": f"k{n}"} if keyed else {} for n in range(8)]
        return [Sent("gpt-5.6", 10.0 * n, 5100 + 64 * n, None, system=5000 - HEAD, body=bodies[n]) for n in range(8)]

    rows = table(in_folder, sent(True))
    both, alone = rows["settings and breakpoints"], table(in_folder, sent(False))["cheapest breakpoints"]
    assert Decimal(both["cost"]) == Decimal(alone["cost"])
    assert Decimal(both["cost"]) < min(
        Decimal(row["cost"]) for name, row in rows.items() if name != "settings and breakpoints"
    )
    assert "one cache key" in both["does"]


def test_another_model_of_the_log(in_folder: Command) -> None:
    models = ["claude-sonnet-4-5", "claude-haiku-4-5"]
    mark = {"type": "ephemeral"}

    def sent(*models: str) -> list[Sent]:
        return [
            Sent(models[n % len(models)], 10.0 * n, 5100, None, system=5000 - HEAD, output=0, mark=mark)
            for n in range(6)
        ]

    rows = table(in_folder, sent(*models))
    for model in models:
        assert Decimal(rows[f"all to {model}"]["cost"]) == cost(in_folder, sent(model))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_screen(in_folder: Command, width: int) -> None:
    requests = [Sent(CLAUDE, 10.0 * n, 5100, None, system=5000 - HEAD, output=0) for n in range(4)]
    code, out, _ = in_folder("what-if", written(requests), "--width", str(width))
    assert code == 0
    assert "Change first: mark system[-1] for 5 minutes." in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= width


def test_a_log_without_prices_names_another_way(in_folder: Command) -> None:
    requests = [Sent("gpt-7.3", 10.0 * n, cached=None) for n in range(2)]
    code, _, err = in_folder("what-if", written(requests))
    assert (code, "kvtool knows none of its models, so it has no price" in err) == (2, True)


def test_edits_of_prompts_cost_what_the_log_with_them_costs(in_folder: Command) -> None:
    """A clock before marked rules: the row of the prompts is the cheapest, and a log with the edits has its cost."""
    lines = []
    for number in range(8):
        system = {"type": "text", "text": f"Time: {number:02}:00\n" + "Answer from the handbook.\n" * 300}
        request = {
            "model": CLAUDE,
            "system": [{**system, "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": f"Question {number:04}?"}],
        }
        lines.append(json.dumps({"timestamp": f"2026-11-20T09:{number:02}:00Z", "request": request}) + "\n")
    Path("clock.jsonl").write_text("".join(lines))
    code, out, _ = in_folder("what-if", "clock.jsonl", "--json")
    assert code == 0
    document = json.loads(out)
    rows = {row["change"]: row for row in document["rows"]}
    assert list(rows)[:2] == ["today", "prompt fixes"]
    assert document["answer"][0].startswith("Change first: edit the prompts")
    assert re.fullmatch(
        r"See a request before and after: kvtool optimize clock.jsonl .*--allow P2", document["answer"][1]
    )
    assert in_folder("optimize", "clock.jsonl", "--allow", "P2", "-o", "edited.jsonl", "--quiet")[0] == 0
    _, out, _ = in_folder("profile", "edited.jsonl", "--json", "--no-advice")
    edited = json.loads(out)["money"]
    assert Decimal(rows["prompt fixes"]["cost"]) == Decimal(edited["predicted"])
    assert rows["prompt fixes"]["hit_rate"] > 0.8 > rows["today"]["hit_rate"]


def test_a_longer_time_to_live_saves_nothing_after_a_change(in_folder: Command) -> None:
    """A clock before marked rules, sent every ten minutes: only an edit and an hour together read anything."""
    lines = []
    for number in range(8):
        text = f"Time: {number:02}:00\n" + "Answer from the handbook.\n" * 300
        system = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
        request = {
            "model": CLAUDE,
            "system": [system],
            "messages": [{"role": "user", "content": f"Question {number:04}?"}],
        }
        kept = {"ephemeral_5m_input_tokens": 7_800, "ephemeral_1h_input_tokens": 0}
        usage = {
            "input_tokens": 20,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 7_800,
            "output_tokens": 9,
        }
        response = {
            "type": "message",
            "usage": {**usage, "cache_creation": kept},
            "content": [{"type": "text", "text": "ok"}],
        }
        at = f"2026-11-20T{9 + number // 6:02}:{number % 6}0:00Z"
        lines.append(json.dumps({"timestamp": at, "request": request, "response": response}) + "\n")
    Path("paused.jsonl").write_text("".join(lines))
    misses = json.loads(in_folder("profile", "paused.jsonl", "--json", "--no-advice")[1])["misses"]
    assert list(misses["causes"]) == ["expired"]
    assert {event["longer_life"] for event in misses["events"]} == {None}
    assert Decimal(misses["ttl"]["one_hour"]) > Decimal(misses["ttl"]["paid"])
    document = json.loads(in_folder("what-if", "paused.jsonl", "--json")[1])
    rows = {row["change"]: row for row in document["rows"]}
    *_, first, shown = document["answer"]
    assert first.startswith("Change first: edit the prompts and the cache breakpoints")
    command = shlex.split(shown.partition(": kvtool ")[2])
    assert command[-2:] == ["--allow", "P2"]
    made = " ".join(in_folder(*command)[1].split())
    reached = re.search(r"\$([\d.]+) with these edits", made)
    assert reached is not None
    assert float(reached[1]) == pytest.approx(float(rows["prompt fixes and breakpoints"]["cost"]), rel=0.02)


def test_edits_of_content_hide_no_edit_that_keeps_it(in_folder: Command) -> None:
    """A session with shortened messages, whose fix needs consent, beside a clock: the row is what a profile makes first."""
    records = [{**body, "service": "pruned"} for body in bodies(8, pruned=True)]
    for number in range(8):
        text = f"Time: {number:02}:00\n" + "Answer from the handbook.\n" * 300
        system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        said = [{"role": "user", "content": f"Question {number:04}?"}]
        at = f"2026-11-20T10:{number:02}:00Z"
        records.append({"timestamp": at, "service": "clock", "model": CLAUDE, "system": system, "messages": said})
    path, by_service = Path("two.jsonl"), ("--group-by", "service", "--json")
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    _, out, _ = in_folder("profile", "two.jsonl", *by_service, "--per-request", "--no-advice")
    for record, row in zip(records, json.loads(out)["requests"], strict=True):  # a provider that reads by its rules
        prompt, read = row["provider"]["prompt_tokens"], row["provider"]["predicted_tokens"]
        rest = {"input_tokens": 50, "cache_creation_input_tokens": prompt - read - 50}
        record["response"] = {"usage": {**rest, "cache_read_input_tokens": read, "output_tokens": 9}}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    code, out, err = in_folder("what-if", "two.jsonl", *by_service)
    assert code == 0, err
    _, told, _ = in_folder("profile", "two.jsonl", *by_service)
    rows = {row["change"]: row for row in json.loads(out)["rows"]}
    assert Decimal(rows["prompt fixes"]["cost"]) < Decimal(rows["today, predicted"]["cost"])
    assert rows["prompt fixes"]["cost"] == json.loads(told)["money"]["with_fixes"]


def test_its_command_carries_the_options_that_decide_its_figures(in_folder: Command, bytes_json: str) -> None:
    rows = []
    for at in range(12):
        text = f"Time: 2026-03-01T10:{10 + at}:00Z\n" + "Be short, kind, and right about what the shop sells. " * 60
        messages = [{"role": "system", "content": text}, {"role": "user", "content": f"question {at}"}]
        rows.append(json.dumps({"model": "gpt-4o", "messages": messages}))
    Path("g.jsonl").write_text("\n".join(rows) + "\n")
    code, out, err = in_folder("what-if", "g.jsonl", "-t", bytes_json, "-n", "9", "--json", "--color", "always")
    assert code == 0, err
    found = json.loads(out)
    words = shlex.split(found["answer"][1].removeprefix("See a request before and after: kvtool "))
    assert words[:2] == ["optimize", "g.jsonl"]
    code, out, err = in_folder(*words, "--json")
    assert code == 0, err
    rates = json.loads(out)["edited_log"]["hit_rate"]
    by_change = {row["change"]: row["hit_rate"] for row in found["rows"]}
    assert (rates["before"], rates["after"]) == (by_change["today"], by_change["prompt fixes"])


def test_options_of_an_own_server_are_refused(in_folder: Command) -> None:
    path = written([Sent("gpt-5.2", 10.0 * n, cached=None) for n in range(6)])
    for words in (["--fixed", "all"], ["--slo", "ttft=1s"], ["--replicas", "3"]):
        code, _, err = in_folder("what-if", path, *words)
        assert (code, words[0] in err) == (2, True)
    code, out, _ = in_folder("what-if", path, "--no-advice", "--json")
    assert {"change": "prompts", "why": "--no-advice"} in json.loads(out)["missing"]


@pytest.mark.parametrize("cached", [0, 1500])
def test_what_was_reported_comes_before_what_is_predicted(in_folder: Command, cached: int) -> None:
    """The reported rate and the paid sum are on each screen, and no prediction is called today's rate."""
    path = written([Sent("gpt-4o", 10.0 * n, cached=cached) for n in range(8)])
    report = profiled(in_folder, [Sent("gpt-4o", 10.0 * n, cached=cached) for n in range(8)], "--no-advice")
    money = report["money"]
    code, out, err = in_folder("what-if", path, "--json")
    assert code == 0, err
    document = json.loads(out)
    reported, predicted, *_ = document["answer"]
    assert reported == f"Reported: hit rate {percent(cached / 2100)}, paid {shown_money(Decimal(money['paid']))}."
    assert predicted.startswith("Predicted by the rules: hit rate ")
    assert predicted.endswith(f", cost {shown_money(Decimal(money['predicted']))}.")
    assert document["rows"][0]["change"] == "today, predicted"
    code, out, err = in_folder("optimize", path)
    assert code == 0, err
    head = " ".join(out.split("\n\n")[1].split())
    assert head.startswith(f"Hit rate {percent(cached / 2100)} reported by the provider, paid ")
    assert "by the published rules" in head
    assert " now" not in head


def test_rates_of_other_requests_say_of_how_many(in_folder: Command) -> None:
    own = [Sent("own/model", 10.0 * n, cached=0) for n in range(4)]
    path = written([*own, *(Sent("gpt-4o", 10.0 * n, cached=1500) for n in range(8))])
    code, out, err = in_folder("optimize", path)
    assert code == 0, err
    head = " ".join(out.split("\n\n")[1].split())
    assert " reported for 12 requests" in head
    assert head.endswith("by the published rules for 8 requests")
    reported, predicted, *_ = json.loads(in_folder("what-if", path, "--json")[1])["answer"]
    assert reported.startswith("Reported for 12 requests: ")
    assert predicted.startswith("Predicted by the rules for 8 requests: ")


def test_a_cheaper_row_is_first_or_the_answer_says_why_not() -> None:
    def row(kind: ChangeKind, name: str, does: str, cost: str) -> SweepRow:
        read: dict[str, Any] = {"hit_blocks": 1, "references": 2, "hit_rate": 0.5, "computed_tokens": 1}
        return SweepRow(
            kind=kind, change=name, does=does, more_hardware=False, block_size=1, cost=cost, sure="rules", **read
        )

    rows = [
        row("today", "today", "", "1.00"),
        row("prompts", "prompt fixes", hosted_table._PROMPTS, "0.60"),
        row("marks", "prompt fixes and breakpoints", hosted_table._BOTH, "0.50"),
        row("ttl", "all breakpoints 1h", "set ttl", "0.40"),
        row("model", "all to small", "send all to small", "0.30"),
    ]
    said = hosted_table._answer(rows, "see", only_prompts=True)
    assert "edit the prompts and the cache breakpoints" in said[0]
    assert said[1] == "Not first: all to small ($0.30), as another model gives other answers."
    assert "reads differ" in hosted_table._answer(rows[:-1], "see", only_prompts=True)[1]
    assert hosted_table._answer(rows[:-1], "see", only_prompts=False)[0].startswith("Change first: set ttl")
