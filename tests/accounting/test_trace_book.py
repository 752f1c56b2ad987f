"""Fates of traces, counted by number, against a plain count of which blocks of which prompts came again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.ledger.ledger import Ledger
from kvtool.accounting.ledger.sums import Booked
from kvtool.accounting.views.collector import ViewBook
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.results.choices import By
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.turn import HashedPrompt, Turn
from tests.accounting.view_runs import BLOCK, traces

salts = st.lists(st.sampled_from([None, None, None, "x", "y"]), min_size=12, max_size=12)


def entered(
    turns: Sequence[Turn], *, numbered: bool, dropped: int = -1, details: bool = False, by: By | None = None
) -> tuple[Ledger, list[tuple[int, int]]]:
    """The closed ledger, and what it said of each request: known to anybody, and to the same tenant."""
    ledger = Ledger(BLOCK, find_gaps=False, by=by, watcher=ViewBook(BLOCK, details=False) if not details else None)
    if details:
        ledger.watcher = Details(BLOCK, details=True)
    numbers = TraceNumbers() if numbered else None
    said = []
    for at, turn in enumerate(turns):
        assert turn.hashed is not None
        chain = None if numbers is None else numbers.number(turn.hashed.hash_ids, turn.salt)
        ids = np.array(turn.hashed.hash_ids if chain is None else chain.content, np.int32)
        entry = ledger.submit(turn, ids, ids[:0], unit=BLOCK, num_tokens=turn.hashed.num_tokens, chain=chain)
        said.append((entry.known, entry.own))
        if at == dropped:
            ledger.drop(entry)
        else:
            ledger.settle(entry, entry.reachable)
    ledger.close()
    return ledger, said


class Details(ViewBook):
    """Wants the details, and adds up what it is told; there is no job to tell views of."""

    def __init__(self, block_size: int, *, details: bool) -> None:
        super().__init__(block_size, details=details)
        self.told: Counter[str] = Counter()

    def settled(
        self, owner: int, turn: Turn, prompt: Prompt | None, num_tokens: int, hit: int, booked: Sequence[Booked]
    ) -> None:
        del owner, turn, prompt, num_tokens, hit
        for each in booked:
            self.told[each.fate] += each.stop - each.start

    def closed(self, owner: int, booked: Booked) -> None:
        del owner
        self.told[booked.fate] += booked.stop - booked.start


def plain(turns: Sequence[Turn], dropped: int) -> tuple[Counter[tuple[str, str]], list[tuple[int, int]]]:
    """`first_use` and `unique` tokens by group, and the tokens known to anybody and to the tenant, from sets of chains."""
    fates: Counter[tuple[str, str]] = Counter()
    said, first = [], dict[tuple[int, ...], tuple[int, int]]()
    own: set[tuple[str, tuple[int, ...]]] = set()
    again: set[tuple[int, ...]] = set()
    for at, turn in enumerate(turns):
        assert turn.hashed is not None
        ids, count = turn.hashed.hash_ids, turn.hashed.num_tokens
        chains = [tuple(ids[: stop + 1]) for stop in range(len(ids))]
        mine = [(turn.salt or "", chain) for chain in chains]
        said.append((
            min(sum(chain in first for chain in chains) * BLOCK, count), min(sum(each in own for each in mine) * BLOCK, count)
        ))  # fmt: skip
        again |= {chain for chain in chains if chain in first}
        own.update(mine)
        for place, chain in enumerate(chains):
            first.setdefault(chain, (at, min(count - place * BLOCK, BLOCK)))
        if at != dropped:
            fates[turn.group, "unique"] += max(count - len(ids) * BLOCK, 0)
    for chain, (at, tokens) in first.items():
        if at != dropped:
            fates[turns[at].group, "first_use" if chain in again else "unique"] += tokens
    return +fates, said


@given(traces(), salts, st.integers(-1, 3), st.sampled_from([None, "session", "tenant"]))
def test_every_token_has_the_fate_that_a_plain_count_gives_it(
    turns: list[Turn], tenants: list[str | None], dropped: int, by: By | None
) -> None:
    turns = [replace(turn, salt=salt) for turn, salt in zip(turns, tenants, strict=False)]
    dropped = dropped if dropped < len(turns) else -1
    want, known = plain(turns, dropped)
    told = []
    for numbered in (True, False):
        ledger, said = entered(turns, numbered=numbered, dropped=dropped, by=None if dropped >= 0 else by)
        assert said == known
        found = Counter({
            (group.name, fate): group.fates[fate] for group in ledger.totals() for fate in ("first_use", "unique")
        })  # fmt: skip
        assert +found == want
        told.append([(group.name, dict(group.fates), group.shared_prefixes) for group in ledger.totals()])
    assert told[0] == told[1]


@given(traces(), salts)
def test_who_wants_details_is_told_the_same(turns: list[Turn], tenants: list[str | None]) -> None:
    turns = [replace(turn, salt=salt) for turn, salt in zip(turns, tenants, strict=False)]
    ledger, _ = entered(turns, numbered=True, details=True)
    assert isinstance(ledger.watcher, Details)
    assert +ledger.watcher.told == Counter(ledger.fates()) + Counter()
    assert ledger.trees
    assert not entered(turns, numbered=True)[0].trees


def test_a_ledger_of_many_prompts_sums_them_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """More runs than are summed at a time."""
    monkeypatch.setattr("kvtool.accounting.ledger.trace_book._TOGETHER", 3)
    turns = [Turn("g", hashed=HashedPrompt([1, n // 2, n], 3 * BLOCK - n % 3, BLOCK)) for n in range(20)]
    want, _ = plain(turns, -1)
    ledger, _ = entered(turns, numbered=True)
    (group,) = ledger.totals()
    assert (group.fates["first_use"], group.fates["unique"]) == (want["g", "first_use"], want["g", "unique"])
