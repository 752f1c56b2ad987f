"""Python files as Python reads them: in the encoding that one of their first two lines names, else in UTF-8."""

from __future__ import annotations

import codecs
import io
import tokenize

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.text_files import decode

_AS_UTF8 = frozenset(("utf-8", "utf-8-sig", "idna", "punycode", "undefined"))
"""What is read as UTF-8: that, and encodings of Python's own that no file is written in; one takes the square of its length."""


def python_text(data: bytes, shown: str) -> str:
    """The text of a Python file, line ends untouched; KvtoolError, with the place, where it is not what it says it is."""
    name = _named(data)
    if name is None or b"\0" in data:
        return decode(data, shown=shown, place=Place(shown), may_be_empty=True)
    try:
        return data.decode(name)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise KvtoolError(
            f"`{shown}` is not {name}, as its coding line says: byte 0x{data[error.start]:02x}",
            place=Place(shown, line),
        ) from error


def _named(data: bytes) -> str | None:
    """The encoding that a coding line names; None where it is UTF-8, or none that is known."""
    try:
        name = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        if codecs.lookup(name).name in _AS_UTF8:
            return None
        b" ".decode(name)  # refuses what is no encoding of text, or none of bytes by themselves
    except (SyntaxError, LookupError, UnicodeError):
        return None
    return name
