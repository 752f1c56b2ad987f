"""Reads the small text files that a workload refers to; what is wrong with one is said with its place."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from kvtool.errors import KvtoolError, Place

_WIDE = (
    ("UTF-32", (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
    ("UTF-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
)
"""Encodings by the marks that files begin with; the mark of one is the beginning of another's."""
_EXCERPT = 200
MAX_BYTES = 256 * 1024 * 1024


Overlay = Mapping[str, str]
"""Texts to read in place of files, by the files' real paths: what a workload would be with changed files."""


def read_text(
    path: Path,
    *,
    shown: str,
    place: Place | None = None,
    limit: int = MAX_BYTES,
    overlay: Overlay | None = None,
    may_be_empty: bool = False,
) -> str:
    """The text of a UTF-8 file, line ends untouched, a byte order mark dropped.

    `shown` is the path as the user knows it; `place` is where it was asked for: errors about the file as a whole go there.
    `overlay` has texts to take in place of files, or as if they were there.
    """
    changed = overlay.get(os.path.realpath(path)) if overlay and "\0" not in str(path) else None
    if changed is not None:
        return decode(changed.encode(), shown=shown, place=place, may_be_empty=may_be_empty)
    data = file_bytes(path, shown=shown, place=place, limit=limit)
    return decode(data, shown=shown, place=place, may_be_empty=may_be_empty)


def file_bytes(path: Path, *, shown: str, place: Place | None = None, limit: int = MAX_BYTES) -> bytes:
    """Read an ordinary file; KvtoolError as in `read_text`."""
    check_file(path, shown=shown, place=place)
    try:
        if path.stat().st_size > limit:
            raise KvtoolError(f"`{shown}` is larger than {limit // 2**20} MiB", place=place)
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(shown, error, place) from error


def read_data(path: Path, *, what: str, shown: str, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a file that may be a pipe; KvtoolError, which calls it `what`, where it cannot be read or does not end."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(shown, error, None, what) from error
    if len(data) > limit:
        raise KvtoolError(f"{what}`{shown}` is larger than {limit // 2**20} MiB", hint="is this the right file?")
    return data


def read_source(path: Path, *, shown: str | None = None, overlay: Overlay | None = None) -> str:
    """The whole text of a UTF-8 file, byte order mark included, as edits count it; KvtoolError as in `read_text`."""
    shown = str(path) if shown is None else shown
    text = read_text(path, shown=shown, overlay=overlay)
    changed = overlay.get(os.path.realpath(path)) if overlay else None
    if changed is not None:
        return changed
    with path.open("rb") as file:
        marked = file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
    return f"\ufeff{text}" if marked else text


def check_file(path: Path, *, shown: str, place: Place | None = None) -> None:
    """KvtoolError where `path` is not an ordinary file."""
    try:
        if path.is_dir():
            raise KvtoolError(f"`{shown}` is a directory, not a file", place=place)
        if not path.exists():
            raise KvtoolError(f"no such file `{shown}`", hint=_similar(path, shown), place=place)
        if not path.is_file():
            raise KvtoolError(f"`{shown}` is not a regular file", place=place)
    except (OSError, ValueError) as error:
        raise _unreadable(shown, error, place) from error


def wide_encoding(data: bytes) -> str | None:
    """The encoding with more than a byte a character whose mark bytes begin with; None for all others."""
    return next((name for name, marks in _WIDE if data.startswith(marks)), None)


def decode(data: bytes, *, shown: str, place: Place | None = None, may_be_empty: bool = False) -> str:
    """UTF-8 bytes as text, or an error that says what they are instead."""
    if not may_be_empty and not data.strip():
        raise KvtoolError(f"`{shown}` is empty", place=place)
    if (encoding := wide_encoding(data)) is not None:
        raise KvtoolError(f"`{shown}` is {encoding}, not UTF-8", hint=_convert(encoding, shown), place=place)
    if b"\0" in data:
        raise KvtoolError(f"`{shown}` is a binary file, not text", place=place)
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        data = data.removeprefix(codecs.BOM_UTF8)
        before = data[: error.start]
        line_start = before.rfind(b"\n") + 1
        line_end = data.find(b"\n", error.start)
        line = data[line_start : line_end if line_end >= 0 else len(data)].decode("utf-8", "replace").rstrip("\r")
        column = len(before[line_start:].decode("utf-8")) + 1
        raise KvtoolError(
            f"`{shown}` is not UTF-8: byte 0x{data[error.start]:02x}",
            hint=_convert("LATIN1", shown),
            place=Place(shown, before.count(b"\n") + 1, column, line if len(line) <= _EXCERPT else None),
        ) from error


def _unreadable(shown: str, error: Exception, place: Place | None, what: str = "") -> KvtoolError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return KvtoolError(f"cannot read {what}`{shown}`: {reason}", place=place)


def _convert(encoding: str, shown: str) -> str:
    return f"save it as UTF-8, for example with `iconv -f {encoding} -t UTF-8 {shown}`"


def _similar(path: Path, shown: str) -> str | None:
    """A file that is there and has a similar name, or the first folder that is not."""
    missing = path
    while not missing.parent.exists() and missing.parent != missing:
        missing = missing.parent
    if missing != path:
        return f"there is no folder `{missing.name}` in `{missing.parent.name or missing.parent}`"
    names = [entry.name for entry in path.parent.iterdir() if entry.name != path.name]  # that is a link to nothing
    close = get_close_matches(path.name, names, n=1)
    return f"did you mean `{shown.removesuffix(path.name)}{close[0]}`?" if close else None
