"""What varies because of where it comes from: what a model answers, what is found, and what an object keeps between requests."""

from __future__ import annotations

import pytest

from kvtool.results.finding import Finding
from tests.lint.found import made_findings

RULES = " ".join(f"Rule {number}: be short, be kind, and never promise a refund, please." for number in range(24))
HEAD = f"import datetime\nRULES = '{RULES}'\n"


def found(text: str) -> list[Finding]:
    return made_findings(HEAD + text)


SINGLE = {
    "a model's answer": (
        (
            "def go(llm):\n    product = llm.invoke('Name a thing.').content\n"
            "    return llm.invoke(f'Judge this: {product}. ' + RULES)\n"
        ),
        "`product`",
    ),
    "what is found": (
        "def go(llm, index):\n    hits = index.search('all')\n    return llm.invoke(f'Look: {hits}. ' + RULES)\n",
        "`hits`",
    ),
    "a page": (
        (
            "import requests\ndef go(llm):\n    page = requests.get('https://example.org').text\n"
            "    return llm.invoke(f'Look: {page}. ' + RULES)\n"
        ),
        "`page`",
    ),
    "what an object keeps": (
        (
            "class A:\n    def __init__(self, llm):\n        self.llm = llm\n        self.seen = []\n"
            "    def add(self, one):\n        self.seen = [*self.seen, one]\n"
            "    def go(self):\n        return self.llm.invoke(f'Look: {self.seen}. ' + RULES)\n"
        ),
        "`self.seen`",
    ),
    "what a method makes of what an object keeps": (
        (
            "class A:\n    def add(self, one):\n        self.state = State(one)\n"
            "    def go(self):\n        return self.llm.invoke(f'Look: {self.state.told()}. ' + RULES)\n"
        ),
        "`state`",
    ),
    "a local name for what is asked": (
        "def build_prompt(store):\n    history = store().all()\n    return f'So far: {history}. ' + RULES\n",
        "`history`",
    ),
    "a function's name": (
        "class A:\n    def build_prompt(self):\n        return f'So far: {self.past.format_history()}. ' + RULES\n",
        "`format_history`",
    ),
    "a placeholder's name": (
        "def build_prompt(store):\n    return ('So far: {history}. ' + RULES).format(history=store.all_of_it)\n",
        "`history`",
    ),
    "a sum": ("def build_prompt(question):\n    return 'Answer: ' + question + '. ' + RULES\n", "`question`"),
    "added to a text": (
        "def build_prompt(question):\n    prompt = 'Answer this: '\n    prompt += question\n    return prompt + RULES\n",
        "`question`",
    ),
    "joined": ("def build_prompt(question):\n    return '\\n'.join(['Answer:', question, RULES])\n", "`question`"),
    "one or a list of them": (
        (
            "def go(llm, rules):\n    if isinstance(rules, str):\n        rules = [rules]\n"
            "    text = ', '.join(f'- {one.value}' for one in rules)\n    return llm.invoke(f'Look: {text}. ' + RULES)\n"
        ),
        "`one.value`",
    ),
}


def test_what_varies_by_its_origin() -> None:
    for form in SINGLE:
        text, name = SINGLE[form]
        told = found(text)
        assert [one.code for one in told] == ["KV201"]
        assert told[0].message.startswith(name)
        assert "by its use" in told[0].message


SILENT = {
    "what an object is set up with": (
        "class A:\n    def __init__(self, llm, style):\n        self.llm = llm\n        self.style = style\n"
        "    def go(self):\n        return self.llm.invoke(f'Be {self.style}. ' + RULES)\n"
    ),
    "what a method sets up": (
        "class A:\n    def set_style(self, style):\n        self.style = open(style).name\n"
        "    def go(self):\n        return self.llm.invoke(f'Be {self.style}. ' + RULES)\n"
    ),
    "a local name that says nothing": (
        "def build_prompt(store):\n    voice = store().voice\n    return f'Be {voice}. ' + 'Be kind. ' * 60\n"
    ),
    "names of a loop over settings": (
        "def build_prompt(store):\n    return '\\n'.join(f'- {name}: {text}' for name, text in store.names.items())"
        " + 'Be kind. ' * 60\n"
    ),
    "a date, new once a day": "SYSTEM_PROMPT = f'You are a helpful clerk. It is {datetime.date.today()}.'\n",
    "what tools an object has": (
        "class A:\n    def add(self, one):\n        self.tools = find(one)\n"
        "    def go(self):\n        return self.llm.invoke('\\n'.join(f'- {one.text}' for one in self.tools) + RULES)\n"
    ),
    "an id of an event": (
        "import uuid\ndef system_prompt_events(text):\n    name = str(uuid.uuid4())\n"
        "    return [f'The start of the contents: {name}', f'The end of the contents: {name}']\n"
    ),
    "what is made of a tool": (
        "def go(llm, tools):\n    text = 'Tools:\\n'\n    for tool in tools:\n        line = getattr(tool, 'doc').strip()\n"
        "        text += f'- {line}\\n'\n    return llm.invoke(text + RULES)\n"
    ),
    "what is cut off": "def cut_prompt(text):\n    return text[:90] + '...'\n",
    "what an object was made with": (
        "class A:\n    content: str\n    def build_prompt(self):\n        content = self.content.replace('a', 'b') or ''\n"
        "        return f'Be {content}. ' + 'Be kind. ' * 60\n"
    ),
    "a constant in a placeholder": "def build_prompt():\n    return ('Top {results}. ' + RULES).format(results=5)\n",
}


def test_what_nothing_says() -> None:
    for form in SILENT:
        assert [
            one for one in found(SILENT[form]) if "by its use" in one.message or "conversation" in one.message
        ] == []


LEADING = {
    "a name": "system_prompt = f'You are a helpful clerk. It is {datetime.datetime.now()}.'\n",
    "a function": "def system_prompt():\n    return f'You are a helpful clerk. It is {datetime.datetime.now()}.'\n",
    "a keyword": "def go():\n    return Agent(instructions=f'You are a helpful clerk at {datetime.datetime.now()}.')\n",
    "a template of a class, filled by a function": (
        "ClerkSystemPrompt = PromptTemplate(functions={'formatDate': lambda _: datetime.datetime.now()},\n"
        "    template='You are a helpful {{#kind}}clerk{{/kind}} who never lies. It is {{formatDate}}.')\n"
    ),
    "a jinja template with any name": (
        "system_prompt = Template('You are a helpful clerk. It is {{ format_of_now_x }}.')"
        ".render(format_of_now_x=datetime.datetime.now())\n"
    ),
}


def test_a_clock_in_a_system_prompt_leads_a_conversation() -> None:
    for form in LEADING:
        told = found(LEADING[form])
        assert [(one.code, one.severity) for one in told] == [("KV101", "info")]
        assert "the whole conversation" in told[0].message


def test_a_clock_at_the_end_of_any_other_prompt_leads_nothing() -> None:
    assert found("user_prompt = f'You are asked by a clerk. It is {datetime.datetime.now()}.'\n") == []


def test_what_belongs_to_an_assistant_is_no_part_of_what_is_asked() -> None:
    text = "def go(llm):\n    a = llm.invoke('Go.').content\n    return llm.invoke([('system', RULES), ('assistant', a)])\n"
    assert found(text) == []


def test_one_value_in_templates_that_are_chosen_from_is_a_loss_in_each() -> None:
    told = found(
        "PROMPTS = {'a': 'You know that it is {at}. ' + RULES,\n 'b': 'You ask when it is {at}. ' + RULES}\n"
        "def build_prompt(kind):\n    now = datetime.datetime.now()\n    return PROMPTS[kind].format(at=now)\n"
    )
    assert [(one.code, one.line) for one in told] == [("KV101", 3), ("KV101", 4)]


def test_one_value_around_a_choice_is_one_loss() -> None:
    told = found(
        "def build_prompt(short):\n    now = datetime.datetime.now()\n    prompt = f'It is {now}. ' + RULES\n"
        "    if short:\n        prompt += f'\\nAt {now} ' + RULES\n    else:\n        prompt += f'\\nBy {now} ' + RULES\n"
        "    return prompt\n"
    )
    assert [one.line for one in told] == [5]


def test_what_methods_add_to_an_attribute_stands_in_their_order() -> None:
    told = found(
        "class A:\n    def __init__(self):\n        self.parts = []\n    def add_time(self):\n"
        "        self.parts.append(f'You are a clerk. It is {datetime.datetime.now()}.')\n"
        "    def add_rules(self):\n        self.parts.append(RULES)\n"
        "    def build_prompt(self):\n        return '\\n'.join(self.parts)\n"
    )
    assert [(one.code, one.line) for one in told] == [("KV101", 7)]


def test_an_id_of_a_thing_is_its_id() -> None:
    told = found("def build_prompt(task):\n    return f'Do {task.id}. ' + RULES\n")
    assert [one.code for one in told] == ["KV102"]


LOOP = "def run(llm, {given}):\n    for {names} in {over}:\n        prompt = f'Judge {{{name}}} now. ' + RULES\n        {body}\n"


def test_what_a_loop_asks_about_in_each_turn_is_another_in_each_request() -> None:
    for names, over in [("shape", "shapes"), ("shape, size", "shapes.items()"), ("number, shape", "enumerate(shapes)")]:
        for body in ["llm.invoke(prompt)", "own_call(prompt)"]:
            (one,) = found(LOOP.format(given="shapes", names=names, over=over, name="shape", body=body))
            assert (one.code, one.message.partition(" (")[0]) == ("KV201", "`shape`")
            assert "by its use" in one.message


def test_what_a_turn_makes_of_it_is_another_too() -> None:
    code = (
        "def run(llm, shapes):\n    for shape in shapes:\n        marked = mark(shape)\n"
        "        llm.invoke(f'Judge {marked} now. ' + RULES)\n"
    )
    assert [one.message.partition(" (")[0] for one in found(code)] == ["`marked`"]


@pytest.mark.parametrize(
    "code",
    [
        LOOP.format(given="shapes", names="shape", over="shapes", name="shape", body="print(prompt)"),
        LOOP.format(given="agents", names="agent", over="agents", name="agent", body="llm.invoke(prompt)"),
    ],
    ids=["a loop that only shows", "a part of the program"],
)
def test_other_names_of_loops_say_nothing(code: str) -> None:
    assert not any("by its use" in one.message for one in found(code))


STEPS = "def run(llm, question):\n    {name} = {call}\n    return llm.invoke(f'Go on from {{{name}}} now. ' + RULES)\n"


def test_what_a_model_answered_is_another_in_each_request() -> None:
    for name, call, told in [
        ("step", "llm.invoke(question)", True),
        ("step", "llm.invoke(question).content.strip()", True),
        ("step", "own._llm_generate(question)", True),
        ("step", "parse(llm.invoke(question))", True),
        ("step", "tokenizer.apply_chat_template(7)", False),
        ("step", "own.lookup(7)", False),
        ("step", "requests.get(question).text", True),
        ("step", "get_model_style(7)", False),
        ("step", "own.log_llm_call(7)", False),
        ("persona", "llm.invoke(question)", False),
    ]:
        found_there = [one.message.partition(" (")[0] for one in found(STEPS.format(name=name, call=call))]
        assert found_there == ([f"`{name}`"] if told else [])


def test_what_a_set_of_data_holds_is_asked_about() -> None:
    for head, told in [
        ("@dataclass\nclass Job:", True),
        ("class Job(BaseModel):", True),
        ("class Base(BaseModel[int]):\n    pass\nclass Job(Base):", True),
        ("class Base(BaseModel):\n    pass\nclass JobTemplate(Base):", False),
        ("@dataclass(frozen=True)\nclass Job:", True),
        ("class Job:", False),
        ("@dataclass\nclass JobConfig:", False),
    ]:
        code = f"{head}\n    document: str\n    def build_prompt(self):\n        return f'Read this: {{self.document}} ' + RULES\n"
        assert bool(found(code)) is told


def test_a_loop_over_numbers_that_asks_is_another_in_each_request() -> None:
    (one,) = found(LOOP.format(given="shapes", names="step", over="range(10)", name="step", body="llm.invoke(prompt)"))
    assert one.message.startswith("`step`")


def test_what_is_made_of_a_constant_of_the_module() -> None:
    for call, told in [
        ("open_tickets(DB)", True),
        ("DB['tickets']", False),
        ("read(question, DB)", True),
        ("dict(DB)['a']", True),
    ]:
        body = f"    tickets = {call}\n    return llm.invoke(f'Sort {{tickets}} now. ' + RULES)\n"
        code = f"DB = connect()\ndef run(llm, question):\n{body}"
        assert bool(found(code)) is told


def test_an_object_that_is_asked_itself_is_no_set_of_data() -> None:
    code = (
        "@dataclass\nclass Pilot:\n    knowledge: str\n"
        "    def build_prompt(self, question):\n        return f'Know this: {self.knowledge} ' + RULES + question\n"
    )
    assert not found(code)


def test_what_an_own_class_is_asked_with_is_sent_by_the_name_of_the_call() -> None:
    code = (
        "class Provider:\n    def {method}(self, body):\n        return transport.go(body)\n"
        "class Tool:\n    def __init__(self):\n        self.llm = Provider()\n"
        "    def run(self, story):\n        return self.llm.{method}(f'It says: {{story}} {{TABLE}}' + ROWS)\n"
    )
    rows = "TABLE = 'a table'\nROWS = ' It has a row for each tide of the year, and one for each ship that came in.' * 12\n"
    assert [one.code for one in found(rows + code.format(method="generate"))] == ["KV201"]
    assert not found(rows + code.format(method="keep"))


STORED = """import uuid
def instance(path):
    if path.{look}():
        return path.read_text()
    own = uuid.uuid4().hex
    {store}
    return own
def go(llm, path):
    return llm.invoke(f'You run as {{instance(path)}}. ' + RULES)
"""


def test_an_id_that_is_stored_where_it_is_looked_for_stays_the_same() -> None:
    for look, store, told in [
        ("exists", "path.write_text(own)", False),
        ("exists", "save(path, own)", False),
        ("exists", "other.write_text(own)", True),
        ("exists", "print(path, own)", True),
        ("closed", "pass", True),
    ]:
        codes = {one.code for one in found(STORED.format(look=look, store=store))}
        assert ("KV102" in codes) is told


def test_an_id_in_a_file_stays_the_same_in_typescript() -> None:
    text = """import { nanoid } from "nanoid";
function instance(path) {
  if (existsSync(path)) { return readFileSync(path, "utf-8"); }
  const own = nanoid(6);
  STORE
  return own;
}
export function buildPrompt(path) { return `You run as ${instance(path)}. RULES`; }
""".replace("RULES", RULES)
    for store, told in (("writeFileSync(path, own);", False), ("", True)):
        codes = {one.code for one in made_findings(text.replace("STORE", store), "prompt.ts")}
        assert ("KV102" in codes) is told


BY_NAME = """function given(name) {
  const wanted = name.trim();
  if (wanted === "now") return new Date().toISOString();
  SWITCH
  return "";
}
export function buildPrompt(template, name) { return `Now: ${given(GIVEN)}. RULES`; }
export function go(template, name, openai) { return openai.responses.create({ input: buildPrompt(template, name) }); }
""".replace("RULES", RULES)


def test_a_clock_that_is_asked_for_by_its_name_is_of_who_asks() -> None:
    for given, codes in [
        ("name", set()),
        ('"now"', {"KV101"}),
        ('"id"', {"KV102"}),
        ('"other"', set()),
        ("template[0]", set()),
    ]:
        text = BY_NAME.replace("SWITCH", 'switch (name) { case "id": return crypto.randomUUID(); default: break; }')
        findings = made_findings(text.replace("GIVEN", given), "prompt.ts")
        assert {one.code for one in findings if one.severity != "info"} == codes


@pytest.mark.parametrize(
    ("path", "told"), [("options.context", False), ("config.context", False), ("order.context", True)]
)
def test_what_settings_hold_stays_one_of_settings_in_a_function_that_is_given_it(path: str, told: bool) -> None:
    owner = path.partition(".")[0]
    text = f"""function about(context) {{ return `Context: ${{context.trim()}}\\n`; }}
export function buildPrompt({owner}) {{ const preamble = about({path}); return `${{preamble}}{RULES}`; }}
export function go({owner}, openai) {{ return openai.responses.create({{ input: buildPrompt({owner}) }}); }}
"""
    assert bool([one for one in made_findings(text, "prompt.ts") if one.severity != "info"]) is told


@pytest.mark.parametrize(("last", "told"), [('strategy === "old" ? "Keep." : "Find."', False), ('"Find."', True)])
def test_what_chooses_among_texts_is_one_of_a_few(last: str, told: bool) -> None:
    text = f"""function buildPrompt(strategy) {{
  return `You plan by ${{strategy.toUpperCase()}}. ${{strategy === "new" ? "Go on." : {last}}} {RULES}`;
}}
export function go(params, openai) {{ return openai.responses.create({{ input: buildPrompt(params.strategy) }}); }}
"""
    assert bool([one for one in made_findings(text, "prompt.ts") if one.severity != "info"]) is told
