"""The line of a file or of a prompt that a finding is about, as much of it as may be shown."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kvtool.results.finding import Finding, Snippet
from kvtool.text.redact import redact_marked

_LONGEST_LINE = 2000
_LARGEST_FILE = 256 << 20
_HEAD, _LENGTH = 60, 150
"""A line that begins so far before what is meant, or is so long, may have been cut there."""
_WORD = "".join(map(chr, range(0x21, 0x7F)))
"""Characters that keys are made of."""
_CUT = "…"


class QuotedLine(NamedTuple):
    """A line, and `width` characters from `start` on that a finding is about; not `whole` where its ends may be cut off."""

    text: str
    start: int
    width: int
    whole: bool

    @classmethod
    def of(cls, snippet: Snippet) -> QuotedLine:
        """Return the line of a prompt that a finding brings along."""
        return cls(snippet.text, snippet.start, snippet.stop - snippet.start, whole=False)


def quoted_line(finding: Finding, *, read_files: bool = True) -> QuotedLine | None:
    """Return the line of the file; for logs, whose lines are whole records, the line of the prompt; None where neither is known."""
    start, width = max(finding.column - 1, 0), finding.width
    snippet = finding.snippet
    line = None
    if read_files and finding.in_source and start < _LONGEST_LINE:
        line = _line_of(str(Path(finding.path).absolute()), finding.line)
    if line is not None and (snippet is not None or _fits(finding, line, start)):
        return QuotedLine(line, start, width, whole=len(line) < _LONGEST_LINE)
    if snippet is None:
        return None
    return QuotedLine.of(snippet)


def _fits(finding: Finding, line: str, start: int) -> bool:
    """Return whether the line can be the one that the finding was about: of a saved result the file may have changed since."""
    _, named, rest = finding.message.partition("variable `")
    variable = rest.partition("`")[0] if named else ""
    return start + max(finding.width, 1) <= len(line) and variable in line


def _line_of(path: str, line: int) -> str | None:
    """Return a line of a text file; None where it is no such file any more, or never was."""
    try:
        there = Path(path)
        status = there.stat()
        if not there.is_file() or status.st_size > _LARGEST_FILE:
            return None
        return _read_line(path, line, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=64)
def _read_line(path: str, line: int, _changed: int, _size: int) -> str | None:
    """Return the same of a file in a certain state, which is read once."""
    with Path(path).open(encoding="utf-8", errors="replace", newline="\n") as file:
        found = next(islice(file, line - 1, line), None)
    return None if found is None else found.rstrip("\r\n")[:_LONGEST_LINE]


def redacted_line(line: QuotedLine) -> QuotedLine:
    """Return the line with what looks secret blacked out, before anything of it is cut off."""
    text, start, stop = line.text.rstrip("\r\n"), line.start, line.start + line.width
    if not line.whole:
        text, start, stop = _without_torn_words(text, start, stop)
    text, start, stop = redact_marked(text, start, stop)
    return QuotedLine(text, start, stop - start, line.whole)


def _without_torn_words(text: str, start: int, stop: int) -> tuple[str, int, int]:
    """Return a line without the words at which it may have been cut off: half a key cannot be told as one."""
    if len(text) >= _LENGTH:
        kept = len(text.rstrip(_WORD))
        text, start, stop = f"{text[:kept]}{_CUT}", min(start, kept), min(stop, kept)
    if start >= _HEAD:
        gone = len(text) - len(text.lstrip(_WORD))
        text, start, stop = f"{_CUT}{text[gone:]}", max(start - gone, 0) + 1, max(stop - gone, 0) + 1
    return text, start, stop
