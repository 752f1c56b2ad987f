"""Texts that are filled later: by their names, as attributes, and as arguments of calls that are given with what they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.lint.skeleton import Choice, Hole, Node, TemplatePlace
from tests.lint.found import made_findings, static_findings

PLAIN = "The berth is listed with the row of the tide table that it was taken from. "
RULES = "Say in two sentences which berth is free, and name the row of the tide table that you took it from. "
MODELS = "from openai import OpenAI\n"


def told(code: str) -> list[str]:
    return [f"{one.code} {one.message.partition(' ')[0]}" for one in made_findings(code)]


def test_a_template_is_a_prompt_where_models_are_asked() -> None:
    for name, expected in [
        ("DEFAULT_QUERY_TMPL", True),
        ("BERTH_TEMPLATE", True),
        ("BERTH_TEMPLATE_V2", True),
        ("MAIL_TEMPLATE", False),
        ("HTML_TEMPLATE", False),
        ("BERTHS", False),
    ]:
        code = f"{name} = {('{query_str}' + chr(10) + PLAIN * 8)!r}\n"
        assert told(MODELS + code) == (["KV201 `query_str`"] if expected else [])


def test_a_template_that_an_object_keeps_is_one_though_nothing_reads_it_there() -> None:
    code = f"class Berths:\n    def __init__(self):\n        self.reply_template = {('{chat_history}' + chr(10) + RULES * 8)!r}\n"
    assert told(MODELS + code) == ["KV201 `chat_history`"]
    assert not told(MODELS + code.replace("reply_template", "reply"))


@pytest.mark.parametrize(
    "call",
    [
        "agenerate(template={}, input_values=values)",
        "Agent(name='harbour', instruction={})",
        "Prompt(title='berths', prompt={})",
    ],
)
def test_a_call_is_given_a_text_that_is_filled_later(call: str) -> None:
    code = f"from elsewhere import Agent, Prompt, agenerate\nmade = {call.format(repr('{history}' + chr(10) + RULES * 8))}\n"
    assert told(code) == ["KV201 `history`"]


@pytest.mark.parametrize(("begins", "expected"), [("Your task is to judge it.", True), ("Judge it again.", False)])
def test_a_text_that_tells_the_task_is_no_reply(begins: str, expected: bool) -> None:
    code = f"JUDGE_PROMPT = {(begins + ' Fix the issues of the last assistant response. {question} ' + RULES * 8)!r}\n"
    assert told(code) == (["KV201 `question`"] if expected else [])


def test_a_value_in_front_of_itself_is_told_where_a_model_is_asked_with_it() -> None:
    may_be = Hole(TemplatePlace("a.py", 3, 1, 5), OTHER, "`wages`", doubt="open")
    surely = replace(may_be, doubt="use")
    named: list[Node] = ["You are at work.\nYou have $", may_be, Choice(((may_be,), ())), ". ", RULES]
    asked: list[Node] = ["You are at work.\nYou have $", surely, Choice(((surely,), ())), ". ", RULES]
    found = static_findings("a.py", "", [named, asked], len, block_size=16, least=16)
    assert [(one.code, one.line) for one in found] == [("KV201", 3)]


@pytest.mark.parametrize(("how", "expected"), [("await store.get('x')", True), ("store_of('x')", False)])
def test_what_is_waited_for_is_another_for_each_call(how: str, expected: bool) -> None:
    code = (
        f"RULES = {RULES * 8!r}\n"
        "async def ask(llm):\n"
        f"    age = {how}\n"
        "    return await llm.ainvoke(f'You work at the harbour. You are {age} years old. ' + RULES)\n"
    )
    assert told(code) == (["KV201 `age`"] if expected else [])


def test_names_of_what_is_asked() -> None:
    for name in ["scenario", "claims", "user_intent", "theorem"]:
        assert told(f"PROMPT = {('You know the harbour of {' + name + '} well. ' + RULES * 6)!r}\n") == [
            f"KV201 `{name}`"
        ]
