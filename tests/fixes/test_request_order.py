"""The order of independent requests: what begins alike stands together, and sessions are left alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtool.fixes.orders import request_order as module
from kvtool.fixes.orders.request_order import ReorderedSource, depth_first, reordered, request_order_fix
from kvtool.text.traced import Origin, Traced
from kvtool.workload.turn import Conversation, HashedPrompt, Ids, Recorded, Turn
from kvtool.workload.yaml.sessions import Interleaved


def ids(*pieces: tuple[int, int]) -> Ids:
    """So many tokens of each number."""
    return np.concatenate([np.full(count, number, dtype=np.int32) for number, count in pieces])


def order_of(prompts: Sequence[Ids]) -> list[int]:
    return depth_first(prompt.tobytes() for prompt in prompts)


def test_prompts_of_one_document_stand_together() -> None:
    first, second = (7, 100), (8, 100)
    prompts = [
        ids(first, (1, 20)),
        ids(second, (2, 20)),
        ids(first, (3, 20)),
        ids(second, (4, 20)),
        ids((9, 5)),
        ids(first, (5, 20)),
    ]
    assert order_of(prompts) == [0, 2, 5, 1, 3, 4]


def test_a_branch_within_a_branch() -> None:
    prompts = [ids((7, 50), (part, 50), (n, 9)) for n, part in enumerate([1, 2, 1, 2, 1])]
    assert order_of(prompts) == [0, 2, 4, 1, 3]


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([8, 16, 40])), max_size=4), max_size=12))
def test_the_order_is_a_walk_through_the_trie(shapes: list[list[tuple[int, int]]]) -> None:
    prompts = [ids(*shape) if shape else np.empty(0, dtype=np.int32) for shape in shapes]
    order = order_of(prompts)
    assert sorted(order) == list(range(len(prompts)))
    assert order_of([prompts[index] for index in order]) == list(range(len(prompts)))
    for depth in (16, 24, 36, 54, 81):  # at each depth that is looked at, prompts with one beginning are neighbours
        beginnings = [prompts[index][:depth].tobytes() for index in order if len(prompts[index]) >= depth]
        assert len([key for key, _ in groupby(beginnings)]) == len(set(beginnings))


class Listed:
    """A source of turns; counts how often it was read."""

    def __init__(self, turns: Sequence[Sequence[Turn]]) -> None:
        self.turns = turns
        self.read = 0

    def conversations(self) -> Iterator[Conversation]:
        self.read += 1
        for turns in self.turns:
            yield Recorded(iter(turns))


def turn(text: str, n: int, **more: str) -> Turn:
    return Turn("g", text=Traced(f"{text * 100} {n}"), id=f"{text}{n}", **more)  # type: ignore[arg-type]  # only session and salt


def names(source: object) -> list[str]:
    found = []
    for conversation in source.conversations():  # type: ignore[attr-defined]  # a Source
        first = conversation.next_turn(None)
        assert first is not None
        found.append(first.id)
    return found


def test_a_source_in_another_order() -> None:
    source = Listed([[turn(text, n)] for n in range(3) for text in "ab"])
    after = reordered(source)
    assert names(after) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert names(after) == names(after)
    assert reordered(after) is after


def test_a_long_source_is_read_in_parts() -> None:
    count = module._HELD + 10
    source = Listed([[turn("ab"[n % 2], n)] for n in range(count)])
    after = reordered(source)
    source.read = 0
    assert names(after) == [f"a{n}" for n in range(0, count, 2)] + [f"b{n}" for n in range(1, count, 2)]
    assert source.read == 2


def test_sessions_are_refused() -> None:
    for turns in ([turn("a", 0), turn("a", 1)], [turn("a", 0, session="s")]):
        source = Listed([[turn("b", 0)], [turn("a", 5)], turns, [turn("b", 1)]])
        assert reordered(source) is source

    class Chats:
        def conversations(self) -> Iterator[Conversation]:
            yield Interleaved([Recorded(iter([turn("a", 0)]))])

    chats = Chats()
    assert reordered(chats) is chats


def test_all_kinds_of_prompts() -> None:
    def prompts(n: int) -> list[Turn]:
        messages = [
            {"role": "system", "content": f"{n}" * 50},
            {"role": "user", "content": [3]},
            {"role": None, "content": None},
        ]
        return [
            Turn("g", messages=messages, id=f"m{n}", tools=[{"name": "f"}]),
            Turn("g", token_ids=ids((n, 50)), id=f"t{n}"),
            Turn("g", hashed=HashedPrompt([n, 5 + n], 20, 16), id=f"h{n}"),
        ]

    source = Listed([[each] for n in (1, 2, 1) for each in prompts(n)])
    after = reordered(source)
    assert isinstance(after, ReorderedSource)
    assert names(after) == ["m1", "m1", "m2", "t1", "t1", "h1", "h1", "t2", "h2"]


def test_tenants_who_share_nothing_are_not_mixed() -> None:
    """Whatever a prompt is made of, its salt comes first: of the same prompts, each tenant's stay together."""
    prompts: list[dict[str, Any]] = [
        {"text": Traced.of("the same text" * 30, Origin("t.md", part="prompt", text="the same text" * 30))},
        {"messages": [{"role": "user", "content": "the same text" * 30}]},
        {"token_ids": ids((7, 50))},
        {"hashed": HashedPrompt([7, 8, 9], 48, 16)},
    ]
    for prompt in prompts:
        salts = ["one", "two", "three", "one", "three", "two", "one"]
        after = reordered(Listed([[Turn("g", id=salt, salt=salt, **prompt)] for salt in salts]))
        assert names(after) == ["one"] * 3 + ["two"] * 2 + ["three"] * 2


def test_the_fix() -> None:
    fix = request_order_fix([turn("a", 0), turn("b", 0)])
    assert fix is not None
    assert (fix.tier, fix.group, fix.can_be_tried) == ("P0", None, True)
    assert request_order_fix([turn("a", 0, session="s"), turn("b", 0)]) is None
    assert request_order_fix([]) is None
