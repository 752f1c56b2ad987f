"""Variables of templates are inferred from their uses; names decide nothing."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtool.cli.commands.init.made_up import variable_lines
from kvtool.diagnose import codes
from kvtool.lint.prompt_copies import TemplateCalls
from kvtool.text.files.yaml_document import parse_yaml
from kvtool.text.templates.application import Application, IncludedSource
from kvtool.text.templates.template import compile_template
from kvtool.text.templates.variable_uses import VariableUses
from kvtool.text.traced import Origin, Traced
from kvtool.workload.yaml.load_state import Loading
from kvtool.workload.yaml.validate import validate
from kvtool.workload.yaml.variables import Moment, VariableValues, load_variables

FILES = {
    "header.j2": "Shop {{ h.name }}\n{% for s in h.seen %}{{ s.at }}{% endfor %}\n",
    "macros.j2": "{% macro card(p, n=2) %}{{ p.title | upper }}: {{ p.price | round(n) }}{% endmacro %}",
    "base.j2": "Base {{ site.name }}\n{% block body %}{{ fallback }}{% endblock %}\n",
}


def find(name: str, includer: str | None) -> IncludedSource | None:
    del includer
    text = FILES.get(name)
    return None if text is None else IncludedSource(name, Traced.of(text, Origin(name, text=text)))


def infer(source: str) -> VariableUses:
    uses = VariableUses()
    uses.read(source, find)
    return uses


def values_of(uses: VariableUses, seed: int = 0) -> VariableValues:
    lines = [
        line for name, shape in sorted(uses.variables.items()) for line in variable_lines(name, shape, TemplateCalls())
    ]
    variables = "vars:\n" + "\n".join(lines) + "\n" if lines else ""
    document = parse_yaml(f"version: 1\n{variables}groups: [{{name: a, text: x}}]\n", "w.yaml")
    loading = Loading(document, seed)
    values = VariableValues(load_variables(validate(document, codes).vars, loading, ("vars",)))
    assert not loading.problems
    return values


def render(source: str, seed: int = 0) -> list[Traced]:
    """Five requests of a template with inferred variables; undefined ones are errors."""
    uses = infer(source)
    application = Application(find, frozenset(uses.filters), frozenset(uses.tests))
    template = compile_template(source, chat=False, origin=Origin("a.j2"), application=application)
    values = values_of(uses, seed)
    return [template.render(values.at(Moment(n, n, n, n))) for n in range(5)]


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("{{ a.x }}", {"a": "object"}),
        ('{{ a["x"] }}', {"a": "object"}),
        ("{{ a['x'].y | upper }}", {"a": "object"}),
        ("{% for b in a %}{{ b }}{% endfor %}", {"a": "list"}),
        ("{% for b in a %}{{ b.x }}{% endfor %}{{ a | length }}", {"a": "list"}),
        ("{% for k, v in a.items() %}{{ k }}{{ v }}{% endfor %}", {"a": "object"}),
        ("{% for k in a %}{{ a[k] }}{% endfor %}", {"a": "object"}),
        ("{{ a[0] }}{{ b[-1].x }}", {"a": "list", "b": "list"}),
        ("{{ a.strftime('%Y') }}{{ b.isoformat() }}", {"a": "date", "b": "date"}),
        ("{{ (a - b).days }}", {"a": "date", "b": "date"}),
        ("{{ a() }}{{ b(1, x=2).y }}", {"a": "function", "b": "function"}),
        ("{% if a > 3 %}x{% endif %}{{ b | round(2) }}{{ c * 2 }}", {"a": "number", "b": "number", "c": "number"}),
        ("{{ '%.2f' | format(a) }}{{ '{:,}'.format(b) }}{{ '%d' % c }}", {"a": "number", "b": "number", "c": "number"}),
        ("{% if a %}x{% endif %}{% if not b and c %}y{% endif %}", {"a": "bool", "b": "bool", "c": "bool"}),
        ("{% if a %}{{ a }}{% endif %}", {"a": "text"}),
        ("{% if a == 'x' %}y{% endif %}", {"a": "text"}),
        ("{{ a.strip() }}{{ b | truncate(5) }}{{ c[:3] }}{{ d ~ e }}", {"a": "text", "b": "text", "c": "text", "d": "text"}),
        ("{% set b = a %}{% for c in b %}{{ c.x }}{% endfor %}", {"a": "list"}),
        ("{% macro m(x) %}{{ x.y }}{% endmacro %}{{ m(a) }}", {"a": "object"}),
        ("{% macro m() %}{{ caller(a) }}{% endmacro %}{% call(b) m() %}{{ b.x }}{% endcall %}", {"a": "object"}),
        ("{% for g, l in a | groupby('k') %}{{ g }}{{ l | length }}{% endfor %}", {"a": "list"}),
        ("{{ a | map(attribute='x') | join }}{{ b | selectattr('x') | list }}", {"a": "list", "b": "list"}),
        ("{% for b, c in a %}{{ b.x }}{{ c }}{% endfor %}", {"a": "list"}),
        ("{{ labels[a] }}{{ {'x': 1, 'y': 2}[b] }}", {"labels": "object", "a": "text", "b": "text"}),
        ("{% include 'header.j2' %}", {"h": "object"}),
        ("{% import 'macros.j2' as m %}{{ m.card(a) }}", {"a": "object"}),
        ("{% from 'macros.j2' import card as c %}{% for p in a %}{{ c(p) }}{% endfor %}", {"a": "list"}),
        ("{% extends 'base.j2' %}{% block body %}{{ a.x }}{% endblock %}", {"a": "object", "site": "object"}),
        ("{% for b in a recursive %}{{ b.x }}{% if b.c %}{{ loop(b.c) }}{% endif %}{% endfor %}", {"a": "list"}),
        ("{{ date | dateformat }}{{ a.b | money }}", {"date": "text", "a": "object"}),
        ("{% set ns = namespace(n=0) %}{% for i in a %}{% set ns.n = ns.n + i.v %}{% endfor %}{{ ns.n }}", {"a": "list"}),
        ("{% set l = [] %}{% for i in a %}{% do l.append(i.v) %}{% endfor %}{{ l | join }}", {"a": "list"}),
        ("{% for i in range(n) %}{{ docs[i].t }}{% endfor %}", {"n": "number", "docs": "list"}),
        ("{{ a + b }}{{ c + 1 }}{{ d + 'x' }}", {"a": "text", "c": "number", "d": "text"}),
        ("{{ page.items | join }}{{ page.count }}", {"page": "object"}),
    ],
)  # fmt: skip
def test_uses_say_what_a_variable_is(source: str, kinds: dict[str, str]) -> None:
    variables = infer(source).variables
    assert {name: variables[name].kind() for name in kinds} == kinds
    assert len(render(source)) == 5


def test_values_are_made_on_both_sides_of_a_comparison() -> None:
    assert {str(text) for seed in range(8) for text in render("{% if a > 3 %}x{% else %}y{% endif %}", seed)} == {
        "x",
        "y",
    }
    assert {str(text) for seed in range(8) for text in render("{% if a == 'q' %}x{% else %}y{% endif %}", seed)} == {
        "x",
        "y",
    }


def test_names_of_filters_and_tests_of_the_application_are_found() -> None:
    uses = infer("{{ a | money }}{% if a is prime %}x{% endif %}{{ b | upper }}")
    assert (uses.filters, uses.tests) == ({"money"}, {"prime"})


def test_included_lines_are_the_origins_of_what_they_write() -> None:
    text = render("A\n{% include 'header.j2' %}{% import 'macros.j2' as m %}{{ m.card(p) }}")[0]
    found = {(origin.path, origin.line, origin.variable) for _, origin, _ in text.marks if origin is not None}
    assert {("a.j2", 1, None), ("header.j2", 1, None), ("header.j2", 1, "h.name"), ("header.j2", 2, "s.at")} <= found
    assert ("macros.j2", 1, "p.title") in found


@st.composite
def expressions(draw: st.DrawFn, root: str, depth: int = 0) -> str:
    """Return an expression on a variable, or a statement with one."""
    forms = ["{0}", "{0} | upper", "{0} | default('x')", "{0} | tojson", "{0} ~ '!'"]
    shown = "{{{{ " + draw(st.sampled_from(forms)) + " }}}}"
    if depth == 3:
        return shown.format(root)
    kind = draw(st.sampled_from(["show", "attribute", "key", "loop", "pairs", "if", "set", "first", "call", "number"]))
    name = draw(st.sampled_from(["p", "q", "items", "year", "name", "title"]))
    inner = f"{name}{depth}"
    if kind == "attribute":
        return draw(expressions(f"{root}.{inner}", depth + 1))
    if kind == "key":
        return draw(expressions(f"{root}['{inner}']", depth + 1))
    if kind == "loop":
        return f"{{% for {inner} in {root} %}}{draw(expressions(inner, depth + 1))}{{% endfor %}}"
    if kind == "pairs":
        body = draw(expressions(inner, depth + 1))
        return f"{{% for k{depth}, {inner} in {root}.items() %}}{{{{ k{depth} }}}}{body}{{% endfor %}}"
    if kind == "if":
        return f"{{% if {root} %}}{draw(expressions(root, depth + 1))}{{% endif %}}"
    if kind == "set":
        return f"{{% set {inner} = {root} %}}{draw(expressions(inner, depth + 1))}"
    if kind == "first":
        return draw(expressions(f"({root} | first)", depth + 1))
    if kind == "call":
        return draw(expressions(f"{root}('a')", depth + 1))
    if kind == "number":
        return f"{{% if {root} >= {draw(st.integers(-3, 40))} %}}{{{{ {root} * 2 }}}}{{% endif %}}"
    return shown.format(root)


@st.composite
def templates(draw: st.DrawFn) -> str:
    pieces = ["Rules.\n"]
    for number in range(draw(st.integers(1, 5))):
        pieces.append(draw(expressions(f"v{number}")))
        pieces.append(draw(st.sampled_from(["\n", "text\n", "{% include 'header.j2' %}", "{# note #}"])))
    return "".join(pieces)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(templates(), st.integers(0, 3))
def test_inferred_variables_render_every_template(source: str, seed: int) -> None:
    texts = render(source, seed)
    assert texts == render(source, seed)
    for text in texts:
        assert sum(mark.length for mark in text.marks) == len(text)
        assert all(mark.origin is not None for mark in text.marks)
