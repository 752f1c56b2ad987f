"""The helper of all golden tests, and that no golden file is left over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import GoldenFiles


def test_an_update_writes_what_a_comparison_then_accepts(tmp_path: Path) -> None:
    text = "é \u2028\r\nlast line without an end"
    GoldenFiles(tmp_path, update=True)("folder/a.txt", text)
    assert (tmp_path / "folder" / "a.txt").read_bytes() == text.encode()
    GoldenFiles(tmp_path)("folder/a.txt", text)


def test_a_difference_is_shown_line_by_line_with_what_cannot_be_seen(tmp_path: Path) -> None:
    GoldenFiles(tmp_path, update=True)("a.txt", "one\ntwo\n")
    with pytest.raises(AssertionError) as caught:
        GoldenFiles(tmp_path)("a.txt", "one\ntwo \x1b[1m\n")
    assert "-two\n+two \\x1b[1m\n" in str(caught.value)
    assert "pytest --update-golden" in str(caught.value)


def test_line_ends_count(tmp_path: Path) -> None:
    for text in ["one\r\n", "one", "one\n\n"]:
        GoldenFiles(tmp_path, update=True)("a.txt", "one\n")
        with pytest.raises(AssertionError, match="says otherwise"):
            GoldenFiles(tmp_path)("a.txt", text)


def test_a_missing_file_fails_with_the_command_and_the_text(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)no golden file a\.txt.*pytest --update-golden.*the text"):
        GoldenFiles(tmp_path)("a.txt", "the text")


def test_a_name_stays_below_the_folder(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="not below"):
        GoldenFiles(tmp_path / "golden", update=True)("../a.txt", "")


def test_files_that_nobody_asked_for_are_found(tmp_path: Path) -> None:
    files = GoldenFiles(tmp_path, update=True)
    files("used.txt", "")
    GoldenFiles(tmp_path, update=True)("folder/left.txt", "")
    assert files.unused() == ["folder/left.txt"]
    files.remove(files.unused())
    assert files.unused() == []


def test_no_golden_file_is_left_over(unused_golden_files: GoldenFiles) -> None:
    if unused_golden_files.update:
        unused_golden_files.remove(unused_golden_files.unused())
    assert unused_golden_files.unused() == [], "delete them, or run `pytest --update-golden` for all tests"
