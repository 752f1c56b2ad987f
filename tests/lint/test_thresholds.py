"""Each threshold of lint decides something: with a half more or less of any, a prompt here is judged otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from itertools import product

import pytest

from kvtool.config.asked_run import RunOptions
from kvtool.lint import file_findings, skeleton
from kvtool.lint.file_findings import Finder
from kvtool.lint.findings import template_findings
from kvtool.lint.lint_inputs import TextInput
from kvtool.lint.lint_thresholds import THRESHOLDS, LintThresholds
from kvtool.text.tokens.tokenizer import Tokenizers

SENTENCES = (
    "Say in two sentences which berth is free , and name the row of the tide table that you took it from .\n"
    "Answer in the language of the harbour , and never promise a berth that the table does not show .\n"
)
WORDS = (SENTENCES * 12).split(" ")


def written(words: int) -> str:
    """So many words of rules, about as many tokens."""
    return " ".join(WORDS[:words])


def prompts() -> Iterator[str]:
    """Prompts with one value and with several, with more and less text before, between and after them."""
    for name, words in product(("question", "user_name", "customer"), range(8, 160, 12)):
        yield f"You know this town.\n{{{name}}}\n{written(words)}"
    for words in range(60, 480, 30):
        yield f"You know this town.\n{{harbour}}\n{written(words)}"
    for between, after in product((4, 30, 300), (30, 50, 70, 90, 240)):
        yield f"You know this town.\n{{harbour}}\n{written(between)}\n{{question}}\n{written(after)}"
    for before, after in product(range(0, 16, 2), (100, 240)):
        yield f"{written(before)}\n{{prompt}}\n{written(after)}"
    for words, label in product(range(4, 60, 4), (1, 10, 14, 20, 28)):
        line = " ".join(WORDS[:label]).replace("\n", " ")
        yield "{question}\n" + f"{written(words)}\n{line}: {{harbour}}\n" * 4


def inputs() -> Iterator[TextInput]:
    """The prompts as templates, as files of a folder, and as code that fills them; some of their text may be left out."""
    for text in prompts():
        yield TextInput("prompts/a.txt", text, "text", "format")
    for words in range(4, 80, 6):
        clock = f"You know the harbour.\nIt is {{{{ now() }}}}.\n{written(words)}"
        yield TextInput("prompts/a.jinja", clock, "template", "jinja", found=True)
        code = f'SYSTEM_PROMPT = f"""It is {{datetime.now()}}.\n{written(words)}"""\n'
        yield TextInput("made.py", f"from datetime import datetime\n{code}", "python")
    for words in range(20, 220, 12):
        code = f'SYSTEM_PROMPT = f"""You help {{user_name}}.\n{written(words)}"""\n'
        yield TextInput("made.py", f"def made(user_name):\n    {code}", "python")
    for words in range(30, 60):
        repeated = (
            f"You know.\n{{{{ question }}}}\n{written(words)}\n{{% for one in rows %}}{written(80)}{{% endfor %}}"
        )
        yield TextInput("prompts/a.jinja", repeated, "template", "jinja")
        more = f"more = {written(80)!r} if harbour else ''"
        code = f'SYSTEM_PROMPT = f"""You know.\n{{question}}\n{written(words)}\n{{more}}"""\n'
        yield TextInput("made.py", f"def made(question, harbour):\n    {more}\n    {code}", "python")


@cache
def tokenizers() -> Tokenizers:
    return Tokenizers(offline=True)


def judged(one: TextInput) -> list[tuple[object, ...]]:
    findings = Finder(RunOptions(inputs=[one.path]), tokenizers()).judge(one).findings
    return [(each.code, each.severity, each.line, each.column, each.message) for each in findings]


@cache
def as_they_are() -> tuple[list[tuple[object, ...]], ...]:
    return tuple(map(judged, inputs()))


@pytest.mark.parametrize("share", [0.5, 1.5])
@pytest.mark.parametrize("name", [one.name for one in fields(LintThresholds)])
def test_each_threshold_decides_something(name: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    before = as_they_are()
    other = replace(THRESHOLDS, **{name: round(share * getattr(THRESHOLDS, name))})
    for module in (file_findings, skeleton, template_findings):
        monkeypatch.setattr(module, "THRESHOLDS", other)
    assert any(judged(one) != was for one, was in zip(inputs(), before, strict=True))
