"""Prompts of code as templates: each once, under its own name, with all of its values, separators and orders."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import jinja2
import pytest

from kvtool.lint.prompt_copies import CopiedPrompt, RenderedFile, calls_of, copy_prompts
from kvtool.workload.yaml.made_up_values import copied_comment, copied_from
from tests.conftest import some
from tests.lint.found import made_findings

RULES = (
    "You are the pilot of a harbour and you answer only with facts that the log holds. Never invent a name or a number. "
    "Keep each sentence short, and say which entry it is taken from. If nothing helps, say so in one sentence and stop. "
) * 3
_ASK = "generateText({{ model, system: {system}, prompt: question }})"


def _copies(folder: Path, files: dict[str, str]) -> list[CopiedPrompt]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return copy_prompts(folder, list(files), [])


_MIXED = {
    "sort": ("ts", "const few = EXAMPLES.slice().sort(() => Math.random() - 0.5);", "few"),
    "condition": ("ts", "const few = EXAMPLES.toSorted(() => (Math.random() > 0.5 ? 1 : -1));", "few"),
    "in place": ("ts", "EXAMPLES.sort(() => 0.5 - Math.random());", "EXAMPLES"),
    "named": (
        "ts",
        "function byChance() { return Math.random() - 0.5; }\n  const few = EXAMPLES.sort(byChance);",
        "few",
    ),
    "keys": (
        "ts",
        "const few = EXAMPLES.map((one) => ({ one, at: Math.random() })).sort((a, b) => a.at - b.at);",
        "few",
    ),
    "sortBy": ("ts", "const few = _.sortBy(EXAMPLES, () => Math.random());", "few"),
    "shuffle": ("ts", "const few = d3.shuffle(EXAMPLES);", "few"),
    "ids": ("ts", "const few = EXAMPLES.sort(() => (crypto.randomUUID() < 'a' ? 1 : -1));", "few"),
    "spread": ("ts", "const few = [...EXAMPLES].sort(() => Math.random() - 0.5);", "few"),
    "spread in Python": ("py", "examples = [*EXAMPLES]\n    random.shuffle(examples)", "examples"),
    "swaps": (
        "ts",
        (
            "for (let i = 3; i > 0; i--) { const j = Math.floor(Math.random() * (i + 1)); "
            "[EXAMPLES[i], EXAMPLES[j]] = [EXAMPLES[j], EXAMPLES[i]]; }"
        ),
        "EXAMPLES",
    ),
    "sorted": ("py", "few = sorted(EXAMPLES, key=lambda one: random.random())", "few"),
    "list.sort": ("py", "EXAMPLES.sort(key=lambda one: random.random())", "EXAMPLES"),
    "tuple swap": (
        "py",
        "j = random.randint(0, 3)\n    EXAMPLES[0], EXAMPLES[j] = EXAMPLES[j], EXAMPLES[0]",
        "EXAMPLES",
    ),
}
_FIXED = {
    "sort": ("ts", "const few = EXAMPLES.sort((a, b) => a.localeCompare(b));", "few"),
    "by length": ("ts", "const few = _.sortBy(EXAMPLES, (one) => one.length);", "few"),
    "a swap of two": ("ts", "[EXAMPLES[0], EXAMPLES[1]] = [EXAMPLES[1], EXAMPLES[0]];", "EXAMPLES"),
    "sorted": ("py", "few = sorted(EXAMPLES, key=len)", "few"),
}


def _program(language: str, statement: str, name: str, examples: list[str]) -> str:
    if language == "ts":
        ask = _ASK.format(system=f"`Examples:\n${{{name}.join('\\n')}}\n${{RULES}}`")
        return (
            f"const EXAMPLES = {examples};\nconst RULES = '{RULES}';\n"
            f"export async function ask(question: string) {{\n  {statement}\n  return {ask};\n}}\n"
        )
    return (
        f"import random\nEXAMPLES = {examples}\nRULES = '{RULES}'\ndef ask(question):\n    {statement}\n"
        f'    system = f"Examples:\\n{{"\\n".join({name})}}\\n{{RULES}}"\n'
        "    return client.chat.completions.create(messages=[{'role': 'system', 'content': system}, "
        "{'role': 'user', 'content': question}])\n"
    )


@pytest.mark.parametrize("form", _MIXED)
def test_an_order_by_chance_is_found_and_copied_as_such(form: str, tmp_path: Path) -> None:
    chance = Random(form)
    words = ["moor the boat", "check the tide", "call the pilot", "light the lamp", "note the wind"]
    examples = [f"{one}, {chance.choice(words)} and {chance.choice(words)}" for one in words[: chance.randint(2, 5)]]
    language, statement, name = _MIXED[form]
    program = _program(language, statement, name, examples)
    assert "KV114" in {one.code for one in made_findings(program, f"a.{language}")}
    (copy,) = _copies(tmp_path, {f"a.{language}": program})
    if form != "keys":  # of what is taken out of objects the text is not known
        (order,) = [name for name, kind in copy.kinds.items() if kind == "order"]
        template = jinja2.Template(copy.messages[0][1])
        texts = {template.render({order: str(number)}) for number in range(1, 25)}
        lists = [text.splitlines()[1 : 1 + len(examples)] for text in texts if examples[0] in text]
        assert len(lists) > 1
        assert all(sorted(one) == sorted(examples) for one in lists)


def test_a_fixed_order_is_none() -> None:
    for form in _FIXED:
        language, statement, name = _FIXED[form]
        assert made_findings(_program(language, statement, name, ["first one", "second one"]), f"a.{language}") == []


@pytest.mark.parametrize("imported", [False, True])
def test_what_a_call_gives_a_prompt_is_in_its_copy_and_in_the_finding(*, imported: bool, tmp_path: Path) -> None:
    build = f"export function helpPrompt(name: string, plan: string) {{ return `Help ${{name}} on ${{plan}}.\\n{RULES}`; }}\n"
    call = _ASK.format(system="helpPrompt(user.name, 'free')")
    ask = f"export async function ask(user: User, question: string) {{ return {call}; }}\n"
    files = {"build.ts": build, "ask.ts": f'import {{ helpPrompt }} from "./build";\n{ask}'}
    copies = _copies(tmp_path, files if imported else {"ask.ts": build + ask})
    assert [(copy.path, copy.messages[0][1].partition("\n")[0]) for copy in copies] == [
        ("ask.ts", "Help {{ user_name }} on free.")
    ]
    found = made_findings((tmp_path / "ask.ts").read_text(), str(tmp_path / "ask.ts"))
    assert ("KV104", True) in [(one.code, "`user.name`" in one.message) for one in found]


@pytest.mark.parametrize("between", ["\n", ", ", "\n---\n"])
@pytest.mark.parametrize(
    "file",
    [
        (
            "a.ts",
            "function ask(docs, question) {{ return "
            + _ASK.replace("{system}", "`{rules}\n${{docs.map((d) => `<${{d.id}}>`).join({between})}}`")
            + "; }}",
        ),
        (
            "a.py",
            (
                "def ask(docs, question):\n    return client.messages.create(messages=[{{'role': 'user', 'content': question}}], "
                "system=f'''{rules}\n{{{between}.join(f'<{{d.id}}>' for d in docs)}}''')\n"
            ),
        ),
    ],
    ids=["TypeScript", "Python"],
)
def test_a_list_keeps_the_text_between_its_elements(file: tuple[str, str], between: str, tmp_path: Path) -> None:

    name, program = file
    (copy,) = _copies(tmp_path, {name: program.format(rules=RULES, between=json.dumps(between))})
    system = next(text for role, text in copy.messages if role == "system")
    rendered = jinja2.Template(system).render({"d_id_list": ["x", "y", "z"]})
    assert rendered.endswith("\n" + between.join(["<x>", "<y>", "<z>"]))


def test_several_values_of_an_element_are_its_fields_and_a_mark_alone_is_no_prompt(tmp_path: Path) -> None:
    program = (
        "def ask(docs, text, history):\n    messages = list(history)\n    messages.append({'role': 'user', 'content': text})\n"
        "    lines = [f'{doc.id}: {doc.title} for {text}' for doc in docs]\n    messages[-1]['content'] = "
        "[{'type': 'text', 'text': text, 'cache_control': {'type': 'ephemeral'}}]\n    return client.messages.create("
        f"system={RULES!r} + '\\n'.join(lines), messages=messages)\n"
    )
    (copy,) = _copies(tmp_path, {"a.py": program})
    docs = [{"doc_id": 1, "doc_title": "Oslo", "text": "us"}, {"doc_id": 2, "doc_title": "Rome", "text": "us"}]
    rendered = jinja2.Template(copy.messages[0][1]).render({"doc_id_list": docs})
    assert rendered == f"{RULES}1: Oslo for us\n2: Rome for us"


@pytest.mark.parametrize("language", ["py", "ts"])
@pytest.mark.parametrize("seed", some(range(4), 2))
def test_a_copy_ends_messages_where_a_block_has_a_mark(language: str, seed: int, tmp_path: Path) -> None:
    chance = Random(seed)

    def blocks(name: str) -> tuple[list[str], list[tuple[str, str]]]:
        """Return blocks as code, and the text up to each mark with its time to live."""
        code, parted = list[str](), [("", "")]
        for at in range(chance.randint(1, 3)):
            ttl = chance.choice(["", "5m", "1h"])
            text = f"{name} {at}. {RULES}"
            more = ", 'ttl': '1h'" if ttl == "1h" else ""
            mark = f", 'cache_control': {{'type': 'ephemeral'{more}}}"
            code.append(f"{{'type': 'text', 'text': '{text}'{mark if ttl else ''}}}")
            parted[-1] = parted[-1][0] + text, ttl
            parted += [("", "")] if ttl else []
        return code, [each for each in parted if each[0]]

    (system, first), (user, second) = blocks("system"), blocks("user")
    given = (f"[{', '.join(system)}]", f"[{{'role': 'user', 'content': [{', '.join(user)}]}}]")
    call = "def ask():\n    return client.messages.create(system={}, messages={})\n"
    if language == "ts":
        call = "function ask() {{ return client.messages.create({{ system: {}, messages: {} }}); }}\n"
    (copy,) = _copies(tmp_path, {f"a.{language}": call.format(*given)})
    assert list(zip((text for _, text in copy.messages), copy.marks, strict=True)) == first + second
    assert [role for role, _ in copy.messages] == ["system"] * len(first) + ["user"] * len(second)


@pytest.mark.parametrize(
    ("name", "change", "more", "marks", "automatic"),
    [
        (
            "a.py",
            "messages[-1]['content'] = [{'type': 'text', 'text': q, 'cache_control': MARK}]",
            "",
            ["", "1h"],
            False,
        ),
        ("a.py", "messages[-1]['content'][-1]['cache_control'] = MARK", "", ["", "1h"], False),
        ("a.py", "messages[len(messages) - 1]['cache_control'] = MARK", "", ["", "1h"], False),
        ("a.py", "messages[-2]['cache_control'] = MARK", "", ["", ""], False),
        ("a.py", "", ", extra_body={'cache_control': MARK}", ["", ""], True),
        ("a.py", "options = {'cache_control': MARK}", ", **options", ["", ""], True),
        ("a.ts", "messages[messages.length - 1].content = [{text: q, cache_control: MARK}]", "", ["", "1h"], False),
    ],
)
def test_a_mark_that_is_put_on_the_last_message_or_the_request_is_seen(
    name: str, change: str, more: str, marks: list[str], automatic: bool, tmp_path: Path
) -> None:
    head = f"SYSTEM = '{RULES}'\nMARK = {{'type': 'ephemeral', 'ttl': '1h'}}\n"
    code = f"{head}def ask(q):\n    messages = [{{'role': 'user', 'content': q}}]\n    {change}\n"
    code += f"    return client.messages.create(system=SYSTEM, messages=messages{more})\n"
    if name.endswith(".ts"):
        code = f"const {head.replace(chr(10), '; const ', 1)}"
        code += f"function ask(q) {{ const messages = [{{role: 'user', content: q}}]; {change};"
        code += " return client.messages.create({ system: SYSTEM, messages }); }\n"
    (copy,) = _copies(tmp_path, {name: code})
    assert (list(copy.marks), copy.automatic) == (marks, automatic)


def test_a_template_that_code_elsewhere_renders_is_its_message_with_what_it_gets(tmp_path: Path) -> None:
    program = (
        "import json, random\nEXAMPLES = json.loads(open('e.json').read())\ndef render(name, **values):\n"
        "    return env.get_template(name).render(**values)\ndef ask(question):\n    random.shuffle(EXAMPLES)\n"
        "    return client.chat.completions.create(messages=[{'role': 'system', 'content':\n"
        "        render('pilot/dispatch.j2', examples=EXAMPLES[:6])}, {'role': 'user', 'content': question}])\n"
    )
    files = {"prompts/pilot/dispatch.j2": f"{RULES}{{% for one in examples %}}{{{{ one }}}}{{% endfor %}}"}
    _copies(tmp_path, files)
    rendered: list[RenderedFile] = []
    (tmp_path / "src/app").mkdir(parents=True)
    (tmp_path / "src/app/ask.py").write_text(program)
    (copy,) = copy_prompts(tmp_path, ["src/app/ask.py"], [], rendered)
    assert copy.files == ("prompts/pilot/dispatch.j2", "")
    assert calls_of(rendered)["pilot/dispatch.j2"].lists["examples"].order == "request"
    assert "KV114" in {one.code for one in made_findings(program, "ask.py")}


_RENDER = (
    "from datetime import datetime\ndef render(name, context=None, **values):\n    desk = {'name': 'North'}\n"
    "    return env.get_template(name).render(context, now=datetime.now(), desk=desk, **values)\n"
)
_SEND = (
    "from anthropic import Anthropic\nclient = Anthropic()\ndef send(system, text):\n"
    "    return client.messages.create(system=system, messages=[{'role': 'user', 'content': text}])\n"
)


@pytest.mark.parametrize("imported", [True, False])
def test_helpers_that_render_and_send_are_followed_to_their_callers(imported: bool, tmp_path: Path) -> None:
    ask = "def ask(ship):\n    return send(render('head.j2', {'ship': ship, 'port': 'Bergen'}), f'{ship} arrives.')\n"
    _copies(
        tmp_path,
        {
            "prompts/head.j2": RULES + "{{ now }} {{ ship }} {{ port }} {{ desk.name }}",
            "render.py": _RENDER,
            "send.py": _SEND,
        },
    )
    helpers = "from render import render\nfrom send import send\n" if imported else _RENDER + _SEND
    (tmp_path / "app.py").write_text(helpers + ask)
    rendered: list[RenderedFile] = []
    (copy,) = copy_prompts(tmp_path, ["app.py"], [], rendered)
    assert [*zip(("system", "user"), copy.files, strict=True)] == [("system", "prompts/head.j2"), ("user", "")]
    assert copy.messages[1] == ("user", "{{ ship }} arrives.")
    assert (copy.name, copy.line) == ("ask", (helpers + ask).count("\n"))
    assert copy.api_call == (("send.py", 4) if imported else ("app.py", 8))
    said = calls_of(rendered)["head.j2"]
    assert said.kinds == {"now": "clock"}
    assert {path: known for path, known in said.constants.items() if known} == {
        "port": ["Bergen"],
        "desk.name": ["North"],
    }


def test_prompts_of_one_file_have_the_names_of_the_code(tmp_path: Path) -> None:
    names = ["salesAgent", "Desk-run", "triage"]
    program = (
        f"function salesAgent(question) {{ return {_ASK.format(system=f'`{RULES} One.`')}; }}\n"
        f"class Desk {{ run(question) {{ return {_ASK.format(system=f'`{RULES} Two.`')}; }} }}\n"
        f"const triage = (question) => {_ASK.format(system=f'`{RULES} Three.`')};\n"
    )
    assert sorted(copy.name for copy in _copies(tmp_path, {"a.ts": program})) == sorted(names)


def test_a_copy_names_the_file_its_text_is_written_in(tmp_path: Path) -> None:
    (tmp_path / "b.ts").write_text(f"export const prompt = (name) => `Hello ${{name}}.\n{RULES}`;\n")
    program = "import { prompt } from './b';\nfunction ask(name, question) { return "
    (copy,) = _copies(tmp_path, {"a.ts": program + _ASK.format(system="prompt(name)") + "; }\n"})
    assert (copy.path, copy.message_places[0]) == ("a.ts", "b.ts:1")
    rules = f"const OTHER = 1;\nconst RULES = `{RULES}`;\n"
    (copy,) = _copies(
        tmp_path, {"c.ts": f"{rules}function ask(question) {{ return {_ASK.format(system='RULES')}; }}\n"}
    )
    assert copy.message_places[0] == "c.ts:2"
    comment = copied_comment("b.ts:1", "a.ts")
    workload = f"messages:\n  {comment}\n  - {{role: system, text: x}}\n"
    assert copied_from(workload, 3) == "b.ts:1"
    assert copied_from(workload, 3, sender=True) == "a.ts"
