"""What lint finds in Python files: which strings are prompts, and which values get into them, by data flow."""

from __future__ import annotations

import platform

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.lint.evidence.prompt_evidence import is_prompt_file, is_prompt_name, reads_as
from kvtool.lint.evidence.value_precision import sure_kind
from kvtool.lint.python import changed_values as python_changes
from kvtool.lint.python import expressions as python_expressions
from kvtool.lint.python import program as python_program
from kvtool.lint.python import text_values as python_values
from kvtool.lint.python import work_budget
from kvtool.lint.python.built_prompts import python_prompts
from kvtool.results.finding import Finding
from tests.lint.found import static_findings

RULES = (
    "You are a careful assistant of a small library. Answer only from the handbook, and quote the line that you took it from. "
    "Never guess a date that is not written there. If you do not know the answer, say so in one sentence and stop. "
)
HEAD = f"""\
import datetime, hashlib, json, os, platform, random, secrets, socket, string, subprocess, textwrap, time, uuid
from pathlib import Path
RULES = {RULES!r}
"""


def found(text: str, path: str = "a.py", *, least: int = 16) -> list[Finding]:
    return static_findings(path, text, python_prompts(path, text)[0], len, block_size=16, least=least)


def codes(text: str) -> list[str]:
    return [one.code for one in found(HEAD + text)]


# Sources

SOURCES = {
    "datetime.datetime.now()": "KV101",
    "datetime.datetime.utcnow().isoformat()": "KV101",
    "datetime.date.today()": "KV101",
    "time.time()": "KV101",
    "int(time.perf_counter() * 1000)": "KV101",
    "time.strftime('%H:%M')": "KV101",
    "uuid.uuid4()": "KV102",
    "uuid.uuid4().hex[:8]": "KV102",
    "secrets.token_hex(4)": "KV102",
    "random.randint(1, 9)": "KV102",
    "random.choice(['a', 'b'])": "KV102",
    "os.urandom(4).hex()": "KV102",
    "hash(RULES)": "KV102",
    "id(RULES)": "KV102",
    "os.getcwd()": "KV106",
    "Path.cwd()": "KV106",
    "socket.gethostname()": "KV106",
    "platform.platform()": "KV106",
    "os.environ['USER']": "KV106",
    "os.environ.get('HOME')": "KV106",
    "subprocess.check_output(['git', 'rev-parse', 'HEAD'])": "KV106",
    "', '.join({'a', 'b', RULES[:3]})": "KV113",
    "str(set(RULES.split()))": "KV113",
    "' '.join(os.listdir('.'))": "KV113",
    "' '.join(str(p) for p in Path('x').iterdir())": "KV113",
    "', '.join(list(set(RULES)))": "KV113",
}
"""Expressions that another run, another machine or another moment gives something else for."""
CONSTANTS = (
    "RULES[:5]",
    "len(RULES)",
    "', '.join(sorted({'a', 'b'}))",
    "' '.join(sorted(os.listdir('.')))",
    "datetime.date(2024, 1, 1)",
    "json.dumps({'a': 1})",
    "os.path.exists('x')",
    "os.environ.get('MODEL', 'x')",
    "random.Random(7)",
    "'now'",
    "time.sleep(1)",
    "(time.time() > 3)",
    "hashlib.sha256(b'x').hexdigest()",
)


@pytest.mark.parametrize("source", SOURCES)
def test_sources(source: str) -> None:
    text = f"def build():\n    value = {source}\n    prompt = f'At {{value}}: ' + RULES\n    return prompt\n"
    (one,) = found(HEAD + text)
    assert (one.code, one.path) == (SOURCES[source], "a.py")
    assert one.tokens_lost >= len(": " + RULES)
    if one.line == 6:  # a collection that is joined is told where it is gone over
        assert (one.column, one.width, one.tokens_lost) == (19, 7, len(": " + RULES))


@pytest.mark.parametrize("source", CONSTANTS)
def test_what_is_no_source(source: str) -> None:
    assert (
        codes(f"def build():\n    value = {source}\n    prompt = f'At {{value}}: ' + RULES\n    return prompt\n") == []
    )


# Ways through a program

WAYS = {
    "variables": "def build_prompt():\n    a = SOURCE\n    b = a\n    return f'At {b}: ' + RULES\n",
    "attributes": (
        "class Agent:\n    def __init__(self):\n        self.stamp = SOURCE\n"
        "    def prompt(self):\n        return f'At {self.stamp}: ' + RULES\n"
    ),
    "class attributes": "class Agent:\n    stamp = SOURCE\n    def prompt(self):\n        return f'At {self.stamp}: {RULES}'\n",
    "helpers": "def stamp():\n    return SOURCE\ndef build_prompt():\n    return f'At {stamp()}: ' + RULES\n",
    "arguments of helpers": (
        "def with_rules(head):\n    return f'{head}: ' + RULES\ndef go():\n"
        "    prompt = with_rules(str(SOURCE))\n    return prompt\n"
    ),
    "methods": (
        "class Agent:\n    def stamp(self):\n        return f'{SOURCE}'\n"
        "    def prompt(self):\n        return f'At {self.stamp()}: {RULES}'\n"
    ),
    "inherited": (
        "class Base:\n    def stamp(self):\n        return str(SOURCE)\n"
        "class Agent(Base):\n    def prompt(self):\n        return f'At {self.stamp()}: {RULES}'\n"
    ),
    "properties": (
        "class Agent:\n    @property\n    def stamp(self):\n        return SOURCE\n"
        "    def prompt(self):\n        return f'At {self.stamp}: {RULES}'\n"
    ),
    "append": (
        "def build():\n    parts = []\n    parts.append(f'At {SOURCE}')\n"
        "    parts.append(RULES)\n    prompt = '\\n'.join(parts)\n    return prompt\n"
    ),
    "loops": (
        "def build():\n    parts = [str(SOURCE), RULES]\n    prompt = ''\n"
        "    for part in parts:\n        prompt += part + RULES\n    return prompt\n"
    ),
    "join": "def build_prompt():\n    return '\\n'.join(['Hello', str(SOURCE), RULES])\n",
    "added to": "def build():\n    prompt = 'Hello '\n    prompt += str(SOURCE)\n    prompt += RULES\n    return prompt\n",
    "percent": "def build_prompt():\n    return 'At %s: ' % SOURCE + RULES\n",
    "percent of names": "def build_prompt():\n    return ('At %(at)s: ' + RULES) % {'at': SOURCE}\n",
    "format": "PROMPT = 'At {at}: ' + RULES\ndef go():\n    return PROMPT.format(at=SOURCE)\n",
    "format by position": "PROMPT = 'At {}: ' + RULES\ndef go():\n    return PROMPT.format(SOURCE)\n",
    "format of a mapping": (
        "PROMPT = 'At {at}: ' + RULES\ndef go():\n    values = {'at': str(SOURCE)}\n"
        "    return PROMPT.format(**values)\n"
    ),
    "format_map": "PROMPT = 'At {at}: ' + RULES\ndef go():\n    return PROMPT.format_map({'at': SOURCE})\n",
    "Template": "PROMPT = string.Template('At $at: ' + RULES)\ndef go():\n    return PROMPT.substitute(at=SOURCE)\n",
    "dedent": "def build_prompt():\n    return textwrap.dedent(f'''\n        At {SOURCE}\n        {RULES}''').strip()\n",
    "replace": "PROMPT = 'At {date}: ' + RULES\ndef go():\n    return PROMPT.replace('{date}', str(SOURCE))\n",
    "conditions": "def build_prompt(short):\n    at = SOURCE if short else 'noon'\n    return f'At {at}: ' + RULES\n",
    "branches": "def build_prompt(short):\n    at = ''\n    if short:\n        at = f'At {SOURCE}'\n    return f'{at}: ' + RULES\n",
    "comprehensions": "def build_prompt():\n    return ' '.join(f'{SOURCE}{x}' for x in 'ab') + RULES\n",
    "default_factory": (
        "from dataclasses import dataclass, field\n@dataclass\nclass Agent:\n"
        "    stamp: str = field(default_factory=lambda: str(SOURCE))\n"
        "    def prompt(self):\n        return f'At {self.stamp}: {RULES}'\n"
    ),
    "partial": (
        "import functools\ndef build_prompt(at):\n    return f'At {at}: ' + RULES\ndef go():\n"
        "    make = functools.partial(build_prompt, at=SOURCE)\n    return make()\n"
    ),
    "defaults": "def build_prompt(at=SOURCE):\n    return f'At {at}: ' + RULES\n",
    "nested functions": "def build_prompt():\n    def at():\n        return SOURCE\n    return f'At {at()}: ' + RULES\n",
    "with": "def build_prompt():\n    with open('x') as f:\n        return f'At {SOURCE}: ' + RULES\n",
    "tries": (
        "def build_prompt():\n    try:\n        at = SOURCE\n    except OSError:\n"
        "        at = ''\n    return f'At {at}: ' + RULES\n"
    ),
    "what is sent": (
        "def ask(system):\n"
        "    return client.chat.completions.create(messages=[{'role': 'system', 'content': system + RULES}])\n"
        "def go():\n    ask(f'At {SOURCE}: ')\n"
    ),
    "async": "async def stamp():\n    return SOURCE\nasync def build_prompt():\n    return f'At {await stamp()}: {RULES}'\n",
    "objects": (
        "class Clock:\n    def at(self):\n        return SOURCE\ndef build_prompt():\n"
        "    clock = Clock()\n    return f'At {clock.at()}: ' + RULES\n"
    ),
    "other names": "from datetime import datetime as dt\ndef build_prompt():\n    return f'{dt.min} At {SOURCE}: ' + RULES\n",
}
"""How a value gets from where it comes from into a prompt; `SOURCE` is an expression."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", ["datetime.datetime.now()", "uuid.uuid4().hex", "os.getcwd()"])
def test_ways(way: str, source: str) -> None:
    assert SOURCES.get(source, "KV102") in codes(WAYS[way].replace("SOURCE", source))


@pytest.mark.parametrize("way", WAYS)
def test_the_same_ways_with_what_does_not_vary(way: str) -> None:
    if way != "other names":
        assert set(codes(WAYS[way].replace("SOURCE", "RULES[:4]"))) <= {"KV201"}  # a parameter, at most


@given(
    st.sampled_from(sorted(WAYS)),
    st.sampled_from(sorted(SOURCES)),
    st.sampled_from(["prompt", "system_prompt", "instructions", "PROMPT", "systemMessage"]),
)
@settings(max_examples=60, deadline=None)
def test_every_source_goes_every_way(way: str, source: str, name: str) -> None:
    made = WAYS[way].replace("SOURCE", "source()")
    text = f"def source():\n    return {source}\n{made}def last():\n    {name} = str(source()) + RULES\n"
    assert SOURCES[source] in codes(text)


# Collections without an order


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("docs = set(d)\n    return '\\n'.join(docs) + RULES", "KV113"),
        ("return '\\n'.join(t.name for t in set(tools)) + RULES", "KV111"),
        ("return '\\n'.join(sorted(set(d))) + RULES", None),
        ("few_shots = list(d)\n    random.shuffle(few_shots)\n    return '\\n'.join(few_shots) + RULES", "KV114"),
        ("return '\\n'.join(random.sample(d, 3)) + RULES", "KV102"),
        ("out = ''\n    for one in set(d):\n        out += one + '\\n'\n    return out + RULES", "KV113"),
        ("out = []\n    for one in set(d):\n        out.append(one)\n    return ' '.join(out) + RULES", "KV113"),
        ("return ' '.join(LOCAL) + RULES", "KV113"),
        ("return ' '.join(sorted(LOCAL)) + RULES", None),
        ("return ' '.join(x for x in sorted(LOCAL)) + RULES", None),
        ("return ' '.join({k: 1 for k in d}) + RULES", None),
        ("return ' '.join(dict.fromkeys(d)) + RULES", None),
        ("return json.dumps(d) + RULES", None),
        ("return json.dumps(list(set(d))) + RULES", "KV113"),
        ("return json.dumps({'at': str(datetime.datetime.now())}) + RULES", "KV101"),
    ],
)
def test_orders(body: str, expected: str | None) -> None:
    text = f"LOCAL = {{'a', 'b'}}\ndef build_prompt(d, tools):\n    {body}\n"
    assert codes(text) == ([expected] if expected else [])


def test_a_parameter_that_is_a_set_and_keywords_in_their_order() -> None:
    assert codes("def build_prompt(d: set[str]):\n    return ', '.join(d) + RULES\n") == ["KV113"]
    assert codes("def build_prompt(**values):\n    return json.dumps(values) + RULES\n") == ["KV112"]
    assert codes("def build_prompt(**values):\n    return json.dumps(values, sort_keys=True) + RULES\n") == []


def test_tools_in_no_fixed_order() -> None:
    (one,) = found(HEAD + "def go():\n    Agent(name='x', tools=list({a, b}))\n")
    assert (one.code, one.severity, one.line, one.column) == ("KV111", "warning", 5, 27)


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


@pytest.mark.parametrize("kind", PROMPTS)
def test_prompts(kind: str) -> None:
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


@pytest.mark.parametrize("kind", NO_PROMPTS)
def test_what_is_no_prompt(kind: str) -> None:
    assert found(HEAD + NO_PROMPTS[kind].replace("NOW", "datetime.datetime.now()")) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("system_prompt", True),
        ("SYSTEM_PROMPT", True),
        ("self.basePrompt", True),
        ("build_prompt", True),
        ("agent_instructions", True),
        ("systemMessage", True),
        ("prompt_tokens", False),
        ("prompt_path", False),
        ("prompt_for_password", False),
        ("shell_prompt", False),
        ("message", False),
        ("template_dir", False),
        ("prompted", False),
    ],
)
def test_names_of_prompts(name: str, says: bool) -> None:
    assert is_prompt_name(name) is says


def test_files_of_prompts() -> None:
    assert is_prompt_file("agent/prompts.py")
    assert is_prompt_file("a/prompts/planner.py")
    assert not is_prompt_file("a/prompting_toolkit/x.py")
    assert not is_prompt_file("agent/service.py")


@pytest.mark.parametrize(
    ("text", "reads"),
    [
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
    ],
)
def test_how_texts_read(text: str, reads: int) -> None:
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
        assert (one.severity, "once a day" in one.message) == ("warning", True)
    (one,) = found(HEAD + "PROMPT = f'On {datetime.datetime.now():%Y-%m-%d}: ' + RULES\n")
    assert (one.severity, "once a day" in one.message) == ("warning", True)
    (one,) = found(HEAD + "PROMPT = f'On {datetime.datetime.now():%Y-%m-%d %H:%M}: ' + RULES\n")
    assert (one.severity, "once a day" in one.message) == ("error", False)


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("current_time", "warning"),
        ("request_id", "warning"),
        ("user_name", "info"),
        ("cwd", "info"),
        ("topic", "warning"),
        ("style", None),
    ],
)
def test_parameters_of_which_only_the_name_is_known(name: str, severity: str | None) -> None:
    result = found(HEAD + f"def build_prompt({name}: str):\n    return f'For {{{name}}}: ' + RULES\n")
    assert [one.severity for one in result] == ([severity] if severity else [])


def test_the_environment_of_a_machine_is_no_error() -> None:
    (one,) = found(HEAD + "PROMPT = f'In {os.getcwd()}: ' + RULES\n")
    assert one.severity == "warning"
    (one,) = found(HEAD + "PROMPT = f'On {platform.system()}: ' + RULES\n")
    assert one.severity == "info"


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
    assert "a prompt that is not written here" in one.message


def test_a_clock_at_the_end_of_a_system_message() -> None:
    (one,) = found(HEAD + "def go():\n    return SystemMessage(content=RULES + f'Now: {datetime.datetime.now()}')\n")
    assert (one.severity, "the whole conversation" in one.message) == ("info", True)


# Bounds


def test_what_calls_itself_and_each_other() -> None:
    text = "def a():\n    return b() + f'{time.time()}'\ndef b():\n    return a()\ndef build_prompt():\n    return a() + RULES\n"
    assert codes(text) == ["KV101"]


def test_values_that_double_stay_bounded() -> None:
    text = "a = f'{time.time()}x'\n" + "a = a + a\n" * 20 + "prompt = a + RULES\n"
    assert codes(text) == ["KV101"]
    text = "a = f'{time.time()}x'\n" + "a = a + a\n" * 5000 + "prompt = a + RULES\n"
    assert set(codes(text)) <= {"KV101"}
    text = "def f(x):\n    a = f'{time.time()}'\n" + "".join(
        f"    if x == {n}:\n        a = f'{{a}}{{a}}{n}'\n" for n in range(300)
    )
    assert set(codes(text + "    prompt = a + RULES\n    return prompt\n")) <= {"KV101"}


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "f(" * 80 + "1" + ")" * 80,
        "x = " + "[" * 90 + "1" + "]" * 90,
        "x = 1" + " + 1" * 300,
        "x = a" + ".b" * 2000,
        "def f():\n" + "".join(" " * depth + "if x:\n" for depth in range(1, 90)) + " " * 90 + "y = 1\n",
        "class A(A): pass\nclass B(C): pass\nclass C(B):\n    def prompt(self):\n        return self.x\n",
        "def f(f=f): return f(f)\n",
        "from . import a\nfrom .. import b\nfrom ..... import c\na.b(b.c(c))\n",
        "import a\na = a.a(a)\n",
        "x: int\nx += 1\nx, (y, *z) = 1, (2, 3)\ndel x\n",
        "match x:\n    case {'a': b} if b:\n        y = 1\n    case _:\n        pass\n",
    ],
)
def test_strange_files(text: str) -> None:
    assert found(text + "\n") == []


def test_nesting_that_is_too_deep_is_told() -> None:
    with pytest.raises(KvtoolError):
        found("x = " + "(" * 400 + "1" + ")" * 400)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("current_time", "time"),
        ("self.now", "time"),
        ("sessionId", "request_id"),
        ("runtime", None),
        ("candidate", None),
        ("user_role", None),
        ("plan_result", None),
        ("time_limit", None),
        ("update", None),
    ],
)
def test_names_that_say_enough(name: str, key: str | None) -> None:
    kind = sure_kind(name)
    assert (kind and kind.key) == key


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


@pytest.mark.parametrize("form", ASKED)
def test_what_callers_give_is_another_in_each_request(form: str) -> None:
    (one,) = found(HEAD + ASKED[form])
    assert (one.code, one.severity) == ("KV201", "warning")


@pytest.mark.parametrize(
    "text",
    [
        "MOST = 5\nNONE = 'nothing'\ndef build_prompt():\n    return f'At most {MOST} or {NONE}. ' + RULES\n",
        "def build_prompt(question):\n    return RULES + f'Q: {question}'\n",
        "def show(question):\n    print(f'{question} ' + RULES)\n",
        "QUERY = 'MATCH (n {uuid: $uuid})-[r]->(m) RETURN n, r, m ORDER BY n.name LIMIT 10 ' * 9\n",
        "PROMPT = 'Give {num_chunks} parts. ' + RULES\n",
        "PROMPT = 'Answer in {format_instructions}. ' + RULES\n",
    ],
)
def test_what_is_not_given_or_costs_nothing(text: str) -> None:
    assert codes(text) == []


# Work


def _chain(functions: int) -> str:
    """Functions of which each calls the one before."""
    parts = ["def f0(question):\n    return f'You are a helper. {question}'\n"]
    parts += [
        f"def f{i}(question):\n    x = f'step {i}: {{question}}'\n    return f'{{x}} and then {{f{i - 1}(x)}}. Answer.'\n"
        for i in range(1, functions)
    ]
    return "\n".join(parts)


def test_the_work_for_a_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _chain(2_000)
    most = 50_000
    monkeypatch.setattr(python_program, "_LEAST_STEPS", most)
    spent = 0
    spend = work_budget.spend

    def counted(steps: int = 1) -> None:
        nonlocal spent
        spend(steps)
        spent += steps

    for module in (python_values, python_changes, python_expressions):
        monkeypatch.setattr(module, "spend", counted)
    assert python_prompts("a.py", text)[0] is not None
    assert 0 < spent <= most + len(text)


def test_a_file_of_a_later_python_is_told_to_be_one_perhaps() -> None:
    with pytest.raises(KvtoolError, match="not Python") as caught:
        python_prompts("a.py", "first = 1\nfirst second\n")
    assert (
        caught.value.hint
        == f"kvtool runs on Python {'.'.join(platform.python_version_tuple()[:2])}: a file of a later one needs that one"
    )
    assert caught.value.place is not None
    assert caught.value.place.line == 2
