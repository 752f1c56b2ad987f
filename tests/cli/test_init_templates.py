"""`kvtool init` on templates with objects and files, and on prompts in Python and YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.workload.yaml.yaml_source import load_yaml_workload
from tests.conftest import Command
from tests.files import write

TEMPLATE = "{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"


@pytest.fixture
def init(in_folder: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("KVTOOL_CHAT_TEMPLATE", write("chat_template.jinja", TEMPLATE))
    return lambda *arguments: in_folder("init", *arguments)


PYTHON = '''
SYSTEM_PROMPT = """You are the support agent of a shop. It is {now}.
Answer in one or two sentences and stay friendly at all times.
Never promise refunds. Quote the order number in each answer that you give."""

def ask(client, now, question):
    messages = [{"role": "system", "content": SYSTEM_PROMPT.format(now=now)}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="m", messages=messages)
'''
RULES = "Keep all numbers as they are, name each date, and never explain the answer that you gave to the reader. "


def test_prompts_in_python_and_yaml_are_copied(init: Command) -> None:
    write("app/agent.py", PYTHON)
    write(
        "prompts.yaml",
        f"summary: |\n  It is {{today}}.\n  Summarize the document in short sentences. {RULES * 2}\n  {{document}}\n",
    )
    write("compose.yaml", "services: {a: {image: '{x}'}}\n")
    code, out, _ = init()
    assert code == 0
    assert "Found in .: 2 prompts" in out
    source = load_yaml_workload("kvtool-workload.yaml")
    assert [group.name for group in source.spec.groups] == ["agent", "prompts"]
    workload = Path("kvtool-workload.yaml").read_text(encoding="utf-8")
    for name in ("app/agent.py", "prompts.yaml"):
        assert f"# Copied from {name}." in workload
    said = " ".join(out.split())
    assert "app/agent.py:2:" in said or "prompts.yaml:2:" in said
    assert "loses most:" in said


def test_the_line_that_loses_most_is_named_beside_the_gate(init: Command) -> None:
    write(
        "prompts/a.j2",
        "You help.\nNow: {{ clock.strftime('%H:%M') }}\n" + "Answer in short and plain sentences.\n" * 20,
    )
    code, out, _ = init()
    assert code == 0
    config = Path("kvtool.toml").read_text(encoding="utf-8")
    for text in (" ".join(out.split()), config):
        assert "prompts/a.j2:2:6 (`clock`) loses most: " in text
    assert config.index("loses most") < config.index("hit_rate = ")


def test_templates_with_objects_and_files_need_nothing_else(init: Command, in_folder: Command) -> None:
    write("prompts/parts/head.j2", "{{ user.name }} of {{ user.team.title }}\n")
    write(
        "prompts/a.j2", "{% include 'parts/head.j2' %}{% for d in docs %}{{ d.title | shorten }}{% endfor %}{{ now() }}"
    )
    write("prompts/b.j2", "{{ docs }}{% if count > 3 %}many{% endif %}{{ price | round(2) }}")
    write("prompts/c.j2", "{{ docs.total }}{{ history[-1].content }}")
    code, out, err = init()
    assert (code, err) == (0, "")
    assert "Found in .: 3 prompts" in out  # what is included is a part of one
    assert "left out" not in out
    source = load_yaml_workload("kvtool-workload.yaml")
    assert source.spec.filters == ["shorten"]
    assert any(group.vars for group in source.spec.groups)  # `docs` is a list for one, an object for another
    assert in_folder("check", "-q")[0] == 0


def test_a_bad_template_is_named_with_its_place_and_hides_no_other(init: Command) -> None:
    write("prompts/good.j2", "You help {{ name }}.")
    write("prompts/tag.j2", "Fine.\n{% trans %}x{% endtrans %}\n")
    write("prompts/open.j2", "Fine.\n{{ name \n")
    code, out, _ = init()
    assert code == 0
    said = " ".join(out.split())
    assert (
        "prompts/tag.j2 was left out: template: Encountered unknown tag 'trans'. (prompts/tag.j2:2:4); kvtool knows"
        in said
    )
    assert "prompts/open.j2 was left out: template: unexpected end of template" in said
    assert "(prompts/open.j2:2:" in said
    assert "Found in .: 1 prompt" in said
