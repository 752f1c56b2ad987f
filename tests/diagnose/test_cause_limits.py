"""How many causes are kept, and where one is of a session, a tenant or a group."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.ledger.alignment import DonorAlignment, EarlierPrompt, Gap
from kvtool.accounting.ledger.ledger import Ledger
from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.causes.cause_book import CauseBook
from kvtool.diagnose.slots import MOST_SLOT_SETS, Slot, SlotSets
from kvtool.profiler.fix_gains import group_causes
from kvtool.profiler.run.run_result import RunResult
from kvtool.report.views.causes import costliest_causes
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests import made_results
from tests.diagnose.made_causes import RULES, account, compared, log_of, prompt_of, workload


def test_the_number_of_causes_is_bounded(byte_tokenizer: Tokenizer) -> None:
    book = CauseBook()
    for number in range(1100):
        text = "\n" * number + "at 10:32, still"
        turn, prompt, alignment = compared(byte_tokenizer, "", text, [Gap(number + 7, number + 8, 0, 1, 5)])
        book.add(turn, prompt, replace(alignment, donor=None))
    causes = book.of_group("g")
    assert len(causes) == 1025
    assert causes[0].slot.part == "other places"
    assert sum(cause.blocked for cause in causes) == 5 * 1100


def test_all_gaps_of_shuffled_documents_are_one_cause(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The alignment keeps some documents in place and sees others go and come; none of that is a cause of its own."""
    chance = random.Random(5)
    words = [f"{first}{last}" for first in "bdfgklmn" for last in ("anda", "orin", "esto", "ulim")]
    documents = [
        "<document>\n" + "\n".join(" ".join(chance.choices(words, k=9)) + "." for _ in range(3)) + "\n</document>"
        for _ in range(6)
    ]
    contents: list[object] = ["\n".join(chance.sample(documents, 6)) + f"\n{RULES}" for _ in range(16)]
    causes = list(account(log_of(tmp_path, contents), byte_renderer).causes)
    assert {cause.kind.code for cause in causes} == {"KV113"}
    assert len(causes) == 1


def test_where_there_are_too_many_chains_the_weighty_ones_stay() -> None:
    """What stood behind a light one counts behind the slot that it begins with; no token is lost."""
    first, heavy = Slot("p.md", 1, 1), Slot("p.md", 2, 1)
    chains = SlotSets()
    chains.add((first, heavy), 1000)
    chains.promise((first, heavy), 900)
    for line in range(3, MOST_SLOT_SETS + 4):
        light = (first, Slot("p.md", line, 1))
        chains.add(light, 2)
        chains.promise(light, 1)
    assert len(chains.tokens) <= MOST_SLOT_SETS
    assert chains.tokens.total() == 1000 + 2 * (MOST_SLOT_SETS + 1)
    assert chains.tokens[first, heavy] == 1000
    assert chains.predicted([heavy]) == 0
    assert chains.predicted([first, heavy]) >= 900


def saying(tokenizer: Tokenizer, book: CauseBook, before: str, after: str, donor: Turn, turn: Turn) -> None:
    """Enter a request of this turn that says `after` on a line where its donor says `before`."""
    head, tail = "head\n", "\n" + "x" * 20
    old, new = (prompt_of(head + value + tail, tokenizer) for value in (before, after))
    gap = Gap(len(head), len(head + after), len(head), len(head + before), len(tail))
    book.add(turn, new, DonorAlignment(gap.start, (gap,), old.ids, EarlierPrompt(donor, old, old.ids)))


@given(st.integers(0, 8), st.integers(0, 80))
def test_constant_in_a_session_is_what_changes_in_a_tenth_of_its_comparisons_at_most(
    byte_tokenizer: Tokenizer, changes: int, others: int
) -> None:
    """Forty sessions have one of two words each; in one of them it changes, and in `others` comparisons it does not."""
    book, words = CauseBook(), ["gold", "free"]
    for number in range(40):
        before, after = words[number % 2], words[(number + 1) % 2]
        donor, turn = (Turn("g", session=f"s{number + side}") for side in (0, 1))
        saying(byte_tokenizer, book, before, after, donor, turn)
    same = Turn("g", session="s1")
    for number in range(changes):
        saying(byte_tokenizer, book, words[number % 2], words[(number + 1) % 2], same, same)
    for _ in range(others):
        book.met(same, same)
    (cause,) = book
    comparisons = changes + others
    constant = comparisons >= 2 and 10 * changes <= comparisons
    assert cause.kind.code == ("KV104" if constant else "KV201")


def test_a_tenant_stands_for_a_session_where_there_is_none(byte_tokenizer: Tokenizer) -> None:
    """Tenants take turns, and each has a counter of its own: only by itself does it rise in even steps."""
    for tenants, by, code in [
        (3, "session", "KV105"),
        (3, "salt", "KV105"),
        (5, "salt", "KV105"),
        (3, None, "KV201"),
    ]:
        book = CauseBook()
        for number in range(1, 8):
            for tenant in range(tenants):
                start = 100 + tenant * tenant * 37 % 101  # three digits, in no order
                whose = {} if by is None else {by: f"t{tenant}"}
                turn = Turn("g", **whose)  # type: ignore[arg-type]
                saying(byte_tokenizer, book, "997", f"{start + number}", turn, turn)
        (cause,) = book
        assert cause.kind.code == code


def test_requests_of_one_tenant_are_not_of_one_session(byte_tokenizer: Tokenizer) -> None:
    book = CauseBook()
    turn = Turn("g", salt="t")
    saying(byte_tokenizer, book, "gold", "free", turn, turn)
    book.met(turn, turn)
    (cause,) = book
    assert (cause.volatility_within, cause.volatility_across) == (0.0, 0.5)
    session = Turn("g", salt="t", session="s")
    saying(byte_tokenizer, book, "gold", "free", session, session)
    assert (cause.volatility_within, cause.volatility_across) == (1.0, 0.5)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(0, 60_000))
def test_a_cause_has_a_row_from_a_thousandth_of_its_group_on(
    byte_tokenizer: Tokenizer, tails: list[int], others: int
) -> None:
    """Each cause is a line of its own, which blocks as many tokens as follow it; what has no row is in the sums all the same."""
    book = CauseBook()
    for number, tail in enumerate(tails):
        text = "head\n" * (number + 1) + "10:3{}\n" + "x" * tail
        at = 5 * (number + 1) + 4
        gap = Gap(at, at + 1, at, at + 1, tail + 1)
        book.add(*compared(byte_tokenizer, text.format(1), text.format(2), [gap]))
    blocked = [tail + 1 for tail in tails]
    total = sum(blocked) + others
    result = RunResult(Ledger(4, newline=lambda: np.zeros(0, dtype=bool)), book)
    groups = [GroupTotals(name="g", prompt_tokens=total)]
    found = group_causes(result, groups, None, locate=lambda _origin, _at: (1, 1), path="w")
    expected = sorted((tokens for tokens in blocked if 1000 * tokens >= total), reverse=True)
    assert [row.blame_tokens for causes in found.values() for row in causes.rows] == expected
    for causes in found.values():
        assert causes.left_out.causes == len(blocked) - len(expected)
        assert causes.left_out.blame_tokens == sum(blocked) - sum(expected)
    terminal = [tokens for tokens in expected if 100 * tokens >= total][:8]
    group = made_results.group("g", tokens=total, hit=0, reachable=0)
    assert [row.blame_tokens for causes in found.values() for row in costliest_causes(group, causes.rows)] == terminal


@pytest.mark.parametrize(
    ("line", "values", "code"),
    [
        ("Work below /home/{{ who }}/src only.", "[ada, bob, cleo]", "KV106"),
    ],
)
def test_a_variable_whose_values_and_surroundings_tell(
    tmp_path: Path, byte_renderer: Renderer, line: str, values: str, code: str
) -> None:
    variables = f"  who: {{choice: {values}}}"
    result = account(workload(tmp_path, f"{line}\n{RULES}", variables=variables, requests=24), byte_renderer)
    assert [cause.kind.code for cause in result.causes] == [code]
