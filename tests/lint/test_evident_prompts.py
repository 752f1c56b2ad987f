"""What is evident is told as information with little text behind it; decorators and names of lambdas say what a text is for."""

from __future__ import annotations

import pytest

from tests.lint.found import made_findings

RULES = "Say in two sentences which berth is free, and name the row of the tide table that you took it from. "
LONG = RULES * 12


def told(code: str) -> list[str]:
    return [f"{one.severity} {one.message.partition(' ')[0]}" for one in made_findings(code)]


@pytest.mark.parametrize(("times", "expected"), [(1, []), (2, []), (3, ["info `question`"])])
def test_what_is_another_in_each_request_needs_half_a_block_less_than_four(times: int, expected: list[str]) -> None:
    code = f"PROMPT = {('You know the harbour.' + chr(10) + '{question}' + chr(10) + RULES * times)!r}\n"
    assert told(code) == expected


def test_what_may_be_the_same_needs_more() -> None:
    assert not told(f"PROMPT = {('You know the harbour of {port}. ' + RULES * 3)!r}\n")


def test_what_a_decorator_asks_a_model_with() -> None:
    for decorator, expected in [
        ("server.prompt()", True),
        ("mcp.prompt", True),
        ("ell.simple(model='m')", True),
        ("app.get('/')", False),
    ]:
        code = (
            f"@{decorator}\ndef berths(port: str) -> str:\n"
            f"    return f'Find a berth in {{port}}.\\n\\n' + {(RULES + 'Then ask for the tide. ') * 2!r}\n"
        )
        assert told(code) == (["info `port`"] if expected else [])


def test_a_lambda_with_a_name_is_a_function() -> None:
    code = (
        f"_prompt = lambda q: f'You know the harbour. Tell of \"{{q}}\" what you see. {LONG}'\n\n\n"
        "def ask(client, row):\n"
        "    return client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': _prompt(row['berth'])}])\n"
    )
    assert [(one.line, one.code) for one in made_findings(code)] == [(1, "KV201")]
    assert not told(code.replace("{q}", "them"))


def test_what_is_above_may_be_a_value_of_the_same_prompt() -> None:
    def code(begins: str) -> str:
        return f"PROMPT = {(begins + chr(10) + LONG)!r}\n"

    assert told(code("Question: {question}\nContext: {context}\nAnswer by the context above. ")) == [
        "warning `question`"
    ]
    assert not told(code("Answer by the context above. Question: {question}\n"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("prompt_text", []), ("base_prompt", []), ("question_text", ["warning `question_text`"])],
)
def test_what_is_added_to_a_whole_prompt_costs_nothing_of_it(name: str, expected: list[str]) -> None:
    content = f"f'{{{name}}}\\n\\n' + {RULES * 7!r}"
    ask = f"client.chat.completions.create(model='m', messages=[{{'role': 'user', 'content': {content}}}])"
    assert told(f"def ask(client, {name}):\n    return {ask}\n") == expected
