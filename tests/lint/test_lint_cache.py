"""What lint keeps of folders, and several processes: the result is that of reading all files anew, by one."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError, Place
from kvtool.lint.file_findings import Finder
from kvtool.lint.findings.file_result import JudgedText
from kvtool.lint.findings.ignore_comments import Ignore
from kvtool.lint.folders import lint_cache
from kvtool.lint.folders.lint_cache import LintCache, cache_folder
from kvtool.lint.judge_files import _shares, judge_all
from kvtool.lint.lint_inputs import TextInput
from kvtool.results.finding import Finding, Snippet
from kvtool.text.files import result_cache
from tests.files import write

RULES = "Answer only from the handbook, quote the line that you took it from, and be kind. " * 8
Lint = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lint(in_folder: Lint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lint:
    """Runs `kvtool lint` with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return partial(in_folder, "lint")


@pytest.fixture
def folder(lint: Lint) -> Path:
    """Files of all kinds, where `lint` runs."""
    del lint
    write("p/a.j2", f"{{{{ now }}}} {RULES}")
    write("p/b.yaml", f"summary_prompt: '{{session_id}} {RULES}'\n")
    write("p/c.py", "x = 1\n")
    write("p/d.j2", f"{{# kvtool: ignore[KV101] so #}}\n{{{{ now }}}} {RULES}")
    write("p/broken.yaml", 'prompt: "a {x}\n')
    return Path("p")


def read_count(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are judged from now on."""
    read: list[str] = []
    judge = Finder.judge

    def counted(self: Finder, one: TextInput) -> JudgedText:
        read.append(one.path)
        return judge(self, one)

    monkeypatch.setattr(Finder, "judge", counted)
    return read


def test_what_did_not_change_is_not_read_again(lint: Lint, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_count(monkeypatch)
    first = lint("p", "--json")
    assert len(read) == 5
    read.clear()
    assert lint("p", "--json") == first
    assert read == ["p/broken.yaml"]  # what is wrong is told anew
    read.clear()
    (folder / "a.j2").write_text(f"Now {{{{ now }}}} {RULES}")
    second = lint("p", "--json")
    assert sorted(read) == ["p/a.j2", "p/broken.yaml"]
    assert second != first
    assert lint("p", "--json", "--no-cache") == second


@pytest.mark.usefixtures("folder")
def test_other_options_and_another_program_have_results_of_their_own(
    lint: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    lint("p")
    read = read_count(monkeypatch)
    assert "(5 blocks)" in lint("p", "-b", "128")[1].replace("\n    ", " ")
    assert len(read) == 5
    read.clear()
    monkeypatch.setattr(lint_cache, "__version__", "another")
    lint("p")
    assert len(read) == 5


@pytest.mark.usefixtures("folder")
def test_nobody_else_may_read_it(lint: Lint, tmp_path: Path) -> None:
    lint("p")
    (tmp_path / "caches/kvtool").chmod(0o755)
    write("p/e.j2", "Hello.")
    lint("p")
    caches = tmp_path / "caches"
    (file,) = (caches / "kvtool/lint").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [stat.S_IMODE(path.stat().st_mode) for path in (caches / "kvtool", caches / "kvtool/lint")] == [0o700] * 2


@pytest.mark.usefixtures("folder")
def test_files_and_no_cache_leave_nothing(lint: Lint, tmp_path: Path) -> None:
    lint("p/a.j2")
    lint("p", "--no-cache")
    assert not (tmp_path / "caches").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"p/a.j2": 1}', b'{"p/a.j2": ["x", "y"]}', b'{"p/a.j2": ["x"]}', b"[" * 100_000]
)
def test_a_damaged_cache_is_as_none(lint: Lint, tmp_path: Path, damage: bytes) -> None:
    first = lint("p")
    (file,) = (tmp_path / "caches/kvtool/lint").iterdir()
    file.write_bytes(damage)
    assert lint("p") == first


@pytest.mark.usefixtures("folder")
def test_a_result_that_was_tampered_with_is_as_none(lint: Lint, tmp_path: Path) -> None:
    first = lint("p")
    (file,) = (tmp_path / "caches/kvtool/lint").iterdir()
    entries = json.loads(file.read_bytes())
    for entry in entries.values():
        entry[1] = '{"findings": [{"code": 1}], "ignores": [{}]}'
    file.write_text(json.dumps(entries))
    assert lint("p") == first


@pytest.mark.usefixtures("folder")
def test_a_folder_that_cannot_be_written_is_no_error(lint: Lint, tmp_path: Path) -> None:
    (tmp_path / "caches").write_text("a file")
    assert lint("p")[0] == 2  # of the broken file


def test_the_oldest_go_where_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "MOST_BYTES", 2_500)
    one = TextInput("a.py", "", "python")
    for number in range(4):
        cache = LintCache(tmp_path, (number,))
        cache.add(one, JudgedText(note="x" * 900))
        cache.close()
        newest = max(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (number, number))
    assert len(list(tmp_path.iterdir())) == 2
    assert LintCache(tmp_path, (3,)).known(one) is not None
    assert LintCache(tmp_path, (0,)).known(one) is None


@pytest.mark.parametrize(
    ("cache", "home", "found"),
    [("/c", "/h", "/c/kvtool/lint"), ("", "/h", "/h/.cache/kvtool/lint"), ("rel", "", None), ("", "", None)],
)
def test_where_it_lies(cache: str, home: str, found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", home)
    assert cache_folder() == (None if found is None else Path(found))


# Several processes


@pytest.mark.usefixtures("folder")
def test_processes_give_what_one_gives(lint: Lint) -> None:
    one = [lint("p", "--no-cache", "--jobs", "1", *form) for form in ((), ("--json",))]
    for jobs in ("2", "3", "9"):
        assert [lint("p", "--no-cache", "--jobs", jobs, *form) for form in ((), ("--json",))] == one


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 9))
def test_shares_are_all_files_in_their_order(sizes: list[int], count: int) -> None:
    shares = list(_shares(sizes, min(count, len(sizes))))
    assert [number for share in shares for number in share] == list(range(len(sizes)))
    assert len(shares) <= count


def test_what_a_process_that_was_killed_did_not_do_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()
    monkeypatch.setattr("kvtool.lint.judge_files.second_process", lambda *_, **__: True)

    def judge(one: TextInput) -> JudgedText:
        if os.getpid() != here:
            os._exit(9)
        return JudgedText(note=one.path)

    texts = [TextInput(str(number), "x", "python") for number in range(5)]
    assert [found.note for found in judge_all(texts, judge, 3)] == list("01234")


def test_a_result_comes_back_as_it_was() -> None:
    finding = Finding.of(
        "KV101", "error", "", "ä", 1, 2, "m", 3, "f", snippet=Snippet.of("\ud800x", 0, 1), in_source=True
    )
    ignore = Ignore("p", 1, 2, ("KV101",), 1, 1, files=("a",), problem="p")
    for result in (
        JudgedText([finding], [ignore], "n", ("f",)),
        JudgedText(known=False),
        JudgedText(),
    ):
        assert JudgedText.unpacked(result.packed()) == result
    error = KvtoolError("m", hint="h", place=Place("p", 1, 2, "x", 3))
    back = JudgedText.unpacked(JudgedText(error=error).packed()).error
    assert back is not None
    assert (back.message, back.hint, back.place, back.exit_code) == ("m", "h", error.place, 2)
