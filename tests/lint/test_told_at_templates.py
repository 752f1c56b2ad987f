"""A loss is told once across files: in the template, with the calls that fill it; what nothing in a project uses is not told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.lint.findings.file_result import JudgedText
from kvtool.lint.python.changed_values import filling
from kvtool.lint.python.work_budget import allow
from kvtool.lint.skeleton import Filled, Hole, TemplatePlace
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


def test_a_template_and_the_call_that_fills_it_are_one_finding(package: Lint) -> None:
    write("pkg/texts/prompts.py", TEMPLATE)
    write("pkg/run/ask.py", CALL.format(name="ask"))
    (found,) = json.loads(package("pkg")[1])["findings"]
    assert (found["path"], found["line"], found["code"]) == ("pkg/texts/prompts.py", 2, "KV101")
    assert "datetime.now()" in found["message"]  # what the call knows
    assert found["message"].endswith("; filled at pkg/run/ask.py:8")
    assert found["confidence"] == 1.0


def test_several_calls_of_one_template_are_one_finding(package: Lint) -> None:
    write("pkg/texts/prompts.py", TEMPLATE.replace("current_time", "a"))
    for name in ("ask", "again"):
        write(f"pkg/run/{name}.py", CALL.format(name=name).replace("current_time=", "a="))
    (found,) = json.loads(package("pkg")[1])["findings"]
    assert (found["path"], found["line"]) == ("pkg/texts/prompts.py", 2)
    assert found["message"].endswith("filled at pkg/run/again.py:8 and pkg/run/ask.py:8")


def test_a_call_stays_where_its_template_is_not_linted(package: Lint) -> None:
    write("pkg/texts/prompts.py", TEMPLATE)
    write("pkg/run/ask.py", CALL.format(name="ask"))
    assert told(package, "pkg/run/ask.py") == [("pkg/run/ask.py", 8, "KV101")]
    assert told(package, "pkg/texts/prompts.py") == [("pkg/texts/prompts.py", 2, "KV101")]


def test_a_comment_at_either_place_ignores_what_is_told_there(package: Lint) -> None:
    ignored = TEMPLATE.replace('TIDE_PROMPT = """', '# kvtool: ignore[KV101] kept\nTIDE_PROMPT = """')
    write("pkg/texts/prompts.py", ignored)
    write("pkg/run/ask.py", CALL.format(name="ask"))
    assert told(package, "pkg") == [("pkg/run/ask.py", 8, "KV101")]
    write("pkg/run/again.py", CALL.format(name="again"))
    assert told(package, "pkg") == []  # two calls are told at the template


LOADER = """
from datetime import datetime
from pathlib import Path

def load(name):
    return (Path(__file__).parent / "texts" / f"{name}.md").read_text()

def ask(client):
    text = load("tide_prompt").format(current_time=datetime.now())
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
"""


@pytest.mark.parametrize(
    ("written", "fills"),
    [
        ("{current_time}", ".format(current_time="),
        ("<<time>>", '.replace("<<time>>", str('),
    ],
)
def test_a_text_file_and_the_calls_that_fill_it_are_one_finding(package: Lint, written: str, fills: str) -> None:
    write("pkg/texts/tide_prompt.md", f"You keep the ledger.\nIt is {written} at the quay.\n{RULES}\n")
    code = LOADER.replace(".format(current_time=", fills)
    if fills.endswith("str("):
        code = code.replace("now())", "now()))")
    write("pkg/ask.py", code)
    write("pkg/more.py", code)
    assert told(package, "pkg") == [("pkg/texts/tide_prompt.md", 2, "KV101")]


def test_another_template_of_the_same_file_is_another_loss(package: Lint) -> None:
    write("pkg/texts/prompts.py", TEMPLATE + TEMPLATE.replace("TIDE", "EBB"))
    write("pkg/run/ask.py", CALL.format(name="ask"))
    write("pkg/run/ebb.py", CALL.format(name="ebb").replace("TIDE", "EBB"))
    assert [line for _, line, _ in told(package, "pkg")] == [2, 7]


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


def test_what_a_call_fills_goes_through_the_cache() -> None:
    filled = Filled(TemplatePlace("a.py", 3, 4, 5), 2, 9)
    assert JudgedText.unpacked(JudgedText(fills={0: filled}).packed()) == JudgedText(fills={0: filled})


MAKER = """
def tide_prompt(names):
    return f'''You read what ships report.

{names}

%s'''
"""
SAMPLES = """
import random
from pkg.texts.prompts import tide_prompt

def {name}(client, ships):
    some = random.sample([ship.name for ship in ships], 3)
    return client.chat.completions.create(model="m", messages=[{{"role": "user", "content": tide_prompt(some)}}])
"""


def test_calls_of_one_function_that_put_the_same_into_its_text_are_one_finding(package: Lint) -> None:
    write("pkg/texts/prompts.py", MAKER % RULES)
    write("pkg/run/ask.py", SAMPLES.format(name="ask"))
    assert told(package, "pkg") == [("pkg/run/ask.py", 6, "KV102")]  # one call alone is told where it is made
    write("pkg/run/again.py", SAMPLES.format(name="again"))
    (found,) = json.loads(package("pkg")[1])["findings"]
    assert (found["path"], found["line"], found["code"]) == ("pkg/texts/prompts.py", 5, "KV102")
    assert found["message"].endswith("; filled at pkg/run/again.py:6 and pkg/run/ask.py:6")


def test_what_has_text_of_its_own_is_not_told_at_the_f_string_that_a_call_puts_it_into() -> None:
    allow(100)
    spot = TemplatePlace("prompts.py", 5, 1, 7)
    into = Filled(spot, 3, 9, bare=True)
    clock = Hole(TemplatePlace("ask.py", 2, 1, 4), TIME, "call `now()`", certain=True)
    (alone,) = filling((clock,), into)
    assert isinstance(alone, Hole)
    assert alone.fills == into
    for value in ((clock, "Answer only from the tide table."), (replace(clock, certain=False, doubt="use"),)):
        assert filling(value, into) == value


PLAIN = f'LEDGER_PROMPT = """\nHere is what the harbour master wrote:\n"{{}}"\n{RULES}\n"""\n'
ONE_CALL = """
from pkg.texts.prompts import LEDGER_PROMPT

def ask(client, question):
    return client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": LEDGER_PROMPT.format(question)}]
    )
"""


def test_what_one_call_puts_into_a_placeholder_without_a_name_is_told_there(package: Lint) -> None:
    write("pkg/texts/prompts.py", PLAIN)
    write("pkg/run/ask.py", ONE_CALL)
    (found,) = json.loads(package("pkg")[1])["findings"]
    assert (found["path"], found["line"], found["code"]) == ("pkg/texts/prompts.py", 3, "KV201")
    assert found["message"].endswith("; filled at pkg/run/ask.py:6")


def test_a_clock_of_one_call_stays_at_the_call(package: Lint) -> None:
    write("pkg/texts/prompts.py", PLAIN)
    clock = ONE_CALL.replace("format(question)", "format(datetime.now())")
    write("pkg/run/ask.py", f"from datetime import datetime{clock}")
    assert told(package, "pkg") == [("pkg/run/ask.py", 6, "KV101")]


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


@pytest.mark.parametrize(
    ("name", "asked", "place"),
    [
        ("data/tide.txt", "{x}", ("pkg/ask.py", 8)),
        ("data/tide.txt", "{question}", ("pkg/data/tide.txt", 2)),
        ("prompts/tide.txt", "{x}", ("pkg/prompts/tide.txt", 2)),
        ("prompts/tide.txt", "{question}", ("pkg/prompts/tide.txt", 2)),
    ],
)
def test_a_text_file_that_says_nothing_of_a_value_leaves_it_to_the_call(
    package: Lint, name: str, asked: str, place: tuple[str, int]
) -> None:
    write(f"pkg/{name}", f"You are the keeper of the tide table.\nAsked: {asked}\n{RULES}\n")
    folder, _, file = name.partition("/")
    write(
        "pkg/ask.py",
        f"from pathlib import Path\n\nHERE = Path(__file__).parent / '{folder}'\n\n"
        "def load(name):\n    return (HERE / name).read_text()\n"
        f"def ask(client, question):\n    text = load('{file}').format({asked[1:-1]}=question)\n"
        "    return client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': text}])\n",
    )
    assert [one[:2] for one in told(package, "pkg")] == [place]
