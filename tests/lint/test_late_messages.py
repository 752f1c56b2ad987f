"""What stands behind the messages of a conversation is new in each request anyway: a value in it costs nothing."""

from __future__ import annotations

import pytest

from tests.lint.found import made_findings

SYSTEM = '{"role": "system", "content": "You help the people of a small harbour."}'
USER = '{"role": "user", "content": f"Here it is:\\n{question}\\n\\n" + RULES}'
HEAD = f"RULES = {'Answer only from the tide table, and name the row that you took it from. ' * 20!r}\n"
ASK = "    return client.chat.completions.create(model='m', messages=messages)\n"


def found(body: str, *given: str) -> list[str]:
    code = f"def ask(client, question{''.join(f', {name}' for name in given)}):\n{body}{ASK}"
    return [f"{one.code} {one.message.partition(' ')[0]}" for one in made_findings(HEAD + code)]


LATE = {
    "a sum": f"    messages = [{SYSTEM}] + history + [{USER}]\n",
    "in a list": f"    messages = [{SYSTEM}, *history, {USER}]\n",
    "extended": f"    messages = [{SYSTEM}]\n    messages.extend(history)\n    messages.append({USER})\n",
    "added": f"    messages = [{SYSTEM}]\n    messages += history\n    messages.append({USER})\n",
    "appended to it": f"    history.append({USER})\n    messages = history\n",
}


def test_a_value_behind_a_conversation_costs_nothing() -> None:
    for body in LATE.values():
        assert not found(body, "history")
        assert found(body.replace("history", "extras"), "extras") == ["KV201 `question`"]


def test_a_conversation_that_a_call_gives_is_one_too() -> None:
    body = f"    chat_context = memory.load()\n    messages = chat_context + [{USER}]\n"
    assert not found(body, "memory")
    assert found(body.replace("chat_context", "first"), "memory") == ["KV201 `question`"]


def test_what_stands_before_a_conversation_is_told() -> None:
    body = f"    messages = [{USER}] + history\n"
    assert found(body, "history") == ["KV201 `question`"]
    assert found(f"    history = []\n    messages = [{SYSTEM}] + history + [{USER}]\n") == ["KV201 `question`"]


@pytest.mark.parametrize("words", ["As a reminder, we look for a berth.", "Rank the passages above."])
def test_a_text_that_points_back_is_late(words: str) -> None:
    def told(begins: str) -> list[str]:
        code = f"def build_prompt(question):\n    return f'{begins} It is for {{question}}. ' + RULES\n"
        return [one.code for one in made_findings(HEAD + code)]

    assert not told(words)
    assert told("We look for a berth.") == ["KV201"]


def test_a_choice_by_chance_in_front_of_a_conversation_is_one_of_a_few() -> None:
    def told(imported: str, tail: str) -> list[str]:
        code = f"import {imported}\nSYSTEM_PROMPT = RULES + f' Close with {{{tail}}}.'\n"
        return [f"{one.code} {one.severity}" for one in made_findings(HEAD + code)]

    assert not told("random", "random.choice([1, 2])")
    assert told("uuid", "uuid.uuid4()") == ["KV102 info"]


def test_what_is_the_same_for_a_machine_is_told_where_much_stands_behind_it() -> None:
    def told(behind: str) -> list[str]:
        code = f"import os\ndef build_prompt():\n    return f'You work in {{os.getcwd()}} from now on. ' + {behind}\n"
        return [one.code for one in made_findings(HEAD + code)]

    assert told("RULES") == ["KV106"]
    assert not told(repr("Answer only from the tide table, and never guess. " * 7))


def test_an_answer_that_a_text_is_about_makes_it_no_late_message() -> None:
    """`the previous response`, not at the beginning, is one of the conversation that is to be written."""
    first = "Generate a natural conversation about this:"
    rest = "\n\n{context}\n\n" + "Each turn has to be short and kind. " * 3
    rest += "Follow-ups should build on the previous response. " + "Answer only from the table. " * 20
    code = "def ask(llm, context):\n    return llm.invoke(f'''TEXT''')\n"
    told = made_findings(code.replace("TEXT", first + rest))
    assert [one.message.partition(" ")[0] for one in told] == ["`context`"]
    assert not made_findings(code.replace("TEXT", "The previous response was not what was asked for:" + rest))
