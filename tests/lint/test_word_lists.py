"""The words by which lint tells what a name means: each list is one that its module asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from kvtool.lint.evidence import word_lists


def test_each_list_is_asked_for_and_each_that_is_asked_for_is_there() -> None:
    asked = {
        found
        for path in Path(word_lists.__file__).parent.glob("*.py")
        for found in re.findall(r'\bwords\("(\w+)", "(\w+)"\)', path.read_text(encoding="utf-8"))
    }
    lists = tomllib.loads(word_lists.FILE.read_text(encoding="utf-8"))
    assert {(module, name) for module, each in lists.items() for name in each} == asked
    assert all(word_lists.words(module, name) for module, name in asked)


def test_no_word_stands_twice_in_a_list() -> None:
    for each in tomllib.loads(word_lists.FILE.read_text(encoding="utf-8")).values():
        for text in each.values():
            assert len(text.split()) == len(set(text.split()))
