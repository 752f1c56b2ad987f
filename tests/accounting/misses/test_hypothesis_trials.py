"""Hypotheses by rerun: hidden replicas and answers that are not kept are found, and random losses are not taken for them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from kvtool.accounting.misses.hypothesis_trials import HypothesisTrials, KeptRead
from kvtool.accounting.misses.prompt_states import CHUNK, CacheKey
from kvtool.results.misses import Hypothesis, MissCause
from tests.conftest import some

LEAST = CHUNK * 2
KEY = CacheKey("m", None, None, (None, None, None))


class Made(NamedTuple):
    trials: HypothesisTrials
    misses: set[int]


def made_log(
    source: random.Random,
    replicas: int,
    route: Callable[[int], int],
    *,
    keeps: bool = True,
    lost: Callable[[int, int], int] = lambda read, _front: read,
) -> Made:
    """Return sessions that interleave, served by caches of pieces; `lost` changes what is read, given that and the front."""
    front = [source.getrandbits(60) for _ in range(12)]
    sessions = [list(front) for _ in range(source.randrange(3, 7))]
    latest: list[tuple[int, ...]] = [()] * len(sessions)
    caches: list[set[int]] = [set() for _ in range(replicas)]
    made = Made(HypothesisTrials(), set())
    for number in range(120):
        who = source.randrange(len(sessions))
        sessions[who] += [source.getrandbits(60) for _ in range(source.randrange(4, 9))]
        names = tuple(sessions[who])
        sessions[who] += [source.getrandbits(60) for _ in range(source.randrange(4, 9))]
        answer = tuple(sessions[who][len(names) :])
        cache = caches[route(number)]
        read = lost(sum(name in cache for name in names), len(front))
        cache |= {*names, *(answer if keeps else ())}
        known = len(latest[who])
        missed = read + 2 < known and bool(latest[who]) and keeps
        unkept = not keeps and known > 0
        if missed:
            made.misses.add(number)
        latest[who] = (*names, *(answer if keeps else ()))
        numbers: dict[MissCause, tuple[int, ...]] = {"unknown": (number,)} if missed else {}
        if unkept:
            numbers["answer_not_kept"] = (1_000 + number,)
        made.trials.add(KeptRead(KEY, f"s{who}", names, answer, read * CHUNK, LEAST, numbers))
    return made


@pytest.mark.parametrize("seed", some(range(8), 2))
def test_replicas_in_turn_are_found(seed: int) -> None:
    source = random.Random(seed)
    replicas = source.randrange(2, 9)
    made = made_log(source, replicas, lambda number: number % replicas)
    assert made.trials.found(hosted=False) == (
        Hypothesis(
            cause="replicas",
            replicas=replicas,
            routing="round-robin",
            explained=len(made.misses),
            misses=len(made.misses),
            agree=120,
            requests=120,
        ),
        dict.fromkeys(made.misses, ("unknown", "replicas")),
    )


@pytest.mark.parametrize("seed", some(range(8), 2))
def test_replicas_without_a_rule_are_found(seed: int) -> None:
    source = random.Random(100 + seed)
    replicas = source.randrange(2, 5)
    made = made_log(source, replicas, lambda _: source.randrange(replicas))
    found = made.trials.found(hosted=False)
    assert found is not None
    assert (found[0].cause, found[0].routing) == ("replicas", None)
    assert 2 <= found[0].replicas <= replicas
    assert found[0].explained >= 0.9 * len(made.misses)


def test_answers_that_are_not_kept_are_found() -> None:
    for seed in some(range(8), 3):
        found = made_log(random.Random(seed), 1, lambda _: 0, keeps=False).trials.found(hosted=False)
        assert found is not None
        assert (found[0].cause, found[0].agree) == ("answer_not_kept", 120)
        assert set(found[1].values()) == {("answer_not_kept", "answer_not_kept")}


@pytest.mark.parametrize("kind", ["all", "tail", "any"])
def test_random_losses_are_no_replicas(kind: str) -> None:
    """A cache that loses all of a prompt, what follows the shared front, or a random part of it, now and then."""
    for seed in some(range(25), 8):
        source = random.Random(seed)
        share = source.uniform(0.05, 0.4)

        def lost(read: int, front: int, source: random.Random = source, share: float = share) -> int:
            if source.random() > share:
                return read
            return {"all": 0, "tail": min(read, front), "any": source.randrange(read + 1)}[kind]

        made = made_log(source, 1, lambda _: 0, lost=lost)
        assert made.trials.found(hosted=False) is None, (seed, len(made.misses))
