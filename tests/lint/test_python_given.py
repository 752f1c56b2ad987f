"""What code takes by chance, keeps in a mapping or by default, and what it adds to a prompt that is there."""

from __future__ import annotations

import pytest

from kvtool.results.finding import Finding
from tests.lint.found import made_findings

RULES = " ".join(f"Rule {number}: be short, be kind, and never promise a refund, please." for number in range(24))
HEAD = f"import datetime, random\nRULES = '{RULES}'\n"


def found(text: str) -> list[Finding]:
    return made_findings(HEAD + text)


FLOWS = {
    "elements of a sample": (
        (
            "def build_prompt(rows):\n    prompt = 'Rows:'\n    for number, row in enumerate(random.sample(rows, 3)):\n"
            "        prompt += f'- {row[\"name\"]}\\n'\n    return prompt + RULES\n"
        ),
        "KV102",
    ),
    "a choice": (
        "def build_prompt(rows):\n    one = random.choice(rows)\n    return f'Be {one.tone}. ' + RULES\n",
        "KV102",
    ),
    "a mapping of templates": (
        (
            "PROMPTS = {'a': 'You know that it is {at}. ' + RULES, 'b': 'You know nothing. ' + RULES}\n"
            "def build_prompt(kind):\n    return PROMPTS[kind].format(at=datetime.datetime.now())\n"
        ),
        "KV101",
    ),
    "a template by default": (
        (
            "class Agent:\n    def __init__(self, prompt='You know that it is {at}. ' + RULES):\n        self.prompt = prompt\n"
            "    def build_prompt(self):\n        return self.prompt.format(at=datetime.datetime.now())\n"
        ),
        "KV101",
    ),
    "keywords in a mapping": (
        (
            "def build_prompt():\n    given = dict(at=datetime.datetime.now())\n"
            "    return ('You know that it is {at}. ' + RULES).format(**given)\n"
        ),
        "KV101",
    ),
    "a line as often as is said": (
        "def build_prompt(question):\n    return f'{question}\\n' + 'Be kind. ' * 60\n",
        "KV201",
    ),
    "a jinja template": ("P = PromptTemplate('Today is {{ today }}. ' + RULES)\n", "KV101"),
    "the system's message last": (
        (
            "def go(llm, question):\n    return llm.invoke([{'role': 'user', 'content': question + RULES},"
            " {'role': 'system', 'content': f'At {datetime.datetime.now()}: ' + RULES}])\n"
        ),
        "KV101",
    ),
}


def test_what_reaches_a_prompt() -> None:
    for form in FLOWS:
        text, code = FLOWS[form]
        assert [one.code for one in found(text)] == [code]


SILENT = {
    "what Python keeps": "def build_prompt(tools):\n    return ''.join(f'{one.__doc__}' for one in tools) + RULES\n",
    "a docstring": "class A:\n    __doc__ = 'You are shown this: {question} ' + RULES\n",
    "a prompt that goes on": "def retry_prompt(prompt):\n    return f'{prompt}\\n\\nBe kind and answer it once more.'\n",
    "an answer to what came": "def again_prompt(a):\n    return f'Your last answer was {a}. Please fix the errors. ' + RULES\n",
    "a part of a prompt": "def build_prompt(scale_prompt):\n    return f'Rate it {scale_prompt}. ' + 'Be kind. ' * 20\n",
}


def test_what_costs_nothing() -> None:
    for form in SILENT:
        assert found(SILENT[form]) == []


def test_the_order_of_what_callers_give_is_information() -> None:
    (one,) = found("def build_prompt(rows):\n    return ', '.join(set(rows)) + RULES\n")
    assert (one.code, one.severity) == ("KV113", "info")


def test_a_question_behind_a_clock_raises_what_is_told_of_it() -> None:
    text = "def build_prompt(question):\n    return f'On {datetime.date.today()} they ask: {question} ' + RULES\n"
    (one,) = found(text)
    assert (one.code, one.severity, one.message.endswith("; `question` after it changes too")) == (
        "KV101",
        "warning",
        True,
    )


@pytest.mark.parametrize(
    ("given", "named"), [("len(reviews)", "question"), ("reviews", "reviews"), ("str(len(reviews))", "question")]
)
def test_how_many_something_has_is_mostly_the_same(given: str, named: str) -> None:
    """A number is not the text of what is counted: what is reported is the text after it."""
    text = (
        "HEAD = 'You merge what {n} people wrote. ' + RULES\ndef merge(reviews, question):\n"
        f"    return llm.invoke(HEAD.format(n={given}) + question + RULES)\n"
    )
    (one,) = found(text)
    assert one.message.startswith(f"`{named}` ")
