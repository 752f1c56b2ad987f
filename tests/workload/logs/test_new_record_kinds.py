"""Each release of an agent writes new kinds of records: in a file of its format they are left out and counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.workload.logs.formats.known_formats import format_named, record_formats
from kvtool.workload.logs.records.record_format import RecordFormat
from tests.workload.logs.log_lines import read

NOT_FIELDS = ("server-line",)
"""Formats in which an object nobody knows may be the request."""
names = st.from_regex(r"new[a-z]{2,8}(-[a-z]{2,8}){0,2}", fullmatch=True)
values = st.none() | st.integers() | st.text(max_size=8) | st.lists(st.integers(), max_size=2)
kinds = st.builds(
    lambda kind, around, more: {"type": kind, **around, **more},
    names,
    st.sampled_from(
        [{"sessionId": "s1"}, {"timestamp": "2026-02-02T09:00:01Z"}, {"payload": {"a": 1}}, {"payload": {"text": "a"}}]
    ),
    st.dictionaries(st.from_regex(r"x[a-z]{2,8}", fullmatch=True), values, max_size=2),
)


def example(name: str) -> Iterator[dict[str, Any]]:
    """The records of the format's example."""
    text = format_named(name).example.strip()
    while text:
        value, end = json.JSONDecoder().raw_decode(text)
        yield value
        text = text[end:].strip()


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    path = folder / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["claude-code", "codex", "qwen-code", "pi", "goose"])
@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(1, 9), kinds), min_size=1, max_size=5))
def test_they_are_left_out_and_counted(
    name: str, tmp_path_factory: pytest.TempPathFactory, new: list[tuple[int, dict[str, Any]]]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    rows = list(example(name))
    expected, _ = read(written(folder, rows))
    for at, row in new:
        rows.insert(min(at, len(rows)), row)
    found, source = read(written(folder, rows))
    assert [row["messages"] for row in found] == [row["messages"] for row in expected]
    assert source.left_out.counts == {"record of an unknown kind": len(new)}


def with_new_fields(value: Any, random: Random) -> Any:
    """The same with a field that nobody knows in about every second object."""
    if isinstance(value, list):
        return [with_new_fields(each, random) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: with_new_fields(each, random) for name, each in value.items()}
    return made if random.random() < 0.5 else {**made, "xnew": random.choice([None, 1, "new", [1], {"a": 1}, {}])}


@pytest.mark.parametrize(
    "format_", [each for each in record_formats() if each.name not in NOT_FIELDS], ids=lambda each: each.name
)
def test_a_new_field_changes_nothing(format_: RecordFormat, tmp_path: Path) -> None:
    given, random = list(example(format_.name)), Random(format_.name)
    path = tmp_path / f"s{format_.ending}"

    def found(rows: list[Any]) -> list[dict[str, Any]]:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return read(str(path))[0]

    try:
        expected = found(given)
    except KvtoolError:
        return  # an example without a request
    for _ in range(3):
        assert found([with_new_fields(each, random) for each in given]) == expected


@pytest.mark.parametrize("name", ["langfuse", "bedrock"])
def test_in_other_logs_they_are_mistakes(name: str, tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match="no prompt found"):
        read(written(tmp_path, [*example(name), {"type": "newkind", "sessionId": "s1"}]))


def test_before_the_first_known_record_they_are_mistakes(tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match="no prompt found"):
        read(written(tmp_path, [{"type": "newkind", "sessionId": "s1"}, *example("claude-code")]))


def test_the_journal_of_a_workflow_hides_no_session_beside_it(tmp_path: Path) -> None:
    """Claude Code writes it into the folder of the workflow's agents."""
    rows = list(example("claude-code"))
    journal = tmp_path / "journal.jsonl"
    steps = [{"type": "started"}, {"type": "result", "result": {"a": 1}}, {"type": "result", "result": "done"}]
    journal.write_text("".join(json.dumps({**step, "key": "v2:k", "agentId": "a"}) + "\n" for step in steps))
    found, source = read(str(journal), written(tmp_path, rows))
    assert (len(found), source.left_out.counts["line of a workflow's journal"]) == (1, 3)
    with pytest.raises(KvtoolError, match="no model request"):
        read(str(journal))
