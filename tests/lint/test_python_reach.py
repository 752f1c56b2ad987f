"""How far lint follows a text: through bodies of requests, settings that are given, loops, and methods that ask for each other."""

from __future__ import annotations

import pytest

from tests.lint.found import made_findings

RULES = " ".join(f"Rule {number}: name the shelf, never the reader, and please be short." for number in range(24))
HEAD = f"import requests\nRULES = '{RULES}'\n"


def told(text: str) -> list[str]:
    """The codes and first words of what is found."""
    return [f"{one.code} {one.message.split()[0]}" for one in made_findings(HEAD + text)]


KEEPER = """\
class Keeper:
    shelf: str = "A"

    def words(self, entry):
        return f"You are a keeper. Entry: {entry}. Shelf: {self.shelf}. {RULES}"

    def ask(self, entry):
        return llm.invoke([{"role": "user", "content": self.words(entry)}])

    def run(self, entry, shelf):
        self.shelf = shelf
        return self.ask(entry)
"""
FOLLOWED = {
    "the body of a request": (
        (
            "def go(entry):\n"
            "    body = {'model': 'm', 'messages': [{'role': 'user', 'content': f'Judge this: {entry}. {RULES}'}]}\n"
            "    return post('/chat', body)\n"
        ),
        ["KV201 `entry`"],
    ),
    "a template in what an agent is made with": (
        (
            "def go(entry):\n"
            "    return AskingLLM(dict(prompt_value=dict(issue=entry), user_prompt='Look: {{issue}}. ' + RULES)).run()\n"
        ),
        ["KV201 `issue`"],
    ),
    "a key of settings that callers give": (
        "def go(op_config):\n    return llm.invoke(f\"Better this: {op_config['prompt']}. {RULES}\")\n",
        ["KV201 `op_config.prompt`"],
    ),
    "the same with a default": (
        "def go(op_config):\n    return llm.invoke(f\"Better this: {op_config.get('query', 'none')}. {RULES}\")\n",
        ["KV201 `op_config.query`"],
    ),
    "what a loop wrote, by its name": (
        (
            "def go(shelf):\n"
            "    known = {one.key: one.words for one in shelf.all()}\n"
            "    formatted_notes = '\\n'.join([f'Note {k}: {v}' for k, v in known.items()])\n"
            "    return llm.invoke(f'Look: {formatted_notes}. {RULES}')\n"
        ),
        ["KV201 `formatted_notes`"],
    ),
    "methods that ask for each other": (KEEPER, ["KV201 `entry`"]),
}
LEFT = {
    "a key of settings that says nothing": (
        "def go(op_config):\n    return llm.invoke(f\"By {op_config['name']} {op_config['type']}. {RULES}\")\n"
    ),
    "what an object was set up with": (
        "class Asker:\n    def __init__(self, config):\n        self.config = config\n"
        "    def go(self):\n        return llm.invoke(f\"By {self.config['prompt']}. {RULES}\")\n"
    ),
    "a loop over what is known": (
        "def go():\n    notes = '\\n'.join([f'Note: {one}' for one in ['a', 'b']])\n"
        "    return llm.invoke(f'Look: {notes}. {RULES}')\n"
    ),
    "what a loop wrote under a name that says nothing": (
        "def go(shelf):\n    names = '\\n'.join([f'Name {k}' for k, v in shelf.all()])\n"
        "    return llm.invoke(f'Look: {names}. {RULES}')\n"
    ),
}


def test_a_text_is_followed() -> None:
    for name in FOLLOWED:
        text, expected = FOLLOWED[name]
        assert told(text) == expected


def test_what_says_nothing_is_left_alone() -> None:
    for name in LEFT:
        assert told(LEFT[name]) == []


def test_words_before_a_placeholder_say_that_it_is_a_clock() -> None:
    for before, name, code in [
        ("Today's date is ", "date", "KV101"),
        ("For context, the current time: ", "time", "KV101"),
        ("\u5f53\u524d\u65f6\u95f4\u662f\uff1a", "time", "KV101"),
        ("The letter is of the ", "date", ""),
        ("Today's date is ", "question", "KV201"),
        ("Today ", "question", "KV201"),
    ]:
        prompt = f"You are a librarian.\n{before}{{{name}}}\n"
        text = f"WRITER_PROMPT = {prompt!r} + RULES\n"
        assert "".join(one.split()[0] for one in told(text)) == code


BEFORE_IT = {
    "an import that may fail": "try:\n    import orjson\nexcept ImportError:\n    orjson = None\n",
    "a switch": "if requests:\n    FAST = True\n",
    "a list": "NAMES = [name for name in dir(requests)]\n",
}


@pytest.mark.parametrize("way", BEFORE_IT)
def test_functions_know_what_is_assigned_behind_a_branch_of_their_module(way: str) -> None:
    text = (
        "RULE_TEXT = RULES\ndef go(entry):\n    prompt = f'You are a keeper.\\nEntry: {entry}\\n{RULE_TEXT}'\n"
        "    return llm.invoke([{'role': 'system', 'content': prompt}])\n"
    )
    assert told(BEFORE_IT[way] + text) == told(text) != []
