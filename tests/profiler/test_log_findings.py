"""Findings of logs: record, message and line, what was and what is, and a command that runs and shows the two requests."""

from __future__ import annotations

import gzip
import json
import random
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kvtool as api
from kvtool.cli.app import run
from tests.conftest import some
from tests.files import write

Command = Callable[..., tuple[int, str, str]]

RULES = "\n".join(f"Rule {n}: answer in whole sentences about topic {n}." for n in range(12))
REQUESTS = 6


def system(n: int, *, more: str = "") -> str:
    return f"You are the assistant of Ridgeline.\nBe brief.{more}\nNow: 2026-01-01 10:{n:02d}:07\n{RULES}"


def chat(n: int) -> dict[str, Any]:
    messages = [{"role": "system", "content": system(n)}, {"role": "user", "content": f"Question {n}?"}]
    return {"messages": messages}


def with_parts(n: int) -> dict[str, Any]:
    parts = [{"type": "text", "text": "You are brief."}, {"type": "text", "text": system(n)}]
    return {"messages": [{"role": "system", "content": parts}, {"role": "user", "content": "Hi"}]}


def prompt(n: int) -> dict[str, Any]:
    return {"prompt": f"{system(n)}\nQuestion {n}?"}


def sharegpt(n: int) -> dict[str, Any]:
    said = [("system", system(n)), ("human", f"Question {n}?"), ("gpt", "Yes."), ("human", "Sure?"), ("gpt", "Yes.")]
    return {"conversations": [{"from": who, "value": what} for who, what in said]}


def trajectory(n: int) -> dict[str, Any]:
    said = [
        ("system", system(n)),
        ("user", "List files."),
        ("assistant", "ls"),
        ("tool", "a b"),
        ("assistant", "Done."),
    ]
    return {"trajectory": [], "history": [{"role": role, "content": content} for role, content in said]}


def tools(n: int) -> dict[str, Any]:
    names = ["alpha", "beta", "gamma"]
    names = names[n % 3 :] + names[: n % 3]
    described = [{"name": name, "description": f"Does {name}. {RULES[:200]}"} for name in names]
    return {**chat(0), "tools": [{"type": "function", "function": tool} for tool in described]}


def lines(record: Callable[[int], dict[str, Any]], start: int = 0) -> str:
    return "".join(json.dumps(record(n)) + "\n" for n in range(start, start + REQUESTS))


def token_ids(n: int) -> dict[str, Any]:
    return {"token_ids": [1, 2, n + 100, *range(200, 400)]}


LOGS: dict[str, dict[str, str | bytes]] = {
    "chat": {"prod.jsonl": lines(chat)},
    "parts": {"prod.jsonl": lines(with_parts)},
    "blank lines": {"prod.jsonl": "\n\n" + lines(chat).replace("\n", "\n\n")},
    "list": {"all.json": json.dumps([chat(n) for n in range(REQUESTS)], indent=1)},
    "gz": {"prod.jsonl.gz": gzip.compress(lines(chat).encode())},
    "prompt": {"prod.jsonl": lines(prompt)},
    "prompts of one record": {"prod.jsonl": json.dumps({"prompt": [prompt(n)["prompt"] for n in range(REQUESTS)]})},
    "sharegpt": {"talks.jsonl": lines(sharegpt)},
    "trajectory": {"agent.jsonl": lines(trajectory)},
    "tools": {"prod.jsonl": lines(tools)},
    "token ids": {"ids.jsonl": lines(token_ids)},
    "two files": {"a.jsonl": lines(chat), "b.jsonl": lines(chat, 20)},
    "names": {"odd name's $(x);.jsonl": lines(chat), "-dash.jsonl": lines(chat, 20), "n:7": lines(chat, 40)},
    "texts": {f"p{n}.txt": prompt(n)["prompt"] for n in range(4)},
}
WITHOUT_TEXT = ("token ids",)


@pytest.fixture
def kvtool(in_folder: Command) -> Command:
    return in_folder


@pytest.mark.parametrize("name", LOGS)
def test_the_command_of_every_finding_runs_and_shows_the_pair(
    name: str, kvtool: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text in LOGS[name].items():
        write(path, text)
    code, out, err = kvtool("lint", "--json", *inputs(name))
    assert code in (0, 1), err
    found = [one for one in json.loads(out)["findings"] if one["code"] != "KV203"]
    assert found or name in WITHOUT_TEXT
    for one in found:
        example = one["example"]
        if example is None and name in WITHOUT_TEXT:
            continue
        assert example is not None, one["message"]
        program, *arguments = shlex.split(example["command"])
        assert program == "kvtool"
        assert run([*arguments, "--json"]) == 0
        diff = json.loads(capsys.readouterr().out)
        assert [diff["a"]["path"], diff["b"]["path"]] == [example["was"], example["now"]]
        assert diff["relation"] == "different"
        assert example["was_line"] is example["now_line"] is None, "a document of findings has no text of prompts"


def inputs(name: str) -> list[str]:
    return [f"./{path}" if path.startswith("-") else path for path in LOGS[name]]


@pytest.mark.parametrize(
    ("name", "record", "part", "line", "content"),
    [
        ("chat", 2, "messages[0] (system)", 3, None),
        ("blank lines", 2, "messages[0] (system)", 3, None),
        ("list", 2, "messages[0] (system)", 3, None),
        ("gz", 2, "messages[0] (system)", 3, None),
        ("parts", 2, "messages[0] (system)", 3, 1),
        ("prompt", 2, "prompt", 3, None),
        ("sharegpt", 2, "conversations[0] (system)", 3, None),
        ("trajectory", 2, "history[0] (system)", 3, None),
        ("tools", 2, "tools", 0, None),
    ],
)
def test_a_finding_names_record_message_and_line(
    name: str, record: int, part: str, line: int, content: int | None, kvtool: Command
) -> None:
    for path, text in LOGS[name].items():
        write(path, text)
    _, out, _ = kvtool("lint", "--json", *inputs(name))
    first = json.loads(out)["findings"][0]
    template = first["logged"]["template"]  # the text around the value is known where the line is
    assert first["logged"] == {
        "record": record, "part": part, "line": line, "content": content, "template": template
    }  # fmt: skip
    assert (template > 0) is (line > 0)
    assert first["line"] > 0, "the region of machine formats is that of the file"


def test_the_terminal_shows_what_was_and_what_is(kvtool: Command) -> None:
    write("prod.jsonl", lines(chat))
    _, out, _ = kvtool("profile", "prod.jsonl", "--dry-run", "--width", "100")
    assert "prod.jsonl:2, messages[0] (system), line 3: KV101" in out
    assert "   was | Now: 2026-01-01 10:00:07\n" in out
    assert "   now | Now: 2026-01-01 10:01:07\n       |      ^^^^^^^^^^^^^^^^^^^\n" in out
    assert "kvtool diff-prompts " in out
    _, hidden, _ = kvtool("profile", "prod.jsonl", "--dry-run", "--show-text", "none")
    assert "was |" not in hidden
    assert "kvtool diff-prompts" in hidden


def test_reports_quote_the_pair_only_where_text_is_asked_for_and_mask_secrets(kvtool: Command) -> None:
    def keyed(n: int) -> dict[str, Any]:
        return {"prompt": f"Password: hunter2{n}secret\n{RULES}"}

    write("prod.jsonl", lines(keyed))
    _, out, _ = kvtool("profile", "prod.jsonl", "--dry-run")
    assert "was |" in out
    assert "hunter2" not in out
    for show, there in (("none", False), ("snippet", False), ("full", True)):
        for suffix in ("json", "md", "sarif", "html"):
            kvtool("profile", "prod.jsonl", "--dry-run", "--show-text", show, "-o", f"r.{suffix}")
            if show == "full" and suffix == "html":
                continue  # there it stands in parts, as it is marked
            assert ("hunter2" in Path(f"r.{suffix}").read_text()) == there, (show, suffix)


def test_what_is_only_in_the_earlier_request_is_named_there(kvtool: Command) -> None:
    def maybe(n: int) -> dict[str, Any]:
        section = "" if n else "Beware of the beta program.\n"
        messages = [{"role": "system", "content": f"Be brief.\n{section}{RULES}"}, {"role": "user", "content": "Hi"}]
        return {"messages": messages}

    write("prod.jsonl", "".join(json.dumps(maybe(n)) + "\n" for n in range(2)))
    _, out, _ = kvtool("lint", "--json", "prod.jsonl")
    (found,) = json.loads(out)["findings"]
    place = {"record": 1, "part": "messages[0] (system)", "line": 2, "content": None}
    assert found["logged"] == {**place, "template": 1}
    assert (found["example"]["was"], found["example"]["now"]) == ("prod.jsonl:1", "prod.jsonl:2")


def test_what_comes_through_a_pipe_has_a_place_and_no_command(kvtool: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    class Piped:
        buffer = io.BytesIO(lines(chat).encode())
        closed = False

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", Piped())
    _, out, _ = kvtool("lint", "--json", "-")
    (found,) = json.loads(out)["findings"]
    assert found["logged"]["record"] == 2
    assert found["example"] is None


def told(out: str) -> list[tuple[str, int, str]]:
    """Code, tokens and message of what a profile tells, the hints about prefixes left out."""
    found = json.loads(out)["findings"]
    return [
        (each["code"], each["tokens_lost"], each["message"]) for each in found if each["code"] not in ("KV203", "KV204")
    ]


def test_lines_of_one_listing_are_one_finding(kvtool: Command) -> None:
    def listing(n: int) -> dict[str, Any]:
        rows = "\n".join(f"  {'abc'[(n + k) % 3]}/part_{n * 7 + k}.rs" for k in range(9))
        return {
            "messages": [
                {"role": "system", "content": f"You code.\n\nFiles here\n{rows}\n\n{RULES}"},
                chat(n)["messages"][1],
            ]
        }

    write("listing.jsonl", lines(listing))
    _, out, _ = kvtool("profile", "--dry-run", "--json", "listing.jsonl")
    [message] = [message for code, _, message in told(out) if code == "KV106"]
    assert "like it" in message
    assert len(told(out)) <= 2


def test_tools_that_come_later_in_a_session_are_told(kvtool: Command) -> None:
    def late(n: int) -> dict[str, Any]:
        said = [{"role": "system", "content": RULES}]
        for k in range(n):
            said += [{"role": "user", "content": f"Question {k}?"}, {"role": "assistant", "content": f"Answer {k}."}]
        named = [
            {"name": name, "description": f"Does {name}."} for name in ("alpha", "beta", "gamma", "delta")[: 2 + n // 3]
        ]
        functions = [{"type": "function", "function": tool} for tool in named]
        return {
            "session_id": "s",
            "messages": [*said, {"role": "user", "content": f"Question {n}?"}],
            "tools": functions,
        }

    write("late.jsonl", lines(late))
    assert "KV115" in [code for code, _, _ in told(kvtool("profile", "--dry-run", "--json", "late.jsonl")[1])]


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ("היום יום {weekday}, {day} במרץ.", "KV101"),
        ("Client 10.{n}.7.{day} near the gate", "KV104"),
        ("Relay 10.{n}.7.{day} near the gate", "KV201"),
        ("| Branch | {town} |", "KV104"),
        ("You are writing with {person} from {town}. Be warm.", "KV104"),
    ],
)
def test_a_place_is_named_by_all_of_its_values(kvtool: Command, first: str, code: str) -> None:
    def record(n: int) -> dict[str, Any]:
        weekday = ["ראשון", "שני", "שלישי", "רביעי", "חמישי", "שישי"][n % 6]
        town = ["Ulm", "Bad Tölz", "Lindau", "Passau", "Hof", "Weiden"][n % 6]
        person = ["Ruth Feld", "Ana Prado", "Omar Saidi", "Оксана Бондар", "Liv Tran", "Eva Soto"][n % 6]
        line = first.format(weekday=weekday, day=5 + n, n=40 + 3 * n, town=town, person=person)
        return {"messages": [{"role": "system", "content": f"Desk.\n{line}\n{RULES}"}, chat(n)["messages"][1]]}

    write("named.jsonl", lines(record))
    assert told(kvtool("profile", "--dry-run", "--json", "named.jsonl")[1])[0][0] == code


@pytest.mark.parametrize("place", ["first", "later"])
def test_a_name_in_a_sentence_with_a_duty_moves_nothing(kvtool: Command, place: str) -> None:
    def record(n: int) -> dict[str, Any]:
        name = ["Frau Noack", "Herrn Berger", "Frau Klein", "Herrn Petrov", "Frau Vogt", "Herrn Braun"][n % 6]
        duty = f"Du bist Lotte, sprichst gerade mit {name} und versprichst niemals etwas, das nicht im System des Hauses steht."
        text = f"{duty}\n{RULES}" if place == "first" else f"Guten Tag.\n{duty}\n{RULES}"
        return {"messages": [{"role": "system", "content": text}, chat(n)["messages"][1]]}

    write("duty.jsonl", lines(record))
    findings = json.loads(kvtool("profile", "--dry-run", "--json", "duty.jsonl")[1])["findings"]
    assert findings[0]["code"] == "KV104"
    assert findings[0]["fix"].startswith("write the value once")


def test_a_finding_that_lost_nothing_does_not_lead(kvtool: Command) -> None:
    def record(n: int) -> dict[str, Any]:
        digits = random.Random(f"lead/{n}").getrandbits(48)
        rule = f"Write the correlation id {digits >> 16:08x}-{digits & 0xFFFF:04x} below every item that you change."
        return {"messages": [{"role": "system", "content": f"You edit.\n{rule}\n{RULES}"}, chat(n)["messages"][1]]}

    write("ids.jsonl", lines(record))
    _, out, _ = kvtool("profile", "--dry-run", "--json", "ids.jsonl")
    code, tokens, _ = told(out)[0]
    assert (code, tokens > 0) == ("KV102", True)


@pytest.mark.parametrize(
    ("form", "values", "code"),
    [
        ("features: [{}]", ["voice, waste", "waste", "voice, booking, waste", "booking", "voice"], "KV107"),
        (
            "engine: {}",
            ["sol-8b, temperature: 0.2", "sol-70b, temperature: 1.0", "luna, temperature: 0.2", "luna-3"],
            "KV105",
        ),
        ("お客様:{}", ["佐藤健一", "鈴木美咲", "高橋大輔", "田中陽子"], "KV104"),
    ],
)
def test_a_slot_is_what_all_of_its_values_and_the_words_before_them_say(
    kvtool: Command, form: str, values: list[str], code: str
) -> None:
    def record(n: int) -> dict[str, Any]:
        line = form.format(values[n % len(values)])
        return {"messages": [{"role": "system", "content": f"{line}\n{RULES}"}, chat(n)["messages"][1]]}

    write("slot.jsonl", lines(record))
    _, out, _ = kvtool("profile", "--dry-run", "--json", "slot.jsonl")
    assert told(out)[0][0] == code


def test_rows_of_a_table_of_tools_are_tools(kvtool: Command) -> None:
    def record(n: int) -> dict[str, Any]:
        names = ["scan_form", "print_label", "call_number", "book_slot"]
        random.Random(f"rows/{n}").shuffle(names)
        rows = "\n".join(f"| {name} | does what {name.replace('_', ' ')} says |" for name in names)
        text = f"You serve.\n\n| tool | use |\n|---|---|\n{rows}\n\n{RULES}"
        return {"messages": [{"role": "system", "content": text}, chat(n)["messages"][1]]}

    write("rows.jsonl", lines(record))
    _, out, _ = kvtool("profile", "--dry-run", "--json", "rows.jsonl")
    assert told(out)[0][0] == "KV111"


def test_steps_of_a_plan_are_one_finding_and_move_with_their_introduction(kvtool: Command) -> None:
    def record(n: int) -> dict[str, Any]:
        steps = ["measure it", "drain it", "open it", "photograph it", "close it"]
        plan = "\n".join(f"{k + 1}. [{'done' if k < n else 'open'}] {step}" for k, step in enumerate(steps))
        return {
            "messages": [
                {"role": "system", "content": f"You guide.\n\nPlan so far:\n{plan}\n\n{RULES}"},
                chat(n)["messages"][1],
            ]
        }

    write("plan.jsonl", lines(record) * 4)
    _, out, _ = kvtool("profile", "--dry-run", "--json", "plan.jsonl")
    first, *_ = json.loads(out)["findings"]
    assert first["tokens_lost"] > 0
    assert first["fix"].startswith("move this block with its introduction")


def test_examples_behind_the_word_tool_are_no_tools(kvtool: Command) -> None:
    def record(n: int) -> dict[str, Any]:
        chance = random.Random(n)
        pairs = [f"Text: case {k} is open since noon\nLabel: kind {k}" for k in range(6)]
        chance.shuffle(pairs)
        lead = "You label feedback on Shiftly, a tool for rosters. Examples of labels:"
        content = "\n\n".join([lead, *pairs, RULES])
        return {"messages": [{"role": "system", "content": content}, chat(n)["messages"][1]]}

    write("pairs.jsonl", "".join(json.dumps(record(n)) + "\n" for n in range(20)))
    _, out, _ = kvtool("profile", "--dry-run", "--json", "pairs.jsonl")
    assert "KV111" not in {finding["code"] for finding in json.loads(out)["findings"]}


def test_other_rules_in_a_numbered_list_are_no_value_to_be_named(kvtool: Command) -> None:
    own = [
        "Speak of boats in each reply.",
        "Offer a break after each task.",
        "Never name a school or a town.",
        "Praise once.",
    ]

    def record(n: int) -> dict[str, Any]:
        rules = [*(f"Say thing {k} to all who ask for it." for k in range(2)), own[n % 4]]
        rules += [f"Keep to rule {k} wherever it is at all possible." for k in range(14)]
        text = "\n".join(f"{at}. {rule}" for at, rule in enumerate(rules, 1))
        return {"messages": [{"role": "system", "content": f"You teach.\n\nRules:\n{text}"}, chat(n)["messages"][1]]}

    write("rules.jsonl", "".join(json.dumps(record(n)) + "\n" for n in range(20)))
    _, out, _ = kvtool("profile", "--dry-run", "--json", "rules.jsonl")
    first, *_ = json.loads(out)["findings"]
    assert first["fix"].startswith("move rules that only some requests have")


def test_the_same_json_in_code_blocks_is_written_in_one_layout(kvtool: Command) -> None:
    tariffs = {"tariffs": [{"code": "N-12", "base": 9.9, "hours": ["22:00", "06:00"]}, {"code": "D-10", "base": 8.5}]}

    def record(n: int) -> dict[str, Any]:
        block = json.dumps(tariffs, indent=[None, 2, 4, "\t"][n % 4])
        content = f"You sell power.\n\n```json\n{block}\n```\n\n{RULES}"
        return {"messages": [{"role": "system", "content": content}, chat(n)["messages"][1]]}

    write("layouts.jsonl", "".join(json.dumps(record(n)) + "\n" for n in range(20)))
    _, out, _ = kvtool("profile", "--dry-run", "--json", "layouts.jsonl")
    first, *_ = json.loads(out)["findings"]
    assert (first["code"], first["tier"]) == ("KV121", "P1")
    assert first["fix"].startswith("write JSON with one serializer")
    assert first["rerun"]["group_after"] > 0.8 > first["rerun"]["group_before"]


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_a_first_request_unlike_other_groups_changes_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group that always has the same text has no changing text, whatever other groups have; it pays once."""
    rng = random.Random(seed)
    monkeypatch.chdir(tmp_path)
    shared = "\n".join(f"Rule {n}: {rng.random():.12f}" for n in range(40))
    records: list[dict[str, Any]] = []
    for name in rng.sample(["sales", "support", "billing"], rng.choice((2, 3))):
        for n in range(rng.randint(4, 9)):
            lead = f"You are the agent for {name}."
            said = [{"role": "system", "content": f"{lead}\n{shared}"}, {"role": "user", "content": f"{name} {n}?"}]
            records.append({"model": "own", "service": name, "messages": said})
    write(tmp_path / "log.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    words = ["profile", "log.jsonl", "--group-by", "service", "--dry-run"]
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    first = [each for each in found["findings"] if each["code"] == "KV201"]
    assert first
    for each in first:
        assert each["severity"] == "info", each
        assert "text that differs from other groups" in each["message"]
        assert "value" not in each["message"]
    assert {cause["name"] for cause in found["causes"] if cause["code"] == "KV201"} == {
        "text that differs from other groups"
    }


WORDS = ["order", "refund", "parcel", "customer", "agent", "label", "invoice", "shop", "window", "ticket", "stock"]
FORMS: dict[str, Callable[[str, int], str]] = {
    "sentences": lambda line, _: f"{line.capitalize()}.",
    "bullets": lambda line, _: f"- {line.capitalize()}.",
    "wrapped": lambda line, _: line,
    "sections": lambda line, at: f"\n## Part {at}\n{line}." if at % 10 == 0 else f"{line}.",
}


@pytest.mark.parametrize("seed", some([3, 9, 16, 39, *range(100, 130)], 1))
def test_an_optional_line_moves_as_a_line(seed: int, tmp_path: Path, bytes_json: str) -> None:
    """A line that some requests lack is a unit, whatever is around it: with the fix, as much hits as without the line."""
    source = random.Random(seed)

    def said(least: int, most: int) -> str:
        return " ".join(source.choice(WORDS) for _ in range(source.randrange(least, most)))

    form = FORMS[source.choice(list(FORMS))]
    lines = "\n".join(form(said(5, 12), at) for at in range(source.randrange(40, 90))).split("\n")
    place = source.randrange(len(lines) // 2)
    label = source.choice(["Current time: {}", "{}", "- Now: {}", "The time is {}."])
    begins = ["half", "random", "first", "late", "turns"][seed % 5]
    count = 60 if begins == "late" else 30
    logs: dict[str, list[dict[str, Any]]] = {"with": [], "without": []}
    for n in range(count):
        has = {"half": n >= 15, "first": n < 15, "random": source.random() < 0.5, "late": n >= 40, "turns": n % 2 > 0}[
            begins
        ]
        clock = [label.format(f"2026-11-20T10:{n:02}:{source.randrange(60):02}Z")] if has else []
        question = f"{said(10, 14)}?"
        for name, there in (("with", clock), ("without", [])):
            system = "\n".join([*lines[:place], *there, *lines[place:]])
            messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
            logs[name].append({"messages": messages})
    reports = {}
    for name, records in logs.items():
        path = tmp_path / f"{name}.jsonl"
        write(str(path), "".join(json.dumps(record) + "\n" for record in records))
        reports[name] = api.profile(str(path), tokenizer=bytes_json)
    first = reports["with"].findings[0]
    assert first.rerun is not None
    assert first.rerun.group_after > reports["without"].totals.hit_rate - 0.03
    if begins == "half" and first.fix.startswith("move this"):
        assert "Not every request has this line: it first comes or goes in with.jsonl:16" in first.message
        assert "It blocks 15 requests, first" in first.message, "each with a value of its own"
