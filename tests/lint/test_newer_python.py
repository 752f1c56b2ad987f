"""Files for a later Python are read as far as an earlier parser can be made to: each character stays at its place."""

from __future__ import annotations

import ast
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.lint.python.python_source import for_earlier_parsers, parsed
from tests.lint.found import made_findings

LATER = {
    "its own quotes": 'x = f"{d["key"]} and {", ".join(a)}"\n',
    "single quotes": "x = f'{a['b']} c'\n",
    "a backslash": 'x = f"{"\\n".join(a)}"\n',
    "three deep": 'x = f"a {f"{y["k"]}"} b"\n',
    "triple quotes": 'x = f"""{d["a"]}\n{"""q"""}"""\n',
    "a raw string": 's = rf"\\d{x["a"]}"\n',
    "other letters": 's = f"{x["\u00e9"]} \u0645"\n',
    "a format": 's = f"{x["a"]!r:>{w["b"]}} end"\n',
    "a generic function": "def first[T: (int, str), *U](x: list[T]) -> T:\n    return x[0]\n",
    "a generic class": "class Box[T](Base[T]):\n    pass\n",
    "a type": "type Pair[T] = tuple[T, T]\ntype Id = int\n",
}


def test_what_a_later_python_reads() -> None:
    for code in LATER.values():
        earlier = for_earlier_parsers(code)
        assert [len(line.encode()) for line in earlier.split("\n")] == [len(line.encode()) for line in code.split("\n")]
        ast.parse(earlier)
        parsed(code)


@pytest.mark.parametrize(
    "code",
    ["x = f'{a\n}'\n", "x = 'open\n", "def f(:\n", "x = f'{'\n", "x = f'{a # b}'\n", "type = 3 3\n"],
    ids=["lines", "open", "no Python", "an open field", "a comment", "a name"],
)
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a later Python reads some of them")
def test_what_nobody_reads_is_told_as_it_is(code: str) -> None:
    with pytest.raises(SyntaxError) as caught:
        parsed(code)
    with pytest.raises(SyntaxError) as plain:
        ast.parse(code)
    assert caught.value.msg == plain.value.msg


@given(st.text(alphabet="f\"'{}[]()\\\n# abr\u00e9:!", max_size=60))
def test_any_text_keeps_its_places(code: str) -> None:
    earlier = for_earlier_parsers(code)
    assert [len(line.encode()) for line in earlier.split("\n")] == [len(line.encode()) for line in code.split("\n")]


def test_names_that_only_look_like_parameters_stay() -> None:
    plain = "type = 1\ntype == 2\ntypes [x] = 3\nclass_[T] = 4\n"
    assert for_earlier_parsers(plain) == plain


def test_a_prompt_in_a_file_for_a_later_python_is_told_at_its_place() -> None:
    rules = "Answer only from the tide table, and name the row that you took it from. " * 12
    code = f'def ask[T](llm: T, row, question):\n    return llm.invoke(f"Row {{row["day"]}}: {{question}} {rules}")\n'
    (found,) = made_findings(code)
    assert (found.code, found.line) == ("KV201", 2)
    assert "`question`" in found.message
