"""Where a value is told: at the text of the same file that holds it, once for all callers that give it."""

from __future__ import annotations

import pytest

from kvtool.config.asked_run import RunOptions
from kvtool.lint.file_findings import Finder
from kvtool.lint.lint_inputs import TextInput
from kvtool.results.finding import Finding
from kvtool.text.tokens.tokenizer import Tokenizers

RULES = " ".join(f"Rule {number}: be short, be kind, and never promise a refund, please." for number in range(24))


def found(text: str) -> list[Finding]:
    path = "made.py"
    return Finder(RunOptions(inputs=[path]), Tokenizers(offline=True))(TextInput(path, text, "python"))


PLACES = {
    "a parameter of a function": (
        "import os\ndef build_prompt(folder, rules):\n    return f'You work in {folder}. RULES' + rules\n"
        "def first(rules):\n    return build_prompt(os.getcwd(), rules)\n"
        "def second(rules):\n    here = os.getcwd()\n    return build_prompt(here, rules)\n"
    ),
    "a placeholder of a template": (
        "import os\ndef build_prompt(folder):\n    return 'You work in {folder}. RULES'.format(folder=folder)\n"
        "def first():\n    return build_prompt(os.getcwd())\n"
        "def second():\n    here = os.getcwd()\n    return build_prompt(here)\n"
    ),
    "what a constructor is given": (
        "import os\nclass Fixer(Agent):\n    def __init__(self, folder, **words):\n"
        "        super().__init__(system_prompt=f'You work in {folder}. RULES', **words)\n"
        "def first():\n    return Fixer(os.getcwd())\n"
        "def second():\n    here = os.getcwd()\n    return Fixer(here)\n"
    ),
}


@pytest.mark.parametrize("form", PLACES)
def test_what_callers_give_is_told_once_where_the_text_holds_it(form: str) -> None:
    text = PLACES[form].replace("RULES", RULES)
    (one,) = found(text)
    assert (one.code, "{folder}" in text.splitlines()[one.line - 1]) == ("KV106", True)


def test_what_callers_give_with_words_around_it_is_told_among_those() -> None:
    text = (
        f"import datetime\ndef build_prompt(head):\n    return f'{{head}} {RULES}'\n"
        "def ask():\n    return build_prompt(f'Be kind. It is {datetime.datetime.now()} on the clock of the harbour.')\n"
    )
    assert ("KV101", 5) in [(one.code, one.line) for one in found(text)]


def test_a_template_that_is_told_within_a_chat_is_not_told_by_itself() -> None:
    text = (
        f'ASKED = """Label: {{label}}\nText: {{source_text}}\n{RULES}"""\n'
        "PROMPT = ChatPromptTemplate.from_messages([('system', 'You are a clerk.'), ('human', ASKED)])\n"
    )
    assert [(one.code, one.line) for one in found(text)] == [("KV201", 1)]


def test_what_callers_give_to_a_list_of_lines_is_told_where_the_prompt_holds_the_list() -> None:
    text = (
        "def lines_prompt(rows):\n    lines = '\\n'.join([f'Row: {str(row)}' for row in rows])\n"
        f"    return f'You sort rows.\\n{{lines}}\\n{RULES}'\n"
        "def ask(query):\n    return lines_prompt(search(query))\n"
    )
    assert [(one.code, one.line) for one in found(text)] == [("KV201", 3)]


@pytest.mark.parametrize("quote", ["continued", "escaped", "joined"])
def test_a_placeholder_of_jinja_is_told_at_its_line_however_the_string_is_written(quote: str) -> None:
    lines = ["You are a clerk.", "Keep to the rules.", "The text is {{ article }}.", RULES]
    if quote == "continued":
        text = 'ASKED = """\\\n' + "\n".join(lines).replace("clerk.", "clerk. \\") + '"""\n'
    elif quote == "escaped":
        text = 'ASKED = """' + "\n".join(lines).replace("clerk.", "cl\\u0065rk.") + '"""\n'
    else:
        text = "ASKED = (\n" + "\n".join(f'    "{line}\\n"' for line in lines) + "\n)\n"
    text = f"from jinja2 import Template\n{text}PROMPT = Template(ASKED)\n"
    (one,) = found(text)
    line = text.splitlines()[one.line - 1]
    assert (one.code, line[one.column - 1 : one.column - 1 + one.width]) == ("KV201", "{{ article }}")


def test_words_in_capitals_that_a_value_replaces_are_a_placeholder() -> None:
    text = (
        f"PROMPT = 'You are a clerk. The task is TASK_TEXT. {RULES}'\n"
        "def build_prompt(task):\n    return PROMPT.replace('TASK_TEXT', task)\n"
    )
    assert [(one.code, one.line) for one in found(text)] == [("KV201", 1)]
    assert found(text.replace("TASK_TEXT", "Task")) == []


def test_counters_by_name_late_in_a_conversation_cost_nothing() -> None:
    text = f"NEXT_PROMPT = 'You see the steps in the above messages. This is round {{iteration}}. {RULES}'\n"
    assert found(text + "def ask(iteration):\n    return NEXT_PROMPT.format(iteration=iteration)\n") == []
    head = text.replace("the above messages", "the list")
    assert [
        one.code for one in found(head + "def ask(iteration):\n    return NEXT_PROMPT.format(iteration=iteration)\n")
    ] == ["KV105"]


def test_a_template_that_is_not_seen_shows_what_it_is_given_by_name_not_all_of_a_mapping() -> None:
    text = (
        "import datetime\ndef rendered(name, context):\n    context.update({'now': f'{datetime.datetime.now()}'})\n"
        "    return templates.get_template(name).render(GIVEN)\n"
        f"def build_prompt(name):\n    return rendered(name, {{}}) + ' {RULES}'\n"
    )
    assert found(text.replace("GIVEN", "**context")) == []
    assert [one.code for one in found(text.replace("GIVEN", "now=datetime.datetime.now()"))] == ["KV101"]
