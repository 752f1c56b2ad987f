"""`--tenant FIELD`: the field of a log's records that says whose request each is, in any format."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.workload.logs.files.input_files import find_inputs
from kvtool.workload.logs.groups.field_paths import FieldPath
from kvtool.workload.logs.logs import LogOptions, LogSource
from tests.conftest import some
from tests.files import write

ASKED = [{"role": "user", "content": "What is on the menu today, and until when is it served?"}]
CHAT = {"model": "gpt-4o", "messages": ASKED}
WHOSE = "team-7"
SPAN = {
    "traceId": "1",
    "spanId": "2",
    "name": "chat",
    "attributes": [
        {"key": name, "value": {"stringValue": value}}
        for name, value in (
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.request.model", "gpt-4o"),
            ("gen_ai.input.messages", json.dumps(ASKED)),
            ("app.customer", WHOSE),
        )
    ],
}
ENTRY = {
    "startedDateTime": "2026-10-01T08:00:00Z",
    "request": {
        "method": "POST",
        "url": "https://api.openai.com/v1/chat/completions",
        "headers": [{"name": "X-Customer", "value": WHOSE}],
        "postData": {"text": json.dumps(CHAT)},
    },
    "response": {"status": 200, "content": {"text": "{}"}},
}


def _rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert run(["logs", *arguments, "--json", "--requests", "--show-text", "full"]) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)["rows"]
    return rows


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_path_leads_to_the_tenant_in_any_format(capsys: pytest.CaptureFixture[str]) -> None:
    for name, text, path in [
        ("a body", json.dumps({**CHAT, "metadata": {"customer": WHOSE}}), "metadata.customer"),
        ("around a body", json.dumps({"who": {"of": [WHOSE]}, "request": CHAT}), "who.of[0]"),
        ("a name with dots", json.dumps({"app.customer": WHOSE, **CHAT}), "app.customer"),
        ("JSON in a text", json.dumps({"request": CHAT, "tags": json.dumps({"customer": WHOSE})}), "tags.customer"),
        ("a list", json.dumps({"data": [{**CHAT, "customer": WHOSE}]}), "customer"),
        ("a number", json.dumps({**CHAT, "customer": 7}), "customer"),
        ("batch input", json.dumps({"custom_id": "1", "body": CHAT, "customer": WHOSE}), "customer"),
        ("a span", json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}), 'attributes["app.customer"]'),
        ("an archive", json.dumps({"log": {"entries": [ENTRY]}}), "headers.x-customer"),
        ("ShareGPT", json.dumps({"id": "1", "conversations": [{"from": "human", "value": "Hi"}], "of": WHOSE}), "of"),
    ]:
        write("log.jsonl", text)
        rows = _rows(capsys, "log.jsonl", "--tenant", path)
        assert [row["tenant"] for row in rows] == ["7" if name == "a number" else WHOSE]


def test_a_column_is_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    write("log.csv", f"prompt,customer\nHello there,{WHOSE}\nHello again,other\n")
    assert [row["tenant"] for row in _rows(capsys, "log.csv", "--tenant", "customer")] == [WHOSE, "other"]


def test_it_goes_before_what_the_format_says_and_what_lacks_it_is_nobodys(capsys: pytest.CaptureFixture[str]) -> None:
    records = [{**CHAT, "user": "u1", "team": "a"}, {**CHAT, "user": "u2"}, {**CHAT, "team": "b"}]
    write("log.jsonl", "\n".join(json.dumps(record) for record in records))
    assert [row.get("tenant") for row in _rows(capsys, "log.jsonl")] == ["u1", "u2", None]
    assert [row.get("tenant") for row in _rows(capsys, "log.jsonl", "--tenant", "team")] == ["a", None, "b"]
    assert run(["logs", "log.jsonl", "--tenant", "team"]) == 0
    assert "1 record without `team`: no tenant" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["logs"], ["profile", "--dry-run", "--json"]])
def test_a_field_that_no_record_has(command: list[str], bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("log.jsonl", "\n".join([json.dumps({**CHAT, "meta": {"customer": "a"}})] * 3))
    tokenizer = ["-t", bytes_json] if command[0] == "profile" else []
    assert run([*command, "log.jsonl", *tokenizer, "--tenant", "meta.custumer"]) == 2
    told = capsys.readouterr()
    assert "none of 3 records has a field `meta.custumer` that names a tenant" in told.err
    assert "did you mean `meta.customer`?" in told.err
    assert "menu" not in told.err
    assert told.out == ""


def test_what_is_no_path(capsys: pytest.CaptureFixture[str]) -> None:
    for path in ["a..b", "[]", ".", "a[", "a" * 600]:
        write("log.jsonl", json.dumps(CHAT))
        assert run(["logs", "log.jsonl", "--tenant", path]) == 2
        assert capsys.readouterr().err.startswith("error: --tenant")


def test_the_configuration_says_it_for_logs_of_known_formats(
    bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("kvtool.toml", '[logs]\ntenant = "team"\n')
    write("log.jsonl", "\n".join(json.dumps({**CHAT, "team": team}) for team in "abab"))
    assert [row["tenant"] for row in _rows(capsys, "log.jsonl")] == ["a", "b", "a", "b"]
    assert [row["tenant"] for row in _rows(capsys, "log.jsonl", "--tenant", "model")] == ["gpt-4o"] * 4
    assert run(["profile", "log.jsonl", "-t", bytes_json, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["isolation"]["tenants"] == 2


@pytest.mark.parametrize("seed", some(range(8), 2))
def test_whatever_path_a_value_stands_at(seed: int) -> None:
    chance = random.Random(seed)
    steps = [chance.choice(["meta", "x-of", "für wen", "a.b", "0"]) for _ in range(chance.randint(1, 4))]
    texts = []
    for number in range(5):
        value: object = f"tenant {number % 3}"
        for step in reversed(steps):
            value = {step: value, "other": number}
        texts.append(json.dumps({"request": CHAT, "around": value}))
    write("log.jsonl", "\n".join(texts))
    path = "around" + "".join(f"[{json.dumps(step, ensure_ascii=False)}]" for step in steps)
    assert FieldPath(path, ()).text == path
    source = LogSource(find_inputs(["log.jsonl"]), LogOptions(tenant=path))
    for _ in range(2):  # every pass tells the same
        turns = [conversation.next_turn(None) for conversation in source.conversations()]
        assert [turn.call.tenant for turn in turns if turn] == [f"tenant {number % 3}" for number in range(5)]
