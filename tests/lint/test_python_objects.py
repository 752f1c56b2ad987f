"""What lint follows through the objects and templates of a module."""

from __future__ import annotations

from kvtool.lint.python.built_prompts import python_prompts
from kvtool.results.finding import Finding
from tests.lint.found import static_findings

RULES = (
    "You are a careful keeper of a small lighthouse. Answer only from the log book, and name the page that you took it from. "
    "Never guess a height that is not written there. If you do not know the answer, say so in one sentence and stop. "
) * 2
HEAD = """\
import os, random, re, time, uuid
from dataclasses import dataclass, field
from datetime import datetime
from openai import OpenAI
client = OpenAI()
def send(system, user):
    return client.chat.completions.create(
        model="m", messages=[{"role": "system", "content": system}, {"role": "user", "content": user}])
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
HEAD += f"RULES = {RULES!r}\nMARKS = 'You keep a light. It is [[NOW]]. ' + RULES\n"
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
    "a mark in a text": (
        "def go(q):\n    text = MARKS\n    return send(text.replace('[[NOW]]', datetime.now().isoformat()), q)\n"
    ),
    "a text of an attribute": (
        "class A:\n    def __init__(self):\n        self.text = MARKS\n"
        "    def go(self, q):\n        return send(self.text.replace('[[NOW]]', time.strftime('%H:%M')), q)\n"
    ),
    "marks in a loop": (
        "def go(q):\n    text = MARKS\n"
        "    for mark, value in {'[[NOW]]': str(datetime.now())}.items():\n        text = text.replace(mark, value)\n"
        "    return send(text, q)\n"
    ),
    "a mark by a pattern": (
        "def go(q):\n    text = MARKS\n"
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


def program(text: str) -> list[Finding]:
    """The findings of a module."""
    text = (HEAD + text).replace(" RULES'", f" {RULES}'")
    return static_findings("agent.py", text, python_prompts("agent.py", text)[0], len, block_size=16, least=48)


def test_a_value_is_followed_to_the_prompt() -> None:
    for way in WAYS:
        found = program(WAYS[way])
        assert [one.code for one in found] in (["KV101"], ["KV102"], ["KV106"]), [one.message for one in found]


CALLS = ("datetime.now()", "uuid.uuid4()", "os.getcwd()", "time.strftime('%H:%M')")


def test_the_same_ways_with_what_does_not_vary() -> None:
    for way in ["what a constructor is given", "methods in a list", "marks in a loop", "a mapping that grows"]:
        text = WAYS[way]
        for call in CALLS:
            text = text.replace(call, "str(7)")
        assert program(text) == []


# What a model is asked with


def test_what_a_function_that_asks_is_given_varies_by_the_call() -> None:
    form = "def go(WHAT):\n    return client.responses.create(model='m', input=f'Sort these:\\n{WHAT}\\n{RULES}')\n"
    (found,) = program(form.replace("WHAT", "parcels"))
    assert (found.code, "`parcels` (new text per request, by its use)" in found.message) == ("KV201", True)
    for name in ["tool_names", "language", "agent_name", "max_parcels", "items_per_page", "schema"]:
        assert program(form.replace("WHAT", name)) == [], name
    build = "def build_prompt(parcels):\n    return f'Sort the {parcels} of today. {RULES}'\n"
    assert [one.severity for one in program(build)] == ["info"]


def test_what_is_put_together_of_it_is_told_where_the_text_holds_it() -> None:
    text = (
        "def go(parcels):\n    lines = []\n    for one in parcels:\n        lines.append(f'- {one.kind}: {one.weight}')\n"
        "    listed = chr(10).join(lines)\n    return client.responses.create(model='m', input=f'Sort:\\n{listed}\\n{RULES}')\n"
    )
    (found,) = program(text)
    assert (found.line, "`listed`" in found.message) == (HEAD.count("\n") + 6, True)


def test_what_a_system_message_is_given_may_set_a_program_up() -> None:
    text = "def go(harbour, q):\n    return send(f'You watch {harbour}. {RULES}', q)\n"
    assert [one.severity for one in program(text)] == ["info"]


def test_an_example_is_shown_not_filled() -> None:
    form = "class Step(Model):\n    NAME: str = Field(default='''Prompt: | Sum up {{ document }} for me. RULES''')\n"
    form = form.replace("RULES", RULES)
    assert [one.code for one in program(form.replace("NAME", "prompt"))] == ["KV201"]
    assert program(form.replace("NAME", "example")) == []


def test_a_clock_in_what_a_tool_says_of_itself() -> None:
    form = "class Tides(BASE):\n    name: str = 'tides'\n    description: str = f'Tides. Now: {datetime.now()}'\n"
    (found,) = program(form.replace("BASE", "BaseTool"))
    assert (found.code, "the whole conversation" in found.message) == ("KV101", True)
    assert program(form.replace("BASE", "Report")) == []
