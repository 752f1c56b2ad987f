"""What nothing in a project uses is told of nobody: definitions, text files and folders that are laid aside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.files import write

Command = Callable[..., tuple[int, str, str]]

RULES = "You keep the ledger of a small harbour. Answer only from the tide table, and say which page it was. " * 10
SENT = "def ask(client, text):\n    return client.responses.create(model='m', input=text)\n"


@pytest.fixture
def project(in_folder: Command) -> Callable[[dict[str, str]], list[str]]:
    def told(files: dict[str, str]) -> list[str]:
        for name, text in {
            "quay/__init__.py": "",
            "quay/asking.py": SENT,
            "quay/deep/__init__.py": "",
            **files,
        }.items():
            write(name, text)
        found = json.loads(in_folder("lint", "--json", ".")[1])["findings"]
        return [f"{Path(one['path']).as_posix()}:{one['line']}" for one in found]

    return told


def prompt(name: str = "PROMPT") -> str:
    return f'{name} = """Question: {{question}}\n{RULES}"""\n'


def method(name: str) -> str:
    call = f'client.responses.create(model="m", input=f"""Question: {{question}}\n{RULES}""")'
    return f"    def {name}(self, question):\n        return {call}\n"


CLASS = "class Pilot{bases}:\n    def steer(self, question):\n        return {call}\n\n"


@pytest.mark.parametrize("language", ["ts", "py"])
@pytest.mark.parametrize(
    ("text", "skill", "severity"),
    [
        ("skills/pilot/prompts/desk.md", "skills/pilot/SKILL.md", "info"),
        ("skills/prompts/desk.md", "skills/pilot/SKILL.md: read ../prompts/desk.md first", "info"),
        ("prompts/desk.md", "skills/pilot/SKILL.md: read ../../prompts/desk.md first", "info"),
        ("prompts/desk.md", "skills/pilot/SKILL.md: read ../../prompts/chair.md first", "warning"),
        ("prompts/desk.md", "SKILL.md", "info"),
        ("prompts/desk.md", "SKILL.md; package.json", "warning"),
        ("skills/pilot/prompts/desk.md", "skills/pilot/SKILL.md; named", "warning"),
    ],
)
def test_the_documents_of_a_skill_are_information(
    in_folder: Command, text: str, skill: str, severity: str, language: str
) -> None:
    """An agent reads them on demand; what code names by its file's name it loads."""
    write(text, f"Question: {{question}}\n{RULES}")
    path, _, says = skill.partition("; ")[0].partition(": ")
    write(path, f"Steer a ship. {says}")
    if "package.json" in skill:
        write("package.json", "{}")
    loads = "load('desk.md').replace('{question}', question)" if "named" in skill or severity == "warning" else "load()"
    if language == "ts":
        write("app/agent.ts", f"import OpenAI from 'openai';\nconst text = {loads};\n")
    elif language == "py" or "named" in skill:
        write("app/agent.py", f"import openai\ntext = {loads}\n")
    found = json.loads(in_folder("lint", "--json", ".")[1])["findings"]
    assert [(one["path"], one["severity"]) for one in found] == [(text, severity)]


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        ("const text = load('desk').replace('{question}', question);", "warning"),
        ("const text = load('desk').replace(/\\{(\\w+)\\}/g, fill);", "warning"),
        ("const text = load('desk');", "info"),
        ("const text = load('chair').replace('{question}', question);", "info"),
    ],
)
def test_a_text_in_typescript_is_a_loss_where_code_loads_and_fills_it(
    in_folder: Command, code: str, severity: str
) -> None:
    write("app/prompts/desk.md", f"Question: {{question}}\n{RULES}")
    write("app/agent.ts", f"import OpenAI from 'openai';\n{code}\n")
    document = json.loads(in_folder("lint", "app", "--json")[1])
    assert [one["severity"] for one in document["findings"]] == [severity]


@pytest.mark.parametrize("sent", [True, False])
def test_a_value_in_a_prompt_of_another_file_is_said_once(in_folder: Command, sent: bool) -> None:
    write(
        "app/prompts.ts",
        f"// for OpenAI\nexport const deskPrompt = () => `It is ${{new Date().toISOString()}}.\n{RULES}`;\n",
    )
    called = "{ role: 'system', content: deskPrompt() }, " if sent else ""
    write(
        "app/agent.ts",
        "import OpenAI from 'openai';\nimport { deskPrompt } from './prompts';\nexport const ask = (client: OpenAI) =>\n"
        f"  client.chat.completions.create({{ model: 'm', messages: [{called}{{ role: 'user', content: 'Hi' }}] }});\n",
    )
    found = json.loads(in_folder("lint", "app", "--json")[1])["findings"]
    at = [(Path(one["path"]).name, one["code"], one["severity"]) for one in found]
    assert at == [("agent.ts", "KV101", "error") if sent else ("prompts.ts", "KV101", "info")]


@pytest.mark.parametrize(
    ("bases", "call", "told"),
    [
        ("", "self._told(question)", True),
        ("", "1", False),
        ("(Sailor)", "1", False),
        ("(Stranger)", "1", True),
        ("", "getattr(self, f'_{question}')()", True),
    ],
)
def test_a_private_method_that_nothing_names(
    project: Callable[[dict[str, str]], list[str]], bases: str, call: str, told: bool
) -> None:
    text = CLASS.format(bases=bases, call=call) + method("_told")
    sailor = "class Sailor:\n    pass\n"
    assert bool(project({"quay/deep/pilot.py": text, "quay/sailor.py": sailor})) is told


@pytest.mark.parametrize(
    ("importer", "told"),
    [
        ("", False),
        ("from quay.deprecated import old\n", True),
        ("import quay.deprecated.old\n", True),
        ("OLD = 'quay/deprecated/'\n", True),
        ("# it was deprecated long ago\n", False),
    ],
)
def test_a_folder_of_what_is_laid_aside(
    project: Callable[[dict[str, str]], list[str]], importer: str, told: bool
) -> None:
    text = (
        "def old(question):\n    return client.responses.create(model='m', input=f'''Question: {question}\n"
        + RULES
        + "''')\n"
    )
    files = {"quay/deprecated/__init__.py": "", "quay/deprecated/old.py": text, "quay/deep/run.py": importer}
    assert bool(project(files)) is told


@pytest.mark.parametrize(
    ("uses", "told"),
    [
        ("def _b(question):\n    return PROMPT.format(question=question)\n", False),
        (
            "def _b(question):\n    return PROMPT.format(question=question)\n\n\ndef run(question):\n    return _b(question)\n",
            True,
        ),
        ("# PROMPT was sent here\n", True),  # it may be taken from here
        ("", True),
        ("def _b(question):\n    return _c(PROMPT)\n\n\ndef _c(question):\n    return _b(question)\n", False),
        (
            "def _b(question):\n    return _c(PROMPT)\n\n\ndef _c(question):\n    return _b(question)\n\n\nprint(_c(1))\n",
            True,
        ),
        ("ALL = [PROMPT]\n", False),
        ("graph = made(PROMPT)\n", True),
        ("__all__ = ['PROMPT']\n", True),
    ],
)
def test_what_only_unused_code_names_is_unused(
    project: Callable[[dict[str, str]], list[str]], uses: str, told: bool
) -> None:
    text = "from quay.texts import PROMPT\n\n\n" + uses
    assert bool(project({"quay/texts.py": prompt(), "quay/deep/run.py": text})) is told


@pytest.mark.parametrize(("importer", "told"), [("quay/tests/helper.py", False), ("quay/deep/helper.py", True)])
def test_what_only_tests_name_is_unused(
    project: Callable[[dict[str, str]], list[str]], importer: str, told: bool
) -> None:
    files = {
        "quay/texts.py": prompt(),
        "quay/deep/run.py": "x = 1\n",
        importer: "from quay.texts import PROMPT\n\nprint(PROMPT)\n",
    }
    assert bool(project(files)) is told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("TEXTS = read('first.md'), read('second.md')\n", ["first", "second"]),
        ("TEXTS = read('first.md'), read('second.md'), read('third.md')\n", ["first", "second", "third"]),
        ("TEXTS = [read(one) for one in folder('prompts')]\n", ["first", "second", "third"]),
        ("TEXTS = read('first.md'), read('second.md')\nREST = read(f'{kind}ird.md')\n", ["first", "second"]),
        ("TEXTS = read('first.md'), read('second.md')\nREST = ask('third')\n", ["first", "second", "third"]),
    ],
)
def test_a_text_file_that_is_left_over(
    project: Callable[[dict[str, str]], list[str]], code: str, told: list[str]
) -> None:
    text = f"Question: {{question}}\n{RULES}"
    files = {f"quay/prompts/{name}.md": text for name in ("first", "second", "third")}
    assert project({**files, "quay/deep/run.py": code}) == [f"quay/prompts/{name}.md:1" for name in told]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("NAME = f'{kind}_system.md'\n", True), ("NAME = f'sea_{kind}.md'\n", True),
        ("NAME = kind + '_system.md'\n", True), ("NAME = kind + '.md'\n", True), ("NAME = f'{kind}.md'\n", True),
        ("NAME = f'prompts/{kind}_{version}.md'\n", True), ("NAMES = folder.glob('*.md')\n", True),
        ("NAME = f'{kind}.txt'\n", False), ("NAME = f'report-{kind}.md'\n", False), ("", False),
    ],
)  # fmt: skip
def test_names_of_files_may_be_put_together(
    project: Callable[[dict[str, str]], list[str]], code: str, told: bool
) -> None:
    text = f"Question: {{question}}\n{RULES}"
    files = {f"quay/prompts/{name}.md": text for name in ("first", "second", "sea_system")}
    found = project({**files, "quay/deep/run.py": f"TEXTS = 'first.md', 'second.md'\n{code}"})
    assert ("quay/prompts/sea_system.md:1" in found) is told


@pytest.mark.parametrize(
    ("folder", "use", "told"),
    [
        ("migrations", "from quay.migrations import move\nmove()\n", False),
        ("migrations", "from quay.migrations.texts import PROMPT\nprint(PROMPT)\n", True),
        ("moves", "from quay.moves import move\nmove()\n", True),
    ],
)
def test_texts_of_migrations_are_how_they_were(
    project: Callable[[dict[str, str]], list[str]], folder: str, use: str, told: bool
) -> None:
    moved = "from quay.asking import ask\nfrom .texts import PROMPT\ndef move():\n    return ask(None, PROMPT)\n"
    files = {f"quay/{folder}/__init__.py": moved, f"quay/{folder}/texts.py": prompt(), "quay/deep/use.py": use}
    assert project(files) == ([f"quay/{folder}/texts.py:1"] if told else [])


@pytest.mark.parametrize("beside", ["data", "deep"])
def test_a_folder_beside_one_that_begins_alike_is_laid_aside(in_folder: Command, beside: str) -> None:
    """The folder that all files lie below ends at a whole name."""
    for name in ("deprecated", beside):
        write(f"quay/{name}/texts.py", prompt())
        write(f"quay/{name}/use.py", "from .texts import PROMPT\nprint(PROMPT)\n")
    found = json.loads(in_folder("lint", "--json", "quay")[1])["findings"]
    assert [Path(one["path"]).as_posix() for one in found] == [f"quay/{beside}/texts.py"]
