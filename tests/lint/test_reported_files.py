"""A value is reported in the file of its prompt; what nothing in a project uses is not reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.files import write

Lint = Callable[..., tuple[int, str, str]]

RULES = (
    "You keep the ledger of a small harbour. Answer only from the tide table, and name the row that it was taken from. "
    * 6
)
TEMPLATE = f'TIDE_PROMPT = """\nIt is {{current_time}} at the quay.\n{RULES}\n{{question}}\n"""\n'
CALL = """
from datetime import datetime
from pkg.texts.prompts import TIDE_PROMPT

def {name}(client, question):
    return client.chat.completions.create(
        model="m",
        messages=[{{"role": "user", "content": TIDE_PROMPT.format(current_time=datetime.now(), question=question)}}],
    )
"""


@pytest.fixture
def package(in_folder: Callable[..., Lint]) -> Lint:
    """`kvtool lint` in a folder with a package of two folders."""
    command: Any = in_folder
    for name in ("pkg/__init__.py", "pkg/texts/__init__.py", "pkg/run/__init__.py"):
        write(name, "")
    return lambda *arguments: command("lint", "--offline", "--no-config", "--json", *arguments)


def told(package: Lint, *arguments: str) -> list[tuple[str, int, str]]:
    found = json.loads(package(*arguments)[1])["findings"]
    return [(one["path"], one["line"], one["code"]) for one in found]


def test_a_template_that_another_file_fills_is_reported_in_its_own(package: Lint) -> None:
    write("pkg/texts/prompts.py", TEMPLATE)
    write("pkg/run/ask.py", CALL.format(name="ask"))
    assert told(package, "pkg") == [("pkg/texts/prompts.py", 2, "KV101")]
    write("pkg/texts/prompts.py", TEMPLATE.replace("current_time", "a"))
    write("pkg/run/ask.py", CALL.format(name="ask").replace("current_time=", "a="))
    assert ("pkg/run/ask.py", 8, "KV101") in told(package, "pkg"), "only the call says what it is"


def test_a_clock_of_another_file_is_told_where_a_prompt_calls_it(package: Lint) -> None:
    helpers = "from datetime import datetime\n\ndef stamp():\n    return {}\n"
    write("pkg/texts/prompts.py", f"from pkg.run.helpers import stamp\n\nTIDE_PROMPT = f'{{stamp()}} {RULES}'\n")
    before = told(package, "pkg/texts")
    write("pkg/run/helpers.py", helpers.format("'the tide office'"))
    assert told(package, "pkg/texts") == before
    write("pkg/run/helpers.py", helpers.format("datetime.now()"))
    assert told(package, "pkg/texts") == [*before, ("pkg/texts/prompts.py", 3, "KV101")]


def test_what_no_code_of_a_project_names_is_not_told(package: Lint) -> None:
    write("pkg/texts/prompts.py", TEMPLATE + TEMPLATE.replace("TIDE", "EBB"))
    write("pkg/run/ask.py", CALL.format(name="ask"))
    assert [line for _, line, _ in told(package, "pkg")] == [2]
    assert [line for _, line, _ in told(package, "pkg/texts")] == [2, 7]  # its users may lie elsewhere
    assert [line for _, line, _ in told(package, "pkg/texts/prompts.py", "pkg/run/ask.py")] == [2, 7]


@pytest.mark.parametrize(
    "use",
    [
        "from pkg.texts.prompts import EBB_PROMPT\n",
        "from pkg.texts import prompts\nall_of = lambda name: getattr(prompts, name)\n",
        "from pkg.texts import prompts\nTEXTS = prompts.__dict__\n",
    ],
)
def test_what_code_may_take_is_told(package: Lint, use: str) -> None:
    write("pkg/texts/prompts.py", TEMPLATE.replace("TIDE", "EBB"))
    write("pkg/run/ask.py", use)
    assert [line for _, line, _ in told(package, "pkg")] == [2]


def test_a_function_that_nothing_calls_is_not_told_and_one_with_a_decorator_is(package: Lint) -> None:
    build = f'def tide_prompt(question):\n    return f"""Asked: {{question}}\n{RULES}"""\n'
    write("pkg/texts/prompts.py", build)
    write("pkg/run/ask.py", "x = 1\n")
    assert told(package, "pkg") == []
    write("pkg/texts/prompts.py", f"import web\n\n@web.prompt\n{build}")
    assert len(told(package, "pkg")) == 1


MESSAGES = f'''tutor = {{
    "hint": {{
        "messages": [
            {{"role": "system", "content": """You are a kind tutor. {RULES}"""}},
            {{"role": "user", "content": """Here is the lesson:
{{lesson}}

{RULES}"""}},
        ],
    }},
}}
'''
TAKEN = "from pkg.texts.prompts import tutor\n\ndef ask(client, slots):\n    return client.ask(tutor, slots)\n"


def test_messages_that_a_module_writes_down_are_templates(package: Lint) -> None:
    """Whoever takes them fills them: their braces are placeholders."""
    write("pkg/texts/prompts.py", MESSAGES)
    write("pkg/run/ask.py", TAKEN)
    assert told(package, "pkg") == [("pkg/texts/prompts.py", 6, "KV201")]
