"""Fates of text: seams, cosmetic differences, displaced lines; and sums by session, tenant and line that come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.ledger import sums as module
from kvtool.accounting.ledger.alignment import RUNGS, DonorAlignment, Rung
from kvtool.accounting.ledger.ledger import Ledger, LedgerEntry
from kvtool.accounting.ledger.source_lines import source_lines
from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_books import RowBook
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.results.choices import By
from kvtool.results.report import lost_tokens
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.traced import Origin, Traced, concat
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Conversation, HashedPrompt, Recorded, Turn

BLOCK = 4
LATENCY = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
RULES = "Always be kind and brief.\nNever promise what you cannot do.\n"
TEMPLATE = f"It is {{{{ now }}}}.\n{RULES}"


def from_template(value: str, question: str = "") -> Traced:
    """A rendered template of three lines with a variable in the first one, and a logged question behind it."""
    before, after = TEMPLATE.split("{{ now }}")
    source = Origin("t.j2", text=TEMPLATE)
    return concat(
        [
            Traced.of(TEMPLATE, source)[: len(before)],
            Traced.of(value, Origin("t.j2", 1, 7, verbatim=False, variable="now", text=value)),
            Traced.of(TEMPLATE, source)[len(TEMPLATE) - len(after) :],
            Traced.of(
                question, Origin("log.jsonl", 3, pointer=("messages", 1), part="messages[1] (user)", text=question)
            ),
        ]
    )


class Book:
    """Explains gaps as it was told to, in turn."""

    def __init__(self, rungs: list[Rung]) -> None:
        self.rungs = rungs
        self.asked = 0

    def add(self, turn: Turn, prompt: Prompt, alignment: DonorAlignment) -> tuple[Rung, ...]:
        assert len(prompt) >= alignment.known
        assert turn.group
        self.asked += 1
        return tuple(self.rungs[(self.asked + index) % len(self.rungs)] for index in range(len(alignment.gaps)))


class Given:
    def __init__(self, turns: list[list[Turn]]) -> None:
        self._turns = turns

    def conversations(self) -> Iterator[Conversation]:
        return iter([Recorded(iter([replace(turn) for turn in turns])) for turns in self._turns])


def account(
    renderer: Renderer,
    conversations: list[list[Turn]],
    *,
    rungs: list[Rung] | None = None,
    by: By | None = None,
    **how: object,
) -> RunResult:
    engine = EngineConfig(block_size=BLOCK, num_blocks=how.pop("num_blocks", None))  # type: ignore[arg-type]
    plan = Plan(engine, LATENCY, **how)  # type: ignore[arg-type]
    accountant = explained_run(RunSetup(plan, JobMaker(renderer, seed=0), Progress(None)), per_request=True, by=by)
    accountant.ledger.causes = Book(rungs or ["blocked"])  # type: ignore[assignment]
    return accountant.run(Given(conversations))


def texts(*each: str | Traced, **options: object) -> list[list[Turn]]:
    return [
        [
            Turn(
                "g",
                text=one if isinstance(one, Traced) else Traced.of(one, Origin("x", text=one)),
                output_tokens=1,
                **options,
            )
        ]  # type: ignore[arg-type]
        for one in each
    ]


def behind(result: RunResult) -> dict[str, int]:
    names = (*RUNGS, "displaced", "first_use", "unique")
    return {name: tokens for name, tokens in result.ledger.fates().items() if name in names}


# Rungs.


@pytest.mark.parametrize("rung", ["seam", "cosmetic"])
def test_what_stands_in_a_seam_or_a_difference_of_form_counts_too(byte_renderer: Renderer, rung: Rung) -> None:
    """Sixty characters of the same text behind a difference of three; a token for each byte."""
    prompts = texts("abc" + RULES, "xyz" + RULES)
    first = len("abc" + RULES)
    assert behind(account(byte_renderer, prompts)) == {"blocked": len(RULES), "unique": first + 3}
    assert behind(account(byte_renderer, prompts, rungs=[rung])) == {rung: 3 + len(RULES), "unique": first}


def test_behind_a_seam_something_worse_may_come(byte_renderer: Renderer) -> None:
    one, two = RULES.splitlines(keepends=True)
    prompts = texts(f"1{one}2{two}", f"3{one}4{two}")
    fates = behind(account(byte_renderer, prompts, rungs=["blocked", "seam"]))  # in turn, from the second one on
    assert fates == {"seam": 1 + len(one), "blocked": len(two), "unique": 2 + len(one + two) + 1}


def test_lines_that_stand_elsewhere(byte_renderer: Renderer) -> None:
    """Two lines change places: one of them is aligned, the other one is the same text that is not at the front."""
    one, two = RULES.splitlines(keepends=True)
    assert len(one) < len(two)
    fates = behind(account(byte_renderer, texts(f"Hello.\n{one}{two}", f"Hello.\n{two}{one}")))
    assert fates == {"blocked": len(two), "displaced": len(one), "first_use": 7, "unique": len(one + two)}


def test_a_line_of_any_earlier_prompt_counts_even_of_another_group(byte_renderer: Renderer) -> None:
    line = "This line is in both of them.\n"
    far = [[Turn("other", text=Traced.of("Z\n" + line, Origin("x")), output_tokens=1)]]
    fillers = texts(*(f"{letter * 30}\n" for letter in "abcdefgh"))
    fates = behind(account(byte_renderer, [*far, *fillers, *texts(f"A prompt with it:\n{line}")]))
    assert fates["displaced"] == len(line)


def test_short_lines_are_no_evidence(byte_renderer: Renderer) -> None:
    first, second = "Yes.\nNo.\nSo.\n" + "a" * 20, "So.\nNo.\nYes.\n" + "b" * 20
    assert "displaced" not in behind(account(byte_renderer, texts(first, second)))


def test_a_line_within_the_same_prompt_is_not_an_earlier_one(byte_renderer: Renderer) -> None:
    assert behind(account(byte_renderer, texts("The same line.\n" * 5))) == {"unique": 75}


# What a ledger is told.


def submit(ledger: Ledger, ids: list[int] | range, **turn: object) -> LedgerEntry:
    return ledger.submit(Turn("g", **turn), np.array(ids, np.int32), np.empty(0, np.int32))  # type: ignore[arg-type]


def test_kinder_rules_are_rungs_of_their_own() -> None:
    ledger = Ledger(BLOCK)
    ledger.settle(submit(ledger, range(40)), 0)
    relaxed = [("evicted", 12), ("expired", 12), ("scattered", 24), ("below_minimum", 24), ("unmarked", 99)]
    fates = ledger.settle(submit(ledger, range(40)), 8, relaxed=relaxed)
    # 36 can be reached at most: the last block is computed again.
    assert fates == {"hit": 8, "evicted": 4, "scattered": 12, "unmarked": 12, "last_token": 4}
    ledger.close()
    assert list(ledger.fates()) == ["hit", "evicted", "scattered", "unmarked", "last_token", "first_use"]


def test_which_fates_a_workload_cannot_have(byte_renderer: Renderer) -> None:
    ids = [[Turn("g", token_ids=np.arange(20, dtype=np.int32), output_tokens=1)]]
    blocks = [[Turn("g", hashed=HashedPrompt([1, 2], 8, BLOCK), output_tokens=1)]]
    assert account(byte_renderer, texts("Hello")).ledger.absent() == ()
    assert account(byte_renderer, ids).ledger.absent() == ("seam", "cosmetic")
    assert account(byte_renderer, blocks).ledger.absent() == ("seam", "cosmetic", "blocked", "displaced")
    assert account(byte_renderer, [*blocks, *texts("Hello")]).ledger.absent() == ()


# Sums.


def rows(result: RunResult) -> dict[str, dict[str, int]]:
    return {row.key: {name: tokens for name, tokens in row.fates.items() if tokens} for row in result.ledger.sums()}


def test_sums_by_line(byte_renderer: Renderer) -> None:
    """A line is to blame for what it loses itself: here the two lines that stand behind the time."""
    result = account(byte_renderer, texts(from_template("10:01", "Why?"), from_template("10:22", "Why?")), by="line")
    first, second, third = (len(line) for line in from_template("10:01").splitlines(keepends=True))
    shared = len("It is 10:")
    assert rows(result) == {
        "t.j2:1": {"hit": 8, "partial_block": shared - 8, "blocked": 2, "first_use": shared, "unique": 4 + 2},
        "t.j2:2": {"blocked": second, "unique": second},
        "t.j2:3": {"blocked": third, "unique": third},
        "messages[1] (user)": {"blocked": 4, "unique": 4},
    }
    found = {row.key: row for row in result.ledger.sums()}
    assert next(iter(found)) == "t.j2:3"  # in order of lost tokens
    row = found["t.j2:1"]
    assert (row.requests, row.prompt_tokens, lost_tokens(row), row.hit_rate) == (
        2,
        2 * first,
        2 * first - 8,
        8 / (2 * first),
    )


def test_sums_by_session_and_tenant(byte_renderer: Renderer) -> None:
    text = "0123456789"
    turns = [
        *texts(text, session="a", salt="s"),
        *texts(text, session="b", salt="t"),
        *texts(text, session="a", salt="t"),
        *texts(text),
    ]
    assert rows(account(byte_renderer, turns, by="session")) == {
        "a": {"first_use": 10, "hit": 8, "partial_block": 2},
        "b": {"isolated": 8, "partial_block": 2},
        "(no session)": {"isolated": 8, "partial_block": 2},
    }
    assert rows(account(byte_renderer, turns, by="tenant")) == {
        "s": {"first_use": 10},
        "(no salt)": {"isolated": 8, "partial_block": 2},
        "t": {"isolated": 8, "hit": 8, "partial_block": 4},
    }
    assert account(byte_renderer, turns).ledger.sums() == []


def test_many_sessions_are_summed_in_one_row(byte_renderer: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    turns = [turn for number in range(5) for turn in texts("0123456789", session=f"s{number}")]
    found = rows(account(byte_renderer, turns, by="session"))
    assert found["(others)"] == {"hit": 24, "partial_block": 6}
    assert set(found) == {"s0", "s1", "(others)"}


def test_a_request_that_never_ended_is_in_no_row() -> None:
    ledger = Ledger(BLOCK, by="session")
    ledger.drop(submit(ledger, range(10), session="a"))
    ledger.settle(submit(ledger, range(12), session="b"), 8)
    ledger.close()
    assert [(row.key, row.prompt_tokens) for row in ledger.sums()] == [("b", 12)]


marked = st.lists(
    st.tuples(
        st.text("ab\n é😀", max_size=12),
        st.sampled_from(
            [
                Origin("a.txt", 5, text="x" * 99),
                Origin("a.txt", 7, verbatim=False, variable="v"),
                Origin("log", 1, pointer=("messages", 0), part="messages[0] (system)"),
                None,
            ]
        ),
    ),
    max_size=6,
)


@given(marked)
def test_each_token_is_of_the_line_in_which_it_begins(
    byte_tokenizer: Tokenizer, parts: list[tuple[str, Origin | None]]
) -> None:
    origins = [
        origin if origin is None or not origin.verbatim else replace(origin, text=text) for text, origin in parts
    ]
    text = concat(
        [text if source is None else Traced.of(text, source) for (text, _), source in zip(parts, origins, strict=True)]
    )
    prompt = byte_tokenizer.encode(text, add_special_tokens=False)
    want = []
    for token in range(len(prompt)):
        found = prompt.char_range(token)
        assert found is not None
        origin, offset = text.at(found[0])
        if origin is None:
            want.append("(no source)")
        elif origin.pointer:
            want.append(origin.part)
        else:
            want.append(f"{origin.path}:{origin.position(offset)[0]}")
    got: list[str] = []
    for stop, key in source_lines(prompt):
        assert stop > len(got)
        got += [key] * (stop - len(got))
    assert got == want


# Random workloads.

values = st.sampled_from(["10:01", "10:02", "23:59", "x", ""])
lines = st.lists(
    st.sampled_from(
        ["The first one of some lines.\n", "Another line, also long enough.\n", "Short.\n", '{"a": 1, "b": [2, 3]}\n']
    ),
    max_size=5,
)


def written(value: str, in_template: list[str], question: str, options: dict[str, object]) -> Turn:
    text = from_template(value, "".join(in_template) + question)
    return Turn(text=text, output_tokens=1, **options)  # type: ignore[arg-type]


def counted(tokens: list[int], options: dict[str, object]) -> Turn:
    return Turn(token_ids=np.array(tokens, np.int32), output_ids=np.array([1, 2, 3], np.int32), **options)  # type: ignore[arg-type]


def trace(blocks: list[int], missing: int, options: dict[str, object]) -> Turn:
    last = blocks[-1] * 10 + missing if missing else blocks[-1]
    return Turn(
        hashed=HashedPrompt([*blocks[:-1], last], len(blocks) * BLOCK - missing, BLOCK), output_tokens=1, **options
    )  # type: ignore[arg-type]


of_whom = st.fixed_dictionaries(
    {
        "group": st.sampled_from(["x", "y"]),
        "session": st.sampled_from([None, "s1", "s2", "s3"]),
        "salt": st.sampled_from([None, None, "t1", "t2"]),
    }
)
turns = st.one_of(
    st.builds(written, values, lines, values, of_whom),
    st.builds(written, values, lines, values, of_whom),
    st.builds(counted, st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=40), of_whom),
    st.builds(trace, st.sampled_from([[1], [1, 2], [1, 2, 3], [4, 5]]), st.integers(0, 3), of_whom),
)
workloads = st.lists(st.lists(turns, min_size=1, max_size=3), min_size=1, max_size=8)


@given(
    workloads,
    st.lists(st.sampled_from(RUNGS), min_size=1, max_size=5),
    st.sampled_from(["session", "tenant", "line"]),
    st.none() | st.integers(40, 60),
    st.sampled_from([None, 1, 2]),
)
def test_everything_sums(
    byte_renderer: Renderer,
    workload: list[list[Turn]],
    rungs: list[Rung],
    by: By,
    num_blocks: int | None,
    concurrency: int | None,
) -> None:
    """Rows of requests, groups, sessions, tenants and lines: the fates of each sum to its tokens, its hits are the engine's."""
    for number, turn in enumerate(turn for conversation in workload for turn in conversation):
        turn.id = f"r{number}"
    how = {"num_blocks": num_blocks, "concurrency": concurrency}
    result = account(byte_renderer, workload, rungs=rungs, by=by, **how)
    found = result.ledger.sums()
    assert all(
        sum(row.fates.values()) == row.prompt_tokens and min(row.fates.values(), default=0) >= 0 for row in found
    )
    total: Counter[str] = Counter()
    for row in found:
        total.update(row.fates)
    assert {name: tokens for name, tokens in result.ledger.fates().items() if tokens} == {
        name: tokens for name, tokens in total.items() if tokens
    }
    assert sum(row.prompt_tokens for row in found) == sum(row.prompt_tokens for row in result.book(RowBook).rows)
    assert total["hit"] == sum(row.hit_tokens for row in result.book(RowBook).rows)
    for group in result.ledger.totals():
        mine = [row for row in result.book(RowBook).rows if row.group == group.name]
        assert sum(group.fates.values()) == group.prompt_tokens == sum(row.prompt_tokens for row in mine)
        assert group.fates["hit"] == sum(row.hit_tokens for row in mine)
    if by != "line":
        names = {
            turn.id: getattr(turn, "session" if by == "session" else "salt") for turns in workload for turn in turns
        }
        tokens: Counter[str] = Counter()
        hits: Counter[str] = Counter()
        for each in result.book(RowBook).rows:
            key = names[each.id] or f"(no {'session' if by == 'session' else 'salt'})"
            tokens[key] += each.prompt_tokens
            hits[key] += each.hit_tokens
        assert {row.key: (row.prompt_tokens, row.hit_tokens) for row in found} == {
            key: (tokens[key], hits[key]) for key in tokens
        }
    # With a session of its own for each request, rows are requests.
    for number, turn in enumerate(turn for conversation in workload for turn in conversation):
        turn.session = f"own {number}"
    alone = account(byte_renderer, workload, rungs=rungs, by="session", **how)
    own = {row.key: row for row in alone.ledger.sums()}
    for each in alone.book(RowBook).rows:
        row = own[f"own {each.id[1:]}"]
        assert (row.prompt_tokens, row.hit_tokens) == (each.prompt_tokens, each.hit_tokens)
        assert sum(row.fates.values()) == each.prompt_tokens
