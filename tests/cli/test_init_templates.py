"""`kvtool init` on templates with objects and files, and on prompts in Python and YAML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kvtool.cli.commands.init import compose
from kvtool.workload.yaml.yaml_source import load_yaml_workload
from tests.conftest import Command
from tests.files import write

TEMPLATE = "{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"


@pytest.fixture
def init(in_folder: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("KVTOOL_CHAT_TEMPLATE", write("chat_template.jinja", TEMPLATE))
    monkeypatch.setattr(compose, "_MOST", 12)  # requests of a group: 40 take longer and show the same
    return lambda *arguments: in_folder("init", *arguments)


PYTHON = '''
SYSTEM_PROMPT = """You are the support agent of a shop. It is {now}.
Answer in one or two sentences and stay friendly at all times.
Never promise refunds. Quote the order number in each answer that you give."""

def ask(client, now, question):
    messages = [{"role": "system", "content": SYSTEM_PROMPT.format(now=now)}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="m", messages=messages)
'''
RULES = "Keep all numbers as they are, name each date, and never explain the answer that you gave to the reader. "


def test_prompts_in_python_and_yaml_are_copied(init: Command) -> None:
    write("app/agent.py", PYTHON)
    write(
        "prompts.yaml",
        f"summary: |\n  It is {{today}}.\n  Summarize the document in short sentences. {RULES * 2}\n  {{document}}\n",
    )
    write("compose.yaml", "services: {a: {image: '{x}'}}\n")
    code, out, _ = init()
    assert code == 0
    assert "Found in .: 2 prompts" in out
    source = load_yaml_workload("kvtool-workload.yaml")
    assert [group.name for group in source.spec.groups] == ["agent", "prompts"]
    workload = Path("kvtool-workload.yaml").read_text(encoding="utf-8")
    for name in ("app/agent.py", "prompts.yaml"):
        assert f"# Copied from {name}:" in workload
    said = " ".join(out.split())
    assert "app/agent.py:2:" in said or "prompts.yaml:2:" in said
    assert "loses most:" in said


def test_the_line_that_loses_most_is_named_beside_the_gate(init: Command) -> None:
    write(
        "prompts/a.j2",
        "You help.\nNow: {{ clock.strftime('%H:%M') }}\n" + "Answer in short and plain sentences.\n" * 20,
    )
    code, out, _ = init()
    assert code == 0
    config = Path("kvtool.toml").read_text(encoding="utf-8")
    for text in (" ".join(out.split()), config):
        assert "prompts/a.j2:2:6 (`clock`) loses most: " in text
    assert config.index("loses most") < config.index("hit_rate = ")


def test_templates_with_objects_and_files_need_nothing_else(init: Command, in_folder: Command) -> None:
    write("prompts/parts/head.j2", "{{ user.name }} of {{ user.team.title }}\n")
    write(
        "prompts/a.j2", "{% include 'parts/head.j2' %}{% for d in docs %}{{ d.title | shorten }}{% endfor %}{{ now() }}"
    )
    write("prompts/b.j2", "{{ docs }}{% if count > 3 %}many{% endif %}{{ price | round(2) }}")
    write("prompts/c.j2", "{{ docs.total }}{{ history[-1].content }}")
    code, out, err = init()
    assert (code, err) == (0, "")
    assert "Found in .: 3 prompts" in out  # what is included is a part of one
    assert "left out" not in out
    source = load_yaml_workload("kvtool-workload.yaml")
    assert source.spec.filters == ["shorten"]
    assert any(group.vars for group in source.spec.groups)  # `docs` is a list for one, an object for another
    assert in_folder("check", "-q")[0] == 0


def test_a_bad_template_is_named_with_its_place_and_hides_no_other(init: Command) -> None:
    write("prompts/good.j2", "You help {{ name }}.")
    write("prompts/tag.j2", "Fine.\n{% trans %}x{% endtrans %}\n")
    write("prompts/open.j2", "Fine.\n{{ name \n")
    code, out, _ = init()
    assert code == 0
    said = " ".join(out.split())
    assert (
        "prompts/tag.j2 was left out: template: Encountered unknown tag 'trans'. (prompts/tag.j2:2:4); kvtool knows"
        in said
    )
    assert "prompts/open.j2 was left out: template: unexpected end of template" in said
    assert "(prompts/open.j2:2:" in said
    assert "Found in .: 1 prompt" in said


CODE = """
import itertools, os, random
from datetime import datetime
from uuid import uuid4
from jinja2 import Environment, FileSystemLoader

env = Environment(loader=FileSystemLoader("prompts"))
BUILD = os.environ["BUILD"]
numbers = itertools.count()


class Book:
    def __init__(self):
        self._jobs = 0

    def _render(self, name, **values):
        return env.get_template(f"{name}.j2").render(**values)

    def letter(self, wish):
        self._jobs += 1
        return self._render("letter", a=self._jobs, b=uuid4().hex, c=datetime.now().isoformat(), d=BUILD, wish=wish)


def direct(wish):
    return env.get_template("direct.j2").render(a=next(numbers), b=random.random(), c=os.getenv("REGION"), wish=wish)
"""


def test_values_are_made_up_by_what_code_passes(init: Command) -> None:
    write("app/render.py", CODE)
    write("prompts/letter.j2", f"{{{{ a }}}} {{{{ b }}}} {{{{ c }}}} {{{{ d }}}} {{{{ wish }}}} {RULES}")
    write("prompts/direct.j2", f"{{{{ a }}}} {{{{ b }}}} {{{{ c }}}} {{{{ wish }}}} {RULES}")
    assert init()[0] == 0
    groups = yaml.safe_load(Path("kvtool-workload.yaml").read_text(encoding="utf-8"))
    shared = groups.get("vars", {})
    direct, letter = ({**shared, **group.get("vars", {})} for group in groups["groups"])
    kinds = [{name: next(iter(each[name])) for name in "abcd" if name in each} for each in (letter, direct)]
    assert kinds == [
        {"a": "counter", "b": "uuid", "c": "datetime", "d": "text"},
        {"a": "counter", "b": "uuid", "c": "text"},
    ]


def test_a_value_changes_only_where_its_name_says_so(init: Command, in_folder: Command) -> None:
    """`lint` names the same values: what it says nothing of is never blamed for its made-up values."""
    write("prompts/a.j2", f"{{{{ question }}}} {RULES}")
    write(
        "prompts/b.j2",
        f"{{{{ wish }}}}, {{{{ photos|length }}}} of {{{{ teams|join(', ') }}}}, {{{{ size + 1 }}}} {RULES}",
    )
    assert init()[0] == 0
    source = load_yaml_workload("kvtool-workload.yaml")
    texts: dict[str, set[str]] = {"a": set(), "b": set()}
    for conversation in source.conversations():
        turn = conversation.next_turn(None)
        assert turn is not None
        texts[turn.group].add(str((turn.messages or [])[0]["content"]))
    assert {name: len(each) for name, each in texts.items()} == {"a": 12, "b": 1}
    assert "b.j2" not in in_folder("lint", "prompts")[1]


CHAT = f"""
from openai import OpenAI
from datetime import datetime
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from elsewhere import MORE
RULES = {RULES * 2!r}

def ask(text):
    return OpenAI().chat.completions.create(
        model="m",
        messages=[
            {{"role": "system", "content": f"{{RULES}}{{MORE}}"}},
            {{"role": "user", "content": f"{{text}} (asked at {{datetime.now()}})"}},
        ],
    )

PROMPT = ChatPromptTemplate.from_messages(
    [("system", "Be kind to {{name}}. " + RULES), MessagesPlaceholder("history"), ("human", "{{question}}")]
)
"""


def test_messages_of_code_keep_their_roles_and_their_order(init: Command) -> None:
    write("bot.py", CHAT)
    code, out, _ = init()
    assert code == 0
    groups = yaml.safe_load(Path("kvtool-workload.yaml").read_text(encoding="utf-8"))["groups"]
    found = [[(each["role"], each["text"]) for each in group["messages"]] for group in groups]
    found.sort(key=len)
    assert [[role for role, _ in each] for each in found] == [["system", "user"], ["system", "user", "user"]]
    assert found[0][0][1].endswith("{{ the_text_of_MORE }}")
    assert found[0][1][1] == "{{ text }} (asked at {{ call_datetime_now }})"
    assert [text for _, text in found[1][1:]] == ["{{ history }}", "{{ question }}"]
    assert "the text of `MORE` was not found" in " ".join(out.split())


def test_optimize_says_that_only_a_copy_is_edited(init: Command, in_folder: Command) -> None:
    write("app/bot.py", CHAT.replace("{{MORE}}", "").replace('f"{RULES}', 'f"{datetime.now()}\\n{RULES}'))
    assert init()[0] == 0
    path = Path("kvtool-workload.yaml")
    line = next(n for n, text in enumerate(CHAT.splitlines(), 1) if "RULES}{" in text)
    for arguments in ((), ("--allow", "P2", "--write")):
        out = " ".join(in_folder("optimize", str(path), *arguments)[1].split())
        assert f"copy: app/bot.py:{line} is not edited. Make the same change there." in out
    assert f"app/bot.py:{line}" in out.partition("Your service changes only when you edit")[2]
    assert Path("app/bot.py").read_text(encoding="utf-8").count("datetime.now()") == 2


def test_an_edit_of_what_is_no_copy_says_nothing_of_copies(init: Command, in_folder: Command) -> None:
    write("prompts/a.j2", f"{{{{ now }}}}\n{RULES * 2}")
    assert init()[0] == 0
    assert "copy:" not in in_folder("optimize", "kvtool-workload.yaml")[1]


def test_prompts_that_differ_are_copied_again_with_values_and_gates_as_they_are(
    init: Command, in_folder: Command
) -> None:
    write("agent.py", PYTHON)
    write("other.py", PYTHON.replace("support agent", "sales agent").replace("{now}", "{day}").replace("now", "day"))
    assert init()[0] == 0
    workload, config = Path("kvtool-workload.yaml"), Path("kvtool.toml")
    mine = workload.read_text().replace("requests: 12", "requests: 9").replace("now: {datetime: 1m}", "now: {uuid: 4}")
    mine = mine.replace("vars:\n", "vars:\n  mine: {counter: 1}\n")
    named = PYTHON.replace("of a shop", "of {city}").replace("(now=now)", "(now=now, city=city)")
    write("agent.py", named.replace("client, now", "client, city, now"))
    edited = mine.replace("Never promise refunds. ", "")
    workload.write_text(edited)
    gates = config.read_text() + "# mine\n"
    config.write_text(gates)
    assert in_folder("check")[2] == ""
    code, out, _ = init("--force", "--dry-run")
    assert (code, workload.read_text()) == (0, edited)
    code, out, _ = init("--force")
    assert code == 0
    assert "Copied again: agent, other" in out
    assert out.endswith("Next: check the hit rate:\n  kvtool check\n")
    assert config.read_text() == gates
    text = workload.read_text()
    assert text.count("Never promise refunds. ") == 2
    assert text.count("requests: 9") == mine.count("requests: 9")
    for part in ("now: {uuid: 4}", "  mine: {counter: 1}", "of {{ city }}."):
        assert part in text
    load_yaml_workload(str(workload))
    assert "a copied prompt" not in in_folder("check")[1]
    write("agent.py", "")
    workload.write_text(edited)
    code, _, err = init("--force")
    assert (code, workload.read_text()) == (2, edited)
    assert "group `agent` cannot be copied again: agent.py has no prompt for it" in err


def test_a_list_that_code_passes_is_rendered_with_its_elements_in_its_orders(init: Command) -> None:
    write(
        "prompts/a.j2", f"{RULES}\n{{% for one in examples %}}{{{{ one.q }}}}: {{{{ one.a }}}}\n{{% endfor %}}{RULES}"
    )
    write("prompts/b.j2", f"{RULES}\n{{% for one in cities %}}{{{{ one }}}}, {{% endfor %}}{RULES}")
    write("prompts/c.j2", f"{RULES}\n{{% for one in tools %}}{{{{ one.name }}}} {{% endfor %}}{RULES}")
    few = [{"q": f"{number} + 1?", "a": f"{number + 1}"} for number in range(5)]
    write(
        "ask.py",
        f"import random\nFEW = {few!r}\nCITIES = ['Oslo', 'Rome']\ndef ask(names):\n    few = list(FEW)\n    random.shuffle(few)\n"
        "    env.get_template('a.j2').render(examples=few)\n    env.get_template('b.j2').render(cities=CITIES)\n"
        "    env.get_template('c.j2').render(tools=set(names))\n",
    )
    assert init()[0] == 0
    source = load_yaml_workload("kvtool-workload.yaml")
    texts: dict[str, set[str]] = {}
    for conversation in source.conversations():
        request = conversation.next_turn(None)
        assert request is not None
        texts.setdefault(request.group, set()).add(str((request.messages or [])[0]["content"]).split(RULES)[1])
    assert (len(texts["b"]), len(texts["c"])) == (1, 4)
    assert len(texts["a"]) > 8, "of 120 orders, in 12 requests"
    assert all(sorted(one.split("\n")[1:-1]) == [f"{each['q']}: {each['a']}" for each in few] for one in texts["a"])
    assert texts["b"] == {"\nOslo, Rome, "}


def test_a_copy_and_its_source_are_one_prompt_and_one_finding(init: Command, in_folder: Command) -> None:
    write(
        "plan.py",
        f"import random, datetime\nCITIES = ['Oslo', 'Rome', 'Lima', 'Cairo', 'Hanoi']\nRULES = {RULES * 3!r}\ndef ask(q):\n"
        "    few = [*CITIES]\n    random.shuffle(few)\n    system = f'{datetime.datetime.now()}: {\", \".join(few)}. {RULES}'\n"
        "    return client.messages.create(system=[{'type': 'text', 'text': system, 'cache_control': {'type': 'ephemeral'}}],"
        " messages=[{'role': 'user', 'content': q}])\n",
    )
    assert "Found in .: 1 prompt" in init()[1]
    out = " ".join(in_folder("lint")[1].split())
    assert out.count(" KV101 error ") == 1
    assert "its source is plan.py:7:" in out


_TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": f"Finds the {name} of a customer. " * 4, "strict": True},
    }
    for name in ("orders", "letters", "invoices", "refunds")
]


def test_tools_in_random_order_are_a_loss_that_a_change_of_the_code_wins_back(
    init: Command, in_folder: Command
) -> None:
    write("chat_template.jinja", "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}" + TEMPLATE)
    code = (
        f"import random\nTOOLS = {_TOOLS!r}\nRULES = {RULES * 4!r}\ndef ask(question):\n    tools = list(TOOLS)\n"
        "    random.shuffle(tools)\n    return client.chat.completions.create(model='m', tools=tools,\n"
        "        messages=[{'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}])\n"
    )
    write("ask.py", code)
    out = " ".join(init("--block-size", "16")[1].split())
    assert "KV111 ask.py:7 loses most" in out
    out = " ".join(in_folder("profile", "--dry-run")[1].split())
    promised = re.search(r"sort the tools by name: [\d.]+% -> ([\d.]+%)", out)
    assert promised is not None
    assert "note: this is a copy of ask.py:7: make the change there" in out
    assert "Next Make the fix in ask.py:7. Then copy the prompts again: kvtool init --force" in out
    assert "sends the tools in these orders: sort them by name there" in " ".join(in_folder("optimize")[1].split())
    write("ask.py", code.replace("tools=tools", "tools=sorted(tools, key=lambda tool: tool['function']['name'])"))
    assert "is a copy of ask.py:7 that differs" in " ".join(in_folder("check")[1].split())
    assert init("--force")[0] == 0
    assert "orders:" not in Path("kvtool-workload.yaml").read_text()
    assert f"Hit rate {promised[1]}" in " ".join(in_folder("profile", "--dry-run")[1].split())


@pytest.mark.parametrize("marked", [True, False])
def test_a_change_of_an_unmarked_prompt_wins_with_a_mark(marked: bool, in_folder: Command) -> None:
    """The same line gets the advice with a mark and without, each proven by a run."""
    mark, group = (", cache_control: 5m", "") if marked else ("", "cache_control: none, ")
    write(
        "w.yaml",
        "version: 1\nengine: {provider: anthropic}\nvars: {now: {datetime: 1m}, question: {counter: 1}}\n"
        f"groups:\n- {{name: g, requests: 4, {group}messages: [{{role: system, file: s.j2{mark}}}, "
        '{role: user, text: "{{ question }}"}]}\n',
    )
    write("s.j2", f"It is {{{{ now }}}}.\n{RULES * 11}")
    out = " ".join(in_folder("profile", "w.yaml", "--dry-run")[1].split())
    found = re.search(r"KV101 error .* help: (.*?move this line to [^:]*): 0\.0% -> ([67]\d\.\d%)", out)
    assert found is not None
    assert ("set cache_control on the last system block; then" in found[1]) is not marked
    if not marked:
        out = " ".join(in_folder("optimize", "w.yaml", "--allow", "P2")[1].split())
        assert "1. w.yaml:5:58: set cache_control on the last system block" in out
        assert f"Optimized {found[2]} with the edits" in out, "the figure of profile"


def test_each_prompt_is_rated_by_the_rules_of_the_model_that_gets_it(init: Command) -> None:
    write("app/prompts/sort.j2", f"{RULES}\nSort: {{{{ letter }}}}")
    write("app/prompts/reply.j2", f"{RULES}\nReply to {{{{ customer }}}} at {{{{ now }}}}.")
    write("app/prompts/unused.j2", f"{RULES}\nNobody sends {{{{ this }}}}.")
    write("app/__init__.py", "")
    write(
        "app/texts.py",
        "from jinja2 import Environment\nenv = Environment()\ndef render(name, **values):\n"
        "    return env.get_template(name).render(**values)\n",
    )
    write(
        "app/ask.py",
        "from datetime import datetime\nfrom app.texts import render\n"
        "def sort(letter):\n    text = render('sort.j2', letter=letter)\n"
        "    return client.chat.completions.create(model='gpt-4.1', messages=[{'role': 'system', 'content': text}])\n"
        "def reply(customer):\n    text = render('reply.j2', customer=customer, now=datetime.now())\n"
        "    return claude.messages.create(model='claude-sonnet-4-5', system=text, messages=[])\n",
    )
    assert init()[0] == 0
    workloads = {path.name: load_yaml_workload(path.name) for path in Path().glob("kvtool-workload*.yaml")}
    assert [one.cache_control for one in workloads["kvtool-workload-anthropic.yaml"].spec.groups] == ["none"]
    assert [one.cache_control for one in workloads["kvtool-workload-openai.yaml"].spec.groups] == [None]
    assert {
        name: (one.engine.provider, [group.name for group in one.spec.groups]) for name, one in workloads.items()
    } == {
        "kvtool-workload-openai.yaml": ("openai", ["sort"]),
        "kvtool-workload-anthropic.yaml": ("anthropic", ["reply"]),
        "kvtool-workload.yaml": (None, ["unused"]),
    }


@pytest.mark.parametrize("imports", [False, True])
def test_a_call_in_a_file_that_reaches_no_mark_caches_nothing(imports: bool, init: Command, in_folder: Command) -> None:
    call = "client.messages.create(model='claude-sonnet-4-5', system="
    write("app/marked.py", f"def ask():\n    return {call}[{{'text': '{RULES}', 'cache_control': {{'type': 'x'}}}}])\n")
    head = "from .marked import add\n" if imports else ""
    write("app/plain.py", f"{head}def ask():\n    return {call}'Be brief. {RULES}')\n")
    assert init()[0] == 0
    text = Path("kvtool-workload.yaml").read_text()
    assert ("cache_control: none" in text, "no cache_control of this prompt was found" in text) == (
        not imports,
        imports,
    )
    later = "app/plain.py sets cache_control for group plain now"
    assert later not in " ".join(in_folder("check", "--no-advice")[1].split())
    write(
        "app/plain.py",
        f"def ask():\n    return {call}[{{'text': 'Be brief. {RULES}', 'cache_control': {{'type': 'x'}}}}])\n",
    )
    assert (later in " ".join(in_folder("check", "--no-advice")[1].split())) == (not imports)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (
            "ask.py",
            "steps = [f'{i + 1}. {r}' for i, r in enumerate(RULES)]\n    text = 'Follow these rules.\\n' + '\\n'.join(steps)",
        ),
        ("ask.ts", "const text = `Follow these rules.\\n${RULES.map((r, i) => `${i + 1}. ${r}`).join('\\n')}`;"),
    ],
)
def test_a_numbered_list_is_copied_with_its_items(init: Command, name: str, code: str) -> None:
    rules = "RULES = ['Name the price of the journey.', 'Warn about fees and deadlines.']\n"
    call = "messages: [{role: 'system', content: text}, {role: 'user', content: q}]"
    if name.endswith(".py"):
        call = call.replace("messages: ", "messages=").replace("role:", "'role':").replace("content:", "'content':")
        write(name, f"{rules}def ask(q):\n    {code}\n    return client.chat.completions.create({call})\n")
    else:
        write(
            name,
            f"const {rules}export const ask = (q) => {{ {code} return client.chat.completions.create({{ {call} }}); }};\n",
        )
    assert init()[0] == 0
    assert "rules.\\n1. Name the price of the journey.\\n2. Warn about" in Path("kvtool-workload.yaml").read_text()


def test_each_placeholder_of_format_gets_a_value(init: Command, in_folder: Command) -> None:
    """A limit never varies, so lint has nothing to say of it, but it is sent."""
    write(
        "prompts/a.md",
        "Take at most {max_actions} steps as {persona}.\n\n```\nsay {word}\n```\nAnswer {question} {{now}}.\n",
    )
    assert init()[0] == 0
    workload = Path("kvtool-workload.yaml").read_text(encoding="utf-8")
    assert "max_actions: {range: [5, 5]}  # made up: a number, always the same" in workload
    assert 'persona: {text: "made up: persona"}  # made up: always the same' in workload
    assert "Take at most {{ max_actions }} steps as {{ persona }}." in workload
    assert "say {{ word }}" in workload
    assert in_folder("check", "--no-advice")[0] == 0


def test_force_says_again_that_the_code_sets_no_marks(init: Command) -> None:
    write(
        "app.py",
        f"import anthropic\n\nSYSTEM_PROMPT = 'You help {{team}}. {RULES * 11}'\n\ndef ask(team, question):\n"
        "    return anthropic.Anthropic().messages.create(\n"
        "        model='claude-sonnet-4-5', max_tokens=9, system=SYSTEM_PROMPT.format(team=team),\n"
        "        messages=[{'role': 'user', 'content': question}])\n",
    )
    for flags in ((), ("--force",)):
        code, out, _ = init(*flags)
        assert code == 0
        assert "The code sets no cache_control, so anthropic caches nothing." in " ".join(out.split())
        assert "# cache rules of anthropic" in (text := Path("kvtool.toml").read_text(encoding="utf-8"))
        assert "sets no cache_control" in text


def test_force_makes_up_values_for_new_variables_and_keeps_the_others(init: Command, in_folder: Command) -> None:
    write("prompts/a.j2", "{{ name }} helps. " + RULES * 4)
    assert init()[0] == 0
    path = Path("kvtool-workload.yaml")
    path.write_text(path.read_text(encoding="utf-8").replace("made up: name", "Ada"), encoding="utf-8")
    before = path.read_text(encoding="utf-8")
    write("prompts/a.j2", "{{ name }} helps at {{ now.strftime('%H:%M') }} with {{ docs[0].title }}. " + RULES * 4)
    code, _, err = in_folder("check", "--no-advice")
    assert code == 2
    assert "prompts/a.j2:1:24: template: undefined variable `now`" in err
    assert "`kvtool init --force` makes up a value" in " ".join(err.split())
    code, out, _ = init("--force")
    assert (code, out.splitlines()[0]) == (0, "New made-up values: docs, now")
    after = path.read_text(encoding="utf-8").splitlines()
    added = [line for line in after if line not in before.splitlines()]
    assert [line for line in after if line not in added] == before.splitlines()
    assert "  now: {datetime: 1m, format: object}  # made up: a clock, one minute a request" in added
    assert in_folder("check", "--no-advice")[0] == 1, "the clock is new"


@pytest.mark.parametrize(("many", "one"), [("docs", "doc"), ("policies", "policy"), ("ties", "tie")])
def test_an_item_is_named_as_one_of_its_list(many: str, one: str, init: Command) -> None:
    write(
        "prompts/a.j2", f"Rules.{{% for each in {many} %}}{{{{ each.title }}}}{{% endfor %}} Answer in short sentences."
    )
    assert init()[0] == 0
    assert f"made up: {one}.title" in Path("kvtool-workload.yaml").read_text(encoding="utf-8")


_JOINED = """from datetime import date
from jinja2 import Environment, FileSystemLoader
from openai import OpenAI

env = Environment(loader=FileSystemLoader("prompts"))


def render(name, **values):
    return env.get_template(name).render(**values)


def solve(task):
    return OpenAI().chat.completions.create(
        model="gpt-4.1",
        messages=[
            {"role": "system", "content": render("rules.j2", today=date.today())},
            {"role": "user", "content": render("head.j2", tone="kind") + "\\n" + render("tail.j2", task=task)},
        ],
    )
"""


def test_joined_templates_are_included_so_findings_and_the_gate_name_their_files(
    init: Command, in_folder: Command
) -> None:
    write("prompts/rules.j2", "Today is {{ today.isoformat() }}. " + RULES * 11)
    write("prompts/head.j2", "Be {{ tone }}.\n" + RULES * 2)
    write("prompts/tail.j2", "Solve {{ task }}.\n\n" + RULES * 11 + "\n")
    write("app.py", _JOINED)
    assert init()[0] == 0
    path = Path("kvtool-workload.yaml")
    workload = path.read_text(encoding="utf-8")
    user = r'{role: user, text: "{% include \"prompts/head.j2\" %}\n{% include \"prompts/tail.j2\" %}"}'
    assert workload.count("- name:") == 1
    assert user in workload
    assert '  tone: {text: "kind"}\n' in workload
    assert "  today: {datetime: 1m, format: date-object}  # made up: a date\n" in workload
    code, out, _ = in_folder("profile", str(path), "--dry-run")
    assert code == 0
    assert "prompts/tail.j2:1:7: KV201" in out
    assert "is a copy of" not in out
    assert in_folder("check", "--no-advice")[0] == 0


def test_a_file_that_a_helper_sends_and_nobody_is_seen_to_send_is_one_prompt(in_folder: Command) -> None:
    write("texts/head.j2", "{% include 'rules.j2' %} {{ port }}")
    write("texts/rules.j2", RULES)
    write(
        "app.py",
        "def ask():\n    prompt = env.get_template('head.j2').render(port='Bergen')\n    return send_prompt(prompt)\n",
    )
    assert in_folder("init")[0] == 0
    workload = Path("kvtool-workload.yaml").read_text(encoding="utf-8")
    assert workload.count("- name:") == 1
    assert '{role: system, file: "texts/head.j2"}' in workload
    assert '  port: {text: "Bergen"}' in workload
