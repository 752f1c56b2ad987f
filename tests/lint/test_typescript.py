"""TypeScript and JavaScript: the same prompt has the same findings as in Python, at the place where it is written."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.cli.app import run
from kvtool.lint.code_files import code_prompts, read_code
from tests.lint.found import made_findings

RULES = (
    "You are the assistant of a harbour. Answer only with facts that the log holds. Never invent a name, a date or a number. "
    "Keep each sentence short, and say which entry it is taken from. If nothing helps, say so in one sentence and stop. "
    "You must refuse to speak about other ships. Use plain words that a new colleague understands without explanation. "
) * 2
_VALUES = {
    "clock": ("datetime.now().isoformat()", "new Date().toISOString()", "KV101"),
    "seconds": ("time.time()", "Date.now()", "KV101"),
    "id": ("str(uuid.uuid4())", "crypto.randomUUID()", "KV102"),
    "random": ("random.random()", "Math.random()", "KV102"),
    "folder": ("os.getcwd()", "process.cwd()", "KV106"),
}
_PUT = {
    "template": ('f"Note {{{value}}}.\\n{{RULES}}"', "`Note ${{{value}}}.\\n${{RULES}}`"),
    "sum": ('"Note " + {value} + "\\n" + RULES', '"Note " + {value} + "\\n" + RULES'),
    "join": ('"\\n".join(["Note", {value}, RULES])', '["Note", {value}, RULES].join("\\n")'),
}
_SENT = {
    "direct": (
        "def ask(question):\n    return {call}",
        "export async function ask(question: string) {{ return {call}; }}",
    ),
    "by a function": (
        "def build():\n    return {text}\ndef ask(question):\n    system = build()\n    return {call}",
        "const build = () => {text};\nasync function ask(question) {{ const system = build(); return await {call}; }}",
    ),
    "by a method": (
        """class Desk:
    def build(self):
        return {text}
    def ask(self, question):
        system = self.build()
        return {call}""",
        """class Desk {{
  private build(): string {{ return {text}; }}
  async ask(question: string) {{ const system = this.build(); return {call}; }}
}}""",
    ),
}
_CALLS = (
    "client.chat.completions.create(messages=[{'role': 'system', 'content': SYSTEM}, {'role': 'user', 'content': question}])",
    "client.chat.completions.create({ messages: [{ role: 'system', content: SYSTEM }, { role: 'user', content: question }] })",
)
_HEADS = (
    "import os, random, time, uuid\nfrom datetime import datetime\nfrom openai import OpenAI\nclient = OpenAI()\n",
    "import OpenAI from 'openai';\nconst client = new OpenAI();\n",
)


def test_both_languages_say_the_same() -> None:
    """A value before constant text: one code, one severity, one loss, whatever language it is written in."""
    for sent in _SENT:
        for put in _PUT:
            for value in _VALUES:
                told = []
                for language, name in enumerate(("made.py", "made.ts")):
                    written = str(_VALUES[value][language])
                    if language == 0 and put != "template":
                        written = f"str({written})"
                    text = _PUT[put][language].format(value=written)
                    call = _CALLS[language].replace("SYSTEM", text if sent == "direct" else "system")
                    constant = (f"RULES = {RULES!r}\n", f'const RULES = "{RULES}";\n')[language]
                    code = _HEADS[language] + constant + _SENT[sent][language].format(text=text, call=call)
                    told.append([(one.code, one.severity, one.tokens_lost) for one in made_findings(code, name)])
                assert told[0] == told[1]
                assert [one[0] for one in told[0]] == [_VALUES[value][2]]


def test_precision_of_clocks() -> None:
    """A value that changes once a day is told apart from one that changes in each request."""
    for written, is_day in [
        ("new Date().toISOString()", False),
        ("new Date().toLocaleString()", False),
        ("moment().format('LLLL')", False),
        ("dayjs().format('YYYY-MM-DD HH:mm')", False),
        ("format(new Date(), 'HH:mm')", False),
        ("new Date().toISOString().split('T')[0]", True),
        ("new Date().toISOString().slice(0, 10)", True),
        ("new Date().toDateString()", True),
        ("new Date().toLocaleDateString('en-US', { weekday: 'long' })", True),
        ("new Date().toLocaleDateString('en-US', { hour: 'numeric' })", False),
        ("dayjs().format('dddd, MMMM D')", True),
        ("DateTime.now().toISODate()", True),
        ("format(new Date(), \"d 'of' MMMM\")", True),
    ]:
        code = f"const prompt = `It is ${{{written}}}.\\n{RULES}`;\nawait generateText({{ model, system: prompt }});\n"
        (found,) = made_findings(code, "made.ts")
        assert ("changes daily" in found.message) is is_day
        assert found.severity == ("info" if is_day else "error")


def test_nothing_to_report() -> None:
    """What is for people, what is the same each time, and sets, which JavaScript keeps in order."""
    for code in [
        "console.log(`It is ${new Date()}. RULES`);",
        "throw new Error(`It is ${new Date()}. RULES`);",
        "const system = `RULES It is ${new Date(message.createdAt).toISOString()}. RULES`;",
        "export const Page = () => <p>{`It is ${new Date()}. RULES`}</p>;",
        "const tools = [...new Set(names)].map((name) => registry[name]); generateText({ model, tools, prompt: question });",
        "export type Prompt = `It is ${string}. RULES`;",
        "function make() { return `Use the mark '{{HOLE}}' in the text. RULES`; }",
    ]:
        assert made_findings(code.replace("RULES", RULES), "made.tsx") == []


def test_conversation_after_a_clock() -> None:
    """However short the system prompt is: the conversation after its clock is not reused."""
    for call in [
        "client.messages.create({ model, max_tokens: 9, system: TEXT, messages })",
        "client.responses.create({ model, instructions: TEXT, input: messages })",
        "streamText({ model, system: TEXT, messages })",
        "generateText({ model, messages: [{ role: 'system', content: TEXT }, ...messages] })",
        "llm.invoke([new SystemMessage(TEXT), ...history, new HumanMessage(question)])",
        "chatModel.invoke([['system', TEXT], ...history])",
        "client.messages.create({ model, system: [{ type: 'text', text: TEXT }], messages: [...history, turn] })",
    ]:
        text = "`You help. It is ${new Date().toISOString()}.`"
        (found,) = made_findings(
            f"async function ask(messages, history, question) {{ return {call.replace('TEXT', text)}; }}", "made.js"
        )
        assert (found.code, found.severity) == ("KV101", "warning")
        assert "so the conversation after it is not reused" in found.message


def test_agents_and_templates() -> None:
    """What frameworks get: instructions of an agent, a template with placeholders."""
    agent = f"new Agent({{ name: 'a', instructions: `Session ${{randomUUID()}}. {RULES}` }});"
    assert [one.code for one in made_findings(agent, "made.ts")] == ["KV102"]
    template = f"const p = ChatPromptTemplate.fromMessages([['system', 'Question: {{question}}\\n{RULES}']]);"
    (found,) = made_findings(template, "made.ts")
    assert "`question`" in found.message


def test_places() -> None:
    """A finding is where the value is put into the text, counted in characters, also after other than ASCII."""
    code = f"const a = 'ü→';\nconst prompt = `é ${{a}} ${{Date.now()}}\n{RULES}`;\r\nawait generateText({{ system: prompt }});\n"
    (found,) = made_findings(code, "made.ts")
    assert (found.line, found.column, found.width) == (2, code.split("\n")[1].index("${Date") + 1, len("${Date.now()}"))


def test_ignore_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line comment silences the line that it is on."""
    path = tmp_path / "made.ts"
    line = f"const prompt = `It is ${{Date.now()}}. {RULES}`;"
    path.write_text(f"{line} // kvtool: ignore[KV101] shown once\nawait generateText({{ system: prompt }});\n")
    assert run(["lint", str(path)]) == 0
    assert "1 ignored" in capsys.readouterr().out


_TOOLS = {
    "made.py": (
        "client.chat.completions.create(messages=[{{'role': 'user', 'content': question}}], tools=[{tool}])",
        "{{'type': 'function', 'function': {{'name': 'look', 'description': {text}}}}}",
        "f'{before}{{datetime.now().isoformat()}}'",
    ),
    "made.ts": (
        "generateText({{ system: 'Be kind.', prompt: question, tools: {{ look: {tool} }} }});",
        "tool({{ description: {text}, execute: async () => 1 }})",
        "`{before}${{new Date().toISOString()}}`",
    ),
}


@pytest.mark.parametrize("name", _TOOLS)
@given(st.text(alphabet="abc é.", max_size=30))
def test_a_clock_in_the_text_of_a_tool(name: str, before: str) -> None:
    """Tools are before all messages, so the whole prompt changes; a text without a clock is no finding."""
    call, tool, text = _TOOLS[name]
    head = "from datetime import datetime\n" if name.endswith("py") else ""
    code = head + call.format(tool=tool.format(text=text.format(before=before)))
    assert [each.code for each in made_findings(code, name)] == ["KV101"]
    assert not made_findings(head + call.format(tool=tool.format(text=repr(before))), name)


@given(st.text(alphabet="{}()[]`$\"'\\/*+-=<>!?.:;,\n abcé→\U0001f6a2=>", max_size=80))
def test_any_text_is_read(text: str) -> None:
    """Whatever stands in a file: it is read as far as it goes, and what was read can be written again."""
    for name in ("made.ts", "made.jsx"):
        ast.unparse(ast.fix_missing_locations(read_code(name, text).tree))
        code_prompts().of(name, text)


_NAMES = st.from_regex(re.compile(r"[a-z][a-zA-Z]{2,8}", re.ASCII), fullmatch=True)


@given(st.lists(_NAMES, min_size=1, max_size=5, unique=True), st.integers(0, 3))
def test_through_any_names(names: list[str], deep: int) -> None:
    """A clock reaches the prompt through any number of functions, whatever they are called."""
    own = [f"{name}Fn" for name in names]
    lines = [f"const {own[0]} = () => new Date().toISOString();"]
    lines += [f"function {new}(): string {{ return {old}(); }}" for old, new in pairwise(own)]
    text = f"`At ${{{own[-1]}()}}\n{RULES}`"
    for number in range(deep):
        lines.append(f"const text{number} = {text};")
        text = f"text{number}"
    lines.append(f"export const reply = () => generateText({{ model, system: {text} }});")
    found = made_findings("\n".join(lines), "made.ts")
    assert [(one.code, one.severity) for one in found] == [("KV101", "error")]


_PROMPT = f"`Note ${{VALUE}}.\n{RULES}`"
_SENDS = "return client.chat.completions.create({ model, messages: [{ role: 'user', content: TEXT }] });"


def test_only_what_is_seen_to_be_sent_and_to_vary_is_a_loss() -> None:
    """Names alone make information of TypeScript: of a text that nothing sends, of an id, of a setting's list."""
    for code, told in [
        (f"async function ask(question: string) {{ const note = {_PROMPT}; SENDS }}", True),
        ("async function all(notes: string[]) { for (const one of notes) { const note = PROMPT; SENDS } }", True),
        ("async function ask(question: string, runId: string) { const note = PROMPT; SENDS }", False),
        ("export const notePrompt = (question: string) => PROMPT;", False),
        ("export const notePrompt = () => PROMPT;", False),
        (
            "function write(path: string, question: string) { const prompt = PROMPT; return writeFile(path, prompt); }",
            False,
        ),
        (
            "async function ask(kinds) { const note = `${kinds.map((title) => `- ${title}`).join()} RULES`; SENDS }",
            False,
        ),
    ]:
        value = (
            "crypto.randomUUID()"
            if "=> PROMPT" in code
            else "runId"
            if "runId" in code
            else "one"
            if "one of" in code
            else "question"
        )
        code = code.replace("PROMPT", _PROMPT).replace("VALUE", value).replace("SENDS", _SENDS.replace("TEXT", "note"))
        found = made_findings(
            "import OpenAI from 'openai';\nconst client = new OpenAI();\n" + code.replace("RULES", RULES), "made.ts"
        )
        assert any(one.severity != "info" for one in found) is told


def test_a_copy_of_a_conversation_is_one() -> None:
    """What is added to a copy of earlier messages is new in each request anyway."""
    for made in ["[...history]", "history ? [...history] : []", "[...(history ?? [])]", "history.slice()"]:
        head = "import OpenAI from 'openai';\nconst client = new OpenAI();\n"
        text = f"`Question: ${{question}}\n{RULES}`"
        code = (
            f"async function say(history: any[], question: string) {{ const messages = MADE;\n"
            f" messages.push({{ role: 'user', content: {text} }});\n"
            f" return client.chat.completions.create({{ model, messages }}); }}"
        )
        assert made_findings(head + code.replace("MADE", made), "made.ts") == []
        assert [one.code for one in made_findings(head + code.replace("MADE", "[]"), "made.ts")] == ["KV201"]


def test_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a repository: what speaks of models and somebody wrote; not tests, declarations, installed or minified files."""
    prompt = f"export const reply = () => generateText({{ model, system: `It is ${{Date.now()}}. {RULES}` }});\n"
    for name in ("src/agent.ts", "src/chat.mjs", "web/page.jsx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(prompt.replace("generateText", "await openai.generateText"))
    for name in ("src/agent.test.ts", "src/agent.d.ts", "node_modules/a/index.js", "dist/agent.js", "src/x.min.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(prompt)
    (tmp_path / "src/plain.ts").write_text("export const sum = (a: number, b: number) => a + b;\n")
    (tmp_path / "src/bundle.js").write_text("/* openai */" + prompt.replace("\n", ";") * 40)
    assert run(["lint", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert sorted(re.findall(r"(?m)^\S+/(\w+\.\w+):\d+", said)) == ["agent.ts", "chat.mjs", "page.jsx"]
    (tmp_path / "src/bundle.js").rename(tmp_path / "dist/bundle.js")  # built code is read where it is asked for
    assert run(["lint", str(tmp_path / "dist")]) == 1
    said = capsys.readouterr().out
    assert set(re.findall(r"(?m)^\S+/(\w+\.\w+):\d+", said)) == {"bundle.js"}


@pytest.mark.parametrize(
    "data", [b"", b"  \n", b"\xef\xbb\xbfconst a = 1;", b"const a = `${", b"import { a", b"{" * 3000]
)
def test_odd_files(tmp_path: Path, data: bytes) -> None:
    """Empty, broken and deep files are no mistake of who runs lint."""
    path = tmp_path / "made.ts"
    path.write_bytes(data)
    assert run(["lint", str(path)]) in (0, 2)


def test_no_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file in another encoding is refused with its place."""
    path = tmp_path / "made.ts"
    path.write_bytes(b"const a = 1;\nconst b = '\xff';\n")
    assert run(["lint", str(path)]) == 2
    assert "made.ts:2" in capsys.readouterr().err


@pytest.mark.parametrize(
    "sent",
    [
        "await fetch(url, { method: 'POST', body: JSON.stringify({ model, messages: [{ role: 'system', content: TEXT }] }) })",
        "genAI.getGenerativeModel({ model, systemInstruction: TEXT })",
        "await client.send(new ConverseCommand({ modelId, system: [{ text: TEXT }], messages }))",
    ],
)
def test_requests_without_a_method_of_an_sdk(sent: str) -> None:
    """The body of a request, and objects that SDKs send: a clock before constant text is an error."""
    code = f"async function ask(messages) {{ return {sent}; }}"
    for time in (
        "new Date().toISOString()",
        "new Intl.DateTimeFormat('en', { timeStyle: 'short' }).format(new Date())",
    ):
        (found,) = made_findings(code.replace("TEXT", f"`It is ${{{time}}}. {RULES}`"), "made.ts")
        assert (found.code, found.severity) == ("KV101", "error")
    logged = code.replace("model, messages:", "messages:").replace("TEXT", f"`It is ${{id}}. {RULES}`")
    assert [one for one in made_findings(logged, "made.ts") if one.severity == "error"] == []


@pytest.mark.parametrize(
    "call",
    [
        "const run = (o: Options) => generateText({ model, system: o.system, messages: o.messages });",
        "const run = (o: Options) => generateText({ model, ...o });",
        'import { query as run } from "@anthropic-ai/claude-agent-sdk";',
    ],
)
def test_object_of_options(call: str) -> None:
    """A system prompt that an object of options hands on."""
    text = (
        f"const text = () => `It is ${{new Date().toISOString()}}. {'Answer in plain words, please. ' * 20}`;\n{call}\n"
    )
    asked = "options: { systemPrompt: text() }" if "query" in call else "system: text(), messages"
    assert [
        (one.code, one.severity)
        for one in made_findings(f"{text}const chat = (messages) => run({{ {asked} }});", "made.ts")
    ] == [("KV101", "error")]
