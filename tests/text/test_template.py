from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import StrictUndefined, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from kvtool.errors import KvtoolError
from kvtool.text.templates.environment import TracedEnvironment
from kvtool.text.templates.template import TracedTemplate, compile_template
from kvtool.text.templates.traced_json import traced_json
from kvtool.text.traced import Mark, Origin, Traced, concat, marks_of

VARIABLES = {
    "now": "10:15",
    "user": {"name": "ada", "items": ["x"]},
    "docs": [{"title": "one", "body": "B1\n"}, {"title": "two", "body": "B2"}],
    "n": 3,
    "empty": "",
}


def pieces(text: Traced) -> list[tuple[str, Origin | None, int]]:
    """What the marks say: text, origin and offset of each stretch."""
    result = []
    at = 0
    for length, origin, offset in text.marks:
        result.append((str.__getitem__(text, slice(at, at + length)), origin, offset))
        at += length
    assert at == len(text)
    return result


def render(source: str, **variables: object) -> Traced:
    return compile_template(source, chat=False, origin=Origin("p.md")).render({**VARIABLES, **variables})


def error(source: str | Traced, **variables: object) -> KvtoolError:
    with pytest.raises(KvtoolError) as caught:
        compile_template(source, chat=False, origin=Origin("p.md")).render({**VARIABLES, **variables})
    return caught.value


def test_literals_and_expressions_know_their_places() -> None:
    text = render("Hello,\nnow {{ now }}: {{ user.name|upper }}!\n")
    assert text == "Hello,\nnow 10:15: ADA!\n"
    found = [(piece, origin and (*origin.position(offset), origin.variable)) for piece, origin, offset in pieces(text)]
    assert found == [
        ("Hello,\nnow ", (1, 1, None)),
        ("10:15", (2, 5, "now")),
        (": ", (2, 14, None)),
        ("ADA", (2, 16, "user.name")),
        ("!\n", (2, 37, None)),
    ]
    expression = pieces(text)[1][1]
    assert expression is not None
    assert (expression.width, expression.verbatim, expression.path) == (9, False, "p.md")


def test_expressions_name_their_variable() -> None:
    for expression, variable in [
        ("now", "now"),
        ("now|upper|replace('1', '2')", "now"),
        ("user.name", "user.name"),
        ("user['name']", "user.name"),
        ("user.name.upper()", "user.name"),
        ("docs[0].title", "docs.title"),
        ("'at ' ~ now", "now"),
        ("'at ' + now + '!'", "now"),
        ("now if n > 2 else empty", "now"),
        ("range(n)|join(',')", "range"),
        ("'constant'", None),
        ("3 * 4", None),
    ]:
        text = render("<{{ " + expression + " }}>")
        piece, origin, _ = pieces(text)[1]
        assert text == f"<{piece}>"
        assert origin is not None
        assert origin.variable == variable
        assert origin.position(0) == (1, 2)


def test_a_template_inside_yaml_answers_with_the_places_of_the_yaml_file() -> None:
    block = "Now: {{ now }}\nBye {{ nwo }}\n"
    origin = Origin("w.yaml", line=7, column=9, indent=9, part="rules", stable=True, text=block)
    source = Traced.of(block, origin)
    caught = error(source)
    assert caught.message == "template: undefined variable `nwo`"
    assert caught.hint == "did you mean `now`?"
    assert str(caught.place) == "w.yaml:8:16"
    assert caught.place is not None
    assert caught.place.width == 3
    text = compile_template(source, chat=False).render({"now": "x", "nwo": "y"})
    assert [
        origin and (*origin.position(offset), origin.part, origin.stable) for _, origin, offset in pieces(text)
    ] == [
        (7, 9, "rules", True),
        (7, 14, "rules", True),
        (7, 23, "rules", True),
        (8, 13, "rules", True),
        (8, 22, "rules", True),
    ]


def test_a_json_string_answers_with_its_own_place() -> None:
    source = Traced.of("a\n{{ now }}", Origin("x.json", line=3, column=20, verbatim=False, width=16))
    origin = pieces(compile_template(source, chat=False).render({"now": "t"}))[1][1]
    assert origin is not None
    assert (*origin.position(0), origin.width, origin.variable) == (3, 20, 16, "now")


def test_windows_line_breaks_keep_their_places() -> None:
    source = "a\r\nb {{ now }}\r\nc"
    text = render(source)
    assert text == "a\nb 10:15\nc"
    last = text.at(len(text) - 1)
    assert last[0] is not None
    assert last[0].position(last[1])[0] == 3
    assert render("plain\r\ntext\n") == "plain\r\ntext\n"


def test_traced_values_keep_their_own_places() -> None:
    value = Traced.of("  file text  ", Origin("q.txt", text="  file text  "))
    text = render(
        "{{ q|trim }}|{{ q ~ '.' }}|{{ q.split()[1] }}|{{ [q, q]|join('-') }}|{{ q|upper }}|{{ '<%s>'|format(q) }}",
        q=value,
    )
    assert text == "file text|  file text  .|text|  file text  -  file text  |  FILE TEXT  |<  file text  >"
    found = [(piece, origin.path if origin else None, offset) for piece, origin, offset in pieces(text) if piece != "|"]
    assert found == [
        ("file text", "q.txt", 2),
        ("  file text  ", "q.txt", 0),
        (".", "p.md", 13),
        ("text", "q.txt", 7),
        ("  file text  ", "q.txt", 0),
        ("-", "p.md", 13),
        ("  file text  ", "q.txt", 0),
        ("  FILE TEXT  ", "q.txt", 0),
        ("<  file text  >", "p.md", 0),  # `format` makes a new text: it stands where the expression does
    ]


def test_variables_are_listed() -> None:
    template = compile_template("{% for d in docs %}{{ d }}{{ now }}{% endfor %}{{ range(2) }}", chat=False)
    assert template.variables == {"docs", "now"}
    assert compile_template("none", chat=False).variables == frozenset()


def test_mistakes_have_a_message_and_a_place() -> None:
    for source, message, place in [
        ("a\n{{ now", "unexpected end of template", "p.md:2:1"),
        ("{% if now %}", "endif", "p.md:1:1"),
        ("x {{ a b }}", "got 'b'", "p.md:1:3"),
        ("{# open", "Missing end of comment", "p.md:1:1"),
        ("{{ now|nope }}", "unknown filter `nope`", "p.md:1:8"),
        ("a\nb {{ user.nam }}", "no attribute 'nam'", "p.md:2:11"),
        ("{{ ''.__class__.__mro__ }}", "unsafe", "p.md:1:1"),
        ("{{ now|attr('__class__') }}", "unsafe", "p.md:1:1"),
        ("{{ now['__class__'] }}", "unsafe", "p.md:1:1"),
        ("{{ '{0.__class__}'.format(now) }}", "unsafe", "p.md:1:1"),
        ("{{ cycler.__init__.__globals__ }}", "unsafe", "p.md:1:1"),
        ("{% set x = docs.sort() %}", "unsafe", "p.md:1:1"),
        ("{{ now.marks }}", "'str object' has no attribute 'marks'", "p.md:1:8"),
        ("{{ now['at'] }}", "has no attribute 'at'", "p.md:1:9"),
        ("{{ 1 / 0 }}", "division by zero", "p.md:1:1"),
        ("{% include '/etc/passwd' %}", "includes `/etc/passwd`, which does not exist", "p.md:1:13"),
        ("\n\n{{ lipsum(10**9) }}", "undefined variable `lipsum`", "p.md:3:4"),
    ]:
        caught = error(source, now=Traced("10:15"))
        assert message.lower().replace("'", "") in caught.message.lower().replace("'", "")
        assert str(caught.place) == place


def test_templates_that_would_not_end_are_stopped() -> None:
    for source in [
        "{% for i in range(10**9) %}x{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in docs|map('upper') %}{% for j in range(99999) %}{% for k in range(99) %}{% endfor %}{% endfor %}{% endfor %}",
        "{{ 'x' * 10**12 }}",
        "{{ [0] * 10**12 }}",
        "{{ (10**9)**(10**9) }}",
        "{{ now|center(10**10) }}",
        "{{ now|indent(10**10) }}",
        "{{ now.ljust(10**10) }}",
        "{{ 'a'.zfill(10**10) }}",
        "{{ '%1000000000d' % 3 }}",
        "{{ '%*d' % (10**10, 3) }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ '{:>{w}}'.format(1, w=10**11) }}",
        "{% set ns = namespace(x='aaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='aaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set x = 'a' * 60000 %}{{ x.replace('a', x) }}",
        "{% set x = 'a' * 60000 %}{{ x|replace('a', x) }}",
        "{% set x = 'a' * 60000 %}{{ x.join(x) }}",
        "{% set x = 'a' * 60000 %}{{ x|join(x) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    ]:
        assert error(source).place is not None


def environment(chat: bool) -> ImmutableSandboxedEnvironment:
    """Jinja itself, with the options that ours has."""
    if not chat:
        return ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    result = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def tojson(value: object, ensure_ascii: bool = False, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

    result.filters["tojson"] = tojson
    return result


SNIPPETS = [
    "text ",
    "\n",
    "  \n  ",
    "{{ now }}",
    "{{- user.name -}}",
    "{%- if n > 2 -%} yes {% else %} no\n{%- endif %}\n",
    "{% for d in docs %}\n  {{ loop.index }}. {{ d.title }}: {{ d.body|trim }}\n{% else %}none{% endfor %}\n",
    "{% set x = now ~ '/' ~ n %}{{ x }}",
    "{% set x %} block {{ now }} {% endset %}\n{{ x|trim }}",
    "{% macro m(a, b='-') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(now) }}{{ m(user.name, b=n) }}",
    "{# comment #}",
    "{#- comment -#}\n",
    "{% raw %}{{ raw }}{% endraw %}",
    "{% filter upper %}shout {{ now }}{% endfilter %}",
    "{{ docs|map(attribute='title')|join(', ') }}",
    "{{ [1, 2, now]|join }}",
    "{% print now %}",
    "{{ '{{' }} {{ 'a\\nb' }}",
    "{{ now, n }}",
    "{{ now[1:3] }}{{ now[::-1] }}{{ now * 2 }}",
    "{{ now.partition(':')[2] }}",
    "{% call(x) m2(now) %}<{{ x }}>{% endcall %}",
    "{% with y = now %}{{ y }}{% endwith %}",
    "{{ docs|length }}{{ docs|first }}",
    "{{ empty or 'default' }}",
    "{{ '<b>'|e }}{{ 'caf\u00e9'|capitalize }}",
    "{% for i in range(5) if i is odd %}{{ i }}{% endfor %}",
]
SETUP = "{% macro m2(v) %}({{ caller(v) }}){% endmacro %}"


@given(st.lists(st.sampled_from(SNIPPETS), max_size=8), st.booleans(), st.booleans())
def test_output_is_that_of_jinja_itself(snippets: list[str], chat: bool, is_traced: bool) -> None:
    source = SETUP + "".join(snippets)
    expected = environment(chat).from_string(source).render(VARIABLES)
    now: str = Traced.of("10:15", Origin("clock", text="10:15")) if is_traced else "10:15"
    template: TracedTemplate = compile_template(source, chat=chat)
    text = template.render({**VARIABLES, "now": now})
    assert text == expected
    for piece, origin, offset in pieces(text):
        assert origin is not None
        if origin.verbatim and origin.path != "clock":
            assert origin.text[offset : offset + len(piece)].upper() == piece.upper()
    assert template.render({**VARIABLES, "now": now}) == expected  # nothing is left over from the first time


def chat_text(source: str, clock: Callable[[], datetime] | None = None, **variables: object) -> Traced:
    return compile_template(source, chat=True, clock=clock).render(variables)


def test_chat_environment_is_that_of_hugging_face() -> None:
    assert chat_text("  {% if true %}\n  x\n  {% endif %}\ny\n") == "  x\ny"
    assert chat_text("{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}") == "13"
    assert chat_text("{{ missing }}{% if missing is defined %}x{% endif %}") == ""
    assert chat_text("{% generation %}by the model {{ x }}{% endgeneration %}", x=1) == "by the model 1"
    assert chat_text("{{ x|tojson }}", x={"b": "<é>", "a": None}) == '{"b": "<é>", "a": null}'
    assert chat_text("{{ x|tojson(indent=1, sort_keys=true) }}", x={"b": 1, "a": 2}) == '{\n "a": 2,\n "b": 1\n}'
    assert chat_text("{{ strftime_now('%d %b %Y') }}", lambda: datetime(2026, 7, 4)) == "04 Jul 2026"
    with pytest.raises(KvtoolError, match="no such thing"):
        chat_text("{{ raise_exception('no such thing') }}")


json_texts = st.text(alphabet='ab"\\\n\x00\x1fé\u2028🎉\ud800/0', max_size=8)
json_values = st.recursive(
    st.one_of(
        json_texts, json_texts.map(lambda text: Traced.of(text, Origin("m", text=text))), st.integers(), st.none()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(json_texts, inner, max_size=3)),
    max_leaves=6,
)


@given(json_values, st.booleans(), st.sampled_from([None, 2]))
def test_traced_json_writes_what_json_writes(value: object, ensure_ascii: bool, indent: int | None) -> None:
    written = traced_json(value, ensure_ascii=ensure_ascii, indent=indent)
    assert written == json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
    if isinstance(value, Traced) and value:
        assert {mark.origin for mark in marks_of(written[1:-1])} == {value.marks[0].origin}


def test_traced_json_leads_escapes_back_to_their_characters() -> None:
    text = concat(["say ", Traced.of('"hi"\n', Origin("m"))])
    written = traced_json({"content": text})
    assert isinstance(written, Traced)
    origin, offset = written.at(written.index("\\n"))
    assert (origin, offset) == (Origin("m"), 4)
    assert written.at(written.index("hi"))[1] == 1
    assert isinstance(marks_of(written)[0], Mark)
    assert traced_json({"\x000\x00": text}) == json.dumps({"\x000\x00": text}, ensure_ascii=False)


@pytest.mark.parametrize("name", ["a", "_a", "__a", "__class__", "__init__", "missing"])
@pytest.mark.parametrize("value", [True, 0, 1.5, "text", Traced("text"), None, [1], {"a": 1}, len, str, Traced])
def test_a_namespace_holds_what_it_holds_for_jinja(name: str, value: object) -> None:
    mine, theirs = TracedEnvironment(Traced(""), chat=True), ImmutableSandboxedEnvironment()
    found, expected = (each.getattr(Namespace({name.lstrip("_"): value, name: value}), name) for each in (mine, theirs))
    if isinstance(expected, Undefined):
        assert type(found) is type(expected)
    else:
        assert found is expected
