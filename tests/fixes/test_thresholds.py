"""Each threshold of fixes decides something: changed by half, a small scenario has another result."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache, partial

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.slots import Slot
from kvtool.fixes.fix_thresholds import THRESHOLDS
from kvtool.fixes.moves.context_blocks import ContextBlocks
from kvtool.fixes.moves.inserted_content import inserted_begin
from kvtool.fixes.moves.movable_unit import movable_unit
from kvtool.fixes.moves.passages_last import PassagesLast
from kvtool.fixes.moves.question_text import is_tail, leads_over, nearly_all_differ
from kvtool.fixes.moves.split_text import is_in_many
from kvtool.profiler.reported.cheapest_marks import saves_enough
from kvtool.text.traced import Origin, Traced, concat
from kvtool.workload.turn import Turn
from tests.changed_thresholds import changed, changes

_VALUE = "10:31"


def _moved(text: str, common: list[str] | None = None, *, known: bool = True) -> object:
    start = text.index(_VALUE)
    return movable_unit(text, start, start + len(_VALUE), [(start, start + len(_VALUE))], known=known, common=common)


def _content(words: int) -> object:
    """Where content begins that so many words are inserted as."""
    value = Traced.of(" ".join(["boat"] * words), Origin("p.j2", 2, 5, verbatim=False, variable="note"))
    return inserted_begin(concat(["Help them.\nNote: ", value, "\nGo home."]), 0, [])


def _passages(requests: int, blocks: int, often: int, own: int, after: int) -> object:
    """What is learned of requests, of which so many have a block of passages before the instructions."""
    rules = ("Answer in the voice of the library. " * 40)[:after]
    turns = []
    for number in range(requests):
        lines = [
            f"- Reader {number * 7 + line} gives back the key of hall {number + line} in time." for line in range(own)
        ]
        lines[1:1] = [f"- hall {line}" for line in range(6 - own)]
        lines += ["- Some readers of the hall pay a small fee."] * (number < often)
        said = "\n".join(["Rules that were found:", *lines, "", ""]) if number < blocks else ""
        text = f"You help the library.\n\n{said}{rules}"
        turns.append(Turn("g", messages=[{"role": "system", "content": text}], index=number))
    cause = SlotCause("g", Slot("log", 1, 1, part="messages[0] (system)", logged=True), OTHER, None, 0, "", 0, 0, 0)
    return PassagesLast.learn(cause, turns)


def _context(requests: int) -> object:
    """What is learned of 20 requests of which so many have a block of context."""
    turns = []
    for number in range(20):
        text = f"Notes:\n- {number}\n\nWhy?" if number < requests else "Why?"
        turns.append(Turn("g", messages=[{"role": "user", "content": text}], index=number))
    return ContextBlocks.learn(turns)


def _scenarios() -> dict[str, Callable[[], object]]:
    """Scenarios by name, each with what computes its result."""
    found: dict[str, Callable[[], object]] = {}
    for saved in (0.7, 1.2):
        found[f"marks save {saved}%"] = partial(saves_enough, Decimal(100), Decimal(100) - Decimal(str(saved)))
    for requests in range(2, 16):
        found[f"context {requests}"] = partial(_context, requests)
    for words in (*range(1, 9), 11, 13, 15, 17, 20, 23):
        beside = " ".join(["boat"] * words)
        found[f"fact {words}"] = partial(
            _moved, f"Help them.\n\nThe clock of the {beside} shows 10:31.\n\nBe kind to them."
        )
        found[f"role {words}"] = partial(_moved, f"You are the {beside} at 10:31.\n\nBe kind to them.")
        found[f"a part {words}"] = partial(_moved, f"You are the {beside} at 10:31.\n\nBe kind to them.", known=False)
        found[f"duty {words}"] = partial(_moved, f"Help them.\n\nYou must {beside} at 10:31.\n\nBe kind to them.")
        found[f"cue {words}"] = partial(leads_over, f"Now name {beside}:")
        for of in (100, 300, 600, 1_000):
            found[f"tail {words} of {of}"] = partial(is_tail, 4 * words, of)
        found[f"content {words}"] = partial(_content, words)
        found[f"few {words}"] = partial(is_tail, words, 10)
    for count in range(1, 8):
        rules = "\n".join(["Be brief in all that you say."] * count)
        items = "\n".join(["- Be brief in all that you say."] * count)
        found[f"rules {count}"] = partial(_moved, f"Help them.\n\n## Now\n10:31\n{rules}\n\n## Then\nGo home.")
        found[f"items {count}"] = partial(_moved, f"Help them.\n\n- 10:31\n{items}\n\nGo home.")
        for sentence in ("", "Be brief in all that you say.\n"):
            boats = "\n".join(f"Boat {n}: at sea" for n in range(count - 1))
            said = f"<boats>\nIt is 10:31.\n{sentence}{boats}\n</boats>"
            found[f"data {count} {sentence}"] = partial(_moved, f"Help.\n\n{said}\n\nGo home.")
        tags = "\n".join(["<boats>It is 10:31.", *(f"Boat {n}: at sea" for n in range(count))])
        found[f"tags {count}"] = partial(_moved, f"Help.\n\n{tags}</boats>\n\nGo home.")
        named = "\n".join(["Ada Lovelace is here now."] * count)
        found[f"many {count}"] = partial(is_in_many, named, 0, len("Ada Lovelace"))
        found[f"differ {count}"] = partial(nearly_all_differ, [str(n) for n in range(count)])
        found[f"same {count}"] = partial(nearly_all_differ, [str(min(n, count)) for n in range(8)])
        found[f"passages, requests {count}"] = partial(_passages, 2 * count, 2 * count, 0, 6, 600)
        found[f"passages, blocks {count}"] = partial(_passages, 10, 2 * count, 0, 6, 600)
        found[f"passages, often {count}"] = partial(_passages, 10, 10, 2 * count, 5, 600)
        found[f"passages, own {count}"] = partial(_passages, 10, 10, 0, min(count, 6), 600)
        found[f"passages, after {count}"] = partial(_passages, 10, 10, 0, 6, 60 * count)
    return found


@cache
def _usual() -> dict[str, object]:
    return {name: compute() for name, compute in _scenarios().items()}


def test_a_threshold_changed_by_half_changes_a_result() -> None:
    for name, value in changes(THRESHOLDS):
        usual = _usual()
        with changed(THRESHOLDS, name, value):
            assert any(compute() != usual[scenario] for scenario, compute in _scenarios().items())
