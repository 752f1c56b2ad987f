"""One judge: profile, lint and diff-prompts give the same code and place for the same two prompts, whatever differs in them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import kvtool

WORDS = [
    "policy",
    "answer",
    "customer",
    "support",
    "refund",
    "order",
    "ticket",
    "summary",
    "always",
    "please",
    "detail",
    "chart",
]
Lines = list[str]


def sentence(rng: random.Random, words: int = 9) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words)).capitalize() + "."


def moved_line(rng: random.Random, a: Lines, b: Lines) -> None:
    at = rng.randint(2, 5)
    b.insert(at + rng.randint(3, 6), b.pop(at))


def shuffled_list(rng: random.Random, a: Lines, b: Lines) -> None:
    items = [f"- {sentence(rng, 7)}" for _ in range(rng.randint(4, 7))]
    a[3:3], b[3:3] = items, [*items[1:], items[0]] if rng.random() < 0.5 else items[::-1]


def clock(rng: random.Random, a: Lines, b: Lines) -> None:
    words = rng.choice(("Current time: {}:{}", "It is 2026-03-14T{}:{}:09Z.", "Now: {}:{} on the clock"))
    for each in (a, b):
        each.insert(2, words.format(rng.randint(10, 23), rng.randint(10, 59)))
    b[2] = a[2].replace("1", "2", 1) if a[2] == b[2] else b[2]


def changed_value(rng: random.Random, a: Lines, b: Lines) -> None:
    name = rng.choice(("Tone", "Region", "Plan", "Team", "Customer", "Locale", "Ticket"))
    for each, value in zip((a, b), rng.sample(WORDS, 2), strict=True):
        each.insert(3, f"{name}: {value}")


def changed_number(rng: random.Random, a: Lines, b: Lines) -> None:
    words = rng.choice(("You have {} points.", "Build {} of the handbook.", "Room {} is free."))
    for each, value in zip((a, b), rng.sample(range(1_000, 9_999), 2), strict=True):
        each.insert(2, words.format(value))


def request_id(rng: random.Random, a: Lines, b: Lines) -> None:
    for each in (a, b):
        each.insert(1, f"Request: {uuid.UUID(int=rng.getrandbits(128))}")


def inserted_block(rng: random.Random, a: Lines, b: Lines) -> None:
    b[4:4] = [sentence(rng) for _ in range(rng.randint(1, 4))]


def dropped_block(rng: random.Random, a: Lines, b: Lines) -> None:
    del b[4 : 4 + rng.randint(1, 3)]


def two_values(rng: random.Random, a: Lines, b: Lines) -> None:
    a[8], b[8] = (f"Tone: {value}" for value in rng.sample(WORDS, 2))
    changed_number(rng, a, b)


CHANGES = (
    moved_line,
    shuffled_list,
    clock,
    changed_value,
    changed_number,
    request_id,
    inserted_block,
    dropped_block,
    two_values,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_profile_and_diff_give_one_code_and_place(
    change: Callable[[random.Random, Lines, Lines], None], tmp_path: Path, bytes_json: str
) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    shared = [sentence(rng) for _ in range(16)]
    sides = list(shared), list(shared)
    change(rng, *sides)
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, lines in zip(paths, sides, strict=True):
        path.write_text("\n".join(lines) + "\n")
    found = kvtool.profile(paths, block_size=1, tokenizer=bytes_json).findings
    first = kvtool.diff_prompts(*paths, block_size=1, tokenizer=bytes_json).first
    assert found, seed
    assert first is not None, seed
    at_first = min(found, key=lambda each: each.line)
    assert first.kind.code == at_first.code, seed
    spots = [(spot.path, spot.line) for spot in (first.a, first.b) if spot is not None]
    assert (at_first.path, at_first.line) in spots, seed
