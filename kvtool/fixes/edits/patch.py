"""Changes of files as a unified diff, and the diff that undoes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from kvtool.fixes.edits.apply import FileChange

_CONTEXT = 3
_NO_NEWLINE = "\\ No newline at end of file\n"
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}

Opcode = tuple[str, int, int, int, int]


def unified_patch(files: Iterable[FileChange]) -> str:
    """Return what makes the changes, for `patch -p0` and `git apply -p0`; empty where nothing changes.

    Lines end with a line feed and nothing else, so that those with CRLF stay as they are.
    """
    return _patch((each.path, each.before, each.after) for each in files)


def undo_patch(files: Iterable[FileChange]) -> str:
    """Return what takes the changes back, for `git apply` and `patch -p1` in the folder that the paths count from."""
    return _patch(((each.path, each.after, each.before) for each in files), "a/", "b/")


def _patch(files: Iterable[tuple[str, str, str]], old_in: str = "", new_in: str = "") -> str:
    return "".join(
        line
        for path, old, new in sorted(files)
        if old != new
        for line in _file(_quoted(old_in + path), _quoted(new_in + path), old, new)
    )


def _file(old_name: str, new_name: str, before: str, after: str) -> Iterator[str]:
    a, b = _lines(before), _lines(after)
    yield f"--- {old_name}\n"
    yield f"+++ {new_name}\n"
    for group in _groups(_opcodes(a, b)):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
        for tag, low, high, other_low, other_high in group:
            if tag == "equal":
                yield from _marked(" ", a[low:high])
                continue
            yield from _marked("-", a[low:high])
            yield from _marked("+", b[other_low:other_high])


def _lines(text: str) -> list[str]:
    pieces = text.split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _marked(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line
        if not line.endswith("\n"):
            yield "\n" + _NO_NEWLINE


def _opcodes(a: list[str], b: list[str]) -> list[Opcode]:
    """Return the opcodes of difflib, which compares only what is between the first and the last change."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    middle = SequenceMatcher(None, a[start : len(a) - end], b[start : len(b) - end]).get_opcodes()
    found: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    found += [(tag, i + start, j + start, k + start, m + start) for tag, i, j, k, m in middle]
    if end:
        found.append(("equal", len(a) - end, len(a), len(b) - end, len(b)))
    return found


def _groups(opcodes: list[Opcode]) -> Iterator[list[Opcode]]:
    """Yield the changes with three lines around each; those whose surroundings touch are one."""
    group: list[Opcode] = []
    for index, (tag, a_low, a_high, b_low, b_high) in enumerate(opcodes):
        if tag != "equal":
            group.append((tag, a_low, a_high, b_low, b_high))
            continue
        head = 0 if index == 0 else _CONTEXT
        tail = 0 if index == len(opcodes) - 1 else _CONTEXT
        if a_high - a_low <= head + tail:
            group.append((tag, a_low, a_high, b_low, b_high))
            continue
        if group:
            group.append((tag, a_low, a_low + head, b_low, b_low + head))
            yield group
        group = [(tag, a_high - tail, a_high, b_high - tail, b_high)]
    if any(tag != "equal" for tag, *_ in group):
        yield group


def _range(low: int, high: int) -> str:
    """Return lines `[low, high)` as a hunk names them: an empty range is after the line before it."""
    count = high - low
    if count == 1:
        return f"{low + 1}"
    return f"{low + 1 if count else low},{count}"


def _quoted(path: str) -> str:
    """Return a file name as diffs write it: quoted where it has unusual characters, ended by a tab where it has a space."""
    if any(character in _ESCAPES or ord(character) < 32 for character in path):
        return '"' + "".join(_quoted_character(character) for character in path) + '"'
    return f"{path}\t" if " " in path else path


def _quoted_character(character: str) -> str:
    return _ESCAPES.get(character, character if ord(character) >= 32 else f"\\{ord(character):03o}")
