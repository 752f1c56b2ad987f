"""Lines of a trace that are like most of them are read in another way, and come out the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.workload.logs.files import log_file
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.turn import Turn

FIRST = {"timestamp": 5, "input_length": 1000, "output_length": 3, "hash_ids": [1, 2]}

whole = st.one_of(st.integers(0, 1600), st.sampled_from([-1, 1 << 31, (1 << 31) - 1, 12.0, 12.5, True, None, "7", [1]]))
times = st.one_of(
    whole, st.sampled_from([1_700_000_000, 1_700_000_000_123, "2026-01-05T09:00:00Z", "x", 1e300, 1.5, -3])
)
blocks = st.one_of(
    st.lists(st.integers(0, 9), max_size=4),
    st.sampled_from([[1, True], [1, 2.0], [1, None], [1 << 64], [-(1 << 63)], "1", {}, None, [[1]]]),
)
records = st.fixed_dictionaries(
    {},
    optional={
        "timestamp": times,
        "input_length": st.one_of(st.integers(1, 2048), whole),
        "output_length": whole,
        "hash_ids": blocks,
        "session_id": st.sampled_from(["s", 3]),
        "id": st.sampled_from(["a", 7]),
        "cache_salt": st.just("x"),
        "chat_id": st.just(1),
        "extra": st.just(0),
    },
)
usual = st.fixed_dictionaries({
    "timestamp": times, "input_length": st.integers(1, 1600), "output_length": st.integers(0, 9),
    "hash_ids": st.lists(st.integers(0, 9), max_size=3),
})  # fmt: skip


def read(path: Path, *, plainly: bool, format_: str | None) -> tuple[list[Turn], list[str], int]:
    """Turns, formats, and how many lines were skipped."""
    with pytest.MonkeyPatch.context() as patch:
        if not plainly:
            patch.setattr(log_file, "plain_mooncake", lambda *_: None)
        source = LogSource([str(path)], LogOptions(on_bad_line="skip", format=format_))
        turns: list[Turn] = []
        for conversation in source.conversations():
            while (turn := conversation.next_turn(None)) is not None:
                turns.append(turn)
        return turns, sorted(source.formats.values()), source.skipped


@given(
    st.lists(st.one_of(usual, usual, records), max_size=8),
    st.sampled_from([None, None, "mooncake"]),
    st.sampled_from(["\n", "\n\n", "\r\n"]),
)
def test_plain_lines_are_read_alike(
    tmp_path_factory: pytest.TempPathFactory, found: list[Any], format_: str | None, between: str
) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.jsonl"
    path.write_text(between.join(json.dumps(each) for each in [FIRST, *found]) + "\n")
    assert read(path, plainly=True, format_=format_) == read(path, plainly=False, format_=format_)


def test_most_lines_are_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the first, which says what format the file is in."""
    careful = log_file.read_raw
    seen: list[int] = []

    def noted(raw: Any, *rest: Any) -> Any:
        seen.append(raw.line)
        return careful(raw, *rest)

    monkeypatch.setattr(log_file, "read_raw", noted)
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(FIRST | {"timestamp": n}) + "\n" for n in range(5)))
    assert len(list(LogSource([str(path)], LogOptions()).conversations())) == 5
    assert seen == [1]


def test_a_bad_line_among_plain_ones_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(FIRST) + "\n" + json.dumps(FIRST | {"input_length": 5000}) + "\n")
    with pytest.raises(KvtoolError) as caught:
        list(LogSource([str(path)], LogOptions()).conversations())
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (2, 34)
