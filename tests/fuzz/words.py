"""Words that change the meaning of a file, by its language; mutators put them where other words stood."""

from __future__ import annotations

from tests.fuzz.mutators import TEXTS

YAML = (
    "{{ 1 }}", "{{", "}}", "{%", "%}", "{#", "#}", "&a", "*a", "!!python/object:os.system", "!!binary", "<<: *all", "? ", "- ", ": ", "|", ">",
    "---", "...", "[", "]", "{", "}", ",", "'", '"', "%YAML 9.9", "\t", "0o7", "1:30", "~", ".inf", "requests", "sessions", "glob", "file",
    "text", "messages", "segments", "generate", "import", "vars", "/**/*", "**", "../x", "log.jsonl", "rules.md", "-n", *TEXTS[:40],
)  # fmt: skip
JINJA = (
    "{{ messages }}", "{% for i in range(10**9) %}x{% endfor %}", "{{ 'a' * 10**9 }}", "{% set x = [x, x] %}", "{{ ''.__class__ }}",
    "{{ messages|map(attribute='__init__')|list }}", "{{ cycler }}", "{{ self }}", "{{ 2 ** 99999 }}", "{{ range(99999)|list|sort }}",
    "{% macro a(n) %}{{ a(n+1) }}{{ a(n+1) }}{% endmacro %}{{ a(1) }}", "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}",
    "{% call a() %}", "{% block b %}", "{% filter upper %}", "{% endfor %}", "{% endif %}", "{% else %}", "{% raw %}", "{{ '%s%s' % (a, a) }}",
    "{{ '{}'.format(messages) }}", "|tojson", "|length", "|join(',')", "|map('upper')", "|selectattr('role')", "[0]", ".role", "[-1]['content']",
    "is defined", "loop.index0", "namespace(x=1)", "{% do 1 %}", "{% break %}", "{% continue %}", "{{ raise_exception('x') }}", "'", '"', "~", "**",
    "//", "1e999", "{{ messages[0].content * 99999 }}", "{% generation %}", "{{ x|format(1) }}", "{{ 'a'|center(10**8) }}", "{{ tools|tojson }}",
    "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}", "{%- -%}", "{{-", "-}}", "\0", "\u202e",
)  # fmt: skip
PYTHON = (
    'f"', "f'''", "{", "}", "{{", "!r", ":>{w}", "lambda:", "async", "await", "yield", "import", "from . import *", "def f(", "class A:", "@", ":=",
    "*", "**", "/", "\\", '"""', "'''", "rb'", "b'\\xff'", "'\\ud800'", "'\\N{DASH}'", "datetime.now()", "uuid4()", "time.time()", "random.random()",
    "json.dumps(d)", "set(x)", "os.environ", "open('x').read()", ".format(**x)", "% (a,", '"%s %d" %', "match x:", "case _:", "if 1:", "else:", "try:",
    "except* A:", "global x", "0777", "1e999", "1_0", "9" * 5000, "(" * 300, "-" * 400 + "1", "not " * 200, "# kvtool: ignore[KV101]",
    "# kvtool: ignore", "# noqa", "# -*- coding: latin-1 -*-", "\t", "\x0c", "\r", "\0", "\u202e", "é", "ﬁ", "messages=", '{"role": "user", "content": ',
    "Template('$x')", "t'{x}'", "type X = int",
)  # fmt: skip
TEXT = (
    "2026-01-05T09:00:07Z", "req_9f8e7d6c5b4a", "550e8400-e29b-41d4-a716-446655440000", "user@example.org", "{{ x }}", "{% if", "<a>", "</a>",
    "```", "Example 1:", "[1]", '{"a": 1}', "# kvtool: ignore[KV101]", "<!-- kvtool: ignore[KV1] -->", "[INST]", "<|im_start|>", "sk-" + "a" * 40,
    *TEXTS,
)  # fmt: skip
TOML = (
    "[", "]", "[[", "]]", "=", '"""', "'''", "{", "}", ",", "true", "[engine]", "[gate.groups.x]", "[check]", "9" * 5000, "1e9999", "0x" + "f" * 400,
    "nan", "-inf", "1979-05-27T07:32:00Z", "07:32:00", "\\uD800", '"\\u0000"', "a.b.c", '""', "capacity", "ttl", "workloads", "9223372036854775808",
    "block_size", "hit_rate", "/dev/zero", "../..", *TEXTS[:40],
)  # fmt: skip
