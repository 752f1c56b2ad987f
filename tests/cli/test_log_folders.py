"""Folders and patterns of logs on the command line: what is read, in which order, in which groups, and what that ends with."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run

Document = dict[str, Any]
Profile = Callable[..., Document]

TEXTS = {
    "billing": "You explain invoices, refunds and payment plans, and never promise a refund before the ledger was checked.",
    "search": "Turn what a shopper asks for into filters: brand, size, colour, price, stock. Answer with JSON only, please.",
    "triage": "Put the ticket into one of four queues, hardware, software, shipping or other, and say how sure you are of it.",
}


def records(count: int = 30, *fields: str) -> list[Document]:
    rng = random.Random(5)
    found: list[Document] = []
    for number in range(count):
        name = rng.choice(list(TEXTS))
        system = f"Now: {number}. {TEXTS[name]}" if name == "billing" else TEXTS[name]
        messages = [{"role": "system", "content": system}, {"role": "user", "content": f"question {number}"}]
        record = {"timestamp": 1_760_000_000 + number, "id": f"r{number}", "messages": messages}
        found.append({**record, **dict.fromkeys(fields, name)})
    return found


def write(path: str, found: list[Document]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{json.dumps(record)}\n" for record in found).encode()
    Path(path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_json: str) -> str:
    monkeypatch.chdir(tmp_path)
    return bytes_json


@pytest.fixture
def profile(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> Profile:
    """The JSON of `kvtool profile`."""

    def profiled(*args: str, code: int = 0) -> Document:
        assert run(["profile", *args, "-t", bytes_json, "--dry-run", "--json", "--per-request", "-q"]) == code
        found: Document = json.loads(capsys.readouterr().out)
        return found

    return profiled


PLACES = (
    "files", "config", "notes", "workload", "path", "line", "column", "place", "places", "location", "gates",
    "verdict", "logged", "example",
)  # fmt: skip


def figures(value: Any) -> Any:
    """Everything but where it was read from."""
    if isinstance(value, dict):
        return {key: figures(item) for key, item in value.items() if key not in PLACES}
    return [figures(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("fields", [(), ("service",)])
def test_a_log_over_several_files_is_told_as_the_log(fields: tuple[str, ...], profile: Profile) -> None:
    found = records(30, *fields)
    write("one.jsonl", found)
    rng = random.Random(2)
    parts: dict[str, list[Document]] = {"logs/a.jsonl": [], "logs/x/b.jsonl.gz": [], "logs/c.jsonl": []}
    for record in found:
        parts[rng.choice(list(parts))].append(record)
    for path, part in parts.items():
        write(path, part)
    whole = profile("one.jsonl")
    names = sorted(group["name"] for group in whole["groups"])
    assert names == (sorted(TEXTS) if fields else ["system-1", "system-2", "system-3"])
    assert sum(group["prompt_tokens"] for group in whole["groups"]) == whole["totals"]["prompt_tokens"]
    for names in (["logs/**/*.jsonl*"], ["logs/x", "logs/a.jsonl", "logs/c.jsonl"]):
        split = profile(*names)
        assert figures(split) == figures(whole)
        assert any(note == "3 files, as one stream by arrival" for note in split["notes"])


@pytest.mark.parametrize("bad", [False, True])
def test_a_second_process_reads_the_same_stream(bad: bool, profile: Profile) -> None:
    found = records()
    for at in range(3):
        write(f"logs/{at}.jsonl", found[at::3])
    if bad:
        Path("logs/x.jsonl").write_text('{"prompt": "x", "timestamp": 1760000003}\n{}\n', encoding="utf-8")
    one, two = (profile("logs", "--jobs", jobs, code=2 if bad else 0) for jobs in ("1", "2"))
    assert one == two
    assert any(note.startswith("groups by system prompt: 3") for note in two["notes"])
    assert any("not read completely" in note for note in two["notes"]) == bad


def test_no_text_of_prompts_names_groups_for_machines(profile: Profile) -> None:
    write("one.jsonl", records())
    found = profile("one.jsonl", "--no-advice")
    assert "invoices" not in json.dumps([found["groups"], found["notes"]])


def test_groups_as_they_are_asked_for(profile: Profile) -> None:
    write("logs/a.jsonl", records(30, "team"))
    found = profile("logs", "--group-by", "$.team")
    assert sorted(group["name"] for group in found["groups"]) == sorted(TEXTS)
    assert found["config"]["group_by"] == "$.team"
    assert "groups by `team`: 3" in found["notes"]


def test_some_groups_of_a_log(profile: Profile, capsys: pytest.CaptureFixture[str]) -> None:
    """A group alone is as a log with only its requests."""
    made = records(30, "team")
    write("all.jsonl", made)
    for name in TEXTS:
        write("one.jsonl", [record for record in made if record["team"] == name])
        apart = profile("one.jsonl", "--no-advice", "--group-by", "team")
        found = profile("all.jsonl", "--no-advice", "--group-by", "team", "--group", name)
        assert found["totals"] == apart["totals"]
        assert found["fates"] == apart["fates"]
    assert run(["profile", "all.jsonl", "--group-by", "team", "--group", "nobody"]) == 2
    assert "its groups are billing, search, triage" in capsys.readouterr().err


def test_the_configuration_says_groups(profile: Profile, capsys: pytest.CaptureFixture[str]) -> None:
    write("logs/a.jsonl", records(30, "team", "crew"))
    Path("kvtool.toml").write_text('group_by = "team"\n', encoding="utf-8")
    assert "groups by `team`: 3" in profile("logs")["notes"]
    assert "groups by `crew`: 3" in profile("logs", "--group-by", "crew")["notes"]
    assert run(["config", "--plain"]) == 0
    assert "team" in capsys.readouterr().out
    Path("kvtool.toml").write_text('group_by = "team["\n', encoding="utf-8")
    assert run(["profile", "logs"]) == 2
    assert "kvtool.toml:1:12: group_by: `" in capsys.readouterr().err


def test_a_workload_names_its_groups_itself(profile: Profile) -> None:
    Path("w.yaml").write_text("version: 1\ngroups:\n  - {name: g, requests: 3, text: hello hello}\n", encoding="utf-8")
    found = profile("w.yaml", "--group-by", "team")
    assert [group["name"] for group in found["groups"]] == ["g"]
    assert "--group-by needs a log: a workload file names its groups" in found["notes"]


@pytest.mark.parametrize("flag", ["x[", "nothing"])
def test_groups_that_cannot_be(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("logs/a.jsonl", records(30, "team"))
    assert run(["profile", "logs", "--group-by", flag, "--dry-run"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("error: --group-by: ")
    assert "help: " in err


def test_one_bad_file_hides_no_other(profile: Profile, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are told of, and the exit code says that something was wrong."""
    write("logs/a.jsonl", records(30))
    write("logs/b.jsonl", [{**record, "id": f"b{number}"} for number, record in enumerate(records(5))])
    with Path("logs/b.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"no": 1}\n{"prompt": "never read"}\n')
    Path("logs/c.jsonl.gz").write_bytes(gzip.compress(b'{"prompt": "x", "timestamp": 1760000000}\n' * 9)[:-11])
    found = profile("logs", code=2)
    assert found["totals"]["requests"] >= 35
    assert sum("not read completely" in note for note in found["notes"]) == 2
    capsys.readouterr()
    assert run(["profile", "logs", "-t", bytes_json, "--dry-run", "-q"]) == 2
    out, err = capsys.readouterr()
    assert "Hit rate" in out
    assert "error: logs/b.jsonl:6:1: no prompt found in this record" in err
    assert "logs/c.jsonl.gz: the compressed file is damaged" in err
    assert profile("logs/a.jsonl")["totals"]["requests"] == 30


def test_a_check_judges_nothing_where_a_file_was_not_read(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("logs/a.jsonl", records(30))
    assert run(["check", "logs", "-t", bytes_json, "--min-hit-rate", "0.01"]) == 0
    assert run(["check", "logs/*.jsonl", "-t", bytes_json, "--min-hit-rate", "99%"]) == 1
    Path("logs/b.jsonl").write_text('{"no": 1\n', encoding="utf-8")
    capsys.readouterr()
    assert run(["check", "logs", "-t", bytes_json, "--min-hit-rate", "0.01"]) == 2
    out, err = capsys.readouterr()
    assert "KV101" in out, "one bad file hides no findings of the others"
    assert "PASS" not in out
    assert err.startswith("error: logs/b.jsonl:1:9: not JSON")


def test_what_is_passed_over(profile: Profile) -> None:
    write("logs/a.jsonl", records(12))
    write("logs/b.jsonl", records(12))
    Path("logs/image.png").write_bytes(b"\x89PNG\0\0")
    Path("logs/round").symlink_to("..")
    assert "1 file skipped (1 binary): list them with -v" in profile("logs")["notes"]
    assert "skipped: logs/image.png (binary)" in profile("logs", "-v")["notes"]


@pytest.mark.parametrize("command", ["profile", "check", "optimize", "diff-prompts"])
@pytest.mark.parametrize("name", ["bins", "bins/*", "bins/*.jsonl"])
def test_nothing_to_read(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bins").mkdir()
    Path("bins/x").write_bytes(b"\0" * 99)
    assert run([command, name]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(f"error: {name}: ")


def test_optimize_takes_folders(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("logs/a.jsonl", records(12))
    write("logs/b.jsonl", records(12))
    assert run(["optimize", "logs", "-t", bytes_json, "-q"]) == 0
    assert "logs" in capsys.readouterr().out
    assert run(["optimize", "logs", "-t", bytes_json, "-o", "x.jsonl", "--capacity", "20"]) == 2
    assert "give one file" in capsys.readouterr().err


def test_the_order_of_a_log_of_several_services(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = records(24, "service")
    for record in found:
        del record["timestamp"]
    write("a.jsonl", found)
    assert run(["optimize", "a.jsonl", "-t", bytes_json, "-o", "b.jsonl", "--capacity", "14", "-q"]) == 0
    lines = Path("b.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["service"] for line in lines] == sorted(
        (record["service"] for record in found), key=[record["service"] for record in found].index
    )


def test_prompts_of_a_folder_are_compared(capsys: pytest.CaptureFixture[str], bytes_json: str) -> None:
    Path("prompts").mkdir()
    for name in "bac":
        Path(f"prompts/{name}.txt").write_text(f"the same beginning of all of them, and {name}", encoding="utf-8")
    for names in (["prompts"], ["prompts/*.txt"], ["prompts/[ab].txt", "prompts/c.txt"]):
        assert run(["diff-prompts", *names, "-t", bytes_json, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [Path(side["path"]).name for side in found["prompts"]] == ["a.txt", "b.txt", "c.txt"]
    assert run(["diff-prompts", "prompts/a*"]) == 2
    assert "diff-prompts needs two prompts" in capsys.readouterr().err
