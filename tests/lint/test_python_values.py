"""Values that vary in Python files, and every way from there into a prompt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.lint.made_python import HEAD, RULES, codes, found

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
    "RULES[:5]", "len(RULES)", "', '.join(sorted({'a', 'b'}))", "' '.join(sorted(os.listdir('.')))",
    "datetime.date(2024, 1, 1)", "json.dumps({'a': 1})", "os.path.exists('x')", "os.environ.get('MODEL', 'x')",
    "random.Random(7)", "'now'", "time.sleep(1)", "(time.time() > 3)", "hashlib.sha256(b'x').hexdigest()",
)  # fmt: skip


def test_sources() -> None:
    for source in SOURCES:
        text = f"def build():\n    value = {source}\n    prompt = f'At {{value}}: ' + RULES\n    return prompt\n"
        (one,) = found(HEAD + text)
        assert (one.code, one.path) == (SOURCES[source], "a.py")
        assert one.tokens_lost >= len(": " + RULES)
        if one.line == 6:  # a collection that is joined is told where it is gone over
            assert (one.column, one.width, one.tokens_lost) == (19, 7, len(": " + RULES))


def test_what_is_no_source() -> None:
    for source in CONSTANTS:
        assert (
            codes(f"def build():\n    value = {source}\n    prompt = f'At {{value}}: ' + RULES\n    return prompt\n")
            == []
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


def test_ways() -> None:
    for way in WAYS:
        for source in ["datetime.datetime.now()", "uuid.uuid4().hex", "os.getcwd()"]:
            assert SOURCES.get(source, "KV102") in codes(WAYS[way].replace("SOURCE", source))


def test_the_same_ways_with_what_does_not_vary() -> None:
    for way in WAYS:
        if way != "other names":
            assert set(codes(WAYS[way].replace("SOURCE", "RULES[:4]"))) <= {"KV201"}  # a parameter, at most


@given(
    st.sampled_from(sorted(WAYS)),
    st.sampled_from(sorted(SOURCES)),
    st.sampled_from(["prompt", "system_prompt", "instructions", "PROMPT", "systemMessage"]),
)
def test_every_source_goes_every_way(way: str, source: str, name: str) -> None:
    made = WAYS[way].replace("SOURCE", "source()")
    text = f"def source():\n    return {source}\n{made}def last():\n    {name} = str(source()) + RULES\n"
    assert SOURCES[source] in codes(text)


# Collections without an order


def test_orders() -> None:
    for body, expected in [
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
    ]:
        text = f"LOCAL = {{'a', 'b'}}\ndef build_prompt(d, tools):\n    {body}\n"
        assert codes(text) == ([expected] if expected else [])


def test_a_parameter_that_is_a_set_and_keywords_in_their_order() -> None:
    assert codes("def build_prompt(d: set[str]):\n    return ', '.join(d) + RULES\n") == ["KV113"]
    assert codes("def build_prompt(**values):\n    return json.dumps(values) + RULES\n") == ["KV112"]
    assert codes("def build_prompt(**values):\n    return json.dumps(values, sort_keys=True) + RULES\n") == []


def test_tools_in_no_fixed_order() -> None:
    (one,) = found(HEAD + "def go():\n    Agent(name='x', tools=list({a, b}))\n")
    assert (one.code, one.severity, one.line, one.column) == ("KV111", "warning", 5, 27)
