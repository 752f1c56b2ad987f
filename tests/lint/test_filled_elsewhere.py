"""Texts that are filled or completed at another place: chains of LangChain, base templates, values within values."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Command
from tests.files import write

RULES = "Answer in two sentences, and name the row of the table that you took the answer from. " * 5
CHAIN = """
from datetime import datetime
from langchain_core.prompts import ChatPromptTemplate
prompt = ChatPromptTemplate.from_messages([("system", "It is {{stage}}. {rules}"), ("human", "{{question}}")])
chain = {chain}
async def ask(model, q):
    return {run}
"""


def found(in_folder: Command, *inputs: str) -> list[tuple[str, int, str]]:
    document = json.loads(in_folder("lint", *inputs, "--json")[1])
    return [(one["path"], one["line"], one["code"]) for one in document["findings"]]


@pytest.mark.parametrize("chain", ["prompt | model", "prompt | model | str", "prompt"])
@pytest.mark.parametrize(
    "run",
    [
        "chain.invoke({values})",
        "await chain.ainvoke({values})",
        "chain.stream(dict(**{values}))",
        "chain.batch([{values}])",
    ],
)
@pytest.mark.parametrize(("value", "code"), [("datetime.now().isoformat()", "KV101"), ("'draft'", "")])
def test_values_of_a_chain_belong_to_its_template(
    in_folder: Command, chain: str, run: str, value: str, code: str
) -> None:
    if "dict(" in run:
        run = f"chain.stream(dict(stage={value}, question=q))"
    run = run.format(values=f"{{'stage': {value}, 'question': q}}") if "{values}" in run else run
    write("app.py", CHAIN.format(rules=RULES, chain=chain, run=run))
    clocks = [one for one in found(in_folder, "app.py") if one[2] == "KV101"]
    assert clocks == ([("app.py", 4, code)] if code else [])


@pytest.mark.parametrize(("place", "lines"), [("head", [2]), ("tail", [])])
@pytest.mark.parametrize("levels", [1, 2])
def test_the_text_of_a_base_counts_where_its_blocks_are(
    in_folder: Command, place: str, lines: list[int], levels: int
) -> None:
    write("p/base.j2", f"{{% block head %}}{{% endblock %}}\n{RULES}\n{{% block tail %}}{{% endblock %}}\n")
    write("p/middle.j2", '{% extends "base.j2" %}\n')
    base = "base.j2" if levels == 1 else "middle.j2"
    write("p/child.j2", f'{{% extends "{base}" %}}\n{{% block {place} %}}It is {{{{ now() }}}}.{{% endblock %}}\n')
    assert found(in_folder, "p/child.j2") == [("p/child.j2", line, "KV101") for line in lines]


def test_words_in_braces_that_format_cannot_fill_are_for_the_model(in_folder: Command) -> None:
    text = f"Write a report on {{topic}}.\n{RULES}\n"
    write("prompts/report.md", text)
    assert [code for _, _, code in found(in_folder, "prompts")] == ["KV201"]
    write("prompts/report.md", text + "Reason: {why it matters}\n")
    assert found(in_folder, "prompts") == []


def test_a_value_within_a_value_is_one_loss(in_folder: Command) -> None:
    code = f"""
FILTER_PROMPT = "Keep what is in scope: {{scope}}. {RULES}"
def run(client, project, q):
    name = find(project).get("name") or project
    parts = [f"the project '{{name}}' (folder)"]
    prompt = FILTER_PROMPT.format(scope="; ".join(parts))
    return client.chat.completions.create(messages=[{{"role": "user", "content": prompt}}])
"""
    write("app.py", code)
    assert [line for _, line, _ in found(in_folder, "app.py")] == [2]
