"""What calls say that render templates: constants, and the role of the message that they end in."""

from __future__ import annotations

import json
import random

import pytest

from kvtool.lint.prompt_copies import PassedList, TemplateCalls
from kvtool.lint.prompt_copies import calls_of as calls_in
from kvtool.lint.python.built_prompts import python_prompts
from tests.lint.found import made_findings


def calls_of(*texts: str) -> dict[str, TemplateCalls]:
    return calls_in(call for text in texts for call in python_prompts("code.py", text).rendered)


def test_ways_to_render() -> None:
    for code in [
        "x = env.get_template('a.j2').render(name='Ada')",
        "t = env.get_template('a.j2')\ndef f():\n    return t.render(name='Ada')",
        "async def f():\n    t = await env.get_template('a.j2')\n    return await t.render_async(name='Ada')",
        "def f():\n    return render_template('a.j2', name='Ada')",
        "class A:\n    def f(self):\n        return flask.render_template('a.j2', name='Ada')",
    ]:
        assert calls_of(code)["a.j2"].constants == {"name": ["Ada"]}


def test_constants_below_a_mapping_and_what_is_none() -> None:
    code = "env.get_template('a').render(agent={'name': 'Ada', 'age': 3}, now=clock(), vip=True, kept=None, tags=['a'])"
    assert calls_of(code)["a"].constants == {
        "agent.name": ["Ada"],
        "agent.age": [3],
        "now": None,
        "vip": [True],
        "kept": None,
        "tags": None,
    }


@pytest.mark.parametrize("value", ["TONE", "tone()", "Tones.KIND", "config['tone']", "'ki' + 'nd'"])
def test_a_constant_is_one_wherever_it_is_written(value: str) -> None:
    code = f"""
TONE = "kind"
class Tones:
    KIND = "kind"
def tone():
    return "kind"
def size():
    return 3
def prompt(env):
    config = {{"tone": "kind"}}
    return env.get_template("a").render(tone={value}, size=size(), other=unknown())
"""
    constants = calls_of(code)["a"].constants
    assert constants == {"tone": ["kind"], "size": [3], "other": None}


def test_several_calls_give_all_constants_unless_one_passes_something_else() -> None:
    one, two = (f"env.get_template('a').render(tone={tone!r}, who='x')" for tone in ("kind", "short"))
    assert calls_of(one, two)["a"].constants == {"tone": ["kind", "short"], "who": ["x"]}
    other = "env.get_template('a').render(tone=tone, who='x')"
    for texts in ((one, other), (other, one)):
        assert calls_of(*texts)["a"].constants == {"tone": None, "who": ["x"]}


def test_the_role_is_that_of_the_message_in_the_same_function() -> None:
    code = """
def one():
    prompt = env.get_template("a").render()
    return [{"role": "system", "content": prompt}, {"role": "user", "content": "q"}]
def two(q):
    prompt = env.get_template("b").render()
    return [{"role": "user", "content": prompt + q}]
def three(q):
    return [{"role": "user", "content": f"{env.get_template('c').render()} {q}"}]
def four(q):
    prompt = env.get_template("d").render()
    return send(prompt)
def five(q):
    return ask(env.get_template("e").render(), q)
def ask(system, q):
    return client.chat.completions.create(messages=[{"role": "system", "content": system}, {"role": "user", "content": q}])
class Six:
    def __init__(self, env):
        self.prompt = env.get_template("f").render()
    def ask(self, q):
        return [{"role": "developer", "content": self.prompt}, {"role": "user", "content": q}]
"""
    assert {name: one.roles for name, one in calls_of(code).items()} == {
        "a": {"system"},
        "b": {"user"},
        "c": {"user"},
        "d": set(),
        "e": {"system"},
        "f": {"developer"},
    }


def test_code_that_renders_no_known_template() -> None:
    for code in ["render()", "x.render(a=1)", "{**a, 'role': 1}", "e.get_template(name).render(a=1)"]:
        assert calls_of(code) == {}


def test_any_constants_come_back_as_they_are_written() -> None:
    numbers = random.Random(5)
    for _ in range(100):
        given = {
            f"v{at}": numbers.choice(
                [numbers.randrange(9), bool(numbers.randrange(2)), "a{{b}}'\"\\n" * numbers.randrange(3)]
            )
            for at in range(numbers.randrange(1, 6))
        }
        words = ", ".join(f"{name}={value!r}" for name, value in given.items())
        found = calls_of(f"r = e.get_template('t').render({words})")["t"].constants
        assert json.dumps(found) == json.dumps({name: [value] for name, value in given.items()})


@pytest.mark.parametrize(
    ("change", "passed", "said"),
    [
        ("random.shuffle(few)", "few", ("request", "each time", "warning")),
        ("few.sort(key=len)", "few", ("fixed", "", "")),
        ("pass", "set(FEW)", ("process", "in each process", "warning")),
    ],
)
def test_a_list_that_goes_into_a_template_is_known_with_its_order(
    change: str, passed: str, said: tuple[str, str, str]
) -> None:
    chance = random.Random(change)
    few = [f"{chance.random()} {{% }}" for _ in range(chance.randint(2, 6))]
    code = (
        f"import random\nFEW = {few!r}\ndef ask():\n    few = [*FEW]\n    {change}\n"
        f"    return env.get_template('a.j2').render(examples={passed})\n"
    )
    order, how, severity = said
    assert calls_of(code)["a.j2"].lists == {"examples": PassedList(tuple(map(json.dumps, few)), order)}
    found = [(one.code, one.line, one.severity) for one in made_findings(code, "a.py")]
    assert found == ([("KV114", 6, severity)] if how else [])
    assert all(how in one.message and "the prompt is `a.j2`" in one.message for one in made_findings(code, "a.py"))
