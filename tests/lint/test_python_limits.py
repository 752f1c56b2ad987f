"""Python files that are strange, deep, large, or of a later Python."""

from __future__ import annotations

import platform

import pytest

from kvtool.errors import KvtoolError
from kvtool.lint.evidence.value_precision import sure_kind
from kvtool.lint.python import changed_values as python_changes
from kvtool.lint.python import expressions as python_expressions
from kvtool.lint.python import program as python_program
from kvtool.lint.python import text_values as python_values
from kvtool.lint.python import work_budget
from kvtool.lint.python.built_prompts import python_prompts
from tests.lint.made_python import codes, found

# Bounds


def test_what_calls_itself_and_each_other() -> None:
    text = "def a():\n    return b() + f'{time.time()}'\ndef b():\n    return a()\ndef build_prompt():\n    return a() + RULES\n"
    assert codes(text) == ["KV101"]


def test_values_that_double_stay_bounded() -> None:
    text = "a = f'{time.time()}x'\n" + "a = a + a\n" * 20 + "prompt = a + RULES\n"
    assert codes(text) == ["KV101"]
    text = "a = f'{time.time()}x'\n" + "a = a + a\n" * 5000 + "prompt = a + RULES\n"
    assert set(codes(text)) <= {"KV101"}
    text = "def f(x):\n    a = f'{time.time()}'\n" + "".join(
        f"    if x == {n}:\n        a = f'{{a}}{{a}}{n}'\n" for n in range(300)
    )
    assert set(codes(text + "    prompt = a + RULES\n    return prompt\n")) <= {"KV101"}


def test_strange_files() -> None:
    for text in [
        "x = " + "f(" * 80 + "1" + ")" * 80,
        "x = " + "[" * 90 + "1" + "]" * 90,
        "x = 1" + " + 1" * 300,
        "x = a" + ".b" * 2000,
        "def f():\n" + "".join(" " * depth + "if x:\n" for depth in range(1, 90)) + " " * 90 + "y = 1\n",
        "class A(A): pass\nclass B(C): pass\nclass C(B):\n    def prompt(self):\n        return self.x\n",
        "def f(f=f): return f(f)\n",
        "from . import a\nfrom .. import b\nfrom ..... import c\na.b(b.c(c))\n",
        "import a\na = a.a(a)\n",
        "x: int\nx += 1\nx, (y, *z) = 1, (2, 3)\ndel x\n",
        "match x:\n    case {'a': b} if b:\n        y = 1\n    case _:\n        pass\n",
    ]:
        assert found(text + "\n") == []


def test_nesting_that_is_too_deep_is_told() -> None:
    with pytest.raises(KvtoolError):
        found("x = " + "(" * 400 + "1" + ")" * 400)


def test_names_that_say_enough() -> None:
    for name, key in [
        ("current_time", "time"), ("self.now", "time"), ("sessionId", "request_id"), ("runtime", None),
        ("candidate", None), ("user_role", None), ("plan_result", None), ("time_limit", None), ("update", None),
    ]:  # fmt: skip
        kind = sure_kind(name)
        assert (kind and kind.key) == key


# Work


def _chain(functions: int) -> str:
    """Functions of which each calls the one before."""
    parts = ["def f0(question):\n    return f'You are a helper. {question}'\n"]
    parts += [
        f"def f{i}(question):\n    x = f'step {i}: {{question}}'\n    return f'{{x}} and then {{f{i - 1}(x)}}. Answer.'\n"
        for i in range(1, functions)
    ]
    return "\n".join(parts)


def test_the_work_for_a_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _chain(2_000)
    most = 50_000
    monkeypatch.setattr(python_program, "_LEAST_STEPS", most)
    spent = 0
    spend = work_budget.spend

    def counted(steps: int = 1) -> None:
        nonlocal spent
        spend(steps)
        spent += steps

    for module in (python_values, python_changes, python_expressions):
        monkeypatch.setattr(module, "spend", counted)
    assert python_prompts("a.py", text) is not None
    assert 0 < spent <= most + len(text)


def test_a_file_of_a_later_python_is_told_to_be_one_perhaps() -> None:
    with pytest.raises(KvtoolError, match="not Python") as caught:
        python_prompts("a.py", "first = 1\nfirst second\n")
    assert (
        caught.value.hint
        == f"kvtool runs on Python {'.'.join(platform.python_version_tuple()[:2])}; use that of the file if it is later"
    )
    assert caught.value.place is not None
    assert caught.value.place.line == 2
