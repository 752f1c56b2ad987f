"""Braces and dollars that a text only shows are no placeholders; what a text says of another one costs nothing more."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from kvtool.lint.evidence import quoted_code
from kvtool.lint.evidence.prompt_evidence import reads_as, reads_as_reply
from kvtool.lint.evidence.quoted_code import is_quoted, quoted_ranges
from kvtool.lint.skeleton import Hole, holes, placeholders
from kvtool.results.finding import Finding
from tests.lint.found import static_findings, text_template

RULES = " ".join(f"Rule {number}: be short, be kind, and never promise a refund." for number in range(20))


def lint(text: str, style: str = "format") -> list[Finding]:
    return static_findings(
        "a.md", text, [text_template("a.md", text, style)], len, block_size=16, least=16, used=96, named=64
    )


SHOWN = {
    "a fence of Python": "Do so:\n```python\nlog.info(f'{task}')\n```\n",
    "a fence of a shell": "Do so:\n~~~sh\necho {question}\n~~~\n",
    "an f-string": "    print(f'Answer: {answer}')\n",
    "told to be replaced": "- {task} is replaced with the task itself.\n",
    "told to be replaced, used before": "Ask {task} of it.\n- {task} will be filled in by the program.\n",
    "called a placeholder": "It may hold placeholders such as `{question}` in any order.\n",
    "to be used": 'Use "{question}" in your own text.\n',
    "a type": "Return a list of {int} and {str}.\n",
}


def test_what_a_text_only_shows() -> None:
    for form in SHOWN:
        assert lint(SHOWN[form] + RULES) == []


FILLED = {
    "plain": "Task: {task}\n",
    "a fence of no language": "Task:\n```\n{task}\n```\n",
    "a fence of text": "Task:\n```text\n{task}\n```\n",
    "a fence that code is put in": "Code:\n```python\n{code}\n```\n",
    "a fence that is closed by a word": "Code:\n```python\n{code}\n```end\nSo:\n```python\nx = 1\n```end\n",
    "a verb before it": "Write about {topic} only.\n",
    "quoted": 'The question is "{question}".\n',
    "behind a fence": "```python\nx = 1\n```\nTask: {task}\n",
}


def test_what_is_filled() -> None:
    for form in FILLED:
        assert [one.code for one in lint(FILLED[form] + RULES)] == ["KV201"]


def test_dollars() -> None:
    for name, shown in [("$defs", True), ("$HOME", True), ("${task}", False), ("$task", False)]:
        assert is_quoted(f"See {name} there.", 4, 4 + len(name), []) is shown


def test_fences_of_any_length_and_order() -> None:
    make = random.Random(3)
    for _ in range(50):
        text, wanted = "", []
        for _ in range(make.randint(1, 6)):
            mark, language = make.choice("`~") * make.randint(3, 5), make.choice(["python", "", "text", "js"])
            start = len(text) + len(mark) + len(language)
            body = f"\n{make.choice(['x', 'f({a})', 'b = 1'])}\n"
            if language in ("python", "js"):
                wanted.append((start, start + len(body)))
            text += f"{mark}{language}{body}{mark}\n"
        assert quoted_ranges(text) == wanted


def test_a_label_is_nothing_that_could_stand_before() -> None:
    spots = [
        node
        for node in text_template("a.md", "{task}\nNotes:\n{notes}\nDraft:\n{draft}\n", "format")
        if isinstance(node, Hole)
    ]
    assert len(spots) == 3
    behind = holes(text_template("a.md", f"{{task}}\nNotes:\n{{notes}}\n{RULES}", "format"), len)[0].behind
    assert behind.movable == len(RULES) + 1
    assert behind.tokens > behind.movable
    assert lint("{task}\nNotes of what they wrote:\n{notes}\nDraft of the answer so far:\n{draft}\nAnswer:") == []


def test_a_value_beside_one_that_is_asked_is_named_with_it() -> None:
    (found,) = lint(f"About {{widget}}:\nQuestion: {{question}}\n{RULES}")
    assert (found.line, found.column, found.code) == (2, 11, "KV201")
    assert found.message.endswith("; `widget` before it may change too")
    (found,) = lint(f"By {{agent_name}}:\nQuestion: {{question}}\n{RULES}")
    assert found.line == 2


def test_a_text_that_answers_what_a_model_wrote() -> None:
    for text, reply in [
        ("Your previous response failed JSON schema validation.", True),
        ("That is invalid. Please try again.", True),
        ("We work on a task. The above messages hold the steps that were taken.", True),
        ("Recall that we are working on this task:", True),
        ("Summarize the messages below.", False),
        ("You are a reviewer. Fix the errors in it.", False),
        ("Please fix these problems.", True),
        ("\n    Fix the errors", True),
        ("It says no.\n- **Fix the errors**", True),
        ("You help people to fix the errors.", False),
        ("The row is bad.\nCorrect the errors.", True),
        ("Say how to fix the issue.", False),
        ("Does this explanation address the code issue?", False),
        ("Summarize the report.", False),
    ]:
        assert reads_as_reply(text) is reply


def test_a_text_that_begins_as_code_is_none() -> None:
    for first in ["import os", "from a.b import c", "curl -X POST https://a.example", "const a = 1;"]:
        assert (
            reads_as(
                f"{first}\nPlease make sure that the answer is a list of all the rows. Do not write more than that."
            )
            == -1
        )


_PARTS = (
    *(
        "{a}", "{b}", "${a}", "$a", "$bc", "{a.b}", "{a!r}", " ", "  ", "is ", "replaced", " is replaced",
        "placeholders",
    ),
    *("syntax", "\n", "`", '"', "}", "{", "$", "means a placeholder", " will be filled", "stands for the placeholder"),
)  # fmt: skip
_SAID = re.compile(
    r"[}`\"'\s]{0,4}\s?(?:(?:is|are|will be|gets?|means|stands for)\s(?:automatically\s)?"
    r"(?:replaced|filled|substituted|inserted|expanded|interpolated|resolved|an?\splaceholders?|the\splaceholder)"
    r"|placeholders?\b|syntax\b)"
)


def test_what_is_said_behind_any_of_its_places_says_it_of_a_placeholder() -> None:
    """Found in one pass over the text, as if each place of each placeholder were looked at."""
    rng = random.Random(11)
    seen = 0
    for _ in range(600):
        text = "".join(rng.choices(_PARTS, k=rng.randint(1, 30)))
        for style in ("format", "dollar"):
            for start, stop, _ in placeholders(text, style):
                same = re.finditer(re.escape(text[start:stop]), text)
                if any(_SAID.match(text, one.end(), one.end() + 100) for one in same):
                    assert is_quoted(text, start, stop, [])
                    seen += 1
    assert seen > 100


def test_a_long_text_is_not_gone_through_for_each_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Counting:
        def finditer(self, text: str) -> Iterator[re.Match[str]]:
            asked.append(len(text))
            return iter(())

    monkeypatch.setattr(quoted_code, "_SAID_WORD", Counting())
    text = "\n".join(f"Rule {number}: use {{name{number}}}." for number in range(300))
    text_template("a.txt", text, "format")
    assert asked == [len(text)]
