"""Python files in encodings that their coding lines name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.lint.lint_inputs import sort_inputs
from kvtool.lint.python.python_source import python_text

LINE = "PROMPT = 'Über {name}: é'\n"


def test_a_file_is_read_in_the_encoding_that_its_coding_line_names() -> None:
    for coding, encoding in [
        ("# -*- coding: latin-1 -*-\n", "latin-1"),
        ("#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\n", "cp1252"),
        ("# coding: koi8-u-unknown\n", "utf-8"),
        ("# coding: punycode\n", "utf-8"),
        ("# coding: hex\n", "utf-8"),
        ("# coding: undefined\n", "utf-8"),
        ("\ufeff# coding: utf-8\n", "utf-8"),
        ("", "utf-8"),
    ]:
        assert python_text((coding + LINE).encode(encoding), "a.py") == (coding + LINE).removeprefix("\ufeff")


def test_what_is_not_what_the_coding_line_says_is_an_error_with_its_line() -> None:
    with pytest.raises(
        KvtoolError, match=r"`a\.py` contains the byte 0xc3, which is not ascii, the encoding of its coding line"
    ) as caught:
        python_text(f"# coding: ascii\n\n{LINE}".encode(), "a.py")
    assert caught.value.place is not None
    assert caught.value.place.line == 3


def test_bytes_that_no_coding_line_explains_stay_an_error() -> None:
    with pytest.raises(KvtoolError, match="is not UTF-8: byte 0xdc"):
        python_text(LINE.encode("latin-1"), "a.py")


def test_such_a_file_is_an_input(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(f"# coding: latin-1\n{LINE}".encode("latin-1"))
    (one,) = sort_inputs([str(path)]).texts
    assert one.text.endswith(LINE)
