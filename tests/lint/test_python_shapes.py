"""Shapes in which programs put prompts together: each of them is followed to the value that stands in front of the rules."""

from __future__ import annotations

import pytest

from tests.lint.found import made_findings

RULES = "Say in two sentences which berth is free, and name the row of the tide table that you took it from. " * 8
TEXT = f"Look at {{question}}. {RULES}"

SHAPES = {
    "% of an attribute": (
        f"class Berths:\n    TEXT = {TEXT.replace('{question}', '%s')!r}\n    def ask(self, llm, question):\n"
        "        return llm.invoke(self.TEXT % question)\n"
    ),
    "a key that is not known": (
        f"TEXTS = {{'a': {TEXT!r}, 'b': {TEXT!r}}}\ndef ask(llm, kind, question):\n"
        "    return llm.invoke(TEXTS.get(kind, TEXTS['a']).format(question=question))\n"
    ),
    "a default of a field": (
        "from pydantic import BaseModel, Field\nclass Config(BaseModel):\n"
        f"    extraction_prompt: str = Field(default={TEXT!r}, description='what is asked')\n"
    ),
    "a member of an enumeration": (
        f"from enum import Enum\nclass Texts(Enum):\n    JUDGE = {TEXT!r}\ndef ask(llm, question):\n"
        "    return llm.invoke(Texts.JUDGE.value.format(question=question))\n"
    ),
    "a function that fills what it is given": (
        f"TEXT = {TEXT!r}\ndef fill(template, **values):\n    return template.format(**values)\n"
        "def ask(llm, question):\n    return llm.invoke(fill(TEXT, question=question))\n"
    ),
    "an object that fills what it was made with": (
        f"TEXT = {TEXT!r}\nclass Asks:\n    def __init__(self, text):\n        self.text = text\n"
        "    def ask(self, llm, question):\n        return llm.invoke(self.text.format(question=question))\n"
        "def main(llm, question):\n    return Asks(TEXT).ask(llm, question)\n"
    ),
    "what is written bit by bit": (
        "import io\n"
        f"RULES = {RULES!r}\ndef ask(llm, question):\n    text = io.StringIO()\n    text.write(f'Look at {{question}}. ')\n"
        "    text.write(RULES)\n    return llm.invoke(text.getvalue())\n"
    ),
    "what a generator gives": (
        f"RULES = {RULES!r}\ndef lines(question):\n    yield f'Look at {{question}}.'\n    yield RULES\n"
        "def ask(llm, question):\n    return llm.invoke('\\n'.join(lines(question)))\n"
    ),
    "marks that a loop replaces": (
        f"TEXT = {TEXT!r}\ndef ask(llm, values):\n    text = TEXT\n    for name, value in values.items():\n"
        "        text = text.replace('{' + name + '}', value)\n    return llm.invoke(text)\n"
    ),
    "a lambda for each row": (
        f"RULES = {RULES!r}\ndef prepare(rows):\n"
        "    return rows.map(lambda row: {'prompt': f\"Look at {row['question']}. \" + RULES})\n"
    ),
}


def test_a_shape_is_followed() -> None:
    for code in SHAPES.values():
        assert [(one.code, "question" in one.message.partition(" ")[0]) for one in made_findings(code)] == [
            ("KV201", True)
        ]


def test_what_replaces_something_unknown_leaves_a_text_as_it_is() -> None:
    assert not made_findings(
        f"TEXT = {TEXT!r}\ndef ask(llm, old, new):\n    return llm.invoke(TEXT.replace(old, new))\n"
    )


@pytest.mark.parametrize(("name", "expected"), [("messages", True), ("messages_html", False), ("prompt_sql", False)])
def test_a_name_says_what_is_no_text_for_a_model(name: str, expected: bool) -> None:
    code = f"def show(question):\n    {name} = f'Look at {{question}}. ' + {RULES!r}\n    return {name}\n"
    assert bool(made_findings(code)) is expected


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [("path", "code", True), ("path", "template", False), ("'prompts', path", "code", False)],
)
def test_a_file_that_callers_give_is_what_is_asked_about(path: str, name: str, expected: bool) -> None:
    code = (
        f"from pathlib import Path\nRULES = {RULES!r}\ndef ask(llm, path):\n    {name} = Path({path}).read_text()\n"
        f"    return llm.invoke(f'File:\\n{{{name}}}\\n' + RULES)\n"
    )
    assert bool(made_findings(code)) is expected
