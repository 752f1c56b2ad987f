"""Marks of other forms than braces, which code replaces by itself."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kvtool.lint.skeleton import MARKED, Hole, leaves, style_of
from tests.files import write
from tests.lint.found import made_findings, text_template

Command = Callable[..., tuple[int, str, str]]

RULES = "You keep the ledger of a small harbour. Answer only from the tide table, and say which page it was. " * 6


def test_marks_that_code_replaces() -> None:
    for mark in [
        "$QUESTION$",
        "<<question>>",
        "<< question >>",
        "[[question]]",
        "@@question@@",
        "%QUESTION%",
        "<current_date>",
    ]:
        import re

        text = f"Here: {mark}\n{RULES}"
        assert style_of(text) == "marks"
        assert re.search(MARKED, text)
        (hole,) = [leaf for leaf in leaves(text_template("a.md", text, "marks")) if isinstance(leaf, Hole)]
        assert (hole.spot.line, hole.spot.column, hole.spot.width) == (1, 7, len(mark))


def test_what_is_no_mark() -> None:
    for text in [
        "<<SYS>>", "100%SURE%d", "<question>", "$Q$", "<current_date>today</current_date>", "[[1]]", "@@ -1 @@",
    ]:  # fmt: skip
        assert style_of(f"Here: {text}\n{RULES}") != "marks"


def test_marks_that_name_nothing_asked_are_text() -> None:
    nodes = text_template("a.md", f"See [[harbour]], and <<reply>> of $QUESTION$.\n{RULES}", "marks")
    assert [leaf.what for leaf in leaves(nodes) if isinstance(leaf, Hole)] == ["`QUESTION`"]


@pytest.mark.parametrize(
    ("mark", "code", "told"),
    [
        ("[QUESTION]", "text.replace('[QUESTION]', question)", True),
        ("<question>", 'text.replace("<question>", str(question))', True),
        ("INPUT_QUESTION", "text.replace('INPUT_QUESTION', question)", True),
        ("[QUESTION]", "text.replace('[QUESTION]', 'none')", False),
        ("[QUESTION]", "text.replace('[ANSWER]', answer)", False),
        ("INPUT_QUESTIONS", "text.replace('INPUT_QUESTION', question)", False),
    ],
)
def test_what_code_replaces_is_a_mark(in_folder: Command, mark: str, code: str, told: bool) -> None:
    write("quay/prompts/ask.txt", f"Asked is {mark}.\n{RULES}")
    write("quay/run.py", f"def run(text, question, answer):\n    return {code}\n")
    found = json.loads(in_folder("lint", "--json", ".")[1])["findings"]
    assert [(one["path"], one["line"], one["code"]) for one in found] == (
        [("quay/prompts/ask.txt", 1, "KV201")] if told else []
    )


ASK = (
    "def ask(client, question, step):\n    text = KEEPER{first}.replace('<<QUESTION>>', question).replace('<<STEP>>', step)\n"
    "    return client.chat.completions.create(model='m', messages=[{{'role': 'user', 'content': text}}])\n"
)


def test_each_of_several_replacements_is_told_at_its_mark() -> None:
    code = f'KEEPER = """You keep a ledger.\nHow: <<HOW>>\nAsked: <<QUESTION>>\nStep: <<STEP>>\n{RULES}"""\n'
    told = made_findings(code + ASK.format(first=".replace('<<HOW>>', 'kindly')"))
    assert [(one.code, one.line) for one in told] == [("KV201", 3)]


def test_braces_beside_such_marks_are_shown() -> None:
    code = f'KEEPER_PROMPT = """Write a template with {{question}} and {{document}} in it.\n{RULES}<<QUESTION>> <<STEP>>"""\n'
    assert not made_findings(code)
    assert made_findings(code.replace("<<QUESTION>> <<STEP>>", ""))


def test_headings_between_such_signs_are_no_marks() -> None:
    """As prompts of routers have them, with values in braces."""
    code = f'KEEPER_PROMPT = """<< FORM >>\n{RULES}\n<< INPUT >>\n{{question}}\n<< OUTPUT >>\n{RULES}"""\n'
    assert [(one.code, one.message.partition(" ")[0]) for one in made_findings(code)] == [("KV201", "`question`")]


@pytest.mark.parametrize(
    ("value", "told"), [("this.config.question", False), ("process.env.QUESTION", False), ("this.find(turn)", True)]
)
def test_a_mark_that_gets_a_setting_of_an_object_or_a_process_is_the_same_in_all_requests(
    value: str, told: bool
) -> None:
    code = f"""const SYSTEM_PROMPT = `You answer: {{{{QUESTION}}}}\n{RULES * 2}`;
export class Router {{
  constructor(config) {{ this.config = config; }}
  prompt(turn) {{ return SYSTEM_PROMPT.replace('{{{{QUESTION}}}}', {value}); }}
  go(turn, openai) {{ return openai.responses.create({{ input: this.prompt(turn) }}); }}
}}
"""
    assert bool([one for one in made_findings(code, "prompt.ts") if one.severity != "info"]) is told
