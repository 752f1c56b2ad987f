"""One loss is told once, at the value that ends the shared beginning; what is the same in a deployment is not told at all."""

from __future__ import annotations

import pytest

from kvtool.config.asked_run import RunOptions
from kvtool.lint.file_findings import Finder
from kvtool.lint.formats.prompt_formats import read_prompts
from kvtool.lint.lint_inputs import TextInput
from kvtool.lint.python import program as python_program
from kvtool.lint.python.built_prompts import python_prompts
from kvtool.results.finding import Finding
from kvtool.text.tokens.tekken import built_in_counter
from kvtool.text.tokens.tokenizer import Tokenizers, load_tokenizer
from tests.lint.found import jinja_file, static_findings

RULES = (
    "You are a careful clerk of a small harbour. Answer only from the tide table, and name the row that you took it from. "
    "Never guess an hour that is not written there. If you do not know the answer, say so in one sentence and stop. "
) * 2


def python(text: str) -> list[Finding]:
    return static_findings(
        "a.py", text, python_prompts("a.py", text)[0], len, block_size=16, least=32, used=64, named=128
    )


def jinja(text: str) -> list[Finding]:
    return static_findings("a.j2", text, [jinja_file("a.j2", text)], len, block_size=16, least=16)


def told(found: list[Finding]) -> list[tuple[str, int]]:
    return [(one.code, one.line) for one in found]


# One value, one loss


def test_one_value_that_goes_into_several_pieces_of_a_prompt_is_one_loss() -> None:
    text = (
        "import secrets\ndef build_prompt(rows):\n    mark = secrets.token_hex(8)\n"
        f"    blocks = [f'<rows-{{mark}}> {RULES}']\n    if rows:\n        blocks.append(f'<more-{{mark}}> {RULES}')\n"
        f"    else:\n        blocks.append(f'<none-{{mark}}> {RULES}')\n    blocks.append(f'<end-{{mark}}> {RULES}')\n"
        "    return '\\n'.join(blocks)\n"
    )
    assert told(python(text)) == [("KV102", 4)]


def test_two_values_of_two_prompts_are_two_losses() -> None:
    one = "def {name}():\n    return f'<{{secrets.token_hex(8)}}> " + RULES + "'\n"
    text = "import secrets\n" + one.format(name="first_prompt") + one.format(name="second_prompt")
    assert told(python(text)) == [("KV102", 3), ("KV102", 5)]


def test_a_helper_gives_another_value_to_each_of_its_callers() -> None:
    text = (
        "import secrets\ndef mark():\n    return secrets.token_hex(8)\n"
        f"def first_prompt():\n    return f'<{{mark()}}> {RULES}'\ndef second_prompt():\n    return f'<{{mark()}}> {RULES}'\n"
    )
    assert told(python(text)) == [("KV102", 5), ("KV102", 7)]


def test_one_value_that_goes_into_two_prompts_is_two_losses() -> None:
    text = (
        "import datetime\ndef ask(send):\n    now = datetime.datetime.now().isoformat()\n"
        f"    send_prompt = f'It is {{now}}. Search. {RULES}'\n    send.llm.invoke(send_prompt)\n"
        f"    again_prompt = f'The time is {{now}}. Answer. {RULES}'\n    send.llm.invoke(again_prompt)\n"
    )
    assert told(python(text)) == [("KV101", 4), ("KV101", 6)]


def test_what_follows_in_each_of_two_branches_is_counted() -> None:
    text = (
        "def build_prompt(question, text):\n    part = f'It says: {text}' if text else ''\n"
        f"    return f'Q: {{question}}\\n{{part}}\\n{RULES}'\n"
    )
    assert told(python(text)) == [("KV201", 3)]


def test_what_stands_behind_the_first_value_is_named_with_it() -> None:
    (found,) = jinja(
        f"Question: {{{{ question }}}}\n{RULES}\nDraft: {{{{ draft }}}}\n{RULES}\nAgain: {{{{ question }}}}\n{RULES}"
    )
    assert (found.line, found.message.endswith("; `draft` after it changes too")) == (1, True)


def test_what_may_vary_before_the_first_value_is_named_with_it() -> None:
    (found,) = jinja(
        f"Speak of {{{{ harbour }}}} as {{{{ agent_name }}}}. {RULES}\nQuestion: {{{{ question }}}}\n{RULES}"
    )
    assert (found.line, found.message.endswith("; `harbour` before it may change too")) == (2, True)


def test_a_question_behind_a_date_is_told_with_it() -> None:
    text = (
        "import datetime\ndef build_prompt(question):\n"
        f"    return f'On {{datetime.date.today()}} {RULES}. They ask: {{question}} {RULES}'\n"
    )
    (found,) = python(text)
    assert (found.code, found.message.endswith("; `question` after it changes too")) == ("KV101", True)


def test_labels_between_values_are_little_text() -> None:
    labels = "".join(f"Part {n}: {{answer_{n}}}\\n" for n in range(12))
    form = "PROMPT = 'Q: {question}\\n" + labels + "REST'\n"
    assert python(form.replace("REST", "")) == []
    assert told(python(form.replace("REST", RULES))) == [("KV201", 1)]


# What is the same in a deployment


def test_what_a_deployment_is_set_up_with_is_not_told() -> None:
    for name in ["tool_names", "dialect", "language", "persona", "top_k", "max_items", "error_message", "no_answer"]:
        assert jinja(f"Use {{{{ {name} }}}}. {RULES * 3}") == []


def test_the_attribute_that_is_read_decides_not_its_object() -> None:
    form = "def build_prompt(messages):\n    return f'The {messages[-1].ATTRIBUTE} spoke. " + RULES + "'\n"
    assert python(form.replace("ATTRIBUTE", "role")) == []
    assert told(python(form.replace("ATTRIBUTE", "content"))) == [("KV201", 2)]


@pytest.mark.parametrize("line", ["12|  raise Wrong(f'{name} {text}')", "print(f'{text}')", "return '{text}'.upper()"])
def test_braces_of_code_that_a_prompt_quotes_are_text(line: str) -> None:
    assert python(f'PROMPT = """{RULES[:80]}\n{line}\n{RULES}"""\n') == []
    assert told(python(f'PROMPT = """{RULES[:80]}\nThe text: {{text}}\n{RULES}"""\n')) == [("KV201", 2)]


# Forms of templates in Python


FORMS = {
    "a class made of str": "class Text(str):\n    pass\nclass Parts(dict):\n    MAIN = Text('''Here is it: {text}. RULES''')\n",
    "doubled braces": "def build(style):\n    return f'''{style}\nHere is it: {{text}}. RULES'''\n",
    "names after percent signs": "PROMPT = '''Here is it: %(text)s. RULES'''\n",
    "dollars in double braces": "PROMPT = '''Here is it: {{$text}}. RULES'''\n",
}


def test_forms_of_templates() -> None:
    for form in FORMS:
        assert [one.code for one in python(FORMS[form].replace("RULES", RULES))] == ["KV201"]
        assert python(FORMS[form].replace("RULES", "Go.")) == []


def test_a_clock_in_one_of_many_instructions_is_told_where_it_is_written() -> None:
    text = (
        "import datetime\ndef build_prompt(agent):\n    rules = ['One.', 'Two.', 'Three.', 'Four.']\n    if agent.dated:\n"
        "        rules.append(f'It is {datetime.datetime.now()}')\n    rules.append('Be kind.')\n"
        "    lines = []\n    for rule in rules:\n        lines.append(f'- {rule}')\n    lines.append('RULES')\n"
        "    return '\\n'.join(lines)\n"
    )
    assert told(python(text.replace("RULES", RULES))) == [("KV101", 5)]


@pytest.mark.parametrize("tools", ["list(tools)", "[one for one in tools]"])
def test_a_set_of_tools(tools: str) -> None:
    form = "def go(a, b):\n    tools = set()\n    for c in b:\n        tools.update(c.tools)\n    return a.run(tools=TOOLS)\n"
    assert [one.code for one in python(form.replace("TOOLS", tools))] == ["KV111"]
    assert python(form.replace("TOOLS", "sorted(tools)")) == []


def test_toml_has_a_prompt_for_each_table() -> None:
    text = '[a]\nuser = """Q: {{ question }} X"""\nsystem = """S"""\n[b]\nprompt = \'\'\'{name}\'\'\'\n[c]\nprompt = """none"""\n'
    read = read_prompts("a.toml", text)
    assert read is not None
    assert [[str.__str__(part.text) for part in prompt] for prompt in read.prompts] == [
        ["S", "Q: {{ question }} X"],
        ["{name}"],
    ]
    assert read_prompts("a.toml", "x = [\n" + text) is None
    assert read_prompts("a.toml", '[project]\nname = "x"\n') is None


# Bounds


def test_a_file_that_is_too_much_work_says_what_was_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"def prompt_{n}(question):\n    return f'Answer {{question}}: {RULES}'\n" for n in range(50))
    finder = Finder(RunOptions(inputs=[]), Tokenizers(offline=True))
    assert not finder.judge(TextInput("a.py", text, "python")).partly
    monkeypatch.setattr(python_program, "_LEAST_STEPS", 50 - len(text))
    judged = Finder(RunOptions(inputs=[]), Tokenizers(offline=True)).judge(TextInput("b.py", text, "python"))
    assert judged.partly
    assert judged.note.startswith("partly read: `prompt_")
    assert judged.unpacked(judged.packed()).partly


def test_tokens_are_counted_as_the_built_in_tokenizer_has_them() -> None:
    count, tokenizer = built_in_counter(), load_tokenizer(None, offline=True)
    texts = [
        RULES,
        "",
        "\n\n \n",
        "Grüße, 東京! \u0301 x",
        "def f(x):\n    return {x: 1}\n",
        *FORMS.values(),
    ]
    assert [count(text) for text in texts] == [len(tokenizer.encode_ids(text)) for text in texts]


# Lists that are built from their end


BUILT = (
    "from datetime import datetime\nimport openai\n"
    "def messages_of():\n    messages = []\n{body}    return messages{turn}\n"
    "def ask():\n    openai.chat.completions.create(model='m', messages=messages_of())\n"
)
CLOCK = "    messages.append({'role': 'user', 'content': f'It is {datetime.now()}.'})\n"
LONG = f"    messages.append({{'role': 'user', 'content': '{RULES}'}})\n"


def test_messages_that_are_built_from_the_last_one_on() -> None:
    for body, turn, lines in [
        (CLOCK + LONG, "", [5]),
        (CLOCK + LONG, "[::-1]", []),
        (LONG + CLOCK, "", []),
        (LONG + CLOCK, "[::-1]", [6]),
        (LONG + CLOCK, "[:-1]", []),
    ]:
        assert [line for code, line in told(python(BUILT.format(body=body, turn=turn))) if code == "KV101"] == lines


def test_reversed_turns_a_list_around() -> None:
    text = BUILT.format(body=CLOCK + LONG, turn="").replace("return messages", "return list(reversed(messages))")
    assert told(python(text)) == []


def test_what_is_overwritten_before_anybody_reads_it_is_no_prompt() -> None:
    for between, lines in [
        ("", []),
        ("    send(prompt)\n", [3]),
        ("    if prompt:\n        send(1)\n", []),
        ("    text = prompt + 'x'\n", [3]),
    ]:
        text = (
            f"from datetime import datetime\ndef build():\n    prompt = f'It is {{datetime.now()}}. {RULES}'\n{between}"
            f"    prompt = 'Be kind. {RULES}'\n    return prompt\n"
        )
        assert [line for code, line in told(python(text)) if code == "KV101"] == lines


# Which of two values a loss is told at


def test_a_value_that_nothing_is_known_of_yields_to_what_is_asked_after_it() -> None:
    for head in (
        "Written by {writer}. Take the table of the harbour below as it is, with all lines of it.",
        "For {writer}:",
    ):
        (found,) = python(f'SHIP_PROMPT = """{head}\n{{question}}\n{RULES}"""\n')
        assert (found.line, "`question`" in found.message, "`writer` before it" in found.message) == (2, True, True)
