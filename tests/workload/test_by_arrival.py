"""Several logs as one stream: whatever the files, what arrives is what one log of all of it has."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.workload.inputs import open_inputs
from kvtool.workload.logs import source_files
from kvtool.workload.logs.log_pass import ArrivalCounts, TimedLog, by_arrival
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.turn import Turn

Records = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Event:
    arrival: float | None
    name: str


def merged(*logs: Sequence[tuple[float | None, str]]) -> tuple[list[str], ArrivalCounts]:
    counts = ArrivalCounts()

    def begin(events: Sequence[tuple[float | None, str]]) -> Iterator[Event | KvtoolError]:
        return (Event(*each) for each in events)

    found = by_arrival([TimedLog(log[0][0] or 0.0, partial(begin, log)) for log in logs], counts)
    return [each.name for each in found if isinstance(each, Event)], counts


def test_records_come_in_the_order_of_their_times() -> None:
    assert merged([(1, "a"), (4, "d")], [(2, "b"), (3, "c"), (9, "e")])[0] == ["a", "b", "c", "d", "e"]


def test_equal_times_come_in_the_order_of_the_logs() -> None:
    assert merged([(1, "a"), (2, "c")], [(1, "b"), (2, "d")])[0] == ["a", "b", "c", "d"]


def test_a_record_that_is_late_comes_right_after_the_one_before_it() -> None:
    names, counts = merged([(1, "a"), (8, "x"), (3, "late"), (9, "z")], [(2, "b"), (7, "c"), (8.5, "d")])
    assert names == ["a", "b", "c", "x", "late", "d", "z"]
    assert counts == ArrivalCounts(late=1)


def test_a_record_without_a_time_comes_right_after_the_one_before_it() -> None:
    names, counts = merged([(1, "a"), (None, "a2"), (6, "z")], [(2, "b"), (3, "c")])
    assert names == ["a", "a2", "b", "c", "z"]
    assert counts == ArrivalCounts(untimed=1)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_however_a_log_is_split_it_is_the_same_stream(files: list[int]) -> None:
    parts: dict[int, list[tuple[float | None, str]]] = {}
    for time, file in enumerate(files):
        parts.setdefault(file, []).append((float(time), str(time)))
    names, counts = merged(*parts.values())
    assert names == [str(time) for time in range(len(files))]
    assert counts == ArrivalCounts()


def test_a_log_is_opened_when_its_time_has_come_and_no_sooner() -> None:
    opened: list[str] = []

    def begin(name: str, times: Sequence[float]) -> Iterator[Event | KvtoolError]:
        opened.append(name)
        for time in times:
            yield Event(time, f"{name}{time:g}")
        opened.remove(name)

    logs = {"c": [20.0, 21.0], "a": [0.0, 5.0], "b": [4.0, 8.0]}
    found = by_arrival(
        [TimedLog(times[0], partial(begin, name, times)) for name, times in logs.items()], ArrivalCounts()
    )
    seen = [(each.name, "".join(opened)) for each in found if isinstance(each, Event)]
    assert seen == [("a0", "a"), ("b4", "ab"), ("a5", "ab"), ("b8", "b"), ("c20", "c"), ("c21", "c")]


# Logs in files


def chats(count: int) -> Records:
    """A log of two services, with conversations that go on over many records."""
    rng = random.Random(3)
    found: Records = []
    for number in range(count):
        session = rng.randrange(6)
        service = ("billing", "search")[session % 2]
        messages = [{"role": "system", "content": f"You are the {service} assistant. " * 8}]
        messages += [{"role": "user", "content": f"question {each}"} for each in range(number // 6 + 1)]
        found.append(
            {
                "timestamp": 1_760_000_000 + number * 1.5,
                "id": f"r{number}",
                "session_id": f"s{session}",
                "service": service,
                "messages": messages,
            }
        )
    return found


def write(path: Path, records: Records) -> str:
    data = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = zstandard.ZstdCompressor().compress(data)
    path.write_bytes(data)
    return str(path)


def split(folder: Path, records: Records, count: int, seed: int) -> list[str]:
    """The log over so many files, each record in a random one; plain, .gz and .zst in turn."""
    rng = random.Random(seed)
    parts: list[Records] = [[] for _ in range(count)]
    for record in records:
        rng.choice(parts).append(record)
    suffixes = ("", ".gz", ".zst")
    return [write(folder / f"part-{at}.jsonl{suffixes[at % 3]}", part) for at, part in enumerate(parts) if part]


def turns_of(source: LogSource) -> list[Turn]:
    found: list[Turn] = []
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            found.append(turn)
    return found


def told(turns: Sequence[Turn]) -> list[tuple[Any, ...]]:
    return [(turn.id, turn.session, turn.index, turn.arrival, turn.messages) for turn in turns]


def test_a_log_over_several_files_is_the_log(tmp_path: Path) -> None:
    for count in [2, 5, 90]:
        records = chats(120)
        whole = LogSource([write(tmp_path / "one.jsonl", records)])
        parts = LogSource(split(tmp_path, records, count, seed=count))
        assert parts.merged
        for _ in range(2):
            assert told(turns_of(parts)) == told(turns_of(whole))
        assert parts.outcome.notes == [f"{len(parts.files.paths)} files, as one stream by arrival"]


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_many_files_take_few_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them hold the same hours, so that all are read side by side."""
    monkeypatch.setattr(source_files, "_MOST_OPEN", 4)
    paths = split(tmp_path, chats(120), 40, seed=1)
    source = LogSource(paths)
    before = descriptors()
    conversations = source.conversations()
    most, shares = 0, []
    for _ in conversations:
        most = max(most, descriptors() - before)
        shares.append(source.share_read() or 0.0)
    assert most <= 2
    even = [done / len(shares) for done in range(1, len(shares) + 1)]
    assert shares == pytest.approx(
        even, abs=len(paths) / len(shares)
    )  # one record of each file is read ahead, not its buffer
    assert source.share_read() == 1.0


def test_files_without_times_are_read_one_after_another_and_that_is_told(tmp_path: Path) -> None:
    timed = write(tmp_path / "a.jsonl", [{"prompt": "late", "timestamp": 9}, {"prompt": "later", "timestamp": 10}])
    untimed = write(tmp_path / "b.jsonl", [{"prompt": "whenever"}])
    early = write(tmp_path / "c.jsonl", [{"prompt": "early", "timestamp": 1}])
    source = LogSource([timed, untimed, early])
    assert [str(turn.text) for turn in turns_of(source)] == ["late", "later", "whenever", "early"]
    assert source.outcome.notes == [f"3 files, one after another: {untimed} has no arrival times"]
    both = LogSource([untimed, untimed])
    turns_of(both)
    assert both.outcome.notes[0] == "2 files without arrival times, one after another"


def test_times_that_go_back_are_put_in_order(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", [{"prompt": str(time), "timestamp": time} for time in (1, 6, 4, 5, 9)])
    b = write(tmp_path / "b.jsonl", [{"prompt": str(time), "timestamp": time} for time in (2, 8)])
    source = LogSource([a, b])
    assert [str(turn.text) for turn in turns_of(source)] == ["1", "2", "4", "5", "6", "8", "9"]
    assert source.outcome.notes == ["2 files, as one stream by arrival", *source.outcome.times]


def test_one_log_is_read_in_the_order_of_its_times(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"prompt": str(time), "timestamp": time} for time in (5, 1, 3)])
    source = LogSource([path])
    assert [(str(turn.text), turn.arrival) for turn in turns_of(source)] == [("1", 0.0), ("3", 2.0), ("5", 4.0)]
    assert source.outcome.notes == source.outcome.times


def test_ids_of_two_files_are_told_apart(tmp_path: Path) -> None:
    a = write(
        tmp_path / "a.jsonl", [{"prompt": "a", "timestamp": 1, "id": "x"}, {"prompt": "b", "timestamp": 3, "id": "y"}]
    )
    b = write(tmp_path / "b.jsonl", [{"prompt": "c", "timestamp": 2, "id": "x"}, {"prompt": "d", "timestamp": 4}])
    source = LogSource([a, b])
    assert [turn.id for turn in turns_of(source)] == ["x", f"{b}:x", "y", f"{b}:2:0"]
    assert "1 request with an id that another file also contains: renamed FILE:ID" in source.outcome.notes


def test_a_bad_file_hides_no_other(tmp_path: Path) -> None:
    good = write(tmp_path / "a.jsonl", [{"prompt": "a", "timestamp": 1}, {"prompt": "b", "timestamp": 5}])
    bad = tmp_path / "b.jsonl"
    bad.write_text(
        '{"prompt": "c", "timestamp": 2}\n{"nothing": 1}\n{"prompt": "d", "timestamp": 3}\n', encoding="utf-8"
    )
    cut = tmp_path / "c.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"prompt": "e", "timestamp": 4}\n' * 9)[:-12])
    source = LogSource([good, str(bad), str(cut)], keep_going=True)
    for _ in range(2):
        assert [str(turn.text) for turn in turns_of(source)][:3] == ["a", "c", "b"]
        assert {path: str(error.place) for path, error in source.outcome.failed.items()} == {
            str(bad): f"{bad}:2:1",
            str(cut): str(cut),
        }
    assert sum(note.startswith("not read completely: ") for note in source.outcome.notes) == 2
    with pytest.raises(KvtoolError, match="no prompt found"):
        turns_of(LogSource([good, str(bad)]))


def test_of_many_bad_files_some_are_named(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.jsonl", [{"prompt": "a"}])]
    for number in range(9):
        paths.append(str(tmp_path / f"b{number}.jsonl"))
        Path(paths[-1]).write_text("{}\n", encoding="utf-8")
    source = LogSource(paths, keep_going=True)
    turns_of(source)
    assert len(source.outcome.failed) == 9
    assert [note.partition(":")[0] for note in source.outcome.notes[1:]] == ["not read completely"] * 5 + ["and 4 more"]


def test_a_pass_that_ends_early_takes_nothing_from_what_is_told(tmp_path: Path) -> None:
    """Chat templates are tried with the first requests only, after the run that is reported."""
    good = write(tmp_path / "a.jsonl", [{"prompt": "a"}])
    bad = tmp_path / "b.jsonl"
    bad.write_text("{}\n", encoding="utf-8")
    source = LogSource([good, str(bad)], keep_going=True)
    turns_of(source)
    next(source.conversations())
    assert list(source.outcome.failed) == [str(bad)]


def test_where_no_file_can_be_read_the_first_error_is_raised(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("{}\n", encoding="utf-8")
    source = LogSource([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], keep_going=True)
    with pytest.raises(KvtoolError, match="no prompt found") as caught:
        turns_of(source)
    assert str(caught.value.place) == f"{tmp_path / 'a.jsonl'}:1:1"


def test_a_limit_is_of_the_stream(tmp_path: Path) -> None:
    records = chats(60)
    whole = LogSource([write(tmp_path / "one.jsonl", records)], LogOptions(limit=17))
    parts = LogSource(split(tmp_path, records, 4, seed=2), LogOptions(limit=17))
    assert told(turns_of(parts)) == told(turns_of(whole))


@pytest.mark.parametrize("relative_first", [False, True])
def test_files_of_two_clocks_are_refused_with_both_places(relative_first: bool, tmp_path: Path) -> None:
    dated = [{"prompt": "a", "timestamp": 1_780_000_000 + at} for at in range(3)]
    counted = [{"prompt": "b", "timestamp": 5.0 * at} for at in range(4)]
    names = ("a.jsonl", "b.jsonl") if relative_first else ("b.jsonl", "a.jsonl")
    paths = [write(tmp_path / names[0], counted), write(tmp_path / names[1], dated)]
    with pytest.raises(KvtoolError, match=r"this file has dates, but .* has relative times") as caught:
        open_inputs(sorted(paths), LogOptions(), seed=None)
    assert str(caught.value.place) == f"{paths[1]}:3"
    assert f"{paths[0]}:4" in caught.value.message
    open_inputs([paths[1]], LogOptions(), seed=None)


def test_a_time_that_is_missing_makes_no_other_clock(tmp_path: Path) -> None:
    """Some tools write 0 where they know no time."""
    records = [{"prompt": "a", "timestamp": 0 if at == 1 else 1_780_000_000 + at} for at in range(3)]
    paths = [write(tmp_path / name, records) for name in ("a.jsonl", "b.jsonl")]
    open_inputs(paths, LogOptions(), seed=None)


@given(st.lists(st.integers(0, 4), min_size=40, max_size=40), st.integers(0, 2))
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_split_of_a_log_of_sessions_is_the_log(tmp_path: Path, files: list[int], among: int) -> None:
    """Whatever file a record stands in, and however few may be open: its session goes on in the others."""
    records = [
        {**each, "session_id": f"s{at % 3}", "timestamp": 1_780_000_000 + at / 4}
        for at, each in enumerate(chats(len(files)))
    ]
    parts: dict[int, Records] = {}
    for number, record in zip(files, records, strict=True):
        parts.setdefault(number, []).append(record)
    order = sorted(parts, key=lambda number: (number * 7 + among) % 5)
    paths = [write(tmp_path / f"{number}.jsonl", parts[number]) for number in order]
    whole = turns_of(LogSource([write(tmp_path / "whole.jsonl", records)]))

    def seen(turns: Sequence[Turn]) -> list[tuple[Any, ...]]:
        return [(turn.session, turn.index, turn.arrival, turn.messages) for turn in turns]

    assert seen(turns_of(LogSource(paths))) == seen(whole)


def test_how_late_a_request_of_transcripts_can_come_is_known_before_they_are_read(tmp_path: Path) -> None:
    """A subagent's calls are in the file of its session, each when it is over."""
    files = []
    for number, times in enumerate(((0, 5, 2, 9), (1, 3, 8))):
        records, parent = [], None
        for at, second in enumerate(times):
            shared = {"sessionId": f"s{number}", "timestamp": f"2026-11-20T10:00:{second:02d}Z", "parentUuid": parent}
            records.append(
                {**shared, "type": "user", "uuid": f"{number}u{at}", "message": {"role": "user", "content": "q"}}
            )
            parent = f"{number}a{at}"
            answer = {"id": f"m{number}.{at}", "role": "assistant", "model": "claude-sonnet-4-6", "content": "yes"}
            usage = {"input_tokens": 9, "output_tokens": 1}
            shared["parentUuid"] = f"{number}u{at}"
            records.append({**shared, "type": "assistant", "uuid": parent, "message": {**answer, "usage": usage}})
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_text("".join(json.dumps(each) + "\n" for each in records))
    source = LogSource([str(each) for each in files])
    turns = [turn for each in source.conversations() if (turn := each.next_turn(None)) is not None]
    arrivals = [turn.arrival or 0.0 for turn in turns]
    assert arrivals == [0, 1, 3, 5, 2, 8, 9]
    assert source.lateness == pytest.approx(3.0, abs=0.01)
    chat = {"model": "gpt-5.1", "messages": [{"role": "user", "content": "q"}], "created": 1_795_000_000}
    (tmp_path / "chat.jsonl").write_text(json.dumps(chat) + "\n")
    assert LogSource([str(tmp_path / "chat.jsonl")]).lateness is None
