"""What is no prompt, though it reads like one or has placeholders: pages, statements, sources of modules, tests, examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.config.asked_run import RunOptions
from kvtool.lint.evidence.prompt_evidence import (
    Belief,
    Evidence,
    belief,
    is_example_call,
    is_example_name,
    speaks_of_models,
)
from kvtool.lint.evidence.quoted_code import quoted_ranges
from kvtool.lint.file_findings import Finder
from kvtool.lint.folders.folder_files import WalkRules, project_files
from kvtool.lint.lint_inputs import sort_inputs
from kvtool.lint.python.built_prompts import python_prompts
from kvtool.results.finding import Finding
from kvtool.text.files.ignored import PatternsAt
from kvtool.text.tokens.tokenizer import load_tokenizer
from tests.lint.found import static_findings

RULES = (
    "You are the night porter of a small hotel. Answer only from the guest book, and name the page that you took it from. "
    "Never promise a room that is not written there. If you do not know the answer, say so in one sentence and stop. "
) * 3
PAGE = "<h1>{{ question }}</h1>\n" + "<tr><td>1</td><td>2</td></tr>\n" * 30


def python(text: str) -> list[Finding]:
    return static_findings(
        "a.py", text, python_prompts("a.py", text)[0], len, block_size=16, least=32, used=64, named=128
    )


def judged(path: Path, *, alone: bool) -> tuple[bool, list[str]]:
    """Whether a file holds what lint reads, and the severities of its findings; `alone`: it lay in a folder."""
    (one,) = sort_inputs([str(path)], [str(path)] if alone else []).texts
    result = Finder(RunOptions(inputs=[str(path)]), load_tokenizer).judge(one)
    return result.known, [finding.severity for finding in result.findings]


# Templates


@pytest.mark.parametrize(
    "name",
    ["page.html.j2", "settings.conf.jinja", "Makefile.jinja", "root.rst.jinja2", "book.opf.jinja", "test_porter.py"],
)
def test_templates_of_other_files_and_tests_are_not_read_in_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{{ question }}\n" + RULES)
    assert project_files(str(tmp_path)).paths == []


@pytest.mark.parametrize("name", ["porter.j2", "porter.md.jinja", "porter.v2.1.j2", "tests.py", "contest.py"])
def test_what_may_be_a_prompt_is_read_in_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(RULES)
    assert [Path(path).name for path in project_files(str(tmp_path)).paths] == [name]


def test_tests_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(RULES)
    rules = WalkRules(exclude=(PatternsAt.of(str(tmp_path), ["!conftest.py"]),))
    assert [Path(path).name for path in project_files(str(tmp_path), rules).paths] == ["conftest.py"]


def test_a_template_in_a_folder_that_reads_like_markup_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.j2"
    path.write_text(PAGE)
    assert judged(path, alone=True) == (False, [])
    known, severities = judged(path, alone=False)
    assert known
    assert severities  # who names it says that it is a prompt


@pytest.mark.parametrize("name", ["porter.j2", "prompts/porter.j2", "porter.md.jinja", "system_prompt.jinja"])
def test_templates_of_prompts_are_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("{{ question }}\n" + RULES)
    assert judged(path, alone=True) == (True, ["warning"])


def test_a_chat_template_is_one_whatever_it_reads_like(tmp_path: Path) -> None:
    path = tmp_path / "made.jinja"
    path.write_text(
        "{{ bos_token }}{{ strftime_now('%d %b %Y') }}{% for message in messages %}<p>{{ message.content }}</p>{% endfor %}"
    )
    assert judged(path, alone=True) == (True, ["warning"])


# Examples


def test_what_a_test_case_holds_is_no_prompt() -> None:
    shown = f"'''Sum up {{{{ guest_note }}}} in the way that follows. {RULES}'''"
    assert python(f"class Task:\n    test_cases = [dict(prompt={shown})]\n") == []
    assert python(f"def go(note):\n    return [GuestTestCase(prompt=f'{{note}} {RULES}')]\n") == []
    assert python(f"def go(note):\n    return [ask_llm(prompt=f'{{note}} {RULES}')]\n") != []


def test_names_of_examples() -> None:
    assert all(map(is_example_name, ("test_cases", "self.testcase", "FIXTURES", "example_input")))
    assert not any(map(is_example_name, ("case", "test_prompt", "get_examples_for")))
    assert is_example_call("tools.SortTestCase")
    assert not is_example_call("make_example")


# Statements and sources


def test_statements_for_a_database_are_none_whoever_gets_them() -> None:
    for text in [
        "SELECT room, guest AS name\n  FROM book AS b WHERE floor = 3 GROUP BY room",
        "\n  CREATE TEMP MODEL porter_\n  OPTIONS (MODEL_TYPE = 'X')\n  AS SELECT * FROM rooms",
        "(SELECT * FROM rooms) AS r",
        "WITH free AS (SELECT room FROM book) SELECT * FROM free",
        "INSERT INTO book (room, guest) VALUES (1, 'a')",
    ]:
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
    assert speaks_of_models("def go(agent: ChatAgent): ...")
    assert not speaks_of_models("import click\nprompt = click.prompt('your name')")


# Reports, and orders that say nothing


def test_what_is_only_written_or_logged_is_none() -> None:
    page = f"    page = f'{{time.time()}} {RULES}'\n"
    for use in ("    f.write(page)", "    with open('a.md') as out:\n        out.write(page)", "    logger.info(page)"):
        assert python(f"import time\ndef go(f):\n{page}{use}\n") == []
    assert python(f"import time\ndef go(f):\n{page}    f.write(page)\n    return page\n") != []


@pytest.mark.parametrize("rows", ["set(rows)", "{one.name for one in rows}", "frozenset(find(rows))"])
def test_the_order_of_what_is_not_known_is_information(rows: str) -> None:
    (one,) = python(f"def go(rows):\n    prompt = ', '.join({rows}) + {RULES!r}\n    return prompt\n")
    assert (one.code, one.severity) == ("KV113", "info")


def test_the_order_of_a_declared_set_is_information_and_that_of_constants_an_error() -> None:
    (one,) = python(f"def go(rows: set[str]):\n    prompt = ', '.join(rows) + {RULES!r}\n    return prompt\n")
    assert (one.code, one.severity) == ("KV113", "info")
    text = f"FLOORS = {{'first', 'second'}}\ndef go():\n    prompt = ', '.join(FLOORS) + {RULES!r}\n    return prompt\n"
    assert [found.severity for found in python(text)] == ["error"]


def test_a_second_order_behind_one_costs_nothing_more() -> None:
    text = (
        "FLOORS = {'first', 'second'}\nROOMS = {'blue', 'green'}\n"
        f"def go():\n    prompt = ', '.join(FLOORS) + {RULES!r} + ', '.join(ROOMS) + {RULES!r}\n    return prompt\n"
    )
    assert [(found.code, found.line) for found in python(text)] == [("KV113", 4)]


def test_a_shuffle_behind_an_order_is_told() -> None:
    text = (
        "import random\nFLOORS = {'first', 'second'}\ndef go(rows):\n    random.shuffle(rows)\n"
        f"    prompt = ', '.join(FLOORS) + {RULES!r} + ' '.join(rows) + {RULES!r}\n    return prompt\n"
    )
    assert [found.code for found in python(text)] == ["KV113", "KV113"]


# Examples in blocks


def test_blocks_that_show_an_example() -> None:
    for before, block, shown in [
        ("Example of a note:", "Please wake {guest} at seven, and bring a pot of tea.", True),
        ("### Example: a long note", "Please wake {guest} at seven, and bring a pot of tea.", True),
        ("Examples:", "Please wake {guest} at seven, and bring a pot of tea.", False),
        ("Example of a note:", "{guest}", False),
        ("The note:", "Please wake {guest} at seven, and bring a pot of tea.", False),
    ]:
        text = f"{RULES}\n\n{before}\n\n```\n{block}\n```\n"
        assert bool(quoted_ranges(text)) is shown
