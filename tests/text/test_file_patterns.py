"""Patterns of file names: as `glob` finds them, but within bounds."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.text.files import file_patterns
from kvtool.text.files.file_patterns import is_pattern, literal_start, matching
from kvtool.text.files.root_folder import RootFolder
from tests.files import write

TREE = (
    *("a.md", "b.txt", ".hidden.md", "[x].md", "x.md"),
    *("p/a.md", "p/q/b.md", "p/q/r/a.md", "p/.h/a.md", "q/a.md", "q/p/q/a.md", ".git/a.md", ".h/p/a.md"),
)
PARTS = st.sampled_from(["*", "**", "*.md", "a*", "?", "[pq]", "p", "q", ".*", ".h", "a.md", "..", ".", "***", "[!a]*"])
ANYWHERE = RootFolder(None)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree") / "inner" / "folder"
    for name in TREE:
        write(str(folder / name), "text")
    (folder / "to-q").symlink_to("q")
    return folder


def files(found: list[str], folder: Path) -> list[str]:
    return sorted({os.path.normpath(name) for name in found if (folder / name).is_file()})


@given(st.lists(PARTS, min_size=1, max_size=4).map("/".join).filter(is_pattern))
def test_as_glob_finds_them(tree: Path, pattern: str) -> None:
    expected = glob.glob(pattern, root_dir=tree, recursive=True)  # noqa: PTH207 - it is what is compared with
    assert files(matching(pattern, tree, ANYWHERE), tree) == files(expected, tree)


def test_from_the_root_of_the_disk(tree: Path) -> None:
    pattern = f"{tree}/p/**/*.md"
    assert matching(pattern, "elsewhere", ANYWHERE) == [f"{tree}/p/a.md", f"{tree}/p/q/b.md", f"{tree}/p/q/r/a.md"]


def test_links_never_lead_round_in_a_circle(tmp_path: Path) -> None:
    write(str(tmp_path / "a" / "x.md"), "text")
    write(str(tmp_path / "b" / "y.md"), "text")
    (tmp_path / "a" / "to-b").symlink_to("../b")
    (tmp_path / "b" / "to-a").symlink_to("../a")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "a" / "itself").symlink_to(".")
    found = matching("a/**/*.md", tmp_path, RootFolder(str(tmp_path)))
    assert found == ["a/to-b/y.md", "a/x.md"]


def test_links_never_lead_out(tmp_path: Path) -> None:
    write(str(tmp_path / "secret" / "key.md"), "text")
    folder = tmp_path / "folder"
    write(str(folder / "own.md"), "text")
    write(str(folder / ".git" / "config.md"), "text")
    (folder / "out").symlink_to("../secret")
    root = RootFolder(str(folder))
    for pattern in ("**/*.md", "*/*.md", "o*/key.md", "**/key.md", "out/*", "*/../../secret/*", "/**/key.md", ".git/*"):
        assert {name for name in matching(pattern, folder, root) if root.holds(folder / name)} <= {"own.md"}
    assert "out/key.md" in matching("**/*.md", folder, ANYWHERE)


@pytest.mark.parametrize("pattern", ["**/*.md", "*/*.md", "**", "**/x/**", "d*/**/**/*.md"])
def test_there_is_an_end_to_it(pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        write(str(tmp_path / f"d{number}" / "x.md"), "text")
    monkeypatch.setattr(file_patterns, "MOST_LOOKED_AT", 30)
    with pytest.raises(KvtoolError, match="searches more than 30 files") as caught:
        matching(pattern, tmp_path, RootFolder(str(tmp_path)))
    assert "prompts/**/*.md" in (caught.value.hint or "")
    assert matching("d7/*", tmp_path, RootFolder(str(tmp_path))) == ["d7/x.md"]


def test_deep_folders_and_long_patterns(tmp_path: Path) -> None:
    write(str(tmp_path / "x.md"), "text")
    deep = tmp_path
    for _ in range(1200):
        deep = deep / "d"
        deep.mkdir()
    assert matching("**/*.md", tmp_path, ANYWHERE) == ["x.md"]
    os.removedirs(deep)  # too deep for others to remove
    with pytest.raises(ValueError, match=r"\*"):
        matching("/".join("*" * 2000), tmp_path, ANYWHERE)


@pytest.mark.parametrize("pattern", ["*/", "p/*/", "a\0*"])
def test_what_no_file_can_match(pattern: str, tree: Path) -> None:
    with pytest.raises(ValueError, match=r"\*"):
        matching(pattern, tree, ANYWHERE)


def test_where_a_pattern_starts() -> None:
    for pattern, start in [
        ("*.md", "."),
        ("p/*.md", "p"),
        ("/**/*", "/"),
        ("../../x/[ab]/c", "../../x"),
        ("/etc/*", "/etc"),
    ]:
        assert literal_start(pattern) == start
