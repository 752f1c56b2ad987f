"""Each release of an agent writes new kinds of records: in a file of its format they are left out and counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.workload.logs.formats.known_formats import format_named
from tests.workload.logs.log_lines import read

names = st.from_regex(r"new[a-z]{2,8}(-[a-z]{2,8}){0,2}", fullmatch=True)
values = st.none() | st.integers() | st.text(max_size=8) | st.lists(st.integers(), max_size=2)
kinds = st.builds(
    lambda kind, around, more: {"type": kind, **around, **more},
    names,
    st.sampled_from([{"sessionId": "s1"}, {"timestamp": "2026-02-02T09:00:01Z"}, {"payload": {"a": 1}}]),
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


@pytest.mark.parametrize("name", ["claude-code", "codex"])
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


@pytest.mark.parametrize("name", ["langfuse", "bedrock"])
def test_in_other_logs_they_are_mistakes(name: str, tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match="no prompt found"):
        read(written(tmp_path, [*example(name), {"type": "newkind", "sessionId": "s1"}]))


def test_before_the_first_known_record_they_are_mistakes(tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match="no prompt found"):
        read(written(tmp_path, [{"type": "newkind", "sessionId": "s1"}, *example("claude-code")]))
