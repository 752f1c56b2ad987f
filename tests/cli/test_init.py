"""`kvtool init`: what it finds, what it writes, and that the gate it writes passes."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
import yaml

from kvtool.cli.app import run
from kvtool.cli.commands.init import compose
from kvtool.cli.commands.init import detect as detection
from kvtool.cli.commands.init.compose import read_prompts
from kvtool.cli.commands.init.detect import detect
from kvtool.cli.commands.init.made_up import generator
from kvtool.config.loading import load_config
from kvtool.diagnose import codes
from kvtool.results.schemas import SCHEMAS
from kvtool.text.files.yaml_document import parse_yaml
from kvtool.workload.yaml.validate import validate
from kvtool.workload.yaml.yaml_source import load_yaml_workload
from tests.conftest import Command
from tests.files import write

SUPPORT = "You are the support agent of {{ company }}. Be short, be kind, and be right.\nNow: {{ now }}\n"
LOG = "".join(
    json.dumps({"messages": [{"role": "user", "content": f"a question that begins alike, number {n}"}]}) + "\n"
    for n in range(9)
)
WORKLOAD = 'version: 1\ngroups: [{name: g, text: "always the very same text of some length", requests: 4}]\n'
TEMPLATE = "{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"


@pytest.fixture
def init(in_folder: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("KVTOOL_CHAT_TEMPLATE", write("chat_template.jinja", TEMPLATE))
    monkeypatch.setattr(compose, "_MOST", 12)  # requests of a group: 40 take longer and show the same
    return lambda *arguments: in_folder("init", *arguments)


def files() -> set[str]:
    return {path.name for path in Path().iterdir() if not path.name.startswith(".")}


def test_what_is_written_loads_and_check_passes_on_it(init: Command, in_folder: Command) -> None:
    write("prompts/support.md", SUPPORT)
    write("prompts/triage_system.j2", "You sort letters of {{ user_name }}.")
    write("prompts/triage_user.j2", "Which kind is this: {{ document }}")
    write("logs/prod.jsonl", LOG)
    code, out, err = init()
    assert (code, err) == (0, "")
    assert "Found in .: 3 prompts, 1 log" in out
    assert "kvtool check" in out
    source = load_yaml_workload("kvtool-workload.yaml")
    assert [group.name for group in source.spec.groups] == ["support", "triage_system"]
    pair = source.spec.groups[1].messages
    assert pair is not None
    assert [(part.role, part.file) for part in pair] == [
        ("system", "prompts/triage_system.j2"),
        ("user", "prompts/triage_user.j2"),
    ]
    file = load_config("kvtool.toml")
    assert file.workloads == ["kvtool-workload.yaml", "logs/prod.jsonl"]
    assert file.config.gate.hit_rate is not None
    assert file.config.engine.tokenizer is not None  # the one it was measured with
    code, out, err = in_folder("check", "-q")
    assert (code, err) == (0, "")
    assert "PASS" in out


def test_a_tokenizer_that_lies_outside_needs_the_flag_that_is_shown(init: Command) -> None:
    write("prompts/x.md", SUPPORT)
    code, out, _ = init()
    assert code == 0
    assert "  kvtool check --allow-outside\n" in out
    assert run(["check", "-q"]) == 2
    assert run(["check", "-q", "--allow-outside"]) == 0


def test_a_tokenizer_beside_the_prompts_needs_none(init: Command, byte_spec: str) -> None:
    write("prompts/x.md", SUPPORT)
    write("tokenizer.json", byte_spec)
    assert run(["init", "-t", "tokenizer.json"]) == 0
    assert run(["check", "-q"]) == 0


def test_the_gate_is_what_is_measured_today_in_whole_percent(init: Command, in_folder: Command) -> None:
    write("a.yaml", WORKLOAD)
    write("logs/b.jsonl", LOG)
    assert init()[0] == 0
    rates = []
    for name in ("a.yaml", "logs/b.jsonl"):
        code, out, _ = in_folder("profile", name, "--dry-run", "--json")
        assert code == 0
        rates.append(json.loads(out)["totals"]["hit_rate"])
    gate = load_config("kvtool.toml").config.gate.hit_rate
    assert gate is not None
    assert gate == int(100 * min(rates)) / 100
    text = Path("kvtool.toml").read_text(encoding="utf-8").replace(f"{100 * gate:.0f}%", f"{100 * gate + 1:.0f}%")
    write("kvtool.toml", text)
    assert in_folder("check", "-q")[0] == 1


def test_a_gate_where_nothing_hits_is_there_to_be_tightened(init: Command, in_folder: Command) -> None:
    write("logs/a.jsonl", '{"prompt": "one"}\n{"prompt": "two"}\n')
    code, out, _ = init()
    assert code == 0
    gate = load_config("kvtool.toml").config.gate
    assert (gate.hit_rate, gate.level, gate.groups) == (0.0, "error", {})
    assert "# This limit is off: it cannot fail at 0%." in Path("kvtool.toml").read_text(encoding="utf-8")
    assert "The gate is off: it cannot fail at 0%. Fix " in " ".join(out.split())
    assert in_folder("check", "-q")[0] == 0
    write("logs/a.jsonl", LOG)
    assert in_folder("check", "-q", "--tighten")[0] == 0
    held = load_config("kvtool.toml").config.gate.hit_rate
    assert held is not None
    assert held > 0.5
    assert "limit is off" not in Path("kvtool.toml").read_text(encoding="utf-8")


def test_a_part_that_prompts_include_takes_no_place_of_a_prompt(tmp_path: Path) -> None:
    for number in range(16):
        text = f"{{% include 'part.j2' %}} Answer as {number}. {{{{ question }}}}"
        write(str(tmp_path / f"prompts/z{number}.j2"), text)
    write(str(tmp_path / "prompts/part.j2"), "You help.")
    notes: list[str] = []
    found = read_prompts(tmp_path, detect(tmp_path).templates, notes).prompts
    assert (len(found), notes) == (16, [])


def test_each_group_that_reuses_text_is_held(init: Command) -> None:
    """A group below the rate of the whole workload could fall to nothing without a gate of its own."""
    rules = "Answer briefly, and quote the number of each order. " * 6
    groups = [f'{{name: g{at}, text: "{at} {"{{ n }} " * (at == 2)}{rules * (2 - at)}{{{{ n }}}}"}}' for at in range(3)]
    spec = ", ".join(group[:-1] + ", requests: 6}" for group in groups)
    write("a.yaml", f"version: 1\nvars: {{n: {{uuid: 4}}}}\ngroups: [{spec}]\n")
    assert init()[0] == 0
    gate = load_config("kvtool.toml").config.gate
    assert gate.hit_rate is not None
    rates = {name: each.hit_rate or 0.0 for name, each in gate.groups.items()}
    assert list(rates) == ["g0", "g1"]
    assert rates["g0"] > gate.hit_rate
    assert "# No gate, since they reuse less than 0.1% today: g2" in Path("kvtool.toml").read_text(encoding="utf-8")


def test_what_hits_is_held_beside_what_does_not(init: Command, in_folder: Command) -> None:
    write("a.yaml", WORKLOAD)
    write("logs/a.jsonl", '{"prompt": "one"}\n{"prompt": "two"}\n')
    assert init()[0] == 0
    gate = load_config("kvtool.toml").config.gate
    assert (gate.level, list(gate.groups)) == ("error", ["g"])
    code, out, _ = in_folder("check", "-q")
    assert code == 0
    assert "PASS 1 gate, 1 more cannot fail (limit 0%)" in " ".join(out.split())
    write(
        "a.yaml", WORKLOAD.replace("always", "{{ n }} always").replace("version: 1", "version: 1\nvars: {n: {uuid: 4}}")
    )
    assert in_folder("check", "-q")[0] == 1


def test_made_up_values_are_named_as_such_wherever_their_rate_is_shown(init: Command) -> None:
    write("prompts/support.md", SUPPORT)
    write("logs/prod.jsonl", LOG)
    code, out, _ = init()
    assert code == 0
    told = next(line for line in out.splitlines() if "kvtool-workload.yaml: hit rate" in line)
    assert told.endswith("% with made-up values")
    assert "made up" not in next(line for line in out.splitlines() if "prod.jsonl: hit rate" in line)
    workload = Path("kvtool-workload.yaml").read_text(encoding="utf-8")
    variables = workload.partition("vars:\n")[2].partition("groups:")[0].splitlines()
    assert len(variables) == 3
    assert all("# made up: " in line for line in variables)
    assert "made up: user_message {}" in workload
    for text in (out, workload):
        assert text.count('Values marked "made up" are guesses. Replace them.') == 1
    config = Path("kvtool.toml").read_text(encoding="utf-8")
    assert '"kvtool-workload.yaml",  # hit rate' in config
    assert "% with made-up values\n" in config
    assert "# These rates come from made-up values." in config


def test_no_question_is_invented(init: Command) -> None:
    """Every value of what is written is one of the prompts, or says that it is made up."""
    write("prompts/a.j2", "{{ question }} {{ context }} {{ customer }} {{ company }} {{ lang }} {{ other }}")
    assert init()[0] == 0
    variables = yaml.safe_load(Path("kvtool-workload.yaml").read_text(encoding="utf-8"))["vars"]
    assert set(variables) == {"question", "context", "customer", "company", "lang", "other", "user_message"}
    for given in variables.values():
        values = [given["format"]] if "counter" in given else [given["text"]]
        assert all(value.startswith("made up: ") for value in values)


def test_replaced_values_are_not_made_up(init: Command) -> None:
    write("prompts/support.md", "You are kind.\n")
    assert init()[0] == 0
    text = Path("kvtool-workload.yaml").read_text(encoding="utf-8")
    lines = [
        '  user_message: {choice: ["Where is it?", "When?"]}' if line.startswith("  user_message:") else line
        for line in text.splitlines()
    ]
    write("kvtool-workload.yaml", "\n".join(lines) + "\n")
    code, out, _ = init("--force")
    assert code == 0
    assert "made up" not in out
    assert "made up" not in Path("kvtool.toml").read_text(encoding="utf-8")


def test_values_and_roles_are_those_of_the_code_that_renders(init: Command) -> None:
    write("prompts/search.j2", "{{ agent.name }} of {{ company }} uses {{ count + 1 }} texts. {{ text }}")
    write("prompts/chat.j2", "{{ agent.name }} of {{ company }} is {{ tone }}.")
    write("prompts/mail.j2", "{{ agent.name }} writes; {{ tone }}.")
    write(
        "app.py",
        "def search(text):\n"
        "    p = env.get_template('search.j2').render(agent={'name': 'Ada'}, company='Acme: 1', count=4, text=text)\n"
        "    return client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': p}])\n"
        "def chat():\n"
        "    p = env.get_template('chat.j2').render(agent={'name': 'Ada'}, company='Acme: 1', tone='kind')\n"
        "    return client.chat.completions.create(model='m', messages=[{'role': 'system', 'content': p}])\n"
        "def mail():\n"
        "    p = env.get_template('mail.j2').render(agent={'name': 'Ada'}, tone='short')\n"
        "    return client.chat.completions.create(model='m', messages=[{'role': 'system', 'content': p}])\n",
    )
    code, _, err = init()
    assert code == 0, err
    written = yaml.safe_load(Path("kvtool-workload.yaml").read_text(encoding="utf-8"))
    assert written["vars"]["agent"] == {"object": {"name": {"text": "Ada"}}}
    assert written["vars"]["company"] == {"text": "Acme: 1"}
    assert written["vars"]["count"] == {"range": [4, 4]}
    assert "made up" in str(written["vars"]["text"])
    groups = {group["name"]: group for group in written["groups"]}
    assert [one["role"] for one in groups["search"]["messages"]] == ["user"]
    assert [one["role"] for one in groups["chat"]["messages"]] == ["system", "user"]
    assert groups["chat"]["vars"]["tone"] == {"text": "kind"}  # not one variable with two values
    assert groups["mail"]["vars"]["tone"] == {"text": "short"}


def test_a_typescript_repository_has_its_prompt_measured_and_linted(init: Command, in_folder: Command) -> None:
    rules = "You are the support agent of Acme. Quote the order, never promise a refund, and answer briefly. " * 9
    write(
        "src/agent.ts",
        f"const RULES = `{rules}`;\n"
        "export const ask = (question: string) =>\n"
        "  generateText({ model, system: `Now: ${new Date().toISOString()}\\n${RULES}`, prompt: question });\n",
    )
    code, out, err = init()
    assert (code, err) == (0, "")
    assert "KV101 src/agent.ts:3:" in out
    [group] = yaml.safe_load(Path("kvtool-workload.yaml").read_text(encoding="utf-8"))["groups"]
    assert rules in group["messages"][0]["text"]
    code, out, _ = in_folder("lint")
    assert "src/agent.ts:3:" in out
    assert in_folder("check")[0] == 0


def test_force_says_which_limits_it_lowers(init: Command) -> None:
    write("w.yaml", WORKLOAD)
    assert init()[0] == 0
    config = Path("kvtool.toml").read_text(encoding="utf-8")
    assert "lowers" not in init("--force")[1]
    demanded = tomllib.loads(config)["gate"]["hit_rate"]
    more = config.replace(demanded, ">=99%") + '\n[gate.groups.g]\nhit_rate = ">=98%"\n'
    write("kvtool.toml", more)
    code, out, _ = init("--force")
    assert code == 0
    limit = f"{float(demanded[2:-1]):.1f}%"
    assert f"this lowers the limit of the hit rate of all requests: 99.0% -> {limit}" in out
    assert f"this lowers the limit of the hit rate of g: 98.0% -> {limit}" in out


def test_commands_without_input_read_the_only_workload(init: Command, in_folder: Command) -> None:
    write("w.yaml", WORKLOAD)
    assert init()[0] == 0
    for command in (["profile", "--dry-run"], ["optimize"], ["what-if"], ["compare-engines"]):
        code, out, err = in_folder(*command)
        assert code == 0, err
        assert "w.yaml" in out.splitlines()[0]
    assert "INPUT is missing" in in_folder("profile", "--no-config")[2]
    write("v.yaml", WORKLOAD)
    config = Path("kvtool.toml").read_text(encoding="utf-8")
    write("kvtool.toml", config.replace('"w.yaml",', '"w.yaml", "v.yaml",'))
    code, _, err = in_folder("what-if")
    assert code == 2
    assert "INPUT is missing: kvtool.toml names 2 workloads" in err
    assert "help: kvtool what-if w.yaml" in err


def test_prompts_in_python_are_named_with_their_places(init: Command) -> None:
    write(
        "app/agent.py",
        "PROMPT = ChatPromptTemplate.from_messages([('system', 'You are {role}')])\n"
        "def ask(q):\n"
        "    return client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': f'{q}?'}])\n",
    )
    code, _, err = init()
    assert code == 2
    said = " ".join(err.split())
    assert "app/agent.py:1:10 (ChatPromptTemplate.from_messages)" in said
    assert "app/agent.py:3:12 (chat.completions.create with an f-string)" in said
    assert "kvtool lint app/agent.py" in said
    assert "kvtool probe" in said
    write("prompts/x.md", SUPPORT)
    code, out, _ = init()
    assert code == 0
    assert "app/agent.py:1:10" in " ".join(out.split())


def test_lint_without_inputs_reads_what_init_found(init: Command, in_folder: Command) -> None:
    write("prompts/x.md", SUPPORT)
    write("app/agent.py", "PROMPT = ChatPromptTemplate.from_messages([('system', 'You are {role}')])\n")
    write("other/prompt.j2", "# {{ now }}\n" * 3)
    write("app/none.py", "x = 1\n")
    code, out, _ = init()
    assert (code, out.splitlines()[-1]) == (0, "  kvtool check --allow-outside")
    code, out, _ = in_folder("lint", "--json", "--offline", "--allow-outside")
    assert {one["path"] for one in json.loads(out)["inputs"]} == {"kvtool-workload.yaml", "app/agent.py"}


def test_what_cannot_be_read_is_told_and_hides_nothing(init: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write("prompts/a.md", SUPPORT)
    write("prompts/latin.md", "caf\xe9".encode("latin-1"))
    write("prompts/empty.txt", "")
    write("prompts/picture.md", b"\x00\x01\x02")
    write("prompts/z.md", "never to be opened")
    opened = Path.open

    def refusing(self: Path, *arguments: object, **named: object) -> object:
        if self.name == "z.md":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *arguments, **named)  # type: ignore[call-overload]  # handed on as it came

    monkeypatch.setattr(Path, "open", refusing)
    code, out, _ = init()
    assert code == 0
    said = " ".join(out.split())
    assert "Found in .: 1 prompt" in said
    for left_out in (
        "prompts/empty.txt was left out: is empty",
        "prompts/latin.md was left out: is not UTF-8",
        "prompts/picture.md was left out: is a binary file",
        "1 more file could not be read",
    ):
        assert left_out in said


def test_a_folder_that_cannot_be_listed(init: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = os.scandir

    def refusing(path: object) -> object:
        if Path(str(path)).name in ("secret", "top"):
            raise PermissionError(13, "Permission denied")
        return scan(str(path))

    write("prompts/a.md", SUPPORT)
    write("secret/b.md", SUPPORT)
    write("top/c.md", SUPPORT)
    monkeypatch.setattr("kvtool.cli.commands.init.detect.os.scandir", refusing)
    code, out, _ = init()
    assert code == 0
    assert "secret was left out: permission denied" in " ".join(out.split())
    code, _, err = init("top")
    assert code == 2
    assert "cannot read `top`: Permission denied" in err


def test_links_that_go_round_are_no_folder(init: Command) -> None:
    Path("round").symlink_to("round")
    code, _, err = init("round")
    assert code == 2
    assert "not a folder" in err


def test_many_files_and_folders_are_not_all_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "MAX_FILES", 50)
    monkeypatch.setattr(detection, "MAX_BYTES", 1000)
    for number in range(100):
        (tmp_path / f"empty{number}").mkdir()
    found = detect(tmp_path)
    assert found.notes == ["only the first 50 files and folders were looked at"]
    write(str(tmp_path / "prompts.txt"), "some text")
    for number in range(100):
        write(str(tmp_path / f"aaa/{number}.txt"), "some text")
    monkeypatch.setattr(detection, "MAX_FILES", 150)
    assert detect(tmp_path).templates == ["prompts.txt"]  # what lies near goes first
    monkeypatch.setattr(detection, "MAX_FILES", 1000)
    for number in range(10):
        write(str(tmp_path / f"a/{number}.yaml"), f"{'x' * 300}\n")
    assert detect(tmp_path).notes[-1] == "only the first 0 MiB of text were read"


def test_a_workload_that_is_there_is_used_and_no_other_is_made(init: Command) -> None:
    write("a.yaml", WORKLOAD + "engine: {provider: openai}\n")
    write("prompts/x.md", SUPPORT)
    calls = "client.chat.completions.create(model='gpt-4o')", "client.messages.create(model='claude-sonnet-4-5')"
    write("app.py", f"import anthropic, openai\ndef ask(client):\n    return {', '.join(calls)}\n")
    write("compose.yaml", "services: {a: {image: b}}\n")
    write("broken.yaml", WORKLOAD + "more: 1\n")
    code, out, _ = init()
    assert code == 0
    assert "kvtool-workload.yaml" not in files()
    assert load_config("kvtool.toml").workloads == ["a.yaml"]
    assert "broken.yaml was left out: unknown key `more`" in " ".join(out.split())
    assert "set `provider`" not in out, "the workload has one"


def test_force_lints_the_files_of_the_first_run(init: Command) -> None:
    """Code that renders templates, code with prompts and data with prompts, though the workload file is there by then."""
    write("prompts/a.j2", "You are kind. {{ question }}\n")
    write("render.py", "def render(env, question):\n    return env.get_template('a.j2').render(question=question)\n")
    write("app.py", "SYSTEM_PROMPT = 'You answer questions about the handbook, in at most three sentences.'\n")
    assert init()[0] == 0
    first = load_config("kvtool.toml").lint_inputs
    assert {"render.py", "app.py"} <= set(first)
    write("prompts/new.j2", "You are new. {{ question }}\n")
    code, out, _ = init("--force")
    assert code == 0
    assert "in no workload: prompts/new.j2. " in " ".join(out.split())
    assert load_config("kvtool.toml").lint_inputs == first


def test_nothing_is_overwritten(init: Command) -> None:
    write("a.yaml", WORKLOAD)
    write("kvtool.toml", "seed = 7\n")
    code, _, err = init()
    assert code == 2
    assert "there already" in err
    assert Path("kvtool.toml").read_text(encoding="utf-8") == "seed = 7\n"
    assert init("--dry-run")[0] == 0
    assert Path("kvtool.toml").read_text(encoding="utf-8") == "seed = 7\n"
    assert init("--force")[0] == 0
    assert load_config("kvtool.toml").workloads == ["a.yaml"]
    write("pyproject.toml", "[tool.kvtool]\n")
    Path("kvtool.toml").unlink()
    code, _, err = init()
    assert code == 2
    assert "pyproject.toml:1:7" in err


def test_dry_run_shows_what_would_be_written(init: Command) -> None:
    write("prompts/x.md", SUPPORT)
    before = files()
    code, shown, _ = init("--print")
    assert code == 0
    assert files() == before
    assert init()[0] == 0
    for name in ("kvtool-workload.yaml", "kvtool.toml"):
        assert Path(name).read_text(encoding="utf-8") in shown


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_pyproject_gets_a_table_at_its_end(end: str, init: Command, in_folder: Command) -> None:
    write("a.yaml", WORKLOAD)
    before = f'[project]{end}name = "x"  # kept{end}'
    write("pyproject.toml", before)
    assert init("--pyproject")[0] == 0
    assert files() == {"a.yaml", "pyproject.toml", "chat_template.jinja"}
    whole = Path("pyproject.toml").read_bytes().decode()
    assert whole.startswith(before)
    assert whole.count("\r\n") == (whole.count("\n") if end == "\r\n" else 0)
    assert tomllib.loads(whole)["tool"]["kvtool"]["workloads"] == ["a.yaml"]
    assert in_folder("check", "-q")[0] == 0
    code, _, err = init("--pyproject", "--force")
    assert code == 2
    assert "has a table [tool.kvtool] already" in err
    assert Path("pyproject.toml").read_bytes().decode() == whole


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "there is no"), ("[project\n", "nothing can be added"), ("tool = 3\n", "nothing can be added")],
)
def test_pyproject_that_cannot_take_it(text: str | None, message: str, init: Command) -> None:
    write("a.yaml", WORKLOAD)
    if text is not None:
        write("pyproject.toml", text)
    code, _, err = init("--pyproject")
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_another_folder(init: Command, in_folder: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write("svc/prompts/x.md", SUPPORT)
    code, out, _ = init("svc")
    assert code == 0
    assert "cd svc && kvtool check" in out
    assert load_config("svc/kvtool.toml").workloads == ["svc/kvtool-workload.yaml"]
    monkeypatch.chdir("svc")
    monkeypatch.setenv("KVTOOL_CHAT_TEMPLATE", "../chat_template.jinja")
    assert in_folder("check", "-q")[0] == 0
    monkeypatch.chdir("..")
    for name in ("nowhere", "chat_template.jinja"):
        code, _, err = init(name)
        assert code == 2
        assert "not a folder" in err


def test_nothing_found(init: Command) -> None:
    write("notes.md", "nothing")
    write("app.py", 'SYSTEM_PROMPT = "You are"\n')
    write("data.jsonl", '{"x": 1}\n')
    code, _, err = init()
    assert code == 2
    assert "nothing to profile" in err
    assert "kvtool lint app.py" in err
    assert files() == {"notes.md", "app.py", "data.jsonl", "chat_template.jinja"}


def test_a_folder_that_cannot_be_written_leaves_nothing(init: Command) -> None:
    write("prompts/x.md", SUPPORT)
    Path("kvtool.toml").mkdir()
    code, _, err = init("--force")
    assert code == 2
    assert "directory" in err
    assert "kvtool-workload.yaml" not in files()


def test_what_is_looked_at(tmp_path: Path) -> None:
    for name in (
        "prompts/a.md", "prompts/README.md", "deep/er/system_prompt.txt", "x.j2", "nginx.conf.j2", "page.html.jinja",
        "chat_template.jinja", "notes.md", ".hidden/prompts/b.md", "node_modules/prompts/c.md",
        ".venv/lib/prompts/d.md", "venv/prompts/e.md", "1/2/3/4/5/6/7/prompts/f.md", "prompts/bad\x1bname.md",
    ):  # fmt: skip
        write(str(tmp_path / name), "some text")
    write(str(tmp_path / "prompts/empty.md"), "")
    write(str(tmp_path / "prompts/latin.md"), b"\xff\xfe\xfd")
    write(str(tmp_path / "logs/a.jsonl"), LOG)
    write(str(tmp_path / "logs/metrics.jsonl"), '{"loss": 0.1}\n')
    (tmp_path / "prompts/loop").symlink_to(tmp_path, target_is_directory=True)
    values = "vars: {a: {file: logs/values.jsonl}}\n"
    write(str(tmp_path / "logs/values.jsonl"), LOG)
    write(str(tmp_path / "w.yaml"), WORKLOAD.replace("groups", values + "groups"))
    found = detect(tmp_path)
    assert found.templates == ["deep/er/system_prompt.txt", "prompts/a.md", "x.j2"]
    assert found.logs == ["logs/a.jsonl"], "a workload reads the other"


def test_the_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        write(str(tmp_path / f"prompts/{number:02}.md"), "some text")
    found = detect(tmp_path)
    assert len(read_prompts(tmp_path, found.templates, notes := []).prompts) == 16
    assert notes == [
        "init takes the first 16 of 40 prompts. Left out: prompts/16.md, prompts/17.md, prompts/18.md and 21 more"
    ]
    monkeypatch.setattr(detection, "MAX_FILES", 6)  # the folder is one
    assert detect(tmp_path).templates == [f"prompts/{number:02}.md" for number in range(5)]
    monkeypatch.setattr(detection, "MAX_LOG_BYTES", 10)
    write(str(tmp_path / "a.jsonl"), LOG)
    assert "too much to run" in detect(tmp_path).notes[0]


def test_hostile_templates_and_names(init: Command, in_folder: Command) -> None:
    write("prompts/chat.j2", "{% for m in messages %}{{ m.role }}{% endfor %}")
    write("prompts/broken.j2", "{% if %}")
    write("prompts/include.j2", "{% include 'x' %}")
    write("prompts/loop.j2", "{% for i in range(10**9) %}x{% endfor %}")
    write("prompts/braces.md", "Write {% like this, and {{ so on")
    write("prompts/plain.txt", "Dear $name, text with a placeholder of another kind")
    write("prompts/filled.txt", "Dear {name}, text with a placeholder that code fills")
    write('prompts/a "b" #c: {d} [e].md', "A name that needs quotes, and some text that is shared.")
    write("prompts/::error::x.md", "A name that looks like a command of a workflow")
    code, out, err = init()
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    for left_out in ("broken.j2", "include.j2", "loop.j2"):
        assert f"prompts/{left_out} was left out" in said
    assert "includes `x`, which does not exist (prompts/include.j2:1:13)" in said
    assert "Dear {{ name }}, text" in Path("kvtool-workload.yaml").read_text()
    assert "plain.txt has placeholders that are not Jinja. They are sent as written." in said
    assert not any(line.lstrip().startswith("::") for line in out.splitlines())
    source = load_yaml_workload("kvtool-workload.yaml")
    assert sorted(group.name for group in source.spec.groups) == [
        "::error::x",
        'a "b" #c: {d} [e]',
        "braces",
        "chat",
        "filled",
        "plain",
    ]
    assert in_folder("check", "-q")[0] == 0


def test_every_guess_is_a_variable_of_a_workload() -> None:
    names = [
        "now", "requestId", "n", "question", "context", "company", "user_name", "lang", "whatever", "created_at",
        "true",
    ]  # fmt: skip
    lines = "".join(f"  {name}: {generator(name)[0]}\n" for name in names)
    text = f'version: 1\nvars:\n{lines}groups: [{{name: a, text: "x"}}]\n'
    workload = validate(parse_yaml(text, "w.yaml"), codes)
    assert set(workload.vars) == set(names)
    assert workload.vars["created_at"].datetime == 60
    assert workload.vars["requestId"].uuid == "4"
    from jsonschema import Draft202012Validator

    document = yaml.safe_load(text)
    document["vars"] = {str(key): value for key, value in document["vars"].items()}
    Draft202012Validator(SCHEMAS["workload"].document()).validate(document)


def test_ctrl_c_writes_nothing(init: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtool.profiler.profiler import Profiler

    original = Profiler.run

    def interrupted(self: Profiler) -> object:
        return original(self).model_copy(update={"partial": True})

    monkeypatch.setattr(Profiler, "run", interrupted)
    write("prompts/x.md", SUPPORT)
    assert init()[0] == 130
    assert files() == {"prompts", "chat_template.jinja"}


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in ("init", "config", "schema"))


_CLIENT = "from openai import OpenAI\nclient = OpenAI({})\n"
_SEND = "client.chat.completions.create(model={}, messages=[])\n"


@pytest.mark.parametrize(
    ("code", "provider", "said"),
    [
        (_CLIENT.format("") + _SEND.format("'gpt-4.1'"), "openai", "all prompts are shorter than 1,024 tokens"),
        (_CLIENT.format("") + "M = 'gpt-4.1-mini'\n" + _SEND.format("M"), "openai", "Cache rules of openai"),
        (_CLIENT.format("base_url=URL") + _SEND.format("'gpt-4.1'"), None, "app.py:2 sets the address of a server"),
        (_CLIENT.format("") + _SEND.format("pick()"), None, "cannot read which model app.py:3:1"),
        (_SEND.format("'gpt-4.1'") + "a.messages.create(model=m)", None, "cannot read which model app.py:2:1"),
        (_SEND.format("'org/own-7b'"), None, "no provider's rules for org/own-7b"),
        (_SEND.format("'gpt-4.1'") + _SEND.format("'claude-opus-4-5'"), None, "anthropic-4096 (claude-opus-4-5)"),
        (
            _CLIENT.format("base_url='http://localhost:8000/v1'") + _SEND.format("'m'"),
            None,
            "app.py:2 sets the address",
        ),
        (
            _CLIENT.format("base_url='https://api.openai.com/v1'") + _SEND.format("'gpt-4.1'"),
            "openai",
            "rules of openai",
        ),
        (
            _CLIENT.format("base_url='https://api.deepseek.com'") + _SEND.format("M"),
            "deepseek",
            "the code calls its API",
        ),
        (
            "URL = 'https://generativelanguage.googleapis.com/v1beta/openai/'\n"
            + _CLIENT.format("base_url=URL")
            + _SEND.format("'gemini-2.5-pro'"),
            "gemini-2.5",
            "Cache rules of gemini-2.5",
        ),
        (
            _CLIENT.format("base_url='https://openrouter.ai/api/v1'") + _SEND.format("'anthropic/claude-sonnet-4-5'"),
            "anthropic",
            "the code calls anthropic/claude-sonnet-4-5",
        ),
        (
            _CLIENT.format("base_url='https://x.openai.azure.com'") + _SEND.format("'gpt-4.1'"),
            "azure",
            "rules of azure",
        ),
        (_CLIENT.format(""), None, ""),
    ],
)
def test_the_rules_are_those_of_the_models_that_the_code_calls(
    init: Command, code: str, provider: str | None, said: str
) -> None:
    write("prompts/x.md", SUPPORT)
    write("app.py", code)
    returned, out, _ = init()
    assert returned == 0
    assert said in " ".join(out.split())
    assert ("ache rules of" in out) == bool(said)
    assert load_config("kvtool.toml").config.engine.provider == provider
    assert (f"# cache rules of {provider or 'vLLM'}" in Path("kvtool.toml").read_text()) == bool(said)


@pytest.mark.parametrize(
    ("model", "provider"), [('openai("gpt-4.1")', "openai"), ('anthropic("claude-haiku-4-5")', "anthropic-4096")]
)
def test_the_model_of_typescript_decides_alike(init: Command, model: str, provider: str) -> None:
    write("prompts/x.md", SUPPORT)
    write("app.ts", f"export const ask = (prompt: string) => streamText({{ model: {model}, prompt }});\n")
    assert init()[0] == 0
    assert load_config("kvtool.toml").config.engine.provider == provider
