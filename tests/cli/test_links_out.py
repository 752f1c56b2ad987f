"""Links of a checkout that lead out of it: no command writes through one, and a walk reads none."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.errors import KvtoolError
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.files.checkout_links import open_folder, write_target
from kvtool.text.files.part_file import PartFile
from tests.conftest import NIGHTLY, some
from tests.files import write

RULES = "Answer only from the handbook, quote the line that you took it from, and be kind.\n"
TEMPLATE = "# Desk\nNow: {{ now }}\n" + RULES * 8
WORKLOAD = """\
version: 1
vars:
  now: {datetime: 1m}
groups:
  - name: desk
    requests: 4
    messages:
      - {role: system, file: desk.md}
"""
CONFIG = '[gate]\nhit_rate = ">=0%"\n'
RUN = ("--block-size", "16", "--offline")
COMMANDS: dict[str, tuple[str, ...]] = {
    "profile -o": ("profile", "w.yaml", "--dry-run", "--no-advice", "-o", "json=OUT", *RUN),
    "profile --events": ("profile", "w.yaml", "--dry-run", "--no-advice", "--events", "OUT", *RUN),
    "profile --metrics": ("profile", "w.yaml", "--dry-run", "--no-advice", "--metrics", "OUT", *RUN),
    "report -o": ("report", "saved.json", "-o", "md=OUT"),
    "compare -o": ("compare", "saved.json", "saved.json", "-o", "md=OUT"),
    "compare-engines -o": ("compare-engines", "w.yaml", "-o", "json=OUT", "--offline"),
    "what-if -o": ("what-if", "w.yaml", "-o", "json=OUT", "--offline"),
    "check -o": ("check", "w.yaml", "-o", "json=OUT", *RUN),
    "check --update-baseline": ("check", "w.yaml", "--baseline", "OUT", "--update-baseline", *RUN),
    "check --tighten": ("check", "w.yaml", "--tighten", "--config", "OUT", *RUN),
    "lint -o": ("lint", "t.j2", "-o", "json=OUT", *RUN),
    "lint --fix": ("lint", "OUT", "--fix", "--unsafe-fixes", *RUN),
    "lint --fix --undo": ("lint", "t.j2", "--fix", "--unsafe-fixes", "--undo", "OUT", *RUN),
    "optimize --undo": ("optimize", "w.yaml", "--unsafe-fixes", "--write", "--undo", "OUT", *RUN),
    "optimize -o": ("optimize", "log.jsonl", "--capacity", "2", "-o", "OUT", *RUN),
    "trace -o": ("trace", "log.jsonl", "-o", "OUT", *RUN),
    "trace --export": ("trace", "log.jsonl", "--export", "mooncake", "-o", "OUT", *RUN),
    "bench -o": ("bench", "-o", "OUT", "--budget", "1"),
    "init": ("init", "--force", "--offline", "FOLDER"),
    "init --pyproject": ("init", "--pyproject", "--offline", "FOLDER"),
    "demo --write": ("demo", "--write", "FOLDER"),
}
KINDS = ("file", "dangling", "folder")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, bytes_json: str) -> str:
    folder = tmp_path_factory.mktemp("saved")
    write(f"{folder}/desk.md", TEMPLATE)
    path = f"{folder}/saved.json"
    run(["profile", write(f"{folder}/w.yaml", WORKLOAD), "--dry-run", "-q", "-o", path, "-t", bytes_json])
    return Path(path).read_text()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder that is a repository, beside one that is not a part of it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "co" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "co")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return tmp_path / "co"


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (command, kind)
        for number, command in enumerate(COMMANDS)
        for kind in (KINDS if NIGHTLY else [KINDS[number % len(KINDS)]])
    ],
)
def test_nothing_is_written_out_of_the_checkout(
    command: str, kind: str, checkout: Path, saved: str, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if command == "trace -o":
        pytest.importorskip("pyarrow", reason="block traces are Parquet files")
    outside = checkout.parent / "outside"
    name = {"init": "kvtool.toml", "init --pyproject": "pyproject.toml", "lint --fix": "out.j2"}.get(
        command, "out.toml"
    )
    folder = outside if kind == "folder" and command.startswith("init") else checkout
    for path, text in (("w.yaml", WORKLOAD), ("desk.md", TEMPLATE), ("t.j2", TEMPLATE), ("saved.json", saved)):
        write(f"{folder}/{path}", text)
        write(path, text)
    write("log.jsonl", "".join(json.dumps({"prompt": f"{at % 3} {RULES * 4}"}) + "\n" for at in range(9)))
    if kind == "folder":
        Path("sub").symlink_to("../outside")
    else:
        Path("workloads" if "demo" in command else name).symlink_to(f"../outside/{name}")
    if kind == "file" or (kind == "folder" and command in ("lint --fix", "check --tighten", "init --pyproject")):
        write(f"{outside}/{name}", TEMPLATE if name == "out.j2" else CONFIG if "tighten" in command else "[project]\n")
    out, named = (f"sub/{name}", "sub") if kind == "folder" else (name, ".")
    arguments = [named if each == "FOLDER" else each.replace("OUT", out) for each in COMMANDS[command]]
    before = contents(outside)
    code = run([*arguments, *(["-t", bytes_json] if "--offline" in arguments else [])])
    assert contents(outside) == before
    assert code == 2, capsys.readouterr().err


def test_a_walk_leaves_out_and_counts_what_lies_outside(
    checkout: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = write(f"{checkout.parent}/outside/prompt.j2", f"The secret is {{{{ now }}}}.\n{RULES * 30}")
    Path("prompt.j2").symlink_to(secret)
    Path("inside.j2").symlink_to("t.j2")
    write("t.j2", TEMPLATE)
    flags = ("--unsafe-fixes", "-t", bytes_json, "--no-cache")
    assert run(["lint", ".", "--fix", *flags]) == 0
    said = capsys.readouterr()
    assert "1 link to files outside the repository not read" in said.out
    assert "secret" not in said.out + said.err
    assert Path("t.j2").read_text() != TEMPLATE, "the others are fixed"
    assert run(["lint", ".", "--json", "-t", bytes_json]) == 0
    inputs = json.loads(capsys.readouterr().out)["inputs"]
    assert [one["path"] for one in inputs if "leads out of" in (one["note"] or "")] == ["prompt.j2"]


def test_a_file_that_may_not_be_written_is_named_and_the_others_are_fixed(
    checkout: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there = Path(write(f"{checkout.parent}/outside/prompt.j2", TEMPLATE))
    Path("prompt.j2").symlink_to(there)
    write("t.j2", TEMPLATE)
    assert run(["lint", "prompt.j2", "t.j2", "--fix", "--unsafe-fixes", "-t", bytes_json]) == 2
    said = capsys.readouterr()
    assert "cannot write prompt.j2: a link leads out of the repository" in said.err
    assert "Edited t.j2" in said.out
    assert (there.read_text() == TEMPLATE, Path("t.j2").read_text() == TEMPLATE) == (True, False)
    assert run(["lint", str(there), "--fix", "--unsafe-fixes", "-t", bytes_json]) == 0, "what the user names is written"
    assert there.read_text() != TEMPLATE


def test_a_configuration_that_lies_outside_is_not_taken_for_the_checkouts(
    checkout: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("kvtool.toml").symlink_to(write(f"{checkout.parent}/outside/secret", "token = secret\n"))
    write("t.j2", TEMPLATE)
    assert run(["lint", "t.j2", "-t", bytes_json]) == 2
    err = capsys.readouterr().err
    assert "`kvtool.toml` lies outside of the repository" in err
    assert "secret" not in err


@pytest.mark.parametrize("git", [True, False])
def test_only_links_of_the_checkout_are_refused(git: bool, checkout: Path) -> None:
    if not git:
        (checkout / ".git").rmdir()
    (checkout / "in").mkdir()
    (checkout / "a").symlink_to("in")
    (checkout / "out").symlink_to("../outside")
    (checkout.parent / "mine").symlink_to("outside")  # the user's own
    for path in ("a/x", "in/x", str(checkout / "a/y"), "../mine/x", str(checkout.parent / "mine/y"), "../outside/z"):
        with AtomicFile(path) as file:
            file.write(b"text")
        assert Path(path).read_bytes() == b"text"
    for path in ("out/x", "a/../out/new", f"{checkout}/out/new", "../co/out/x", "../outside/../co/out/x"):
        with pytest.raises(KvtoolError, match=r"a link leads out of the (repository|working folder), to "):
            AtomicFile(path)
    (checkout / "hooks").symlink_to(".git/hooks")
    if git:
        with pytest.raises(KvtoolError, match="leads out of the repository"):
            AtomicFile("hooks")


@pytest.mark.parametrize("seed", some(range(5), 2))
def test_random_links(seed: int, checkout: Path) -> None:
    chance = random.Random(seed)
    outside, folders = checkout.parent / "outside", ["."]
    (outside / "a").mkdir()
    for _ in range(30):
        at = Path(chance.choice(folders)) / chance.choice("abcd")
        if os.path.lexists(at):
            continue
        if chance.random() < 0.4:
            at.mkdir()
        else:
            up = "../" * chance.randrange(3)
            at.symlink_to(
                chance.choice([f"{up}{chance.choice('abcd')}", f"{outside}/a", f"{checkout}/{at.name}", up or "."])
            )
        folders += [str(at)] if at.is_dir() else []
    before, written = contents(outside), 0
    for number in range(60):
        path = "/".join(chance.choices(["a", "b", "c", "d", ".."], k=chance.randint(1, 4))) + f"/{number}"
        if not os.path.realpath(path).startswith(f"{checkout.parent}/") or path.startswith(".."):
            continue
        try:
            assert write_target(path) == Path(os.path.realpath(path))
            with AtomicFile(path) as file:
                file.write(b"text")
            written += 1
        except (KvtoolError, OSError):
            continue
        assert Path(os.path.realpath(path)).read_bytes() == b"text"
    assert written
    assert contents(outside) == before


def test_a_folder_that_becomes_a_link_meanwhile(checkout: Path) -> None:
    (checkout / "sub").mkdir()
    part = PartFile(checkout / "sub" / "x")
    part.file.write(b"text")
    (checkout / "sub").rename("was")
    (checkout / "sub").symlink_to("../outside")
    part.put()
    assert (Path("was/x").read_bytes(), contents(checkout.parent / "outside")) == (b"text", {})
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        open_folder(checkout / "sub")


def test_another_name_of_a_file_outside_is_parted_from_it(checkout: Path) -> None:
    there = Path(write(f"{checkout.parent}/outside/x", "old"))
    Path("x").hardlink_to(there)
    with AtomicFile("x") as file:
        file.write(b"new")
    assert (there.read_text(), Path("x").read_text()) == ("old", "new")
