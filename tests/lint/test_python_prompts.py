"""Which strings of Python files are prompts, and how sure that is."""

from __future__ import annotations

import pytest

from kvtool.lint.evidence.prompt_evidence import is_prompt_file, is_prompt_name, reads_as
from tests.lint.made_python import HEAD, RULES, codes, found

# Is this a prompt?

PROMPTS = {
    "role": "def go():\n    return [{'role': 'system', 'content': f'At {NOW}: ' + RULES}]\n",
    "openai": "def go():\n    client.responses.create(model='m', input=f'At {NOW}: ' + RULES)\n",
    "anthropic": "def go():\n    client.messages.create(model='m', system=f'At {NOW}: ' + RULES, messages=[])\n",
    "google": "def go():\n    client.models.generate_content(model='m', contents=f'At {NOW}: ' + RULES)\n",
    "litellm": (
        "import litellm\ndef go():\n"
        "    litellm.completion(model='m', messages=[{'role': 'user', 'content': f'At {NOW}: ' + RULES}])\n"
    ),
    "message": "def go():\n    return SystemMessage(content=f'At {NOW}: ' + RULES)\n",
    "llm": "def go(llm):\n    return llm.invoke(f'At {NOW}: ' + RULES)\n",
    "agent": "def go():\n    return Agent(name='x', instructions=f'At {NOW}: ' + RULES)\n",
    "agent function": (
        "def rules(ctx, agent):\n    return f'At {NOW}: ' + RULES\ndef go():\n"
        "    return Agent(name='x', instructions=rules)\n"
    ),
    "agent lambda": "def go():\n    return Agent(name='x', system_prompt=lambda: f'At {NOW}: ' + RULES)\n",
    "backstory": "def go():\n    return Agent(role='x', backstory=f'At {NOW}: ' + RULES)\n",
    "langchain": "def go():\n    return ChatPromptTemplate.from_messages([('system', f'At {NOW}: ' + RULES), ('human', '{q}')])\n",
    "template": "def go():\n    return PromptTemplate.from_template(f'At {NOW}: ' + RULES)\n",
    "chat template": (
        "def go(tokenizer):\n"
        "    return tokenizer.apply_chat_template([{'role': 'system', 'content': f'At {NOW}: ' + RULES}])\n"
    ),
    "bedrock": "def go(bedrock):\n    return bedrock.converse(modelId='m', system=[{'text': f'At {NOW}: ' + RULES}])\n",
    "ollama": "import ollama\ndef go():\n    return ollama.generate(model='m', prompt=f'At {NOW}: ' + RULES)\n",
    "name": "SYSTEM_PROMPT = f'At {NOW}: ' + RULES\n",
    "function": "def get_system_prompt():\n    return f'At {NOW}: ' + RULES\n",
    "attribute": "class A:\n    def __init__(self):\n        self.instructions = f'At {NOW}: ' + RULES\n",
    "key": "def go():\n    return {'system_prompt': f'At {NOW}: ' + RULES}\n",
    "keyword": "def go():\n    return run(system_prompt=f'At {NOW}: ' + RULES)\n",
    "how it reads": "def go():\n    return f'At {NOW}: ' + RULES\n",
}


def test_prompts() -> None:
    for kind in PROMPTS:
        (one,) = found(HEAD + PROMPTS[kind].replace("NOW", "datetime.datetime.now()"))
        assert (one.code, one.severity) == ("KV101", "error")


NO_PROMPTS = {
    "print": "def prompt():\n    print(f'{NOW} ' + RULES)\n",
    "logger": "def prompt():\n    logger.info(f'{NOW} ' + RULES)\n",
    "self.logger": "class A:\n    def prompt(self):\n        self._logger.warning(f'{NOW} ' + RULES)\n",
    "raise": "def prompt():\n    raise ValueError(f'{NOW} ' + RULES)\n",
    "repr": "class Prompt:\n    def __repr__(self):\n        return f'{NOW} ' + RULES\n",
    "docstring": "def prompt():\n    '{now} You are here. Always answer in one word. Never guess a word.'\n",
    "comment": "# {now}\nx = 1\n",
    "sql": (
        "def go(cursor):\n"
        "    cursor.execute(f\"SELECT a, b FROM t WHERE at > '{NOW}' AND b IN (SELECT c FROM u WHERE d = 1 ORDER BY e)\")\n"
    ),
    "sql in a name": "PROMPT_SQL = f\"SELECT a, b FROM t WHERE at > '{NOW}' AND b IN (SELECT c FROM u WHERE d = 1)\"\n",
    "javascript": (
        "SCRIPT = f'''(function() {{{{ var at = \"{NOW}\";\\nvar b = "
        "document.getElementById(\"x\");\\nif (b) {{{{ return b.value; }}}}\\n}}}})();'''\n"
    ),
    "html": "PAGE = f'<!DOCTYPE html><html><head><title>{NOW}</title></head><body><div class=\"a\">x</div></body></html>'\n",
    "applescript": "SCRIPT = f'''tell application \"Mail\"\nset d to date \"{NOW}\"\nactivate\nend tell'''\n",
    "shell": "CMD = f'cd /tmp/{NOW}\\nmkdir -p a b c\\nnpm install left\\necho done\\nsudo rm -rf x\\n'\n",
    "url": "URL = f'https://x.example/{NOW}/' + 'a/b/c/d/e/f/g/h/' * 9\n",
    "a path": "PROMPT_PATH = f'/tmp/{NOW}/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/bbbbbbbbbbbbbbbbbbbbbbbb/prompt.md'\n",
    "cli help": "def go(parser):\n    parser.add_argument('--x', help=f'{NOW} ' + RULES)\n",
    "a text that is not filled": "TEXT = 'Use {cwd} and {branch} and {user_id} in your own commands: ' + RULES\n",
    "the end": "def build_prompt():\n    return RULES + f'Now: {NOW}'\n",
    "the last message": (
        "def go(q):\n    return [{'role': 'system', 'content': RULES}, {'role': 'user', 'content': f'{NOW} {q}'}]\n"
    ),
    "an answer": "def go(q):\n    return [{'role': 'tool', 'content': f'{NOW} ' + RULES}]\n",
    "commit message": "def go():\n    message = f'Update wiki {NOW}'\n    return message\n",
    "asks a person": "def prompt_user():\n    return input(f'{NOW} ' + RULES)\n",
    "a record": "def go():\n    return {'created_at': NOW, 'system_prompt': RULES}\n",
    "a duration": "def go():\n    start = time.time()\n    prompt = RULES\n    took = time.time() - start\n    return prompt\n",
    "an id beside it": "def go(llm):\n    run = uuid.uuid4()\n    return llm.invoke(RULES, run_id=run)\n",
    "a key of a cache": "def go(cache):\n    cache[f'{NOW} {RULES}'] = 1\n",
}


def test_what_is_no_prompt() -> None:
    for kind in NO_PROMPTS:
        assert found(HEAD + NO_PROMPTS[kind].replace("NOW", "datetime.datetime.now()")) == []


def test_names_of_prompts() -> None:
    for name, says in [
        ("system_prompt", True), ("SYSTEM_PROMPT", True), ("self.basePrompt", True), ("build_prompt", True),
        ("agent_instructions", True), ("systemMessage", True), ("prompt_tokens", False), ("prompt_path", False),
        ("prompt_for_password", False), ("shell_prompt", False), ("message", False), ("template_dir", False),
        ("prompted", False),
    ]:  # fmt: skip
        assert is_prompt_name(name) is says


def test_files_of_prompts() -> None:
    assert is_prompt_file("agent/prompts.py")
    assert is_prompt_file("a/prompts/planner.py")
    assert not is_prompt_file("a/prompting_toolkit/x.py")
    assert not is_prompt_file("agent/service.py")


def test_how_texts_read() -> None:
    for text, reads in [
        (RULES, 3),
        ("Please sort the list of books. Make sure that each of them stands where it should be, always.", 2),
        ("The cat sat on the old mat. The dog lay under the big table.", 1),
        ("Please sort the list of books in the room, and do not burn them.", 1),
        ("You are the keeper of an old light by the sea.", 0),
        ("Please sort the list of books in the room.", 0),
        ("The cat sat on the old mat by the door.", 0),
        ("id name size", 0),
        ("function f() { return 1; }\nvar x = f();\n", -1),
        ("あなたは図書館の助手です。必ず手引きに書かれていることだけを答えてください。推測はしないでください。", 1),
        ("猫" * 24, 1),
        ("猫" * 23, 0),
    ]:
        assert reads_as(text) == reads


# How sure it is


def test_a_date_costs_once_a_day() -> None:
    for written in (
        "datetime.date.today()",
        "datetime.datetime.now().strftime('%Y-%m-%d')",
        "datetime.datetime.now().date()",
        "time.strftime('%d %B %Y')",
    ):
        (one,) = found(
            HEAD
            + f"PROMPT = f'On {{{written}}}: ' + RULES\n".replace("'%", '"%')
            .replace("d')", 'd")')
            .replace("Y')", 'Y")')
        )
        assert (one.severity, "changes daily" in one.message) == ("info", True)
    (one,) = found(HEAD + "PROMPT = f'On {datetime.datetime.now():%Y-%m-%d}: ' + RULES\n")
    assert (one.severity, "changes daily" in one.message) == ("info", True)
    (one,) = found(HEAD + "PROMPT = f'On {datetime.datetime.now():%Y-%m-%d %H:%M}: ' + RULES\n")
    assert (one.severity, "changes daily" in one.message) == ("error", False)


def test_parameters_of_which_only_the_name_is_known() -> None:
    for name, severity in [
        ("current_time", "warning"),
        ("request_id", "warning"),
        ("user_name", "info"),
        ("cwd", "info"),
        ("topic", "warning"),
        ("style", None),
    ]:
        result = found(HEAD + f"def build_prompt({name}: str):\n    return f'For {{{name}}}: ' + RULES\n")
        assert [one.severity for one in result] == ([severity] if severity else [])


def test_the_environment_of_a_process_is_information() -> None:
    for call in ("os.getcwd()", "platform.system()"):
        (one,) = found(HEAD + f"PROMPT = f'In {{{call}}}: ' + RULES\n")
        assert one.severity == "info"


def test_values_that_are_seldom_new() -> None:
    for value, severity in [
        ("str(uuid.uuid4())", "error"),
        ("answer or str(uuid.uuid4())", "info"),  # rare: the model gave a title
        ("session_id or str(uuid.uuid4())", "error"),  # an id in either case
        ("Path('out') / f'{datetime.now():%H%M%S}'", "info"),  # the folder stays for what is done in it
    ]:
        code = f"def build_prompt(session_id):\n    answer = ask()\n    title = {value}\n    return f'For {{title}}: ' + RULES\n"
        assert [one.severity for one in found(HEAD + "import uuid\nfrom pathlib import Path\n" + code)] == [severity]
        if value.startswith("answer or"):
            code = code.replace("title = answer or", "title = answer\n    if not title:\n        title =")
            assert [one.severity for one in found(HEAD + "import uuid\n" + code)] == [severity]


@pytest.mark.parametrize(("kept", "severity"), [("question", "warning"), ("self.question", "info")])
def test_what_an_object_was_made_with_stays_for_its_requests(kept: str, severity: str) -> None:
    code = (
        "class Bot:\n    def __init__(self, question):\n        self.question = question\n"
        f"    def build_prompt(self, question):\n        return f'For {{{kept}}}: ' + RULES\n"
    )
    assert [one.severity for one in found(HEAD + code)] == [severity]


def test_a_text_with_commands_of_tex_is_not_filled() -> None:
    code = "def build_prompt(paper):\n    return 'Use \\\\begin{document} and \\\\end{document}.' + RULES\n"
    assert found(HEAD + code) == []


def test_weak_evidence_is_information() -> None:
    text = (
        "def go():\n"
        "    note = f'{time.time()} Please sort the list of books. Make sure that each of them stands where it should.'\n"
        "    return note\n"
    )
    assert found(HEAD + text) == []  # nothing in the module has to do with models
    assert [one.severity for one in found(HEAD + text + "import openai\n")] == ["info"]


def test_a_template_that_is_not_seen() -> None:
    (one,) = found(HEAD + "def go(agent):\n    return agent.system_prompt.format(now=datetime.datetime.now())\n")
    assert (one.code, one.severity, one.tokens_lost) == ("KV101", "info", 0)
    assert one.message.endswith("; the prompt is not in this file")


def test_a_clock_at_the_end_of_a_system_message() -> None:
    (one,) = found(HEAD + "def go():\n    return SystemMessage(content=RULES + f'Now: {datetime.datetime.now()}')\n")
    assert (one.severity, "the whole conversation" in one.message) == ("info", True)


# What callers give


ASKED = {
    "f-string": "def build_prompt(question):\n    return f'Q: {question}' + RULES\n",
    "attribute": "def build_prompt(case):\n    return f'Q: {case.message}' + RULES\n",
    "key": "def go(context):\n    return [{'role': 'user', 'content': f\"{context['text']} {RULES}\"}]\n",
    "helper": (
        "def go(context):\n    text = to_json(context['nodes'])\n"
        "    return [{'role': 'user', 'content': f'{text} {RULES}'}]\n"
    ),
    "constant": "QA_PROMPT = 'Use {context} only. ' + RULES\n",
    "constant in a class": "class A:\n    prompt = 'Use {context} only. ' + RULES\n",
    "languages": "PROMPTS = {'en': 'Use {context} only. ' + RULES, 'de': 'Nimm. ' + RULES}\n",
    "wrapped": "P = PromptTemplate(template='Use {context} only. ' + RULES, input_variables=['context'])\n",
    "from template": "P = PromptTemplate.from_template('Use {context} only. ' + RULES)\n",
    "suffix": "P = FewShotPromptTemplate(examples=[], suffix='Use {context} only. ' + RULES)\n",
    "dedent": "import textwrap\nPROMPT = textwrap.dedent('Use {context} only. ' + RULES).strip()\n",
    "format": "def prompt(q):\n    return ('Use {context} only. ' + RULES).format(context=q)\n",
    "percent": "def prompt(q):\n    return ('Use %(context)s only. ' + RULES) % {'context': q}\n",
    "replace": "def prompt(context):\n    return ('Use {{context}} only. ' + RULES).replace('{{context}}', context)\n",
    "other role": "def build_prompt(plan_result):\n    return f'{plan_result} ' + RULES\n",
    "several": "def build_prompt(question, context, history):\n    return f'{question} {context} {history}' + RULES\n",
    "later": "def build_prompt(question):\n    text = f'Q: {question}'\n    text += RULES\n    return text\n",
}


def test_a_parameter_is_told_where_a_text_holds_it() -> None:
    text = (
        "def build_prompt(session_id: str):\n    return f'S {session_id}: ' + RULES\n"
        "def other_prompt(session_id: str):\n    return 'S ' + session_id + RULES\n"
    )
    assert [(one.code, one.line) for one in found(HEAD + text)] == [("KV102", 5)]


def test_a_jinja_template_in_a_constant() -> None:
    (one,) = found(HEAD + "CHAT_TEMPLATE = \"{{ strftime_now('%d %b %Y') }} \" + RULES\n")
    assert one.code == "KV101"
    (one,) = found(HEAD + "PROMPT = 'Do this: {{ task }}. ' + RULES\n")
    assert one.code == "KV201"


def test_what_callers_give_is_another_in_each_request() -> None:
    for form in ASKED:
        (one,) = found(HEAD + ASKED[form])
        assert (one.code, one.severity) == ("KV201", "warning")


def test_what_is_not_given_or_costs_nothing() -> None:
    for text in [
        "MOST = 5\nNONE = 'nothing'\ndef build_prompt():\n    return f'At most {MOST} or {NONE}. ' + RULES\n",
        "def build_prompt(question):\n    return RULES + f'Q: {question}'\n",
        "def show(question):\n    print(f'{question} ' + RULES)\n",
        "QUERY = 'MATCH (n {uuid: $uuid})-[r]->(m) RETURN n, r, m ORDER BY n.name LIMIT 10 ' * 9\n",
        "PROMPT = 'Give {num_chunks} parts. ' + RULES\n",
        "PROMPT = 'Answer in {format_instructions}. ' + RULES\n",
    ]:
        assert codes(text) == []
