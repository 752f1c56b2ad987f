"""What lint follows through objects, files and templates of a program, from one module into another."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.lint.python.built_prompts import PythonPrompts
from kvtool.results.finding import Finding
from tests.lint.found import static_findings

RULES = (
    "You are a careful keeper of a small lighthouse. Answer only from the log book, and name the page that you took it from. "
    "Never guess a height that is not written there. If you do not know the answer, say so in one sentence and stop. "
) * 2
HEAD = """\
import os, random, re, time, uuid
from datetime import datetime
from pathlib import Path
from openai import OpenAI
from .rules import RULES
from .parts import Clock, Shown, Started, Yard, block
HERE = Path(__file__).parent
client = OpenAI()
def send(system, user):
    return client.chat.completions.create(
        model="m", messages=[{"role": "system", "content": system}, {"role": "user", "content": user}])
"""
PARTS = """\
import os, uuid
from dataclasses import dataclass, field
from datetime import datetime
class Clock:
    def text(self):
        return datetime.now().isoformat()
class Yard:
    def __init__(self, root=None):
        self.root = root or os.getcwd()
    def describe(self):
        return f"Work goes on in {self.root}"
@dataclass
class Started:
    name: str
    at: datetime = field(default_factory=datetime.now)
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
class Shown:
    def __str__(self):
        return f"at {datetime.now()}"
def block():
    lines = [f"Now: {datetime.now():%H:%M}"]
    return "\\n".join(lines)
"""
WAYS = {
    "a method of an object": "def go(q):\n    clock = Clock()\n    return send(f'{clock.text()} {RULES}', q)\n",
    "of an attribute": (
        "class A:\n    def __init__(self):\n        self.clock = Clock()\n"
        "    def go(self, q):\n        return send(f'{self.clock.text()} {RULES}', q)\n"
    ),
    "given or made": (
        "class A:\n    def __init__(self, yard=None):\n        self.yard = yard or Yard()\n"
        "    def go(self, q):\n        return send(f'{self.yard.describe()} {RULES}', q)\n"
    ),
    "declared for a constructor": (
        "class A:\n    def __init__(self, yard: Yard | None):\n        self.yard = yard\n"
        "    def go(self, q):\n        return send(f'{self.yard.describe()} {RULES}', q)\n"
    ),
    "declared for a function, in quotes": "def go(q, yard: 'Yard'):\n    return send(f'{yard.describe()} {RULES}', q)\n",
    "a field that a factory makes": "def go(q, one: Started):\n    return send(f'{one.run} {RULES}', q)\n",
    "an object as text": "def go(q):\n    one = Shown()\n    return send(f'{one} {RULES}', q)\n",
    "of another object's method": (
        "class F:\n    def clock(self):\n        return Clock()\nclass A:\n    def __init__(self, made: F):\n"
        "        self.made = made\n"
        "    def go(self, q):\n        return send(f'{self.made.clock().text()} {RULES}', q)\n"
    ),
    "what a constructor is given": (
        "class A:\n    def __init__(self, head):\n        self.head = head\n"
        "    def go(self, q):\n        return send(f'{self.head} {RULES}', q)\n"
        "def main(q):\n    return A(f'It is {datetime.now()}').go(q)\n"
    ),
    "what the class below has": (
        "class Base:\n    def system(self):\n        return f'It is {datetime.now()} '\n"
        "class Sub(Base):\n    def system(self):\n        return super().system() + RULES\n"
        "    def go(self, q):\n        return send(self.system(), q)\n"
    ),
    "methods in a list": (
        "class A:\n    def _time(self):\n        return f'It is {datetime.now()}'\n    def _rules(self):\n        return RULES\n"
        "    def go(self, q):\n        return send(' '.join(one() for one in [self._time, self._rules]), q)\n"
    ),
    "a mark in a file": (
        "def go(q):\n    text = (HERE / 'prompts' / 'marks.md').read_text()\n"
        "    return send(text.replace('[[NOW]]', datetime.now().isoformat()), q)\n"
    ),
    "a file that a helper reads": (
        "def load(name):\n    return (HERE / 'prompts' / f'{name}.md').read_text(encoding='utf-8')\n"
        "def go(q):\n    return send(load('marks').replace('[[NOW]]', str(uuid.uuid4())), q)\n"
    ),
    "a file that is opened": (
        "def go(q):\n    with open(os.path.join(os.path.dirname(__file__), 'prompts', 'marks.md')) as file:\n"
        "        text = file.read()\n"
        "    return send(text.replace('[[NOW]]', os.getcwd()), q)\n"
    ),
    "a file of an attribute": (
        "class A:\n    def __init__(self):\n        self.text = (HERE / 'prompts' / 'marks.md').read_text()\n"
        "    def go(self, q):\n        return send(self.text.replace('[[NOW]]', time.strftime('%H:%M')), q)\n"
    ),
    "marks in a loop": (
        "def go(q):\n    text = (HERE / 'prompts' / 'marks.md').read_text()\n"
        "    for mark, value in {'[[NOW]]': str(datetime.now())}.items():\n        text = text.replace(mark, value)\n"
        "    return send(text, q)\n"
    ),
    "a mark by a pattern": (
        "def go(q):\n    text = (HERE / 'prompts' / 'marks.md').read_text()\n"
        "    return send(re.sub(r'\\[\\[NOW\\]\\]', datetime.now().isoformat(), text), q)\n"
    ),
    "all local names": (
        "TEXT = 'It is {stamp} ' + RULES\ndef go(q):\n    stamp = datetime.now()\n    return send(TEXT.format(**locals()), q)\n"
    ),
    "a mapping that grows": (
        "def go(q):\n    values = dict(place='x')\n    values.update(stamp=datetime.now())\n"
        "    return send('It is {stamp} {rules}'.format(rules=RULES, **values), q)\n"
    ),
    "given with a template": (
        "from langchain_core.prompts import PromptTemplate\n"
        "P = PromptTemplate(template='It is {stamp} ' + RULES, partial_variables={'stamp': lambda: datetime.now().isoformat()})\n"
    ),
    "given to a template later": (
        "from langchain_core.prompts import ChatPromptTemplate\n"
        "P = ChatPromptTemplate.from_messages([('system', 'It is {stamp} ' + RULES), ('user', "
        "'{q}')]).partial(stamp=datetime.now())\n"
    ),
    "a section of Mustache": (
        "from framework import PromptTemplate\n"
        "P = PromptTemplate(template='{{#role}}As {{.}}{{/role}} at {{stamp}} RULES', "
        "functions={'stamp': lambda x: datetime.now()})\n"
    ),
    "rendered": (
        "from jinja2 import Template\ndef go(q):\n"
        "    return send(Template('It is {{ stamp }} RULES').render(stamp=datetime.now()), q)\n"
    ),
}


def program(folder: Path, text: str) -> list[Finding]:
    """The findings of a module of a package."""
    (folder / "prompts").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "rules.py").write_text(f"RULES = {RULES!r}\n")
    (folder / "parts.py").write_text(PARTS)
    (folder / "prompts" / "marks.md").write_text(f"You keep a light. It is [[NOW]].\n{RULES}\n")
    path = folder / "agent.py"
    path.write_text(text := (HEAD + text).replace(" RULES'", f" {RULES}'"))
    return static_findings(str(path), text, PythonPrompts()(str(path), text), len, block_size=16, least=48)


@pytest.mark.parametrize("way", WAYS)
def test_a_value_is_followed_to_the_prompt(way: str, tmp_path: Path) -> None:
    found = program(tmp_path / "pk", WAYS[way])
    assert [one.code for one in found] in (["KV101"], ["KV102"], ["KV106"]), [one.message for one in found]
    assert found[0].line > HEAD.count("\n")


CALLS = ("datetime.now()", "uuid.uuid4()", "os.getcwd()", "time.strftime('%H:%M')")


@pytest.mark.parametrize(
    "way", ["what a constructor is given", "methods in a list", "marks in a loop", "a mapping that grows"]
)
def test_the_same_ways_with_what_does_not_vary(way: str, tmp_path: Path) -> None:
    text = WAYS[way]
    for call in CALLS:
        text = text.replace(call, "str(7)")
    assert program(tmp_path / "pk", text) == []


def test_names_of_modules_of_which_all_are_imported(tmp_path: Path) -> None:
    text = "from .parts import *\ndef go(q):\n    return send(f'{Clock().text()} {RULES}', q)\n"
    head = HEAD.replace("from .parts import Clock, Shown, Started, Yard, block\n", "")
    (tmp_path / "pk" / "prompts").mkdir(parents=True)
    for name, body in (("__init__", ""), ("rules", f"RULES = {RULES!r}\n"), ("parts", PARTS), ("agent", head + text)):
        (tmp_path / "pk" / f"{name}.py").write_text(body)
    path = str(tmp_path / "pk" / "agent.py")
    found = static_findings(path, head + text, PythonPrompts()(path, head + text), len, block_size=16, least=48)
    assert [one.code for one in found] == ["KV101"]


def test_a_file_that_is_no_prompt_is_not_read(tmp_path: Path) -> None:
    text = (
        "def go(q):\n    text = (HERE / 'prompts' / '..' / 'marks.md').read_text()\n"
        "    return send(text.replace('[[NOW]]', os.getcwd()), q)\n"
    )
    assert program(tmp_path / "pk", text) == []


# What a model is asked with


def test_what_a_function_that_asks_is_given_varies_by_the_call(tmp_path: Path) -> None:
    form = "def go(WHAT):\n    return client.responses.create(model='m', input=f'Sort these:\\n{WHAT}\\n{RULES}')\n"
    (found,) = program(tmp_path / "a", form.replace("WHAT", "parcels"))
    assert (found.code, "`parcels` (another text in each request, by its use)" in found.message) == ("KV201", True)
    for number, name in enumerate(["tool_names", "language", "agent_name", "max_parcels", "items_per_page", "schema"]):
        assert program(tmp_path / f"b{number}", form.replace("WHAT", name)) == [], name
    build = "def build_prompt(parcels):\n    return f'Sort the {parcels} of today. {RULES}'\n"
    assert [one.severity for one in program(tmp_path / "c", build)] == ["info"]


def test_what_is_put_together_of_it_is_told_where_the_text_holds_it(tmp_path: Path) -> None:
    text = (
        "def go(parcels):\n    lines = []\n    for one in parcels:\n        lines.append(f'- {one.kind}: {one.weight}')\n"
        "    listed = chr(10).join(lines)\n    return client.responses.create(model='m', input=f'Sort:\\n{listed}\\n{RULES}')\n"
    )
    (found,) = program(tmp_path / "pk", text)
    assert (found.line, "`listed`" in found.message) == (HEAD.count("\n") + 6, True)


def test_what_a_system_message_is_given_may_set_a_program_up(tmp_path: Path) -> None:
    text = "def go(harbour, q):\n    return send(f'You watch {harbour}. {RULES}', q)\n"
    assert [one.severity for one in program(tmp_path / "pk", text)] == ["info"]


def test_a_template_that_its_own_file_does_not_know_is_told_where_it_is_filled(tmp_path: Path) -> None:
    grey = "Judge the answer below by the one that is right, and nothing else. The share is a number of percent. " * 3
    folder = tmp_path / "pk"
    text = (
        "from .texts import GRADE\ndef go(q, question):\n    return send('Grade.', GRADE.format(question=question))\n"
    )
    (folder / "prompts").mkdir(parents=True)
    (folder / "texts.py").write_text(f"GRADE = 'The case: {{question}}. {grey}'\n")
    (folder / "rules.py").write_text("RULES = ''\n")
    (folder / "parts.py").write_text(PARTS)
    (folder / "__init__.py").write_text("")
    path = str(folder / "agent.py")
    found = static_findings(path, HEAD + text, PythonPrompts()(path, HEAD + text), len, block_size=16, least=48)
    assert [(one.code, one.line) for one in found] == [("KV201", HEAD.count("\n") + 3)]
    texts = (folder / "texts.py").read_text()
    assert static_findings("texts.py", texts, PythonPrompts()("texts.py", texts), len, block_size=16, least=48) == []


def test_an_example_is_shown_not_filled(tmp_path: Path) -> None:
    form = "class Step(Model):\n    NAME: str = Field(default='''Prompt: | Sum up {{ document }} for me. RULES''')\n"
    form = form.replace("RULES", RULES)
    assert [one.code for one in program(tmp_path / "a", form.replace("NAME", "prompt"))] == ["KV201"]
    assert program(tmp_path / "b", form.replace("NAME", "example")) == []


def test_a_clock_in_what_a_tool_says_of_itself(tmp_path: Path) -> None:
    form = "class Tides(BASE):\n    name: str = 'tides'\n    description: str = f'Tides. Now: {datetime.now()}'\n"
    (found,) = program(tmp_path / "a", form.replace("BASE", "BaseTool"))
    assert (found.code, "the whole conversation" in found.message) == ("KV101", True)
    assert program(tmp_path / "b", form.replace("BASE", "Report")) == []
