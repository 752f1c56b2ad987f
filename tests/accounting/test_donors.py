"""Which earlier request a prompt is compared with, and where the two differ."""

from __future__ import annotations

import random
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.ledger import donors as module
from kvtool.accounting.ledger.alignment import MIN_RUN, RUNGS, DonorAlignment, EarlierPrompt, Gap, Rung, attribute
from kvtool.accounting.ledger.comparer import Comparer
from kvtool.accounting.ledger.donors import MOST_SLOTS, DonorContent, Donors
from kvtool.accounting.ledger.gaps import MOST_GAPS, find_gaps
from kvtool.accounting.ledger.lines import split_lines
from kvtool.accounting.ledger.ranges import Ranges
from kvtool.accounting.prefix_tree import Ids, RadixTree
from kvtool.text.tokens.prompt import Continued, Prompt
from kvtool.workload.turn import Turn

NEWLINE = np.array([True])
"""Token 0 ends a line."""


def ids(values: object) -> Ids:
    return np.array(values, dtype=np.int32)


def text(seed: str, count: int) -> list[int]:
    """Tokens that no other seed gives in this order."""
    rng = random.Random(seed)
    return [rng.randrange(1, 30_000) for _ in range(count)]


def ask(donors: Donors, tokens: list[int], *, group: str = "g", session: str | None = None) -> EarlierPrompt | None:
    """Find the donor of a prompt, then keep the prompt."""
    turn, prompt = Turn(group, session=session), Prompt(ids(tokens))
    content = DonorContent.of(prompt.ids)
    donor = donors.find(turn, content)
    donors.add(EarlierPrompt(turn, prompt, prompt.ids), content, DonorContent.of(ids([])))
    donors.check()
    return donor


def begins(donor: EarlierPrompt | None) -> int | None:
    return None if donor is None else int(donor.ids[0])


def test_the_first_request_of_a_group_has_no_donor() -> None:
    donors = Donors()
    assert ask(donors, text("a", 50)) is None
    assert ask(donors, text("a", 50), group="other") is None


def test_templates_that_take_turns_with_a_new_value_at_the_very_front() -> None:
    donors = Donors()
    templates = [text(f"template {number}", 300) for number in range(5)]
    for number in range(25):
        donor = ask(donors, [40_000 + number, *templates[number % 5]])
        assert begins(donor) == (40_000 + number - 5 if number >= 5 else 40_000 + number - 1 if number else None)


def test_shuffled_parts_do_not_hide_the_donor() -> None:
    donors = Donors()
    tools = [text(f"tool {number}", 80) for number in range(10)]
    others = [text(f"other {number}", 80) for number in range(10)]
    rng = random.Random(1)
    for number in range(20):
        kind = tools if number % 2 else others
        rng.shuffle(kind)
        donor = ask(donors, [40_000 + number, *chain.from_iterable(kind)])
        if number >= 2:
            assert donor is not None
            assert begins(donor) in range(40_000 + number % 2, 40_000 + number, 2)


def test_the_document_matters_more_than_who_asked_last() -> None:
    """One system prompt, twenty long documents, and a question of its own for each request."""
    donors = Donors()
    system = text("system", 400)
    documents = [text(f"document {number}", 300) for number in range(20)]
    for number in range(60):
        donor = ask(donors, [40_000 + number, *system, *documents[number % 20], *text(f"question {number}", 40)])
        if number >= 20:
            assert begins(donor) == 40_000 + number - 20


def test_of_equals_the_same_session_is_taken_and_then_the_latest() -> None:
    donors = Donors()
    shared = text("shared", 200)
    for first, session in ((40_000, "a"), (40_001, "b"), (40_002, None)):
        ask(donors, [first, *shared], session=session)
    assert begins(ask(donors, [40_003, *shared], session="a")) == 40_000
    assert begins(ask(donors, [40_004, *shared], session="c")) == 40_003
    assert begins(ask(donors, [40_005, *shared], session="b")) == 40_001
    assert begins(ask(donors, [40_006, *shared])) == 40_005


def test_a_session_that_grows_takes_the_place_of_what_it_contains() -> None:
    donors = Donors()
    history: list[int] = []
    for number in range(30):
        history += text(f"turn {number}", 100)
        donor = ask(donors, history, session="s")
        assert donor is None if number == 0 else donor is not None
        assert donor is None or len(donor.ids) == len(history) - 100
    assert len(donors) <= 12  # an early turn doubles the prompt; from the tenth on, the last one is nine tenths of it


def test_a_request_that_a_cache_keeps_goes_before_a_more_similar_one_that_expired() -> None:
    donors = Donors(lambda _: 300.0)
    system = text("system", 300)
    for at, (first, asked) in enumerate(((40_000, "same"), (40_001, "other"))):
        seen = Prompt(ids([first, *system, *text(asked, 60)]))
        turn = Turn("g", arrival=(0.0, 500.0)[at])
        donors.add(EarlierPrompt(turn, seen, seen.ids), DonorContent.of(seen.ids), DonorContent.of(ids([])))
    asked = DonorContent.of(ids([40_002, *system, *text("same", 60)]))
    found = {now: begins(donors.find(Turn("g", arrival=now), asked)) for now in (None, 300.0, 600.0, 900.0)}
    assert found == {None: 40_000, 300.0: 40_000, 600.0: 40_001, 900.0: 40_000}
    seen = Prompt(ids([40_003, *text("another", 300), *system[:100]]))
    donors.add(
        EarlierPrompt(Turn("g", arrival=900.0), seen, seen.ids), DonorContent.of(seen.ids), DonorContent.of(ids([]))
    )
    assert begins(donors.find(Turn("g", arrival=1000.0), asked)) == 40_000, "what is kept is another prompt"
    donors.check()


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    donors = Donors()
    templates = [text(f"template {number}", 100) for number in range(MOST_SLOTS + 2)]
    for number in range(MOST_SLOTS):
        ask(donors, [40_000 + number, *templates[number]])
    assert begins(ask(donors, [50_000, *templates[0]])) == 40_000  # used again
    for number in range(MOST_SLOTS, MOST_SLOTS + 2):
        ask(donors, [40_000 + number, *templates[number]])
    assert begins(ask(donors, [50_001, *templates[0]])) == 50_000
    assert begins(ask(donors, [50_002, *templates[3]])) == 40_003
    donor = donors.find(Turn("g"), DonorContent.of(ids([50_003, *templates[1]])))
    assert donor is None or int(donor.ids[0]) != 40_001


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_KEPT", 20_000)
    donors = Donors()
    for number in range(200):
        ask(donors, text(f"prompt {number}", 400), group=f"g{number % 3}", session=f"s{number % 50}")
        assert len(donors) <= 20_000 // (400 + 1_000)
    ask(donors, text("huge", 30_000))
    assert len(donors) == 1  # too much alone, but kept all the same


def test_a_kept_request_has_its_tokens_once() -> None:
    comparer, tree = Comparer(None), RadixTree()
    prompt, answer = Prompt(ids(text("a", 500))), ids(text("b", 40))
    sequence = np.concatenate([prompt.ids, answer])
    comparer.compare(tree, tree.match(prompt.ids), Turn("g"), prompt, sequence)
    (kept,) = comparer.examples()
    assert kept is prompt
    assert np.shares_memory(kept.ids, sequence)
    assert kept.ids.tolist() == text("a", 500)


def test_a_long_prompt_that_shares_nothing_has_no_donor() -> None:
    donors = Donors()
    ask(donors, text("a", 5_000))
    assert donors.find(Turn("g"), DonorContent.of(ids(text("b", 5_000)))) is None
    assert (
        donors.find(Turn("g"), DonorContent.of(ids(text("b", 500)))) is not None
    )  # short: they are compared all the same


@given(st.lists(st.integers(1, 3), max_size=300), st.lists(st.integers(1, 3), max_size=300), st.integers(1, 40))
def test_whether_two_share_so_much_is_known_early(one: list[int], other: list[int], least: int) -> None:
    first, second = DonorContent.of(ids(one)), DonorContent.of(ids(other))
    assert first.shares(second, least) == (first.shared(second) >= least)


def test_empty_prompts() -> None:
    donors = Donors()
    assert ask(donors, []) is None
    assert ask(donors, [], session="s") is not None
    assert len(ask(donors, text("a", 100)).ids) == 0  # type: ignore[union-attr]


# Gaps.


def test_the_gaps_of_two_values() -> None:
    head, middle, tail = text("head", 9), text("middle", 10), text("tail", 12)
    before, after = ids([*head, 1, *middle, 2, 2, *tail]), ids([*head, 3, 3, *middle, 4, *tail, 5])
    assert find_gaps(after, 9, before, newline=None) == (Gap(9, 11, 9, 10, 10), Gap(21, 22, 20, 22, 12))


def test_a_gap_may_begin_before_what_was_known() -> None:
    """The prompt began like another one up to the middle, and is like this one but for its first token."""
    shared = text("shared", 60)
    gaps = find_gaps(ids([1, *shared]), 31, ids([2, *shared]), newline=None)
    assert gaps == (Gap(0, 1, 0, 1, 60),)
    alignment = DonorAlignment(31, gaps, ids([2, *shared]))
    assert [(found.start, found.stop) for found in attribute(alignment, ("blocked",))] == [(31, 61)]


def test_nothing_behind_what_was_known_is_no_gap() -> None:
    shared = text("shared", 60)
    assert find_gaps(ids([1, *shared, *text("x", 20)]), 61, ids([2, *shared, *text("y", 20)]), newline=None) == ()
    assert find_gaps(ids(shared), 60, ids(shared), newline=None) == ()
    assert find_gaps(ids([*shared, *text("x", 20)]), 60, ids(shared), newline=None) == ()


def test_of_many_gaps_the_shortest_runs_are_given_up() -> None:
    mine: list[int] = []
    theirs: list[int] = []
    for number in range(100):
        run = text(f"run {number}", 10 + number % 50)
        mine += [40_000 + number, *run]
        theirs += [50_000 + number, *run]
    gaps = find_gaps(ids(mine), 0, ids(theirs), newline=None)
    assert len(gaps) == MOST_GAPS
    assert sum(gap.run for gap in gaps) == sum(sorted((10 + number % 50 for number in range(100)), reverse=True)[:64])
    check_gaps(ids(mine), ids(theirs), 0, gaps)


def check_gaps(mine: Ids, theirs: Ids, known: int, gaps: tuple[Gap, ...]) -> None:
    assert len(gaps) <= MOST_GAPS
    assert gaps[-1].stop + gaps[-1].run > known
    for gap in gaps:
        assert gap.run >= MIN_RUN
        assert gap.start <= gap.stop
        assert gap.donor_start <= gap.donor_stop
        here, there = mine[gap.stop : gap.stop + gap.run], theirs[gap.donor_stop : gap.donor_stop + gap.run]
        assert (here == there).all()
    for left, right in pairwise(gaps):
        assert (left.stop + left.run, left.donor_stop + left.run) == (right.start, right.donor_start)
    assert (mine[: gaps[0].start] == theirs[: gaps[0].donor_start]).all()


pieces = st.lists(
    st.sampled_from(["a", "b", "c", "d"]).map(lambda name: [*text(name, 9), 0])
    | st.lists(st.integers(0, 9), max_size=4),
    max_size=8,
).map(lambda parts: ids(list(chain.from_iterable(parts))))


@given(
    pieces, pieces, st.sampled_from([None, NEWLINE]), st.integers(0, 20), st.lists(st.sampled_from(RUNGS), max_size=9)
)
def test_gaps_and_what_they_block(
    mine: Ids, theirs: Ids, newline: np.ndarray | None, more: int, drawn: list[Rung]
) -> None:
    shared = next(
        (at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs))
    )
    known = min(shared + more, len(mine))
    gaps = find_gaps(mine, known, theirs, newline=newline)
    if not gaps:
        return
    check_gaps(mine, theirs, known, gaps)
    rungs = tuple((drawn * len(gaps) + ["blocked"] * len(gaps))[: len(gaps)])
    got = attribute(DonorAlignment(known, gaps, theirs), rungs)
    assert [(at, found.rung, found.owner) for found in got for at in range(found.start, found.stop)] == list(
        one_by_one(gaps, rungs, known)
    )


def one_by_one(gaps: tuple[Gap, ...], rungs: tuple[Rung, ...], known: int) -> list[tuple[int, Rung, int]]:
    """Each token behind what was known, by the rule as it is written."""
    found: list[tuple[int, Rung, int]] = []
    for at in range(known, gaps[-1].stop + gaps[-1].run):
        before = [index for index, gap in enumerate(gaps) if gap.start <= at]
        if not before:
            continue
        worst = max(RUNGS.index(rungs[index]) for index in before)
        owner = next(index for index in before if RUNGS.index(rungs[index]) == worst)
        if at >= gaps[before[-1]].stop or RUNGS[worst] != "blocked":
            found.append((at, RUNGS[worst], owner))
    return found


# Lines and ranges.


def test_lines() -> None:
    first, second = text("first", 9), text("second", 20)
    lines = split_lines(ids([*first, 0, *second, 0, *first, 0, *first]), NEWLINE)
    assert list(zip(lines.starts.tolist(), lines.stops.tolist(), strict=True)) == [
        (0, 10),
        (10, 31),
        (31, 41),
        (41, 50),
    ]
    names = lines.names.tolist()
    assert names[0] == names[2]
    assert len(set(names)) == 3
    assert len(split_lines(ids([]), NEWLINE).names) == 0


def test_lines_with_the_same_tokens_in_another_order_differ() -> None:
    names = split_lines(ids([1, 2, 3, 0, 3, 2, 1, 0, 1, 1, 2, 3, 0]), NEWLINE).names.tolist()
    assert len(set(names)) == 3


@pytest.mark.parametrize("newline", [None, NEWLINE])
def test_long_lines_are_cut_by_their_content(newline: np.ndarray | None) -> None:
    """Behind an insertion a line of 500 tokens is cut as it was."""
    long = text("long", 500)
    before, after = split_lines(ids(long), newline), split_lines(ids([7, 7, 7, *long]), newline)
    same = set(before.names.tolist()) & set(after.names.tolist())
    assert len(same) >= len(before.names) - 2
    assert len(before.names) > 10


sequences = st.lists(st.integers(0, 3), max_size=80)
"""Of few different tokens, so that chunks and lines repeat."""


@given(sequences, sequences, sequences, st.integers(0, 80))
def test_what_a_prompt_continues_is_not_read_again(
    front: list[int], end: list[int], new: list[int], known: int
) -> None:
    """Neither the content of a prompt nor its lines depend on what was read before."""
    before, after = Prompt(ids([*front, *end])), Prompt(ids([*front, *new]))
    DonorContent.of_prompt(before)
    after.continued = Continued(before, 0, 0, len(front))
    found, expected = DonorContent.of_prompt(after), DonorContent.of(after.ids)
    assert (found.chunks, found.length) == (expected.chunks, expected.length)
    for newline in (None, NEWLINE):
        whole, rest = split_lines(after.ids, newline), split_lines(after.ids, newline, known)
        assert rest.names.tolist() == whole.names[whole.stops > known].tolist()
        assert rest.starts.tolist() == whole.starts[whole.stops > known].tolist()


ranges = st.lists(st.integers(0, 40), max_size=12, unique=True).map(
    lambda bounds: [(a, b) for a, b in zip(sorted(bounds)[::2], sorted(bounds)[1::2], strict=False)]
)


@given(st.permutations([0, 1, 2, 5]), st.lists(ranges, min_size=4, max_size=4), st.integers(0, 40), st.integers(0, 40))
def test_what_is_outside_ranges(owners: list[int], each: list[list[tuple[int, int]]], start: int, stop: int) -> None:
    book = Ranges()
    for owner, given_ranges in zip(owners, each, strict=True):
        book.put(owner, given_ranges)
    for owner in range(7):
        taken = dict(zip(owners, each, strict=True)).get(owner, [])
        inside = {at for left, right in taken for at in range(left, right)}
        got = list(book.outside(owner, start, stop))
        assert [at for left, right in got for at in range(left, right)] == [
            at for at in range(start, stop) if at not in inside
        ]
        assert all(left < right for left, right in got)


@given(st.permutations(["a", "b", "c", None]), st.sampled_from(["a", "b", "c", "d", None]), st.integers(0, 5))
def test_an_earlier_request_of_the_session_is_taken_before_a_later_one_of_another(
    order: list[str | None], asking: str | None, seed: int
) -> None:
    """All have the same text in common, and none of them is the last of its session or of the group any more."""
    donors = Donors()
    shared = text(f"shared {seed}", 300)
    for number, session in enumerate(order):
        ask(donors, [40_000 + number, *shared, *text(f"own {number} {seed}", 100)], session=session)
    for session in order:
        ask(donors, text(f"something else of {session} {seed}", 300), session=session)
    prompt = ids([50_000, *shared, *text(f"now {seed}", 100)])
    expected = order.index(asking) if asking is not None and asking in order else len(order) - 1
    assert begins(donors.find(Turn("g", session=asking), DonorContent.of(prompt))) == 40_000 + expected


def test_the_same_salt_is_not_the_same_session() -> None:
    donors = Donors()
    shared = text("shared", 300)
    for number, salt in enumerate(["a", "b"]):
        prompt = Prompt(ids([40_000 + number, *shared, *text(f"own {number}", 100)]))
        donors.add(
            EarlierPrompt(Turn("g", salt=salt), prompt, prompt.ids),
            DonorContent.of(prompt.ids),
            DonorContent.of(ids([])),
        )
    asked = DonorContent.of(ids([50_000, *shared, *text("now", 100)]))
    assert begins(donors.find(Turn("g", salt="a"), asked)) == 40_001  # the latest
