"""Samples of a run: from all of it, the same in each run, within a bound."""

from __future__ import annotations

from kvtool.profiler.run.samples import SampleBook
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn


def sampled(count: int, size: int) -> list[str]:
    book = SampleBook()
    for number in range(count):
        book.add(Turn("g", text=Traced(f"{number} ".ljust(size, "x"))))
    return [str(turn.text).partition(" ")[0] for turn in book.of_group("g")]


def test_turns_of_the_whole_run_are_kept_in_order() -> None:
    found = [int(each) for each in sampled(20_000, 50)]
    assert found == sorted(set(found))
    assert found[:128] == list(range(128))
    assert len(found) == 256
    later = found[128:]
    assert all(any(low <= each < low + 5_000 for each in later) for low in range(0, 20_000, 5_000))
    assert found == [int(each) for each in sampled(20_000, 50)]


def test_text_is_bounded_and_late_turns_are_kept_all_the_same() -> None:
    found = [int(each) for each in sampled(400, 300_000)]
    assert len(found) <= 14
    assert max(found) > 200
    assert len(sampled(3, 9_000_000)) == 2


def test_text_in_parts_of_messages_counts_as_much() -> None:
    book = SampleBook()
    for number in range(10):
        inner = [{"type": "text", "text": f"{number}".ljust(900_000, "x")}]
        book.add(Turn("g", messages=[{"role": "user", "content": [{"type": "tool_result", "content": inner}]}]))
    assert len(book.of_group("g")) <= 6
