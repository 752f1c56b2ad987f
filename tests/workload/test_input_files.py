"""Which files folders and patterns stand for, and what is passed over."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.workload.logs.files import input_files
from kvtool.workload.logs.files.input_files import InputFiles, PassedOver, find_inputs, matched

LINE = b'{"prompt": "a"}\n'
FILES = {
    "logs/b.jsonl": LINE,
    "logs/a/2.jsonl.gz": gzip.compress(LINE),
    "logs/a/1.ndjson": LINE,
    "logs/a/rotated.jsonl.2026-01-07": LINE,
    "logs/a/app.log.1": LINE,
    "logs/a/list.json": b"[" + LINE + b"]",
    "logs/.hidden/x.jsonl": LINE,
    "logs/.x.jsonl": LINE,
    "logs/readme.md": b"# Logs",
    "logs/app.log": b"2026-01-07 started\n",
    "logs/package.json": b'{"name": "x"}',
    "logs/metrics.jsonl": b'{"cpu": 1}\n' * 9,
    "logs/core": b"\x7fELF\0\0\0",
    "logs/table.parquet": b"PAR1\0\0",
    "logs/empty.jsonl": b"",
    "logs/w.yaml": b"version: 1\n",
    "logs/run.py": b"1\n",
    "logs/t.j2": b"x",
    "logs/broken.jsonl": b"{oops\n",
    "logs/cut.jsonl.gz": gzip.compress(LINE * 99)[:-9],
}
LOGS = [
    *("logs/a/1.ndjson", "logs/a/2.jsonl.gz", "logs/a/app.log.1", "logs/a/list.json"),
    *("logs/a/rotated.jsonl.2026-01-07", "logs/b.jsonl", "logs/broken.jsonl", "logs/cut.jsonl.gz"),
]
OTHERS = {
    "logs/app.log": "other",
    "logs/core": "binary",
    "logs/empty.jsonl": "empty",
    "logs/metrics.jsonl": "without prompts",
    "logs/package.json": "without prompts",
    "logs/readme.md": "text",
    "logs/run.py": "Python",
    "logs/t.j2": "Jinja templates",
    "logs/table.parquet": "binary",
    "logs/w.yaml": "YAML",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, data in FILES.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path


def test_a_folder_stands_for_its_logs() -> None:
    """A log that cannot be read is one all the same: reading it tells why."""
    found = find_inputs(["logs"])
    assert list(found.paths) == LOGS
    assert {each.path: each.what for each in found.passed_over} == OTHERS
    assert find_inputs(["logs/"]).paths[0] == "logs/a/1.ndjson"


def test_what_is_passed_over_is_told_in_one_line_or_by_name() -> None:
    found = find_inputs(["logs"])
    assert found.notes() == [
        "10 files skipped (2 binary, 2 without prompts, 1 other, 1 empty, 1 text, 1 Python, 2 more): list them with -v"
    ]
    assert found.notes(name_all=True)[0] == "skipped: logs/app.log (other)"
    assert len(found.notes(name_all=True)) == len(OTHERS)


def test_a_pattern_stands_for_what_it_matches() -> None:
    for pattern, paths in [
        ("logs/**/*.jsonl.gz", ["logs/a/2.jsonl.gz", "logs/cut.jsonl.gz"]),
        ("logs/[ab].jsonl", ["logs/b.jsonl"]),
        ("logs/?", LOGS[:5]),
        ("lo*/a/*", LOGS[:5]),
    ]:
        assert list(find_inputs([pattern]).paths) == paths


def test_a_name_with_such_characters_is_a_name() -> None:
    Path("[a].jsonl").write_bytes(LINE)
    assert find_inputs(["[a].jsonl"]) == InputFiles(("[a].jsonl",))
    assert matched(["[a].jsonl", "-", "nothing.jsonl"], ()) == ["[a].jsonl", "-", "nothing.jsonl"]


def test_patterns_of_files_that_are_inputs_by_themselves() -> None:
    assert matched(["logs/*.py", "logs/[rw]*", "logs/*.j*"], (".py", ".yaml", ".md")) == [
        *("logs/run.py", "logs/readme.md", "logs/w.yaml", "logs/*.j*"),
    ]
    with pytest.raises(KvtoolError, match="no file matches"):
        matched(["logs/*.none"], ())


def test_names_keep_their_order_and_each_file_is_read_once() -> None:
    found = find_inputs(["logs/b.jsonl", "logs", "logs/*.jsonl", "-"])
    assert list(found.paths) == ["logs/b.jsonl", *(path for path in LOGS if path != "logs/b.jsonl"), "-"]


def test_a_name_that_is_no_folder_is_for_the_run_to_open() -> None:
    assert find_inputs(["nowhere.jsonl", "logs/core"]) == InputFiles(("nowhere.jsonl", "logs/core"))


def test_texts_are_prompts_where_there_are_no_logs() -> None:
    for name in ("b.txt", "a.md", "sub/c.txt"):
        path = Path("texts", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    assert find_inputs(["texts"]).paths == ("texts/a.md", "texts/b.txt", "texts/sub/c.txt")
    assert find_inputs(["texts", "logs"]).paths[:3] == ("texts/a.md", "texts/b.txt", "texts/sub/c.txt")
    assert "logs/core" in find_inputs(["logs"], log_format="text").paths


def test_links_are_followed_but_never_round_in_a_circle() -> None:
    links = {
        "logs/a/up": "..",
        "other": "logs",
        "logs/again.jsonl": "b.jsonl",
        "logs/gone.jsonl": "no",
        "logs/self.jsonl": "self.jsonl",
    }
    for name, leads_to in links.items():
        Path(name).symlink_to(leads_to)
    for names in (["logs", "other"], ["logs/**/*", "other/**/*.jsonl"]):
        found = find_inputs(names)
        assert sorted(map(os.path.realpath, found.paths)) == sorted(map(os.path.realpath, LOGS))
        broken = [each.path for each in found.passed_over if each.what == "broken link"]
        assert broken == ["logs/gone.jsonl", "logs/self.jsonl"]


def test_nothing_to_read() -> None:
    for name, message, hint in [
        ("none", "the folder contains no log and no prompt; it is empty", None),
        ("bins", "the folder contains no log and no prompt: 2 binary", None),
        ("flows", "the folder contains no log and no prompt: 1 YAML", "pass the workload file alone: flows/w.yaml"),
        ("bins/*.jsonl", "no file matches this pattern", None),
        ("nowhere/*.jsonl", "no file matches this pattern", "there is no folder `nowhere`"),
        ("bins/*", "the folder contains no log and no prompt: 2 binary", None),
    ]:
        for path, data in {
            "none/.keep": b"",
            "bins/a": b"\0" * 9,
            "bins/b.png": b"\x89PNG\0",
            "flows/w.yaml": b"x",
        }.items():
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_bytes(data)
        with pytest.raises(KvtoolError) as caught:
            find_inputs([name])
        assert (caught.value.message, caught.value.hint) == (message, hint)
        assert str(caught.value.place) == name


def test_there_is_a_bound_on_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "MOST_FILES", 5)
    for name in ("logs", "logs/**/*.jsonl"):
        with pytest.raises(KvtoolError, match="more than 5 files"):
            find_inputs([name])


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_may_not_be_read() -> None:
    Path("logs/b.jsonl").chmod(0)
    Path("logs/core").chmod(0)
    Path("logs/a").chmod(0)
    found = find_inputs(["logs"])
    assert "logs/b.jsonl" in found.paths
    assert PassedOver("logs/core", "unreadable") in found.passed_over
    assert any(each.path == "logs/a" for each in found.passed_over)
    Path("logs/a").chmod(0o755)
