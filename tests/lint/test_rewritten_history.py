"""Code that changes what was sent before, in both languages; what cuts rarely, and other lists, are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.files import write
from tests.lint.found import made_findings

_PYTHON = "from openai import OpenAI\nclient = OpenAI()\nLIMIT = 30\n"
_SEND = "client.chat.completions.create(model='m', messages={messages})"
_SEND_TS = "client.chat.completions.create({{ model: 'm', messages: {messages} }})"


def codes(body: str) -> list[tuple[str, str]]:
    """Return code and severity of what is found in a function of Python."""
    text = (
        _PYTHON
        + "def ask(system, messages, tools, sessions):\n"
        + "".join(f"    {line}\n" for line in body.split("\n"))
    )
    return [(one.code, one.severity) for one in made_findings(text)]


def codes_of_typescript(body: str) -> list[tuple[str, str]]:
    """Return the same of TypeScript."""
    text = f"const client = new OpenAI();\nasync function ask(system, messages, tools, servers) {{\n{body}\n}}\n"
    return [(one.code, one.severity) for one in made_findings(text, "made.ts")]


def test_found() -> None:
    """A history that loses its beginning, or whose old messages are made shorter, turn by turn."""
    for body, code in [
        ("return " + _SEND.format(messages="[{'role': 'system', 'content': system}] + messages[-20:]"), "KV141"),
        ("return " + _SEND.format(messages="[{'role': 'system', 'content': system}, *messages[-LIMIT:]]"), "KV141"),
        ("recent = messages[len(messages) - 8:]\nreturn " + _SEND.format(messages="recent"), "KV141"),
        ("while len(messages) > 30:\n    messages.pop(0)\nreturn " + _SEND.format(messages="messages"), "KV141"),
        ("if count(messages) >= 8000:\n    del messages[1:3]\nreturn " + _SEND.format(messages="messages"), "KV141"),
        (
            "if len(messages) > LIMIT:\n    messages = messages[-LIMIT:]\nreturn " + _SEND.format(messages="messages"),
            "KV141",
        ),
        (
            "for i, m in enumerate(messages):\n    if i < len(messages) - 6:\n        m['content'] = '[cleared]'\n"
            "return " + _SEND.format(messages="messages"),
            "KV143",
        ),
        (
            "for m in messages[:-4]:\n    m['content'] = m['content'][:80]\nreturn "
            + _SEND.format(messages="messages"),
            "KV143",
        ),
    ]:
        assert codes(body) == [(code, "warning")]


def test_left_alone() -> None:
    """The whole history, the latest message alone, a cut of many messages at once, lists that nobody sends."""
    for body in [
        "return " + _SEND.format(messages="messages"),
        "return " + _SEND.format(messages="messages[-1:]"),
        "print(messages[-20:])\nreturn " + _SEND.format(messages="messages"),
        "if len(messages) > 40:\n    messages = messages[-20:]\nreturn " + _SEND.format(messages="messages"),
        "rows = [1, 2]\nrows.pop(0)\nreturn " + _SEND.format(messages="messages"),
        "if messages[0]['role'] == 'system':\n    messages.pop(0)\nreturn " + _SEND.format(messages="messages"),
        "system = messages.pop(0)\nreturn " + _SEND.format(messages="messages"),
        "messages.pop()\nreturn " + _SEND.format(messages="messages"),
        "text = str(messages[-20:])\nreturn " + _SEND.format(messages="[{'role': 'user', 'content': text}]"),
        "for m in messages:\n    m['content'] = m['content'].strip()\nreturn " + _SEND.format(messages="messages"),
    ]:
        assert codes(body) == []


def test_typescript() -> None:
    """The same in the other language."""
    for body, found in [
        (
            "return "
            + _SEND_TS.format(messages="[{{ role: 'system', content: system }}, ...messages.slice(-20)]")
            .replace("{{", "{")
            .replace("}}", "}"),
            ["KV141"],
        ),
        ("while (messages.length > 30) messages.shift();\nreturn " + _SEND_TS.format(messages="messages"), ["KV141"]),
        (
            "if (tokens(messages) > 8000) messages.splice(1, 2);\nreturn " + _SEND_TS.format(messages="messages"),
            ["KV141"],
        ),
        (
            "const kept = messages.map((m, i) => (i < messages.length - 6 ? { ...m, content: '' } : m));\nreturn "
            + _SEND_TS.format(messages="kept"),
            ["KV143"],
        ),
        ("if (messages.length === 30) messages.shift();\nreturn " + _SEND_TS.format(messages="messages"), ["KV141"]),
        (
            "const kept = limit > 0 ? messages.slice(Math.max(messages.length - limit, 0)) : messages;\nreturn "
            + _SEND_TS.format(messages="kept"),
            ["KV141"],
        ),
        (
            "if (limit > 0) { messages = messages.slice(-limit); }\nreturn " + _SEND_TS.format(messages="messages"),
            ["KV141"],
        ),
        (
            "await fetch(url, { method: 'POST', body: JSON.stringify({ model, messages: messages.slice(-9) }) });",
            ["KV141"],
        ),
        (
            "if (messages.length > 40) { messages = messages.slice(-20); }\nreturn "
            + _SEND_TS.format(messages="messages"),
            [],
        ),
        (
            "while (round++ < most) { const kept = messages.slice(-n); await "
            + _SEND_TS.format(messages="kept")
            + "; }",
            ["KV141"],
        ),
        ("const last = rows.slice(-20);\nreturn " + _SEND_TS.format(messages="messages"), []),
    ]:
        assert codes_of_typescript(body) == [(code, "warning") for code in found]


def test_through_parameters() -> None:
    """A function of the file that hands on what it is given sends it; one that writes it down does not."""
    for method, called in [
        ("stream(messages) { return this.agent.stream({ messages }); }", "this.stream(recent)"),
        ("stream({ messages }) { return this.agent.stream({ messages }); }", "next.stream({ messages: recent })"),
        ("stream(o) { return this.agent.stream({ messages: o.messages }); }", "next.stream({ messages: recent })"),
        (
            "stream(o) { const { messages } = o; return this.agent.stream({ messages }); }",
            "next.stream({ messages: recent })",
        ),
    ]:
        use = f"  go(turns, messages, next) {{ const recent = messages.slice(-8); return {called}; }}\n"
        asks = f"const client = new OpenAI();\nclass Desk {{\n  {method}\n{use}}}\n"
        assert [(one.line, one.code) for one in made_findings(asks, "made.ts")] == [(4, "KV141")]
        writes = asks.replace("this.agent.stream(", "this.store.save(")
        assert made_findings(writes, "made.ts") == []


def test_the_list_that_tasks_fill_is_the_one_that_is_sent() -> None:
    """By its binding, not its name: as a parameter of the task, or around it; in an order of its own it is no matter."""
    for add, found in [
        ("tools.push(...t)", True),
        ("tools[s.name] = t", True),
        ("Object.assign(tools, t)", True),
        ("form.append(s.name, t)", False),
        ("others.push(...t)", False),
    ]:
        for order in ["", "tools.sort(byName);\n"]:
            for is_parameter in [True, False]:
                code = f"const load = async (s, tools, form, others) => {{ const t = await s.list(); {add}; }};\n"
                inside = "await Promise.all(servers.map((s) => load(s, tools, form, others)));\n"
                if not is_parameter:
                    code, inside = (
                        "",
                        f"await Promise.all(servers.map(async (s) => {{ const t = await s.list(); {add}; }}));\n",
                    )
                send = "return client.chat.completions.create({ model: 'm', tools, messages });"
                text = f"{code}async function ask(servers, messages) {{\nconst tools = [];\n{inside}{order}{send}\n}}\n"
                told = [one.code for one in made_findings("const client = new OpenAI();\n" + text, "made.ts")]
                assert told == (["KV111"] if found and not order else [])


def test_through_attributes_and_functions() -> None:
    """What is sent is followed through attributes, methods and functions of the file."""
    code = (
        _PYTHON + "class Chat:\n    def __init__(self):\n        self.history = []\n    def trim(self):\n"
        "        self.history = self.history[-10:]\n    def ask(self, q):\n        self.history.append(turn(q))\n"
        f"        return {_SEND.format(messages='recent(self.history)')}\n"
        "def recent(history):\n    return [m for m in history[-12:]]\n"
    )
    assert [(one.line, one.code) for one in made_findings(code)] == [(8, "KV141"), (13, "KV141")]


def test_order_of_tools() -> None:
    """Tools that are shuffled, in a set, or in the order in which servers answer; sorted ones are in order."""
    for body in [
        "import random\nrandom.shuffle(tools)",
        "tools = list(set(tools))",
        "tools = []\nfor done in asyncio.as_completed([s.list_tools() for s in sessions]):\n    tools.extend(done)",
        "tools = []\nasync def load(s):\n    tools.extend(await s.list_tools())\nasyncio.gather(*[load(s) for s in sessions])",
    ]:
        send = "\nreturn client.chat.completions.create(model='m', tools=TOOLS, messages=messages)"
        assert codes(body + send.replace("TOOLS", "tools")) == [("KV111", "warning")]
        assert codes(body + send.replace("TOOLS", "sorted(tools, key=str)")) == []


def test_order_of_tools_in_typescript() -> None:
    """Tools that callbacks push when their server has answered; what else they push is no matter."""
    load = "const NAME = [];\nawait Promise.all(servers.map(async (s) => { const t = await s.list(); NAME.push(...t); }));\n"
    send = "return client.chat.completions.create({ model: 'm', tools, messages });"
    assert codes_of_typescript(load.replace("NAME", "tools") + send) == [("KV111", "warning")]
    assert codes_of_typescript(load.replace("NAME", "usedTools") + send) == []
    assert codes_of_typescript(
        "shuffle(tools);\nconst mixed = _.shuffle(tools);\n" + send.replace("tools", "tools: mixed")
    ) == [("KV111", "warning")]


def test_conversation_after_the_system_prompt() -> None:
    """A clock before the history, however the call gets it; what changes once a day is left alone."""
    for text, found in [
        ("f'It is {datetime.now()}.'", [("KV101", "warning")]),
        ("f'It is {datetime.now()}.\\n' + open('handbook.md').read()", [("KV101", "warning")]),
        ("f'Notes:\\n{chr(10).join(h.text for h in store.search(question))}\\n' + RULES", [("KV201", "info")]),
        ("f'It is {date.today()}.'", []),
        ("f'You help {company}.'", []),
    ]:
        head = "from datetime import date, datetime\nfrom .prompts import RULES\n" + _PYTHON
        for call in (
            "client.messages.create(model='m', max_tokens=9, system=system, messages=history)",
            _SEND.format(messages="[{'role': 'system', 'content': system}] + history"),
            _SEND.format(
                messages="[{'role': 'system', 'content': system}, *history, {'role': 'user', 'content': question}]"
            ),
            "client.responses.create(model='m', instructions=system, input=history)",
        ):
            code = f"{head}def ask(store, history, question, company):\n    system = {text}\n    return {call}\n"
            assert [(one.code, one.severity) for one in made_findings(code)] == found, call


def test_marked_block() -> None:
    """A block with `cache_control` and a clock in it is never read from the cache."""
    block = "{'type': 'text', 'text': f'You help. It is {datetime.now()}.', 'cache_control': {'type': 'ephemeral'}}"
    call = f"client.messages.create(model='m', max_tokens=9, system=[{block}], messages=[{{'role': 'user', 'content': q}}])"
    (found,) = made_findings(f"from datetime import datetime\n{_PYTHON}def ask(q):\n    return {call}\n")
    assert (found.code, found.severity) == ("KV101", "warning")
    assert "the block marked with `cache_control`" in found.message


@given(st.integers(3, 500), st.integers(1, 500))
def test_strides(kept: int, more: int) -> None:
    """A cut under a condition costs each turn only where it keeps nearly all that it allows."""
    body = f"if len(messages) > {kept + more}:\n    messages = messages[-{kept}:]\nreturn " + _SEND.format(
        messages="messages"
    )
    assert codes(body) == ([("KV141", "warning")] if more <= 2 else [])


_BACK = "kept, used = [], 0\nfor m in {over}:\n    used += count(m)\n    if {test}:\n        break\n    {add}\nreturn "


@pytest.mark.parametrize(
    ("over", "test", "add", "found"),
    [
        ("reversed(messages)", "used > 8000", "kept.insert(0, m)", True),
        ("messages[::-1]", "used > 8000", "kept.append(m)", True),
        ("reversed(messages)", "used > 8000", "kept = [m, *kept]", True),
        ("messages", "used > 8000", "kept.append(m)", False),  # the beginning stays
        ("reversed(messages)", "m.role == 'user'", "kept.insert(0, m)", False),  # the latest turn
    ],
)
def test_latest_up_to_a_limit(over: str, test: str, add: str, found: bool) -> None:
    """A loop from the end that stops at a limit keeps a window."""
    body = _BACK.format(over=over, test=test, add=add) + _SEND.format(messages="kept")
    assert codes(body) == ([("KV141", "warning")] if found else [])


@pytest.mark.parametrize(
    ("test", "found"), [("at >= 0", True), ("len(messages) > len(kept) > 0", False), ("len(left) > 0", False)]
)
def test_latest_of_a_loop_by_number(test: str, found: bool) -> None:
    """A number that counts down goes from the end; a queue that is not empty is read from either side."""
    loop = "    used += count(messages[at])\n    if used > 8000:\n        break\n    kept.append(messages[at])\n"
    body = f"kept, used, left = [], 0, messages\nwhile {test}:\n{loop}return " + _SEND.format(messages="kept")
    assert codes(body) == ([("KV141", "warning")] if found else [])


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("length > 0", False),
        ("length !== 0", False),
        ("length > 1", True),
        ("length > most", True),
        ("length >= 40", True),
    ],
)
def test_a_queue_that_is_emptied_is_no_window(test: str, found: bool) -> None:
    """A number of messages that is compared with zero is no limit."""
    code = f"while (messages.{test}) handle(messages.shift());\nreturn " + _SEND_TS.format(messages="messages")
    assert codes_of_typescript(code) == ([("KV141", "warning")] if found else [])


@pytest.mark.parametrize(("cut", "found"), [("messages.slice(-20)", True), ("messages.filter(isSent)", False)])
def test_window_of_another_file(cut: str, found: bool, tmp_path: Path) -> None:
    """A history that an imported function cuts is reported where it is sent; `@/` is a folder of the package."""
    write(f"{tmp_path}/package.json", "{}")
    write(f"{tmp_path}/src/lib/window.ts", f"export function fit(messages: Message[]) {{ return {cut} }}\n")
    call = _SEND_TS.format(messages="fit(messages)")
    code = f'import {{ fit }} from "@/lib/window"\nconst client = new OpenAI()\nconst ask = (messages) => {call}\n'
    findings = made_findings(code, write(f"{tmp_path}/src/app/chat.ts", code))
    assert [one.code for one in findings] == (["KV141"] if found else [])
