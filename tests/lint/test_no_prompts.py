"""What is no prompt, though it reads like one or has placeholders: pages, statements, sources of modules, tests, examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.config.asked_run import RunOptions
from kvtool.lint.finder import Finder
from kvtool.lint.python_evidence import Belief, Evidence, belief, call_says_example, name_says_example, speaks_of_models
from kvtool.lint.python_templates import PythonPrompts
from kvtool.lint.sources import sort_inputs
from kvtool.lint.static import static_findings
from kvtool.results.finding import Finding
from kvtool.text.tokens.tokenizer import load_tokenizer

RULES = (
    "You are the night porter of a small hotel. Answer only from the guest book, and name the page that you took it from. "
    "Never promise a room that is not written there. If you do not know the answer, say so in one sentence and stop. "
) * 3
PAGE = "<h1>{{ title }}</h1>\n" + "<p class='row'>Rooms of the house, by floor</p>\n" * 30


def python(text: str) -> list[Finding]:
    return static_findings(
        "a.py", text, PythonPrompts()("a.py", text), len, block_size=16, least=32, used=64, named=128
    )


def judged(path: Path, *, alone: bool) -> tuple[bool, list[str]]:
    """Whether a file holds what lint reads, and the severities of its findings; `alone`: it lay in a folder."""
    (one,) = sort_inputs([str(path)], [str(path)] if alone else []).texts
    result = Finder(RunOptions(inputs=[str(path)]), load_tokenizer).judge(one)
    return result.known, [finding.severity for finding in result.findings]


# Templates


@pytest.mark.parametrize("name", ["page.html.j2", "settings.conf.jinja", "Makefile.jinja"])
def test_templates_of_pages_and_files_are_passed_over_in_a_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(PAGE)
    assert judged(path, alone=True) == (False, [])
    known, severities = judged(path, alone=False)
    assert known
    assert severities  # who names it says that it is a prompt


@pytest.mark.parametrize("name", ["porter.j2", "prompts/porter.html.j2", "porter.md.jinja", "system_prompt.jinja"])
def test_templates_of_prompts_are_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("{{ question }}\n" + RULES)
    assert judged(path, alone=True) == (True, ["warning"])


def test_a_chat_template_is_one_whatever_it_reads_like(tmp_path: Path) -> None:
    path = tmp_path / "made.html.jinja"
    path.write_text(
        "{{ bos_token }}{{ strftime_now('%d %b %Y') }}{% for message in messages %}<p>{{ message.content }}</p>{% endfor %}"
    )
    assert judged(path, alone=True) == (True, ["warning"])


# Tests and examples


@pytest.mark.parametrize("name", ["test_porter.py", "porter_test.py", "conftest.py"])
def test_modules_of_tests_are_passed_over_in_a_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(f"import time\ndef go():\n    prompt = f'{{time.time()}} {RULES}'\n    return prompt\n")
    assert judged(path, alone=True) == (False, [])
    assert judged(path, alone=False) == (True, ["error"])


def test_what_a_test_case_holds_is_no_prompt() -> None:
    shown = f"'''Sum up {{{{ guest_note }}}} in the way that follows. {RULES}'''"
    assert python(f"class Task:\n    test_cases = [dict(prompt={shown})]\n") == []
    assert python(f"def go(note):\n    return [GuestTestCase(prompt=f'{{note}} {RULES}')]\n") == []
    assert python(f"def go(note):\n    return [ask_llm(prompt=f'{{note}} {RULES}')]\n") != []


def test_names_of_examples() -> None:
    assert all(map(name_says_example, ("test_cases", "self.testcase", "FIXTURES", "example_input")))
    assert not any(map(name_says_example, ("case", "test_prompt", "get_examples_for")))
    assert call_says_example("tools.SortTestCase")
    assert not call_says_example("make_example")


# Statements and sources


@pytest.mark.parametrize(
    "text",
    [
        "SELECT room, guest AS name\n  FROM book AS b WHERE floor = 3 GROUP BY room",
        "\n  CREATE TEMP MODEL porter_\n  OPTIONS (MODEL_TYPE = 'X')\n  AS SELECT * FROM rooms",
        "(SELECT * FROM rooms) AS r",
        "WITH free AS (SELECT room FROM book) SELECT * FROM free",
        "INSERT INTO book (room, guest) VALUES (1, 'a')",
    ],
)
def test_statements_for_a_database_are_none_whoever_gets_them(text: str) -> None:
    assert belief(Evidence.ASKED, text) is Belief.NO


def test_words_that_look_like_statements() -> None:
    assert belief(Evidence.ASKED, f"SELECT one of the rooms. {RULES}") is Belief.STRONG
    assert belief(Evidence.ASKED, f"Select the best room from the list. {RULES}") is Belief.STRONG


def test_the_source_of_a_module_is_none() -> None:
    text = (
        "'''\nPlease use this to write your own porter. Make sure that each of them says what it does in a line.\n'''\n"
        "import time\nfrom hotel import rooms\n\n@porter\nclass Night(rooms.Porter):\n    pass\n"
    )
    assert belief(Evidence.NAME, text) is Belief.NO
    assert belief(Evidence.NAME, f"{RULES}\n```\n{text}\n```") is Belief.STRONG


def test_programs_that_ask_no_model() -> None:
    assert speaks_of_models("from openai import OpenAI")
    assert speaks_of_models("def ask_llm(): ...")
    assert not speaks_of_models("import click\nprompt = click.prompt('your name')")
