"""Mutants: where code can be changed, one place at a time, and what tests then say of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from tests.fuzz.mutants import ROOT, Mutant, chosen, is_a_change, judged, mutations, room_tests

SITES = {
    "a < b": ["a <= b"],
    "a  is  not b": ["a  is b"],
    "a not in b": ["a in b"],
    "0x10 == b != c": ["0x10 != b != c", "0x10 == b == c"],
    "a and b and c": ["a or b and c", "a and b or c"],
    "not a": ["a"],
    "(a) - (b + 1_000)": ["(a) + (b + 1_000)", "(a) - (b - 1_000)", "(a) - (b + 1001)"],
    "é + b": ["é - b"],
    "(a +\n b)": ["(a -\n b)"],
    "'x' + a": [],
    "f'{a}' + b": [],
    "-a": [],
    "True": [],
    "def f(a: Literal[1] = 2) -> Literal[3]:\n    'Docs: 1 < 2'": ["def f(a: Literal[1] = 3) -> Literal[3]:\n    'Docs: 1 < 2'"],
    "a: Literal[1] = 2": ["a: Literal[1] = 3"],
    "assert a, 'more than ' + str(1)": [],
    "if TYPE_CHECKING:\n    a = 1": [],
    "__slots__ = tuple(names[1:])": [],
    "@lru_cache(maxsize=64)\ndef f(): return 1": ["@lru_cache(maxsize=64)\ndef f(): return 2"],
}  # fmt: skip


def test_every_site_is_found_and_changed_alone() -> None:
    for source in SITES:
        text = source.encode()
        assert [mutation.applied(text).decode() for mutation in mutations(text)] == SITES[source]


def test_an_operator_of_a_comment_is_no_change() -> None:
    text = b"x = (a  # one < two\n < b)"
    assert [is_a_change(text, mutation) for mutation in mutations(text)] == [False]


def test_a_seed_chooses_mutants_and_a_place_those_of_a_line() -> None:
    first = list(islice(chosen(ROOT, 7, room="gate"), 5))
    assert first == list(islice(chosen(ROOT, 7, room="gate"), 5))
    path, mutation = first[0]
    source = (ROOT / path).read_bytes()
    line = source.count(b"\n", 0, mutation.start) + 1
    assert first[0] in list(chosen(ROOT, 1, place=f"{path}:{line}"))
    assert first[0] not in list(chosen(ROOT, 1, place=f"{path}:{line + 1}"))


@pytest.mark.parametrize(
    ("codes", "verdict"),
    [
        ([0, 0], "survived"),
        ([1, 0], "killed"),
        ([0, 1, 0], "killed"),
        ([1, 1], "fails unmutated"),
        ([0, None], "timeout"),
    ],
)
def test_a_mutant_is_judged_by_the_tests_that_name_it_and_then_by_its_room(
    tmp_path: Path, codes: list[int | None], verdict: str
) -> None:
    for name, text in {
        "engine/blocks/cache.py": "a = 1\n",
        "tests/engine/test_a.py": "from kvtool.engine.blocks.cache import a",
        "tests/engine/deep/test_b.py": "from kvtool.engine.cached import a",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    named, others = "tests/engine/test_a.py", "tests/engine/deep/test_b.py"
    assert room_tests(tmp_path, "engine/blocks/cache.py") == [[named], [others]]
    seen: list[tuple[tuple[str, ...], str]] = []

    def run_tests(arguments: Sequence[str]) -> int | None:
        seen.append((tuple(arguments), (tmp_path / "engine/blocks/cache.py").read_text()))
        return codes[len(seen) - 1]

    (mutation,) = mutations(b"a = 1\n")
    assert judged(tmp_path, Mutant("engine/blocks/cache.py", mutation), run_tests) == verdict
    assert (tmp_path / "engine/blocks/cache.py").read_text() == "a = 1\n"
    assert seen[0] == ((named,), "a = 2\n")
    if codes[-1] is not None and codes[0]:
        assert seen[-1] == ((named, "--last-failed"), "a = 1\n")
    elif codes[0] == 0:
        assert seen[1] == ((others,), "a = 2\n")
