"""What lint sees in templates and Python files, with one token for each character, so that the text behind can be counted."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.lint.evidence.volatile_calls import RANDOM
from kvtool.lint.lint_inputs import sort_inputs
from kvtool.lint.python.built_prompts import python_prompts
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, TemplatePlace, holes, placeholders, style_of
from kvtool.results.finding import Finding
from tests.lint.found import jinja_file, static_findings, text_template

LONG = "x" * 300
HUGE = "y" * 1100


def jinja(text: str, *, least: int = 1) -> list[Finding]:
    return static_findings("a.j2", text, [jinja_file("a.j2", text)], len, block_size=16, least=least)


def python(text: str, *, least: int = 1) -> list[Finding]:
    return static_findings("a.py", text, python_prompts("a.py", text)[0], len, block_size=16, least=least)


def short(findings: list[Finding]) -> list[tuple[str, str, int, int, int]]:
    """Code, severity, line, column and tokens behind."""
    return [(one.code, one.severity, one.line, one.column, one.tokens_lost) for one in findings]


# The order of text


def hole(number: int) -> Hole:
    return Hole(TemplatePlace("p", number, 1, 1), RANDOM, "`x`")


def test_text_behind_is_counted_from_the_hole_on() -> None:
    nodes: list[Node] = ["abc", hole(1), "de", hole(2), "f"]
    assert [(found.hole.spot.line, found.behind.tokens, found.behind.sure) for found in holes(nodes, len)] == [
        (1, 3, 3),
        (2, 1, 1),
    ]


def test_of_branches_the_longest_may_follow_and_the_shortest_does() -> None:
    nodes: list[Node] = [hole(1), Choice((("aa",), ("bbbb", hole(2)), ())), "c"]
    assert [(found.hole.spot.line, found.behind.tokens, found.behind.sure) for found in holes(nodes, len)] == [
        (1, 5, 1),
        (2, 1, 1),
    ]


def test_a_repeated_text_counts_once_and_may_be_missing() -> None:
    nodes: list[Node] = [hole(1), Repeat(("aa", hole(2), "b")), "c"]
    assert [(found.hole.spot.line, found.behind.tokens, found.behind.sure) for found in holes(nodes, len)] == [
        (1, 4, 1),
        (2, 2, 2),
    ]


# Jinja


def test_a_clock_before_text_and_a_clock_behind_it() -> None:
    assert short(jinja(f"Now: {{{{ now }}}}\n{LONG}\n{{{{ now }}}}")) == [("KV101", "error", 1, 6, 302)]


def test_the_text_behind_decides_and_less_than_a_block_is_nothing() -> None:
    for behind, before, severity in (
        (64, 0, "error"), (63, 0, "warning"), (243, 57, "error"), (100, 1900, "error"), (100, 1901, "warning"),
        (100, 9900, "warning"), (100, 9901, "info"), (16, 0, "warning"),
    ):  # fmt: skip
        text = "x" * before + "{{ user_id }}" + "x" * behind
        assert short(jinja(text, least=16)) == [("KV104", severity, 1, before + 1, behind)]
    assert jinja("{{ user_id }} " + "x" * 14, least=16) == []


def test_what_an_expression_says() -> None:
    for expression, code in [
        ("now()", "KV101"), ("datetime.now().isoformat()", "KV101"), ("strftime_now('%d %b')", "KV101"),
        ("uuid4()", "KV102"), ("items | random", "KV102"), ("'At ' ~ now()", "KV101"),
        ("user.email | lower", "KV104"), ("ctx['cwd']", "KV106"), ("question", "KV201"),
        ("format_instructions", None), ("'2024-01-01'", None), ("items | length", None),
    ]:  # fmt: skip
        assert [one.code for one in jinja(f"{{{{ {expression} }}}}{LONG}")] == ([code] if code else [])


def test_what_it_costs_is_the_severity_and_how_it_is_known_the_confidence() -> None:
    for expression, severity, confidence in (
        ("now()", "error", 1.0),
        ("now", "error", 0.5),
        ("getcwd()", "info", 1.0),  # the same for all requests of a process
        ("user_id", "error", 0.5),
    ):
        (found,) = jinja("{{ " + expression + " }}" + HUGE)
        assert (found.severity, found.confidence) == (severity, confidence)


def test_names_that_are_set_count_for_what_they_are_set_to() -> None:
    assert jinja("{% set now = 'noon' %}{{ now }}" + LONG) == []
    assert short(jinja("{% set head = uuid4() %}\n{{ head }}" + LONG)) == [("KV102", "error", 2, 1, 300)]
    either = "{% if a %}{% set d = now() %}{% else %}{% set d = 'noon' %}{% endif %}{{ d }}"
    assert [one.code for one in jinja(either + LONG)] == ["KV101"]


def test_a_macro_counts_where_it_is_called() -> None:
    text = "{% macro rules() %}" + LONG + "{% endmacro %}{{ now }}{{ rules() }}"
    assert short(jinja(text)) == [("KV101", "error", 1, text.index("{{ now") + 1, 300)]
    assert jinja("{% macro rules() %}" + LONG + "{% endmacro %}{{ rules() }}{{ now }}") == []


def test_flags_decide_and_names_in_loops_do_not() -> None:
    (flag,) = jinja("{% if experiment %}Be brief.{% endif %}" + LONG)
    assert (flag.code, flag.line, flag.column) == ("KV107", 1, 1)
    (loop,) = jinja("{% for step in steps %}{{ step }}{% endfor %}" + LONG)
    assert (loop.code, loop.severity, loop.message.partition(" ")[0]) == ("KV201", "info", "`steps`")
    (items,) = jinja("{% for doc in docs %}{{ loop.index }}. {{ doc }}{% endfor %}" + HUGE)
    assert (items.code, items.severity, items.column) == ("KV201", "warning", 1)


def test_a_chat_template_with_a_date() -> None:
    text = (
        "{%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b %Y') %}{%- endif %}\n"
        "{{- bos_token }}\nToday: {{ date_string }}\n"
        "{%- for message in messages %}{{ message.content }}{% endfor %}"
    )
    assert [(one.code, one.severity, one.line, one.column) for one in jinja(text, least=16)] == [
        ("KV131", "warning", 3, 8)
    ]
    pinned = text.replace("strftime_now('%d %b %Y')", "'26 Jul 2024'")
    assert jinja(pinned, least=16) == []


def test_syntax_errors_have_a_place() -> None:
    for text, line in [("a\n{{ now }\n", 2), ("{% if a %}\n", 1), ("a\n\n{% foo %}", 3), ("{{ (" * 3000, 1)]:
        with pytest.raises(KvtoolError) as caught:
            jinja_file("a.j2", text)
        assert caught.value.place is not None
        assert (caught.value.place.path, caught.value.place.line) == ("a.j2", line)


def test_unknown_filters_are_no_error() -> None:
    assert [one.code for one in jinja("{{ now | pretty }}" + LONG)] == ["KV101"]


# Text with placeholders


def test_placeholders_of_both_kinds() -> None:
    text = "{now} {{not}} {user.name!r:>10} {0} { x } {question}"
    assert [text[start:stop] for start, stop, _ in placeholders(text, "format")] == [
        "{now}",
        "{user.name!r:>10}",
        "{0}",
        "{question}",
    ]
    text = "$now $$now ${user} $5 $$$day"
    assert [name for _, _, name in placeholders(text, "dollar")] == ["now", "user", "day"]


def test_styles() -> None:
    for text, style in [
        ("{{ a }}", "jinja"),
        ("{%- if a %}", "jinja"),
        ("{a}", "format"),
        ("$a", "dollar"),
        ('{"a": {"b": 1}}', ""),
        ("5$", ""),
    ]:
        assert style_of(text) == style


def test_a_text_template() -> None:
    text = f"Hi {{user_name}},\nit is {{date}}.\n{LONG}"
    nodes = text_template("a.txt", text, "format")
    found = static_findings("a.txt", text, [nodes], len, block_size=16, least=16)
    assert short(found) == [("KV104", "error", 1, 4, len(",\nit is .\n") + 300), ("KV101", "warning", 2, 7, 302)]


@given(
    st.lists(
        st.one_of(st.sampled_from(["{now}", "\n", "{{", "é", "{user}"]), st.text(string.ascii_letters, max_size=5))
    )
)
def test_text_templates_lose_nothing_and_know_their_places(parts: list[str]) -> None:
    text = "".join(parts)
    nodes = text_template("a", text, "format")
    constant = sum(len(node) for node in nodes if isinstance(node, str))
    found = [node for node in nodes if isinstance(node, Hole)]
    assert constant + sum(node.spot.width for node in found) == len(text)
    for node in found:
        line = text.split("\n")[node.spot.line - 1]
        assert line[node.spot.column - 1 :].startswith(("{now}", "{user}"))


# Python; more of it in test_python_values.py


def test_an_f_string() -> None:
    text = f'import datetime\nPROMPT = f"""Rules\n  é {{datetime.datetime.now():%H}} and {{question}}\n{LONG}"""\n'
    assert short(python(text)) == [("KV101", "info", 3, 5, len(" and \n") + 300)]  # no sentence: weak evidence


def test_a_template_that_is_filled_elsewhere_is_told_once() -> None:
    text = f"PROMPT = 'At {{now}}:\\n{LONG}'\ndef f():\n    return PROMPT.format(now=datetime.now())\n"
    (found,) = python(text)
    assert (found.code, found.line, found.column, found.width) == ("KV101", 1, 14, 5)


def test_messages_are_one_prompt_and_other_lists_are_not() -> None:
    text = f"""\
def ask(user_id, q):
    LONG = "{LONG}"
    client.chat(messages=[
        {{"role": "system", "content": f"Hello {{user_id}}"}},
        {{"role": "user", "content": [{{"type": "text", "text": LONG + q}}]}},
    ])
    return [f"{{user_id}}", LONG]
"""
    assert short(python(text)) == [("KV104", "info", 4, 47, 300)]


def test_python_that_does_not_parse() -> None:
    for text, line in [("x = (\n", 1), ("\nx = f'{a'\n", 2), ("def f(:\n", 1), ("x = " + "(" * 400, 1)]:
        with pytest.raises(KvtoolError) as caught:
            python_prompts("a.py", text)[0]
        assert caught.value.place is not None
        assert (caught.value.place.path, caught.value.place.line) == ("a.py", line)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems(end: str) -> None:
    text = f"LONG = '{LONG}'{end}x = 1{end}PROMPT = f'é {{now}}' + LONG{end}"
    assert [(one.line, one.column) for one in python(text)] == [(3, 14)]


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = f"from pathlib import Path\nM = Path({str(mark)!r})\nM.touch()\nPROMPT = f'{{M.touch()}} {{now}} {LONG}'\n"
    assert [one.code for one in python(text)] == ["KV101"]
    jinja("{{ ''.__class__.__mro__ }}{{ now }}" + LONG)
    assert not mark.exists()


# What an input is


def test_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "a.md": "{{ now }}",
        "b.md": "{name}",
        "c.txt": "$name",
        "d.txt": "plain",
        "e.j2": "x",
        "f.py": "x = 1",
        "w.yaml": "",
        "l.jsonl": "",
    }.items():
        Path(name).write_text(text, encoding="utf-8")  # fmt: skip
    found = sort_inputs(["a.md", "b.md", "c.txt", "e.j2", "f.py", "w.yaml", "l.jsonl", "a.md"])
    assert [(one.path, one.kind, one.style) for one in found.texts] == [
        ("a.md", "template", "jinja"),
        ("e.j2", "template", "jinja"),
        ("f.py", "python", ""),
    ]
    assert found.runs == [["w.yaml"], ["b.md", "c.txt", "l.jsonl"]]
    assert [one.style for one in sort_inputs(["b.md"]).texts] == ["format"]
    assert [one.style for one in sort_inputs(["d.txt"]).texts] == [""]
    assert sort_inputs(["d.txt"]).runs == []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_stands_behind_counts_with_any_line_end(end: str) -> None:
    """Jinja's lexer makes line feeds of the others, and lost the text behind an expression where that was not done before."""
    nodes = jinja_file("x.j2", end.join(["One", "Now: {{ now }} x", "Be short.", "Be kind.", ""]))
    assert [node if isinstance(node, str) else node.spot.line for node in nodes] == [
        "One\nNow: ",
        2,
        " x\nBe short.\nBe kind.\n",
    ]
