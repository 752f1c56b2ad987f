"""What conversations are called that no field names."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kvtool.workload.logs.groups.session_names import session_names
from kvtool.workload.logs.logs import LogSource

TALK = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yes"},
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": "no"},
]


def sessions(*paths: Path) -> list[str | None]:
    found = []
    for conversation in LogSource([str(path) for path in paths]).conversations():
        while (turn := conversation.next_turn(None)) is not None:
            found.append(turn.session)
    return found


def test_a_file_has_a_short_name() -> None:
    for path, name in [
        ("runs/s-100.traj.json", "s-100"),
        ("s-100.json.gz", "s-100"),
        ("tasks/17/api_conversation_history.json", "17"),
        ("history.json", "history"),
        (".hidden", ".hidden"),
    ]:
        assert session_names([path]) == {path: name}


@given(st.lists(st.sampled_from(["a/x.json", "b/x.json", "a/y.json", "x.traj", "b/log.json", "b.json"]), unique=True))
def test_no_two_files_are_called_the_same(paths: list[str]) -> None:
    names = session_names(paths)
    assert len(set(names.values())) == len(paths)


def test_a_file_is_a_session_and_a_line_is_one_of_many(tmp_path: Path) -> None:
    one, lines = tmp_path / "talk.json", tmp_path / "talks.jsonl"
    one.write_text(json.dumps({"history": TALK}))
    lines.write_text("\n".join(json.dumps({"history": TALK}) for _ in range(2)))
    assert sessions(one) == ["talk"] * 2
    assert sessions(lines) == ["talks:1"] * 2 + ["talks:2"] * 2
    assert sessions(one, lines) == ["talk"] * 2 + ["talks:1"] * 2 + ["talks:2"] * 2
    twin = tmp_path / "other" / "talk.json"
    twin.parent.mkdir()
    twin.write_text(json.dumps({"history": TALK}))
    assert sessions(one, twin) == [str(one)] * 2 + [str(twin)] * 2


def test_a_name_of_the_record_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"conversation_hash": "h1", "conversation": TALK}))
    assert sessions(path) == ["h1", "h1"]
