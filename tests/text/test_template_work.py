"""What a rendering may do: hostile templates end with an error and its place, ordinary ones never notice."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.templates.environment import TracedEnvironment
from kvtool.text.templates.template import compile_template
from kvtool.text.templates.work import MAX_WORK
from kvtool.text.traced import Origin, Traced
from tests.text.hostile_templates import HOSTILE, loops

FEW = MAX_WORK // 100
IN_A_CHILD = ("dbl out", "square", "unique", "format", "translate", "hold", "undefined")
CHILD = """
import json, resource, sys
from kvtool.errors import KvtoolError
from kvtool.text.templates.template import compile_template
from kvtool.text.traced import Origin

templates = json.loads(sys.stdin.read())
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (512 << 20),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
for name, source in templates.items():
    try:
        compile_template(source, chat=True, origin=Origin("p.md")).render({})
    except KvtoolError as error:
        print(name, error.place, error.message, sep="|")
"""


def test_a_hostile_template_ends_with_an_error_and_its_place() -> None:
    for name in HOSTILE:
        # What is large is refused soon; else fewer steps show the same sooner.
        steps = MAX_WORK if "0000000" in HOSTILE[name] else FEW
        with pytest.raises(KvtoolError) as caught:
            compile_template(HOSTILE[name], chat=True, origin=Origin("p.md")).render({}, steps)
        assert caught.value.place is not None
        assert (caught.value.place.path, caught.value.place.column) == ("p.md", 1)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process are asked of Linux")
def test_hostile_templates_need_less_than_512_megabytes() -> None:
    """With all the steps that a rendering has, in a process whose memory and time end."""
    import json

    large = "{% set a = 'x' * 60000000 %}{{ {}[a].y }}"  # the message would hold the name
    templates = {name: HOSTILE.get(name, large) for name in IN_A_CHILD}
    found = subprocess.run(
        [sys.executable, "-c", CHILD], input=json.dumps(templates), capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-2000:]
    lines = [line.split("|") for line in found.stdout.splitlines()]
    assert [line[0] for line in lines] == list(IN_A_CHILD)
    assert all(line[1].startswith("p.md:1:") for line in lines)
    assert all("memory" not in line[2] for line in lines), "the steps end before the memory does"


def test_the_place_is_that_of_the_line_that_went_too_far() -> None:
    for source, place in [
        ("a\n{% macro m() %}\n{{ m() }}{{ m() }}{% endmacro %}\n{{ m() }}", "p.md:3:1"),
        ("a\nb {{ 'x' * 10**9 }}", "p.md:2:3"),
        ("{% set a = 'x' * 6000000 %}\n\n {{ '%s%s' % (a, a) }}", "p.md:3:2"),
        ("x\n{% for i in range(99999) %}{% for j in range(99999) %}\n{% endfor %}{% endfor %}", "p.md:2:1"),
    ]:
        template = compile_template(source, chat=True, origin=Origin("p.md"))
        with pytest.raises(KvtoolError) as caught:
            template.render({}, 4 * FEW)
        assert str(caught.value.place) == place


def test_steps_are_counted_and_not_timed() -> None:
    template = compile_template(loops("{{ i0 }}", 30), chat=True)
    template.render({})
    first = template.left
    template.render({})
    assert template.left == first < MAX_WORK


def test_a_step_more_is_too_many() -> None:
    template = compile_template(loops("{{ i0 }}{{ i1|string|length }}", 30), chat=True)
    template.render({})
    needed = MAX_WORK - template.left
    assert len(template.render({}, needed)) > 0
    with pytest.raises(KvtoolError, match="does not end within"):
        template.render({}, needed - 1)


def test_nothing_is_computed_while_a_template_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(TracedEnvironment, "spend", fail)
    monkeypatch.setattr(TracedEnvironment, "build", fail)
    compile_template("{{ 'a'|center(60000000)|upper }}{{ [1, [2]] == [3] }}{{ {}.x }}", chat=True)


LARGE = "word " * 60_000
PLAIN: list[tuple[str, dict[str, Any], int]] = [
    ("{{ x }}", {"x": LARGE}, 300_000),
    ("{{ x|trim }}{{ x.strip() }}", {"x": LARGE}, 600_000 - 2),
    ("{{ x.split('</think>')[-1] }}", {"x": LARGE}, 300_000),
    ("{{ x|replace('word', 'w')|length }}", {"x": LARGE}, 6),
    ("{{ x|tojson }}", {"x": LARGE}, 300_002),
    ("{{ x|tojson }}", {"x": [{"text": LARGE}]}, 300_014),
    ("{{ x|wordcount }}", {"x": LARGE}, 5),
    ("{{ 'word' in x }}", {"x": LARGE}, 4),
    ("{% for m in x %}{{ '<' + m.role + '>' + m.content }}{% endfor %}", {"x": [{"role": "user", "content": "hi"}] * 9999}, 79992),
    ("{% set ns = namespace(t='') %}{% for m in x %}{% set ns.t = ns.t ~ m %}{% endfor %}{{ ns.t }}", {"x": ["abc"] * 99}, 297),
    ("{{ x|selectattr('a', 'equalto', 1)|map(attribute='b')|join(',') }}", {"x": [{"a": 1, "b": "c"}] * 5000}, 9999),
    ("{{ x|sort|unique|join }}", {"x": list(range(5000))}, 18890),
    ("{{ range(5000)|batch(50)|map('sum')|list|length }}", {}, 3),
]  # fmt: skip


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize(("source", "variables", "length"), PLAIN)
def test_large_prompts_render(source: str, variables: dict[str, Any], length: int, is_traced: bool) -> None:
    if is_traced and isinstance(variables.get("x"), str):
        variables = {"x": Traced.of(variables["x"], Origin("log", text=variables["x"]))}
    assert len(compile_template(source, chat=True).render(variables)) == length


def test_which_of_many_messages_is_refused() -> None:
    source = "{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('no') }}{% endif %}{% endfor %}"
    template = ChatTemplate("t", source, {})
    messages: list[dict[str, object]] = [{"role": "user", "content": "x"} for _ in range(2000)]
    messages[1234]["content"] = "bad"
    with pytest.raises(MessageRefusedError, match="message 1234 "):
        template.render(messages)


def test_a_template_without_end_is_no_message_that_is_refused() -> None:
    template = ChatTemplate("t", loops("{{ messages }}"), {})
    with pytest.raises(KvtoolError, match="does not end within") as caught:
        template.render([{"role": "user", "content": "x"}] * 50)
    assert not isinstance(caught.value, MessageRefusedError)


def test_long_messages_of_templates_are_cut() -> None:
    with pytest.raises(KvtoolError) as caught:
        compile_template("{{ raise_exception('x' * 1000000) }}", chat=True).render({})
    assert len(caught.value.message) < 1100


def test_a_template_changes_nothing_that_is_not_its_own() -> None:
    message = {"role": "user"}
    with pytest.raises(KvtoolError, match="unsafe"):
        compile_template("{% set x = dict.update(m, {'role': 'system'}) %}", chat=False).render({"m": message})
    assert message == {"role": "user"}


@pytest.mark.parametrize(
    ("source", "said", "place"),
    [
        ("one\n{{ 1e999 }}", "a number that is too large", "p.md:2:1"),
        (f"one\n{{{{ {'9' * 5000} }}}}", "a number of more than 4,300 digits", "p.md:2:1"),
        (f"one\n{{{{ 0x{'f' * 5000} }}}}", "a number of more than 4,300 digits", "p.md:2:1"),
        (f"{{{{ 1 }}}}\n{{{{ {'(' * 3000}1{')' * 3000} }}}}", "nested too deeply", "p.md:2:1"),
        (f"{{{{ 1 }}}}\n\n{'{% if 1 %}' * 3000}{'{% endif %}' * 3000}", "nested too deeply", "p.md:3:1"),
    ],
)
@pytest.mark.parametrize("chat", [False, True])
def test_what_cannot_be_compiled_is_told_where_it_stands(source: str, said: str, place: str, chat: bool) -> None:
    with pytest.raises(KvtoolError, match=said) as caught:
        compile_template(source, chat=chat, origin=Origin("p.md"))
    assert str(caught.value.place) == place


def test_a_long_name_does_not_make_a_long_message() -> None:
    with pytest.raises(KvtoolError) as caught:
        compile_template("{{ " + "a" * 1_000_000 + " b }}", chat=False, origin=Origin("p.md"))
    assert len(caught.value.message) < 2_000


def test_the_largest_number_that_is_computed_may_be_written() -> None:
    assert compile_template("{{ 1e308 > 1 }}{{ 0x" + "f" * 3500 + " > 1 }}", chat=False).render({}) == "TrueTrue"
