"""What a workload may name: files of its repository, or of its folder where it stands in none, links followed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.errors import KvtoolError
from kvtool.text.files import file_patterns
from kvtool.workload.yaml.named_files import named_files
from kvtool.workload.yaml.yaml_source import YamlSource, load_yaml_workload
from tests.files import write

SECRET = "the secret that nobody may see, long enough for a block or two"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder below another one, which has a secret."""
    write(str(tmp_path / "secret.md"), SECRET)
    write(str(tmp_path / "secret.jsonl"), json.dumps({"prompt": SECRET}) + "\n")
    write(str(tmp_path / "secret.json"), json.dumps([{"name": SECRET}]))
    inner = tmp_path / "inner"
    (inner / "prompts").mkdir(parents=True)
    write(str(inner / "prompts" / "own.md"), "a text of its own")
    (inner / "link.md").symlink_to("../secret.md")
    (inner / "prompts" / "out").symlink_to("../..")
    (inner / "own-link.md").symlink_to("prompts/own.md")
    monkeypatch.chdir(inner)
    return inner


def workload(group: str, top: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in group.splitlines())
    return write("w.yaml", f"version: 1\n{top}groups:\n  - name: g\n{lines}\n")


def text_of(source: YamlSource) -> str:
    return str(
        [turn.text or turn.messages for turn in (each.next_turn(None) for each in source.conversations()) if turn]
    )


OUTSIDE = [
    ("file: ../secret.md", "", "4:11"),
    ("file: link.md", "", "4:11"),
    ("file: prompts/out/secret.md", "", "4:11"),
    ("glob: ../*.md", "", "4:11"),
    ("glob: 'prompts/out/secret.md'", "", "4:11"),
    ("glob: link.m?", "", "4:11"),
    ("glob: /**/*", "", "4:11"),
    ("messages:\n  - {role: user, file: ../secret.md}", "", "5:28"),
    ("segments:\n  - {glob: '../*.md'}", "", "5:16"),
    ("text: 'x {{ v }}'", "vars:\n  v: {file: ../secret.md}\n", "3:13"),
    ("text: 'x {{ v }}'\nvars:\n  v: {file: ../secret.md}", "", "6:17"),
    ("messages: [{role: user, text: x}]\ntools: {file: ../secret.json}", "", "5:19"),
    ("import: {jsonl: ../secret.jsonl}", "", "4:21"),
    ("import: {txt: '../*.md'}", "", "4:19"),
    ("text: x", "engine: {chat_template: ../secret.md}\n", "2:25"),
    ("text: x", "engine: {tokenizer: ../secret.json}\n", "2:21"),
    ("text: x", "engine: {tokenizer: ..}\n", "2:21"),
    ("text: x", "engine: {model: ..}\n", "2:17"),
]


@pytest.mark.parametrize(("group", "top", "place"), OUTSIDE)
def test_nothing_outside_is_read(
    group: str, top: str, place: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = workload(group, top)
    assert run(["profile", path, "--dry-run"]) == 2
    err = capsys.readouterr().err
    line, column = (int(number) for number in place.split(":"))
    found = re.search(r"w\.yaml:(\d+):(\d+): `\S+` lies outside of the folder of the file that names it", err)
    assert found is not None, err
    shift = 1 if "'" in (folder / path).read_text(encoding="utf-8").splitlines()[line - 1][column - 1 : column] else 0
    assert (int(found[1]), int(found[2])) in ((line, column), (line, column + shift))
    assert "--allow-outside" in err
    assert SECRET not in err


@pytest.mark.parametrize(
    ("group", "top", "place"), [each for each in OUTSIDE if "/**" not in each[0] and "engine" not in each[1]]
)
def test_all_of_it_is_read_where_that_is_allowed(group: str, top: str, place: str, folder: Path) -> None:
    source = load_yaml_workload(workload(group, top), allow_outside=True)
    if "tools" not in group:
        assert SECRET in text_of(source)


def test_links_within_are_followed(folder: Path) -> None:
    assert "a text of its own" in text_of(load_yaml_workload(workload("file: own-link.md")))
    assert "a text of its own" in text_of(load_yaml_workload(workload("glob: 'own-*.md'")))
    assert "a text of its own" in text_of(load_yaml_workload(workload("glob: '**/own.md'")))  # passes by prompts/out


def test_the_repository_of_a_workload_may_be_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(str(tmp_path / ".git" / "config"), "token = 123")
    assert SECRET in text_of(load_yaml_workload(workload("file: ../secret.md")))
    assert SECRET in text_of(load_yaml_workload(workload("glob: '../*.md'")))
    for name in ("../.git/config", "prompts/out/.git/config"):
        with pytest.raises(KvtoolError, match=r"lies in `\.git`"):
            load_yaml_workload(workload(f"file: {name}"))
    with pytest.raises(KvtoolError, match="lies outside of the repository"):
        load_yaml_workload(workload("file: ../../x.md"))
    with pytest.raises(KvtoolError, match="no file matches"):
        load_yaml_workload(workload("glob: '../.g*/*'"))


def test_a_workload_that_is_named_from_elsewhere(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload("file: prompts/own.md", "engine: {tokenizer: secret.json}\n")
    load_yaml_workload("w.yaml")  # neither here nor beside it: the id of one
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KvtoolError, match="lies outside"):  # a name that leads from the working folder to a file
        load_yaml_workload("inner/w.yaml")
    source = load_yaml_workload("inner/w.yaml", allow_outside=True)
    assert "a text of its own" in text_of(source)


def test_a_tokenizer_whose_files_are_links(folder: Path) -> None:
    write("tok/tokenizer.json", "{}")
    (folder / "tok" / "chat_template.jinja").symlink_to("../../secret.md")
    for name in ("tok", "tok/tokenizer.json"):
        with pytest.raises(KvtoolError, match=r"`tok/chat_template\.jinja` lies outside") as caught:
            load_yaml_workload(workload("text: x", f"engine: {{tokenizer: {name}}}\n"))
        assert str(caught.value.place) == "w.yaml:2:21"


def test_a_pattern_that_looks_at_too_much(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        write(f"many/{number}/x.md", "text")
    monkeypatch.setattr(file_patterns, "MOST_LOOKED_AT", 20)
    with pytest.raises(KvtoolError, match="searches more than 20 files and folders") as caught:
        load_yaml_workload(workload("glob: '**/*.md'"))
    assert str(caught.value.place).startswith("w.yaml:4:1")


def test_names_that_are_only_looked_for(folder: Path) -> None:
    text = "version: 1\ntools: [{file: ../secret.md}, {glob: '../*.md'}, {file: link.md}, {file: prompts/own.md}]\n"
    path = write("w.yaml", text)
    assert named_files(path, text) == ["prompts/own.md"]
    assert named_files(path, text, allow_outside=True) == ["../secret.md", "link.md", "prompts/own.md"]


@pytest.mark.parametrize(
    "command",
    [
        ["profile", "--dry-run", "--no-advice"],
        ["check", "--no-advice"],
        ["lint", "--error-on", "error"],
        ["optimize"],
        ["lint", "--diff"],
    ],
)
def test_every_command_has_the_flag(command: list[str], folder: Path, bytes_json: str) -> None:
    path = workload("requests: 3\nfile: ../secret.md")
    assert run([*command, path, "-t", bytes_json, "-q"]) == 2
    assert run([*command, path, "-t", bytes_json, "-q", "--allow-outside"]) == 0


def test_edits_of_files_that_lie_outside(folder: Path, tmp_path: Path, bytes_json: str) -> None:
    rules = "Be short, be kind, be right, and say what you do not know.\n"
    write(str(tmp_path / "system.md"), "Now: {{ now }}\n" + rules * 4)
    path = workload(
        "requests: 9\nmessages:\n  - {role: system, file: ../system.md}\n  - {role: user, text: Hello}",
        "vars: {now: {datetime: 1m}}\n",
    )
    flags = ["optimize", path, "-t", bytes_json, "-q", "--allow", "P2", "--write"]
    assert run(flags) == 2
    assert run([*flags, "--allow-outside"]) == 0
    assert (tmp_path / "system.md").read_text(encoding="utf-8").startswith(rules)


def test_an_output_is_never_a_file_that_a_workload_names(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = workload("file: ../secret.md")
    assert run(["profile", path, "--dry-run", "-t", bytes_json, "--allow-outside", "-o", "md=../secret.md"]) == 2
    assert "is a file of w.yaml, too" in capsys.readouterr().err


CONFIG = [
    ('workloads = ["../w.yaml"]', "1:14"),
    ('workloads = ["/**/*.yaml"]', "1:14"),
    ('workloads = ["prompts/*/secret.jsonl"]', "1:14"),
    ('workloads = ["link.m?"]', "1:14"),
    ('workloads = ["w.yaml"]\n[check]\nbaseline = "../base.json"', "3:12"),
    ('workloads = ["w.yaml"]\n[engine]\ntokenizer = "../secret.json"', "3:13"),
    ('workloads = ["w.yaml"]\n[engine]\nchat_template = "link.md"', "3:17"),
    ('workloads = ["w.yaml"]\n[engine]\nmodel = ".."', "3:9"),
]


@pytest.mark.parametrize(("text", "place"), CONFIG)
def test_what_a_configuration_names(text: str, place: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload("file: prompts/own.md")
    write("kvtool.toml", text + "\n")
    assert run(["check", "-q"]) == 2
    err = capsys.readouterr().err
    assert f"kvtool.toml:{place}: " in err
    assert "lies outside of the folder of the file that names it" in err
    assert "--allow-outside" in err


def test_the_usual_baseline_may_be_no_link_that_leads_out(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload("file: prompts/own.md")
    write("kvtool.toml", 'workloads = ["w.yaml"]\n')
    (folder / "kvtool-baseline.json").symlink_to("../made.json")
    assert run(["check", "-q", "--update-baseline"]) == 2
    assert "`kvtool-baseline.json` lies outside" in capsys.readouterr().err
    assert not (tmp_path / "made.json").exists()


def test_what_the_command_line_names_may_lie_anywhere(folder: Path, tmp_path: Path, byte_spec: str) -> None:
    workload("requests: 3\nfile: prompts/own.md")
    write(str(tmp_path / "tokenizer.json"), byte_spec)
    write("kvtool.toml", 'workloads = ["w.yaml"]\n[engine]\ntokenizer = "../secret.json"\n')
    assert run(["check", "-q", "-t", "../tokenizer.json", "--baseline", "../base.json", "--update-baseline"]) == 0
    assert (tmp_path / "base.json").exists()
    assert run(["check", "-q", "../secret.jsonl", "--no-config", "-t", "../tokenizer.json"]) == 0
