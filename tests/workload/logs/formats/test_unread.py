"""Files of known tools that are not read, each refused by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvtool.workload.logs.formats.known_formats import format_of
from kvtool.workload.logs.formats.unread import unread_shapes
from kvtool.workload.logs.logs import LogOptions, LogSource
from tests.workload.logs.reading_made import Read, lines, refusal

OF_RECORDS = [each for each in unread_shapes() if each.fields]
INSIDE = [each for each in unread_shapes() if each.inside]
OF_TABLES = [each for each in unread_shapes() if each.columns]
MESSAGES = [{"role": "user", "content": "Is it open?"}]
AIDER = "# aider chat started at 2026-02-02 09:00:00"


def test_a_record_of_such_a_file_is_named_whatever_else_it_holds(tmp_path: Path) -> None:
    for shape in OF_RECORDS:
        record: dict[str, Any] = {name: [{"message": {"text": "secret"}}] for name in shape.fields}
        found = format_of(record)
        assert found is not None
        assert found.name == "unread"
        path = lines(tmp_path / "a.jsonl", {"title": "secret", **record})
        error = refusal(path)
        assert (shape.left_out or shape.message) in error.message
        assert (error.hint, "secret" in str(error)) == (shape.hint, False)
        fewer = {name: record[name] for name in shape.fields[1:]}
        assert (left := format_of(fewer)) is None or left.name != "unread"
        if shape.without:
            assert len(Read(lines(tmp_path / "b.jsonl", {**record, "prompt": "Is it open?"}, record)).rows) == 1


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    for text, named in [
        ('10.0.0.7 - - [02/Feb/2026:09:00:00 +0000] "POST /v1/messages HTTP/1.1" 200 12\n', "access log"),
        ("# HELP vllm:prefix_cache_hits hits\nvllm:prefix_cache_hits_total 5\n", "metrics"),
        ("<!DOCTYPE html><title>secret</title>", "page"),
        ("[project]\nname = 'secret'\n", "settings"),
        ("API_KEY=secret\n", "settings"),
        ("services:\n  secret:\n", "YAML"),
        ("import secret\n", "source code"),
        ("traceparent: 00-secret-01\n", "header of a trace"),
        ("level=info msg=hello\n", "not JSON"),
        ("INFO: hello\nERROR: import failed\n", "not JSON"),
        ("import failed here\n", "not JSON"),
        ('PK\x03\x04\0\0a.jsonl{"messages": [{"role": "user", "content": "secret"}]}\n', "zip archive"),
    ]:
        path = tmp_path / "a.log"
        path.write_text(text)
        error = refusal(path)
        assert (named in error.message, "secret" in str(error)) == (True, False)


def test_a_record_that_no_format_knows_is_named_by_a_field_in_it(tmp_path: Path) -> None:
    for shape in INSIDE:
        record: Any = "secret"
        for name in reversed(shape.inside.split(".")):
            record = {name: [record] if name in ("data", "spans") else record}
        error = refusal(lines(tmp_path / "a.jsonl", {**record, "title": "secret"}))
        assert (error.message, error.hint, "secret" in str(error)) == (shape.message, shape.hint, False)
        assert len(Read(lines(tmp_path / "b.jsonl", {**record, "messages": MESSAGES})).rows) == 1


def test_a_table_with_a_bill_and_no_prompts_is_named(tmp_path: Path) -> None:
    for shape in OF_TABLES:
        path = tmp_path / "a.csv"
        path.write_text(",".join(["model", *shape.columns]) + "\n" + "1," * len(shape.columns) + "1\n")
        assert (refusal(path).message, refusal(path).hint) == (shape.message, shape.hint)
        path.write_text(",".join(["model", *shape.columns, "prompt"]) + "\n" + "1," * len(shape.columns) + "1,hi\n")
        assert len(Read(path).rows) == 1


def test_messages_of_an_export_are_read_where_their_field_is_named(tmp_path: Path) -> None:
    record = {"id": "c", "title": "t", "chat": {"messages": [*MESSAGES, {"role": "assistant", "content": "Yes."}]}}
    path = lines(tmp_path / "a.jsonl", record)
    mapping = refusal(path).hint.rpartition(" ")[2]  # type: ignore[union-attr]
    assert len(list(LogSource([str(path)], LogOptions(format=mapping)).conversations())) == 1


def test_the_requests_of_helm_are_read(tmp_path: Path) -> None:
    state = {"instance": {"id": "i1"}, "request": {"model": "openai/gpt-4o", "prompt": "Q: 2+2?\nA:"}}
    path = tmp_path / "scenario_state.json"
    path.write_text(json.dumps({"adapter_spec": {"model": "m"}, "request_states": [state, state]}))
    assert [(row["text"], row["model"]) for row in Read(path).rows] == [("Q: 2+2?\nA:", "openai/gpt-4o")] * 2


def test_a_history_of_aider_is_refused_wherever_it_was_cut(tmp_path: Path) -> None:
    for before in ["", "> isort....Passed\n\n", "#### Is it open?\n\nYes.\n" * 90]:
        path = tmp_path / "chat-history.md"
        path.write_text(f"{before}{AIDER}\n\n#### And Sunday?\n")
        assert "aider" in refusal(path).message
        path.write_text(f"{before}Aider writes `{AIDER}` first.\n")
        assert len(Read(path).rows) == 1
