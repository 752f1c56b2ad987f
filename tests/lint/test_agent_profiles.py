"""The goal of an agent is set up with its role; the goal that somebody asks with is another in each request."""

from __future__ import annotations

import pytest

from kvtool.config.asked_run import RunOptions
from kvtool.lint.file_findings import Finder
from kvtool.lint.lint_inputs import InputKind, TextInput
from kvtool.results.finding import Finding
from kvtool.text.tokens.tokenizer import Tokenizers

RULES = " ".join(f"Rule {number}: be short, be kind, and never promise a refund, please." for number in range(24))


def found(path: str, text: str) -> list[Finding]:
    kind: InputKind = "python" if path.endswith(".py") else "template"
    find = Finder(RunOptions(inputs=[path]), Tokenizers(offline=True))
    return find(TextInput(path, text, kind, "" if kind == "python" else "jinja"))


PROFILES = [
    "You are a {{ role }}. Your goal is {{ goal }}.",
    "You are {{ agent.role }}, {{ agent.backstory }}\nYour personal goal is: {{ agent.goal }}",
    "Act as the experienced {{ persona }} that you are.\n{% if objective %}Pursue {{ objective }}.{% endif %}",
]


@pytest.mark.parametrize("text", PROFILES)
def test_the_goal_of_an_agent_is_the_same_in_all_of_its_requests(text: str) -> None:
    assert found("a.j2", f"{text}\n{RULES}") == []
    assert found("a.py", f'SYSTEM_PROMPT = """{text}\n{RULES}"""\nP = Template(SYSTEM_PROMPT)\n') == []


def test_a_goal_in_code_that_introduces_an_agent() -> None:
    text = f"def system_prompt(role, goal):\n    return f'You are a {{role}}. Your goal is {{goal}}. {RULES}'\n"
    assert found("a.py", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "You are a clerk. The goal is {{ goal }}.",
        "Reach this goal: {{ goal }}. You are {{ role }} then.",
        "You are a {{ role }}. Look at {{ question }}.",
    ],
)
def test_what_is_asked_is_told(text: str) -> None:
    assert [one.code for one in found("a.j2", f"{text}\n{RULES}")] == ["KV201"]
