"""Functions and texts that another file of the project exports, in Python and TypeScript alike."""

from __future__ import annotations

import json
import random

import pytest

from tests.conftest import Command, some
from tests.files import write

RULES = "Answer in two sentences, and name the row of the table that you took the answer from.\n" * 4
PARTS = {
    "py": {
        "head": "import datetime\n",
        "clock": "def stamp():\n    return f'It is {datetime.datetime.now().isoformat()}.'\n",
        "fixed": "def stamp():\n    return 'It is late.'\n",
        "given": "def stamp(now='x'):\n    return f'It is {now}.'\n",
        "rules": f'RULES = """{RULES}"""\n',
        "whole": "# A prompt for openai.\ndef stamp():\n"
        f'    return f"""You are a clerk. It is {{datetime.datetime.now().isoformat()}}. {RULES}"""\n',
        "use": "from openai import OpenAI\nfrom {module} import stamp, RULES\n\n\ndef ask(q):\n"
        '    text = f"{{stamp()}}\\n{{RULES}}"\n'
        '    return OpenAI().chat.completions.create(model="m", messages=[{{"role": "user", "content": text + q}}])\n',
        "again": "from {module} import stamp, RULES\n",
    },
    "ts": {
        "head": "",
        "clock": "export function stamp() {\n  return `It is ${new Date().toISOString()}.`;\n}\n",
        "fixed": "export function stamp() {\n  return `It is late.`;\n}\n",
        "given": "export function stamp(now = 'x') {\n  return `It is ${now}.`;\n}\n",
        "rules": f"export const RULES = `{RULES}`;\n",
        "whole": f"// A prompt for openai.\nexport const stamp = () =>\n"
        f"  `You are a clerk. It is ${{new Date().toISOString()}}. {RULES}`;\n",
        "use": 'import OpenAI from "openai";\nimport {{ stamp, RULES }} from "./{module}";\n\n\n'
        "export async function ask(q: string) {{\n"
        "  const text = `${{stamp()}}\\n${{RULES}}`;\n"
        '  return new OpenAI().chat.completions.create({{ model: "m", messages: [{{ role: "user", content: text + q }}] }});\n}}\n',
        "again": 'export {{ stamp, RULES }} from "./{module}";\n',
    },
}


def found(in_folder: Command, folder: str) -> list[tuple[str, int, str]]:
    document = json.loads(in_folder("lint", folder, "--json")[1])
    return [
        (one["path"].rpartition("/")[2].partition(".")[0], one["line"], one["code"])
        for one in document["findings"]
        if one["severity"] != "info"
    ]


@pytest.mark.parametrize("seed", some(range(8), 3))
def test_twins_give_the_same_findings(in_folder: Command, seed: int) -> None:
    """A clock in an imported function is found where it is used; a whole prompt of Python where it is written, one of TypeScript
    where it is sent."""
    chance = random.Random(seed)
    kind = ("clock", "fixed", "given", "whole")[seed % 4]
    depth = chance.randrange(3)
    verdicts = []
    for language, parts in PARTS.items():
        write(f"{language}/texts.{language}", parts["head"] + parts["rules"] + parts[kind])
        module = "texts"
        for number in range(depth):
            write(f"{language}/part{number}.{language}", parts["again"].format(module=module))
            module = f"part{number}"
        write(f"{language}/agent.{language}", parts["use"].format(module=module))
        verdicts.append(found(in_folder, language))
    where = {"clock": ("agent", "agent"), "whole": ("texts", "agent")}.get(kind)
    told = [[(path, code) for path, _, code in each] for each in verdicts]
    assert told == ([[(one, "KV101")] for one in where] if where is not None else [[], []])


def test_default_exports_stars_and_folders_are_followed(in_folder: Command) -> None:
    write("app/texts/clock.ts", "export default function stamp() {\n  return `It is ${new Date().toISOString()}.`; }\n")
    write("app/texts/rules.mts", f"const text = `{RULES}`;\nexport {{ text as RULES }};\n")
    write("app/texts/index.ts", 'export * from "./rules.mjs";\nexport { default as stamp } from "./clock.js";\n')
    write("app/agent.ts", PARTS["ts"]["use"].format(module="texts"))
    assert found(in_folder, "app") == [("agent", 6, "KV101")]


def test_an_object_of_another_file_is_not_looked_into(in_folder: Command) -> None:
    padding = "#\n" * 40
    body = "class Settings:\n    tone: str = field(default=str('kind'))\n\n\ndef settings():\n    return Settings()\n"
    write("app/texts.py", f"{padding}from dataclasses import field\n\n\n{body}")
    use = (
        "from texts import settings\n\n\ndef ask(client, q):\n    one = settings()\n    text = f'Be {one.tone}. {q}'\n"
    )
    write(
        "app/agent.py",
        use + "    return client.chat.completions.create(messages=[{'role': 'user', 'content': text}])\n",
    )
    assert found(in_folder, "app") == []


def test_a_file_outside_of_the_project_is_not_read(in_folder: Command) -> None:
    write("texts.ts", PARTS["ts"]["rules"] + PARTS["ts"]["clock"])
    write("app/package.json", "{}")
    write("app/agent.ts", PARTS["ts"]["use"].format(module="../texts"))
    assert found(in_folder, "app") == []
