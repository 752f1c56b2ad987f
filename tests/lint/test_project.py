"""Folders as inputs of lint: which files are read, what git ignores, and what is wrong with some of them."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.lint.evidence.unnamed_prompts import is_prompt_text
from kvtool.lint.folders.folder_files import project_files
from kvtool.lint.lint_inputs import DATA, sort_inputs
from tests.conftest import some
from tests.files import write

Command = Callable[..., tuple[int, str, str]]

SAID = "Say which berth is free, and name the row of the tide table that you took it from. "
ASKS = f"Your task is to answer. {SAID}{SAID}You must be brief.\n"
LONG = "You are the assistant. " * 20
TEMPLATE = "Now: {{ now() }}\n" + LONG
TEXT = "Now: {now}\n" + LONG
WORKLOAD = "version: 1\nvars: {now: {datetime: 1m}}\ngroups:\n  - {name: g, requests: 5, file: prompts/run.j2}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    return tmp_path


def read() -> list[str]:
    return project_files(".").paths


def test_what_is_read_of_a_folder(folder: Path) -> None:
    for name, text in {
        "a.j2": TEMPLATE,
        "src/build.py": "x = 1\n",
        "w.yaml": WORKLOAD,
        "rules.yaml": "groups:\n  - name: alerts\n",
        "compose.yaml": "version: 3\nservices: {}\n",
        "deploy.yaml.j2": TEMPLATE,
        "prompts/deep/a.md": TEXT,
        "prompts/README.md": TEXT,
        "docs/guide.md": TEXT,
        "system_prompt.txt": TEXT,
        "instructions.md": TEXT,
        "agents/planner/system.md": TEXT,
        "docs/systems.md": TEXT,
        "judges/ranks.txt": "<|im_start|>user\nRank these: {output_1} and {output_2}\n<|im_end|>\n",
        "judges/notes.txt": "What {output_1} said.\n",
        "judges/pilot.md": f"---\nname: pilot\n---\nYou are a pilot. {SAID}{SAID}\n\nAsked is {{question}}.\n",
        "judges/shown.md": f"You are a pilot. {SAID}{SAID}\n\n```\nAsked is {{question}}.\n```\nor `{{question}}`\n",
        "judges/rank_user.txt": f"{ASKS}{{question}}\n",
        "judges/rank_users.txt": f"{ASKS}{{question}}\n",
        "judges/about.md": f"# Judges\n\n{SAID * 8}\nYou are a pilot. Asked is {{question}}.\n",
        "tests/a.j2": TEMPLATE,
        "src/test/prompts/a.md": TEXT,
        "docs/prompts/a.md": TEXT,
        "src/examples/prompt.md": TEXT,
        "few_shot_examples/prompt.md": TEXT,
        "judges/image.txt": b"\x89PNG\0\0",
        "prompts/empty.md": "",
        "prompts/image.md": b"\x89PNG\0\0",
        "log.jsonl": "{}\n",
        ".venv/lib/a.j2": TEMPLATE,
        "node_modules/x/a.j2": TEMPLATE,
        "build/a.j2": TEMPLATE,
        "pkg.egg-info/a.j2": TEMPLATE,
        ".git/a.j2": TEMPLATE,
    }.items():
        write(name, text)
    project = project_files(".")
    assert project.paths == [
        "a.j2", "instructions.md", "system_prompt.txt", "w.yaml", "agents/planner/system.md", "judges/pilot.md",
        "judges/rank_user.txt", "judges/ranks.txt", "prompts/deep/a.md", "src/build.py",
    ]  # fmt: skip
    assert project.left_out == [("prompts/image.md", "binary")]
    assert project_files("prompts").paths == ["prompts/deep/a.md"]


def test_yaml_with_groups_of_something_else_may_hold_prompts(folder: Path) -> None:
    held = f"groups:\n  - keepers\ntext:\n  prompt: |-\n    Asked is {{question}}.\n    {LONG}\n"
    write("a.yaml", held)
    write("rules.yaml", "groups:\n  - name: alerts\n")
    assert read() == ["a.yaml"]
    (one,) = sort_inputs(["a.yaml"], ["a.yaml"]).texts
    assert one.style == DATA


def test_xml_and_mustache_are_read_where_they_are_prompts(folder: Path) -> None:
    role = "You are a keeper of the ledger. Answer each question with the words of the tide table only. " * 3
    for name in ("prompts/ask.xml", "pom.xml", "judge.mustache", "page.html.mustache", "mail.hbs", "asks.xml"):
        write(
            name, "<project>{name}</project>\n" if name == "pom.xml" else f"<role>{role}</role>\n<q>{{question}}</q>\n"
        )
    assert read() == ["asks.xml", "judge.mustache", "mail.hbs", "prompts/ask.xml"]


def test_rules_of_git_above_and_below(folder: Path) -> None:
    write(".gitignore", "*.gen.j2\n/top.j2\nout/\n")
    write(".git/info/exclude", "private.j2\n")
    write("sub/.gitignore", "!keep.gen.j2\n\\!odd.j2\n[z-\n")
    for name in (
        "top.j2", "sub/top.j2", "a.gen.j2", "sub/keep.gen.j2", "out/a.j2", "sub/out/a.j2", "private.j2",
        "sub/!odd.j2",
    ):  # fmt: skip
        write(name, TEMPLATE)
    assert read() == ["sub/keep.gen.j2", "sub/top.j2"]
    os.chdir("sub")
    assert read() == ["keep.gen.j2", "top.j2"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git itself is asked")
@pytest.mark.parametrize("seed", some(range(6), 2))
def test_it_is_what_git_says(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    subprocess.run(["git", "init", "-q", "."], check=True, capture_output=True)
    chance = random.Random(seed)
    names = ["a", "b", "c", "prompt"]
    folders = ["", *dict.fromkeys("/".join(chance.choices(names, k=chance.randint(1, 3))) + "/" for _ in range(6))]
    for at in folders:
        for name in chance.sample(names, 3):
            write(f"{at}{name}.py", "x = 1\n")
    patterns = [
        "*.py", "/a.py", "a/", "b", "/b/", "**/c.py", "a/**", "c*", "!c.py", "!/a/", "prompt.py", "a/b.py", "[ab].py",
        "!b.py",
    ]  # fmt: skip
    for at in chance.sample(folders, 3):
        write(f"{at}.gitignore", "\n".join(chance.sample(patterns, 4)) + "\n")
    said = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z", "*.py"], check=True, capture_output=True, text=True
    )
    assert sorted(read()) == sorted(set(said.stdout.split("\0")) - {""})


def test_links_that_lead_in_a_circle_end(folder: Path) -> None:
    write("prompts/a.md", TEXT)
    Path("loop").symlink_to(".")
    Path("prompts/up").symlink_to("../prompts")
    Path("self.j2").symlink_to("self")
    Path("linked_prompt.md").symlink_to("prompts/a.md")
    assert read() == ["linked_prompt.md", "prompts/a.md"]


def document(kvtool: Command, *arguments: str) -> tuple[int, dict[str, Any], str]:
    code, out, err = kvtool("lint", "--json", *arguments)
    return code, json.loads(out), err


def places(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["path"], one["evidence"]) for one in found["findings"]]


@pytest.mark.parametrize("given", [(), (".",)])
def test_without_arguments_the_working_folder_is_read(given: tuple[str, ...], in_folder: Command) -> None:
    write("prompts/run.j2", "Now: {{ now }}\n" + LONG)
    write("prompts/other.md", TEXT)
    write("w.yaml", WORKLOAD)
    code, found, err = document(in_folder, *given)
    assert (code, err) == (1, "")
    assert places(found) == [("prompts/other.md", "static"), ("prompts/run.j2", "measured")], "the run tells more"


def test_texts_of_a_folder_are_templates_and_named_ones_prompts(in_folder: Command) -> None:
    write("prompts/a.md", TEXT)
    write("prompts/b.md", TEXT)
    assert places(document(in_folder, "prompts")[1]) == [("prompts/a.md", "static"), ("prompts/b.md", "static")]
    assert places(document(in_folder, "prompts/a.md", "prompts/b.md")[1]) == []


def test_a_configuration_with_workloads_goes_before_the_folder(in_folder: Command) -> None:
    write("prompts/run.j2", LONG)
    write("other.j2", TEMPLATE)
    write("w.yaml", WORKLOAD)
    write("kvtool.toml", 'workloads = ["w.yaml"]\n')
    assert [one["path"] for one in document(in_folder)[1]["inputs"]] == ["w.yaml"]


def test_inputs_of_the_configuration_are_read_beside_its_workloads(in_folder: Command) -> None:
    write("w.yaml", WORKLOAD)
    write("prompts/run.j2", LONG)
    write("sub/a.j2", TEMPLATE)
    write("sub/b.py", "x = 1\n")
    write("other.j2", TEMPLATE)
    for inputs, read in (('["sub"]', ["sub/a.j2", "sub/b.py"]), ('["sub/*.py", "other.j2"]', ["sub/b.py", "other.j2"])):
        write("kvtool.toml", f'workloads = ["w.yaml"]\n[lint]\ninputs = {inputs}\n')
        assert {one["path"] for one in document(in_folder)[1]["inputs"]} == {"w.yaml", *read}
    write("kvtool.toml", '[lint]\ninputs = ["none/"]\n')
    code, _, err = in_folder("lint")
    assert (code, "kvtool.toml:2:11" in err) == (2, True)


def test_include_and_exclude(in_folder: Command) -> None:
    write("agents/a.md", TEXT)
    write("legacy/b.j2", TEMPLATE)
    write("sub/c.j2", TEMPLATE)
    write("kvtool.toml", '[lint]\ninclude = ["/agents/*.md"]\nexclude = ["legacy/"]\n')
    assert [path for path, _ in places(document(in_folder)[1])] == ["agents/a.md", "sub/c.j2"]
    assert [path for path, _ in places(document(in_folder, "--exclude", "sub")[1])] == ["agents/a.md", "legacy/b.j2"]
    assert [path for path, _ in places(document(in_folder, "legacy/b.j2")[1])] == ["legacy/b.j2"], "it was named"


def test_one_bad_file_hides_no_finding_of_the_others(in_folder: Command) -> None:
    write("a.j2", TEMPLATE)
    write("bad.j2", "{% if %}")
    write("latin.j2", b"caf\xe9 {{ now() }}")
    write("broken.py", "def (\n")
    write("w.yaml", "version: 1\ngroups:\n  - {name: g, requests: x}\n")
    code, found, err = document(in_folder)
    assert code == 2
    assert places(found) == [("a.j2", "static")]
    assert [*dict.fromkeys(one["path"] for one in found["problems"])] == ["latin.j2", "bad.j2", "broken.py", "w.yaml"]
    for text in ("latin.j2:1:4", "bad.j2:1:1", "broken.py:1:5", "w.yaml:3"):
        assert f"error: {text}" in err
    code, out, _ = in_folder("lint", "a.j2", "missing.j2")
    assert code == 2
    assert "a.j2:1:6: KV101" in out
    before = Path("a.j2").read_text()
    code, out, _ = in_folder("lint", "a.j2", "missing.j2", "--fix", "--unsafe-fixes")
    assert (code, Path("a.j2").read_text()) == (2, before), "nothing is edited while something is wrong"


def chat(system: str) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": "Hi"}]}


def test_a_bad_log_hides_no_finding_of_the_other_logs(in_folder: Command) -> None:
    chats = [chat(f"Now: 10:{n:02d}\n{LONG}") for n in range(6)]
    write("good.jsonl", "".join(json.dumps(one) + "\n" for one in chats))
    write("bad.jsonl", json.dumps(chats[0]) + "\n{nonsense\n")
    write("same-ids.jsonl", "".join(json.dumps({"id": "7", **one}) + "\n" for one in chats))
    code, found, err = document(in_folder, "bad.jsonl", "good.jsonl", "missing.jsonl", "same-ids.jsonl")
    assert code == 2
    assert ("good.jsonl", "measured") in places(found)
    assert not {"bad.jsonl", "missing.jsonl"} & {path for path, _ in places(found)}
    assert [one["path"] for one in found["inputs"]] == ["good.jsonl", "same-ids.jsonl"]
    assert "bad.jsonl:2" in err
    assert "missing.jsonl" in err


def test_a_folder_without_prompts(in_folder: Command) -> None:
    write("data/a.bin", b"\0")
    code, out, err = in_folder("lint")
    assert (code, out) == (2, "")
    assert "kvtool lint found nothing to read in the working folder" in err
    write("a.j2", TEMPLATE)
    code, out, err = in_folder("lint", "data", "a.j2")
    assert code == 2
    assert "a.j2:1:6: KV101" in out
    assert "nothing to read in `data`" in err


def test_binary_files_are_told_with_v(in_folder: Command) -> None:
    write("prompts/a.md", LONG)
    write("prompts/image.md", b"\x89PNG\0\x1b[31m")
    assert in_folder("lint")[2] == ""
    assert in_folder("lint", "-v")[2] == "left out: prompts/image.md (binary)\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_folder_that_cannot_be_entered_is_a_problem(in_folder: Command) -> None:
    write("a.j2", TEMPLATE)
    write("closed/b.j2", TEMPLATE)
    Path("closed").chmod(0)
    try:
        code, out, err = in_folder("lint")
    finally:
        Path("closed").chmod(0o755)
    assert code == 2
    assert "a.j2:1:6: KV101" in out
    assert "cannot read the folder `closed`" in err


def test_ten_thousand_files_are_walked_and_only_those_that_matter_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (folder / f"d{number}").mkdir()
        for other in range(100):
            (folder / f"d{number}" / f"f{other}.bin").touch()
    write("d7/a.j2", TEMPLATE)
    opened: list[str] = []
    original = Path.open

    def counted(self: Path, *arguments: Any, **named: Any) -> Any:
        opened.append(self.name)
        return original(self, *arguments, **named)

    monkeypatch.setattr(Path, "open", counted)
    assert read() == ["d7/a.j2"]
    assert opened == ["a.j2"]


def test_a_text_that_no_name_says_to_be_a_prompt() -> None:
    for text, expected in [
        ("<|im_start|>user\nRank these.\n{output_1}\n<|im_end|>", True),
        (
            "You are a pilot.\nWhat is asked: {question}\n"
            + "Say which berth is free, and name the row of the tide table that you took it from. " * 2,
            True,
        ),
        (
            f"<task>\nYour task is to answer. {SAID}{SAID}You must be brief.</task>\n<question>{{question}}</question>\n",
            True,
        ),
        (f"Your task is to answer. {SAID}{SAID}You must be brief.\n{{question}}\n", False),
        (f"Given the text {{{{ text }}}}, answer it. {SAID}{SAID}You must be brief.\nReturn JSON.", True),
        (f"Given the tide {{{{ tide }}}}, answer it. {SAID}{SAID}You must be brief.\nReturn JSON.", True),
        (f"Dear {{{{ keeper }}}}, {SAID}You must be brief. Please answer JSON.", False),
        ("Dear {name}, the harbour is closed. You are welcome in May.", False),
        ("You are a pilot. You must answer briefly. Say which berth it is.", False),
        ("The licence of {text} is granted. It is free.", False),
    ]:
        assert is_prompt_text(text) is expected
