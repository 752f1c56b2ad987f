"""One planted prompt: what is sent, what is wrong with it, and the same requests as they would be with the ideal text."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scenarios.prose import question, reply

Record = dict[str, Any]
Pieces = tuple[str, ...]
"""What a unit says around its values: the unit is whole where they stand together, in this order, with only values between them."""
Best = Literal["move", "normalize", "order", "words", "none"]
"""The best fix. "words": nobody can make it without the author, so it is said, and nothing is moved; "none": a trap."""
MARK = "\0"
"""Stands for the value in the text of a unit."""


@dataclass(frozen=True)
class Cause:
    """What is to be found: one of the codes, on one of the lines (of any request), or in a part such as `tools`."""

    codes: tuple[str, ...]
    lines: frozenset[str] = frozenset()
    part: str = ""


@dataclass(frozen=True)
class Case:
    """A log with its truth.

    `ideals` are ways to write a request ideally: the best of them, run again, is the optimum. `units` are those of a request that
    must be whole after the fix. `says`: the finding must have one of these words. `warned`: a fix must come with a warning.
    `measured`: what is only said must have been tried. `or_words`: instead of the fix that is best, it may be said, and measured.
    """

    kind: str
    name: str
    seed: int
    requests: int
    body: Callable[[int], Record]
    ideals: tuple[Callable[[int], Record], ...]
    causes: tuple[Cause, ...]
    best: Best
    units: Callable[[int], list[Pieces]]
    says: tuple[str, ...] = ()
    warned: bool = False
    measured: bool = False
    or_words: bool = False

    def record(self, number: int) -> Record:
        """The request, as it stands in the log."""
        return self.body(number)

    def write(self, path: Path, *, first: int = 0) -> None:
        """The log, from request `first` on: another `first` is held-out traffic of the same prompt."""
        write_rows(path, [self.body(first + number) for number in range(self.requests)])


def write_rows(path: Path, rows: Sequence[Record]) -> None:
    """A chat log of these requests."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8", newline="\n")


@dataclass(frozen=True)
class Planted:
    """A unit of a prompt that varies: `make` gives its text in a request."""

    make: Callable[[int], str]
    pieces: Callable[[int], Pieces]
    cause: Cause | None
    steady: Callable[[int], str] | None = None
    """The unit as it would be ideally in its place; None: it moves to the end."""
    told: Callable[[int], str] | None = None
    """What then stands at the end in its stead."""


@dataclass(frozen=True)
class Whole:
    """Constant text that is a unit of its own."""

    text: str


Block = str | Whole | Planted


def slotted(text: str, values: Callable[[int], str], codes: tuple[str, ...], requests: int) -> Planted:
    """A unit whose value stands wherever `text` has a mark; its lines with marks are the place of the cause."""
    marked = [line for line in text.split("\n") if MARK in line]
    lines = frozenset(line.replace(MARK, values(number)) for line in marked for number in range(requests))
    pieces = tuple(text.split(MARK))
    return Planted(lambda number: text.replace(MARK, values(number)), lambda _: pieces, Cause(codes, lines))


def prompt_case(
    chance: random.Random,
    kind: str,
    name: str,
    seed: int,
    blocks: Sequence[Block],
    best: Best,
    *,
    requests: int = 24,
    gap: str = "\n\n",
    chat: bool | None = None,
    **more: Any,
) -> Case:
    """A log of one prompt, made of blocks, with another question in each request; in some, the turns of a session follow."""
    sessions = chance.choice((3, 4)) if (chance.random() < 0.2 and chat is None) or chat else 10**9
    planted = [block for block in blocks if isinstance(block, Planted)]

    def text(number: int, *, ideal: bool) -> str:
        shown = []
        for block in blocks:
            if not isinstance(block, Planted):
                shown.append(block.text if isinstance(block, Whole) else block)
            elif not ideal:
                shown.append(block.make(number))
            elif block.steady is not None:
                shown.append(block.steady(number))
        return gap.join(part for part in shown if part)

    def ends(number: int) -> list[str]:
        moved = [block.make(number) for block in planted if block.steady is None]
        return [*moved, *(block.told(number) for block in planted if block.told is not None)]

    def body(number: int, system: str, end: Sequence[str] = ()) -> Record:
        session = number % sessions
        messages = [{"role": "system", "content": system}]
        for earlier in range(session, number, sessions):
            messages.append({"role": "user", "content": question(seed, earlier)})
            messages.append({"role": "assistant", "content": reply(seed, earlier)})
        messages.append({"role": "user", "content": "\n".join([question(seed, number), *end])})
        return {"session_id": f"s{session}", "messages": messages}

    def units(number: int) -> list[Pieces]:
        own = [block.pieces(number) for block in planted]
        return [*own, *((block.text,) for block in blocks if isinstance(block, Whole))]

    def behind(number: int) -> Record:
        return body(number, text(number, ideal=True), ends(number))

    def last(number: int) -> Record:
        return body(number, gap.join([text(number, ideal=True), *ends(number)]))

    return Case(
        kind,
        name,
        seed,
        requests,
        lambda number: body(number, text(number, ideal=False)),
        (behind, last),
        tuple(block.cause for block in planted if block.cause is not None),
        best,
        units,
        **more,
    )
