"""Logs whose time goes back within a file: they are put in order, and it is said once for each file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.cli.app import run
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.survey import Survey


def a_log(path: Path, times: Sequence[float | None]) -> str:
    rows = [{"prompt": f"hello {at}", **({} if at is None else {"timestamp": at})} for at in times]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def notes_of(*paths: str) -> list[str]:
    source = LogSource(paths)
    for conversation in source.conversations():
        while conversation.next_turn(None) is not None:
            pass
    assert [note for note in source.outcome.notes if "sorted by time" in note or "more files" in note] == [
        *source.outcome.times
    ]
    return list(source.outcome.times)


def test_the_first_line_and_the_number_are_told(tmp_path: Path) -> None:
    path = a_log(tmp_path / "p.jsonl", [0.0, 3.0, 1.5, 2.0, 4.0])
    assert notes_of(path) == [f"{path}:3: sorted by time: 2 requests earlier than a previous one"]


def test_nothing_is_told_of_other_files(tmp_path: Path) -> None:
    """The newest first is a way to write a log, and no clock that goes back; what has no times is not put in order."""
    for times in [[0.0, 1.0, 1.0, 2.0], [3.0, 2.0, 1.0], [5.0], [0.0, None, -1.0, 2.0]]:
        assert notes_of(a_log(tmp_path / "p.jsonl", times)) == []


def test_each_file_is_told_of_and_of_many_the_first_ones(tmp_path: Path) -> None:
    paths = [a_log(tmp_path / f"{number}.jsonl", [number, number + 2.0, number + 1.0]) for number in range(7)]
    *named, rest = notes_of(*paths)
    assert [note.partition(": ")[0] for note in named] == [f"{path}:3" for path in paths[:5]]
    assert rest == "and 2 more files"


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_late_are_those_behind_a_later_one(times: list[int]) -> None:
    survey = Survey()
    for number, time in enumerate(times):
        survey.places.add(10 * number, 5, number + 1, 1)
        survey.timed(float(time))
    late = [number for number, time in enumerate(times) if time < max(times[: number + 1])]
    order = survey.order()
    if not late or times == sorted(times, reverse=True):
        assert order is None or order.late == 0
    else:
        assert order is not None
        assert (order.late, order.line) == (len(late), late[0] + 1)


def test_commands_say_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in [["what-if"], ["what-if", "--sweep", "ttl"], ["profile", "--dry-run"]]:
        path = a_log(tmp_path / "p.jsonl", [0.0, 3.0, 1.5, 4.0])
        assert run([*command, path, "--no-config", "--width", "300"]) == 0
        assert capsys.readouterr().out.count("sorted by time: 1 request earlier") == 1
