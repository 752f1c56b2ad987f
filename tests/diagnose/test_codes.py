"""One file a code: what stands in it, that nothing else knows codes by heart, and how the registry reads the files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from kvtool.accounting.ledger.fates import FATES
from kvtool.cli.app import run
from kvtool.diagnose.codes import CodeEntry, CodeRemedy, codes, entries, find_entry, varies, wins
from kvtool.diagnose.codes.entry import DifferenceKind

KVTOOL = Path(__file__).resolve().parents[2] / "kvtool"
FILES = KVTOOL / "diagnose" / "codes"
CODE = re.compile(r"KV\d{3}")


def _module(code: str) -> ModuleType:
    """Import the module of a code."""
    (path,) = FILES.rglob(f"{code.lower()}.py")
    return import_module(f"kvtool.diagnose.codes.{path.parent.name}.{path.stem}")


def test_each_file_holds_the_entry_that_it_is_named_for() -> None:
    assert sorted(path.stem.upper() for path in FILES.rglob("kv*.py")) == list(codes())
    assert [entry.code for entry in entries()] == list(codes())


def test_a_file_names_its_code_and_where_it_is_found() -> None:
    for code in codes():
        module = _module(code)
        said = module.__doc__ or ""
        assert " ".join(said.split()).startswith(f"{code}: {find_entry(code).name}.")
        places = re.findall(r"`(kvtool\.[\w.]+)`", said)
        assert places
        for place in places:
            owner, _, name = place.rpartition(".")
            assert hasattr(import_module(owner), name), place
        kinds = [value for value in vars(module).values() if isinstance(value, DifferenceKind)]
        assert all(kind.code == code for kind in kinds)


def test_no_code_is_written_out_anywhere_else() -> None:
    """Docstrings and the help of options may name one; all else imports it."""
    found = [
        f"{path.relative_to(KVTOOL)}:{line}: {text!r}"
        for path in sorted(KVTOOL.rglob("*.py"))
        if FILES not in path.parents
        if CODE.search(source := path.read_text("utf-8"))
        for line, text in _texts(ast.parse(source))
        if CODE.search(text)
    ]
    assert found == []


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """String constants, also those within f-strings, without texts that are for reading only."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if getattr(call.func, "attr", getattr(call.func, "id", "")) in ("Option", "Argument"):
            prose |= {id(given) for given in (*call.args, *(keyword.value for keyword in call.keywords))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def test_every_code_is_reported_by_something() -> None:
    used = {
        alias.name
        for path in KVTOOL.rglob("*.py")
        if FILES not in path.parents
        if "kvtool.diagnose.codes." in (source := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kvtool.diagnose.codes.")
        for alias in node.names
    }
    by_kind = {
        code
        for code in codes()
        for name, value in vars(_module(code)).items()
        if isinstance(value, DifferenceKind) and name in used
    }
    assert set(codes()) - used - by_kind == set()


def test_what_is_won_are_fates_of_the_ledger() -> None:
    for entry in entries():
        assert set(entry.wins) <= set(FATES) - {"hit"}
        of_text_or_run = entry.code[2] in "123" and entry.code not in (
            "KV306",
            "KV307",
            "KV326",
            "KV327",
            "KV335",
        )  # what is known costs nothing
        assert bool(entry.wins) == of_text_or_run
    assert wins("KV113") == ("blocked", "displaced")
    assert wins("KV999") == ("blocked",)  # of a result that a newer kvtool has written


def test_no_two_codes_of_the_run_win_the_same_fate() -> None:
    of_run = [(entry.code, fate) for entry in entries() if entry.code.startswith("KV3") for fate in entry.wins]
    for other in ("KV32", "KV33"):  # vLLM's layer groups, and other engines: no run follows both
        fates = [fate for code, fate in of_run if not code.startswith(other)]
        assert len(set(fates)) == len(fates)
    assert len({fate for _, fate in of_run}) == len(of_run) - 1


def test_what_varies() -> None:
    assert {code for code in codes() if varies(code) == "value"} == {"KV101", "KV102", "KV104", "KV105", "KV106"}
    assert {code for code in codes() if varies(code) == "order"} == {"KV111", "KV112", "KV113", "KV114"}
    assert {code for code in codes() if varies(code) == "session"} == {"KV115", "KV141", "KV142", "KV143", "KV144"}
    assert varies("KV999") == ""


def test_the_tier_of_an_entry_is_that_of_all_ways_out() -> None:
    for tiers, together in [(["P0", "P0"], "P0"), (["P2", "P0"], None), ([None], None), (["P1"], "P1")]:
        remedies = tuple(CodeRemedy("do it", tier) for tier in tiers)  # type: ignore[arg-type]  # they are tiers, in a list
        assert CodeEntry("KV000", "n", "w", "y", "b", "a", remedies, "i").tier == together


@pytest.mark.parametrize(
    ("program", "most"),
    [
        ("import kvtool.diagnose.codes as it; it.codes()", 0),
        ("import kvtool.diagnose.codes as it; it.find_entry('KV101')", 1),
        ("from kvtool.cli.app import run; run(['--help'])", 0),
    ],
)
def test_a_file_is_read_when_its_code_is_asked_for(program: str, most: int) -> None:
    count = (
        "import sys; print(sum(name.startswith('kvtool.diagnose.codes.') and name.rpartition('.')[2].startswith('kv')"
        " for name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", f"{program}\n{count}"], capture_output=True, text=True, check=True)
    assert int(done.stderr.split()[-1]) <= most


@pytest.mark.parametrize(
    "command",
    [["profile"], ["check"], ["lint"], ["optimize"], ["config"], ["check", "--update-baseline"]],
)
def test_a_gate_of_a_workload_names_only_codes_that_there_are(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    gate = "{findings: {KV1: warn, KV101: warn, error: warn, KV1O4: warn, kv999: 'off'}}"
    Path("w.yaml").write_text(f"version: 1\ngroups:\n  - {{name: a, text: x, gate: {gate}}}\n", "utf-8")
    assert run([*command, "w.yaml"]) == 2
    said = capsys.readouterr().err
    assert "w.yaml:3:79: groups[0].gate.findings: unknown code `KV1O4`" in said
    assert "did you mean KV104?" in said
    assert "w.yaml:3:92: groups[0].gate.findings: unknown code `kv999`" in said


def test_findings_read_the_tier_of_their_code() -> None:
    """No finding is made with a tier of its own: `kvtool explain` and the finding would part."""
    made = ("Finding.of", "finding", "fate_finding")
    for path in KVTOOL.rglob("*.py"):
        source = path.read_text("utf-8")
        for call in ast.walk(ast.parse(source)) if "tier=" in source else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func) in made:
                tiers = [word.value for word in call.keywords if word.arg == "tier"]
                assert not any(isinstance(tier, ast.Constant) and tier.value for tier in tiers), (path, call.lineno)
