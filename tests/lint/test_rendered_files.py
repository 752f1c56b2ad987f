"""Template files that Python renders: a value that changes is found where the template puts it."""

from __future__ import annotations

import json
import random

import pytest

from tests.conftest import Command
from tests.files import write

RULES = "Answer in two sentences, and name the row of the table that you took the answer from. " * 12
CODE = """
import datetime, uuid
from jinja2 import Environment, FileSystemLoader
env = Environment(loader=FileSystemLoader("prompts"))
def reply(client, subject):
    {call}
    return client.chat.completions.create(model="m", messages=[{{"role": "user", "content": text}}])
"""
CALLS = (
    'text = env.get_template("reply.j2").render(stage={value}, subject=subject)',
    'view = env.get_template("reply.j2")\n    text = view.render(subject=subject, stage={value})',
    'text = env.get_template("reply.j2").render({{"stage": {value}, "subject": subject}})',
    'text = env.get_template("reply.j2").render(**{{"stage": {value}}})',
)


def found(in_folder: Command, *inputs: str) -> list[tuple[str, int, str]]:
    document = json.loads(in_folder("lint", *inputs, "--json")[1])
    return [(one["path"], one["line"], one["code"]) for one in document["findings"] if one["severity"] != "info"]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("value", "code"),
    [("datetime.datetime.now().isoformat()", "KV101"), ("uuid.uuid4()", "KV102"), ("subject", ""), ("'draft'", "")],
)
def test_a_value_that_changes_is_told_where_the_template_puts_it(
    call: str, value: str, code: str, in_folder: Command
) -> None:
    line = random.Random(call + value).randrange(2, 9)
    lines = [f"You write replies. {RULES}\n"] * 8
    lines.insert(line - 1, "It is at {{ stage }}.\n")
    write("app/prompts/reply.j2", "".join(lines) + "{{ subject }}\n")
    write("app/write.py", CODE.format(call=call.format(value=value)))
    expected = [("app/prompts/reply.j2", line, code)] if code else []
    assert found(in_folder, "app/write.py") == expected
    assert found(in_folder, "app") == expected  # the second time from the cache
    assert found(in_folder, "app") == expected
    if code:
        _, out, _ = in_folder("lint", "app/write.py", "--width", "300")
        assert "passed by app/write.py:" in out
        assert "nothing to report" not in out


def test_a_value_at_the_end_costs_nothing_and_pages_are_no_prompts(in_folder: Command) -> None:
    write("write.py", CODE.format(call=CALLS[0].format(value="uuid.uuid4()")))
    write("prompts/reply.j2", f"You write replies. {RULES}\n{{{{ subject }}}}\n{{{{ stage }}}}\n")
    assert found(in_folder, "write.py") == []
    write("prompts/reply.j2", "<html><head>{{ stage }}</head>\n<body>" + "<p class='x'>{{ subject }}</p>\n" * 60)
    assert found(in_folder, "write.py") == []


def test_a_run_of_the_template_tells_more_than_the_code_that_renders_it(in_folder: Command) -> None:
    write("write.py", CODE.format(call=CALLS[0].format(value="uuid.uuid4()")))
    write("prompts/reply.j2", f"{{{{ stage }}}}\n{RULES}\n{{{{ subject }}}}\n")
    group = "{name: g, requests: 4, file: prompts/reply.j2}"
    write("w.yaml", f"version: 1\nvars: {{stage: {{text: draft}}, subject: {{text: rain}}}}\ngroups: [{group}]\n")
    assert found(in_folder, "write.py") == [("prompts/reply.j2", 1, "KV102")]
    assert found(in_folder, "w.yaml", "write.py") == []


def test_names_of_imported_macros_are_constants_and_their_arguments_are_not(in_folder: Command) -> None:
    head = "{% import 'm.j2' as m %}{% from 'm.j2' import line as one %}"
    write("prompt.j2", f"{head}{{{{ m.line('x') }}}}{{{{ one('y') }}}}\n{RULES}")
    assert in_folder("lint", "prompt.j2")[1].startswith("no findings")
    write("prompt.j2", f"{head}{{{{ m.line(current_time) }}}}\n{RULES}")
    assert found(in_folder, "prompt.j2") == [("prompt.j2", 1, "KV101")]


@pytest.mark.parametrize("folder", ["prompts", "tmpl", "instructions"])
def test_the_name_of_a_folder_hides_no_clock(in_folder: Command, folder: str) -> None:
    """A template that reads like a prompt is one, in a folder that is named for prompts as in any other."""
    text = "Run {{ request_id }} at {{ timestamp }}.\nClassify the ticket below into one of: billing, shipping.\n"
    write(f"{folder}/sort.j2", f"{text}{{% for e in examples %}}\n- {{{{ e.text }}}}\n{{% endfor %}}\n{RULES}")
    assert {code for _, _, code in found(in_folder, folder)} == {"KV101", "KV102"}


# Templates that are linked with others, and templates apart from the code


LINKED = {
    "base.j2": "You write replies. {{ stage }}\n{% block rules %}{% endblock %}\n",
    "reply.j2": '{% extends "base.j2" %}\n{% block rules %}RULES{% endblock %}\n',
}
INCLUDED = {"reply.j2": 'You write replies.\n{% include "head.j2" %}\nRULES\n', "head.j2": "It is {{ stage }}.\n"}
WHOLE = {"reply.j2": "You write replies. {{ stage }}\nRULES\n"}
GIVEN = 'text = env.get_template("reply.j2").render(stage=datetime.datetime.now())'
READ = "text = jinja2.Template(Path('mail/prompts/reply.j2').read_text()).render(stage=datetime.datetime.now())"


@pytest.mark.parametrize(
    ("files", "call", "code", "place"),
    [
        (LINKED, GIVEN, "mail/write.py", ("mail/prompts/base.j2", 1, "KV101")),
        (INCLUDED, GIVEN, "mail/write.py", ("mail/prompts/reply.j2", 2, "KV101")),
        (WHOLE, GIVEN, "mail/agents/write.py", ("mail/prompts/reply.j2", 1, "KV101")),
        (WHOLE, READ, "mail/agents/write.py", ("mail/prompts/reply.j2", 1, "KV101")),
    ],
)
def test_a_value_is_handed_on_to_bases_and_included_files(
    files: dict[str, str], call: str, code: str, place: tuple[str, int, str], in_folder: Command
) -> None:
    for name, text in files.items():
        write(f"mail/prompts/{name}", text.replace("RULES", RULES))
    write(code, "import jinja2\nfrom pathlib import Path\n" + CODE.format(call=call))
    assert found(in_folder, "mail") == [place]
    assert found(in_folder, "mail") == [place]  # from the cache


def test_the_edit_of_the_next_command_knows_what_code_passes(in_folder: Command) -> None:
    for name, text in WHOLE.items():
        write(f"mail/prompts/{name}", text.replace(". {{ stage }}", ".\nIt is {{ stage }}.").replace("RULES", RULES))
    write("mail/write.py", CODE.format(call=GIVEN))
    out = in_folder("lint", "mail")[1]
    assert "Next: preview the edits:" in out
    code, patch, _ = in_folder("lint", "mail", "--diff", "--unsafe-fixes")
    assert code == 1
    assert "+++ mail/prompts/reply.j2" in patch
