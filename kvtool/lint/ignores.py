"""Comments that ignore findings: `kvtool: ignore[KV101, KV104] reason`.

Where they are written depends on the file:

- YAML and Python: `# kvtool: ignore[KV101] reason`, at the end of the line or alone on the line above. What begins on that line and
  goes on (a block of text, a statement) is covered to its end. In YAML the line that names a file (`file: prompts/x.md`) covers all
  of that file, and the `name:` of a group covers the group's findings that have no line.
- Jinja templates and prompt files that are rendered: `{# kvtool: ignore[KV101] reason #}`. Rendering removes it, so the prompt does
  not change.
- Markdown that is not rendered (no Jinja in it): `<!-- kvtool: ignore[KV101] reason -->`. Such a comment IS part of the prompt and
  is sent with it; where a file is rendered it is therefore refused in favour of the Jinja comment.
"""

from __future__ import annotations

import os.path
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kvtool.diagnose.catalogue import entry_of, similar_code
from kvtool.diagnose.findings import Finding

UNUSED = "KV001"
MALFORMED = "KV002"
MARK = "kvtool:"
_WORDS = re.compile(r"kvtool:[ \t]{0,8}+ignore\b(?:\[([^\]\r\n]{0,400}+)(\])?)?[ \t]{0,80}+([^\r\n]{0,400}+)")
_JINJA = re.compile(r"\{[{%]")
_HOW = "write it as `kvtool: ignore[KV101] reason`, several codes with commas"
_LONGEST_EXCERPT = 400
_CLOSING = ("#}", "-->")


@dataclass(frozen=True, slots=True)
class Ignore:
    """One comment. It holds for the lines `first` to `last` of `path`, for all of `files`, and for what has no line in `group`.

    `problem` says why it ignores nothing; the place is that of the word `kvtool:`, `width` characters are meant.
    """

    path: str
    line: int
    column: int
    codes: tuple[str, ...]
    reason: str
    first: int
    last: int
    files: tuple[str, ...] = ()
    group: str | None = None
    problem: str = ""
    excerpt: str = ""
    width: int = 1

    def matches(self, finding: Finding) -> bool:
        """Whether the finding is one that this comment ignores."""
        if finding.code not in self.codes:
            return False
        path = os.path.normpath(finding.path)
        if path in self.files:
            return True
        if path != os.path.normpath(self.path):
            return False
        if not finding.line:
            return self.group is not None and finding.group == self.group
        return self.first <= finding.line <= self.last


def read_ignores(path: str, text: str) -> list[Ignore]:
    """The comments in a file, in order; how they are written follows from its suffix (`path` is how findings name it).

    `text` is the decoded file. Raises KvtoolError where a YAML or Python file cannot be read as such.
    """
    if MARK not in text:
        return []
    suffix = Path(path).suffix.lower()
    if suffix in (".yaml", ".yml"):
        from kvtool.lint.yaml_ignores import yaml_ignores

        return yaml_ignores(path, text)
    if suffix == ".py":
        from kvtool.lint.python_ignores import python_ignores

        return python_ignores(path, text)
    return _template_ignores(path, text, markdown=suffix == ".md")


def parse_ignore(path: str, text: str, start: int, stop: int, *, line: int, line_start: int) -> Ignore | None:
    """The comment whose words stand in `text[start:stop]`, on `line`, which begins at `line_start`; None where it is not ours."""
    found = _WORDS.search(text, start, stop)
    if found is None:
        return None
    codes, problem = _codes(found)
    line_end = text.find("\n", found.start())
    excerpt = text[line_start : line_end if line_end >= 0 else len(text)].rstrip("\r")
    return Ignore(
        path,
        line,
        found.start() - line_start + 1,
        codes,
        found[3].strip(" \t-"),
        line,
        line,
        problem=problem,
        excerpt=excerpt if len(excerpt) <= _LONGEST_EXCERPT else "",
        width=len(found[0].rstrip()),
    )


def _codes(found: re.Match[str]) -> tuple[tuple[str, ...], str]:
    """The codes that are named, and what is wrong with how they are."""
    if found[1] is None:
        return (), "an ignore has to name codes"
    if found[2] is None:
        return (), "the bracket behind `ignore` is not closed"
    words = [word.strip() for word in found[1].split(",") if word.strip()]
    if not words:
        return (), "an ignore has to name codes"
    codes = tuple(dict.fromkeys(word.upper() for word in words))
    unknown = next((code for code in codes if entry_of(code) is None or not code.startswith("KV")), None)
    if unknown is None:
        return codes, ""
    close = similar_code(unknown)
    return codes, "it names a code that does not exist" + (f"; did you mean {close}?" if close else "")


def _template_ignores(path: str, text: str, *, markdown: bool) -> list[Ignore]:
    rendered = _JINJA.search(text) is not None
    lines = Lines(text)
    stop = len(text)
    comments = [*between(text, "{#", "#}", 0, stop), *(between(text, "<!--", "-->", 0, stop) if markdown else ())]
    alone = frozenset(lines.number(start) for start, _ in comments)
    found: list[Ignore] = []
    for start, end in sorted(comments, reverse=True):  # so that each run of comments is gone through once
        line = lines.number(start)
        ignore = parse_ignore(path, text, start, end, line=line, line_start=lines.start(line))
        if ignore is None:
            continue
        if text.startswith("<!--", start) and rendered:
            problem = "this file is rendered, and an HTML comment would be sent: write it as {# kvtool: ignore[...] #}"
            ignore = replace(ignore, problem=problem)
        first = lines.covered(start, end, alone)
        found.append(replace(ignore, first=first, last=first))
    return found[::-1]


def between(text: str, begin: str, end: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Start of each `begin` in `text[start:stop]` and start of the `end` behind it, in linear time."""
    while (at := text.find(begin, start, stop)) >= 0:
        close = text.find(end, at + len(begin), stop)
        if close < 0:
            return
        yield at, close
        start = close + len(end)


class Lines:
    """Lines of a text by character offset, counted from 1."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._next: dict[int, int] = {}

    def number(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def start(self, line: int) -> int:
        return self._starts[line - 1]

    def content(self, line: int) -> str:
        stop = self._starts[line] if line < len(self._starts) else len(self._text)
        return self._text[self._starts[line - 1] : stop]

    def __len__(self) -> int:
        return len(self._starts)

    def covered(self, start: int, close: int, comments: frozenset[int]) -> int:
        """The line that a comment is about: its own, or the next with more than comments where it stands alone.

        It begins at `start` and its end mark at `close`; `comments` are the lines on which comments begin.
        """
        line, last = self.number(start), self.number(close)
        behind = self.content(last)[close - self.start(last) :]
        if self.content(line)[: start - self.start(line)].strip() or behind.strip() not in _CLOSING:
            return line
        return self.next_content(
            last + 1,
            lambda number, text: number in comments and text.startswith(("{#", "<!--")) and text.endswith(_CLOSING),
        )

    def next_content(self, line: int, is_comment: Callable[[int, str], bool]) -> int:
        """The first line from `line` on with more than white space and comments, or the last line.

        It remembers what it found: asked from the end of the text to its start, it looks at each line once.
        """
        first = line
        while line < len(self) and line not in self._next:
            content = self.content(line).strip()
            if content and not is_comment(line, content):
                break
            line += 1
        self._next[first] = self._next.get(line, line)
        return self._next[first]


def apply_ignores(
    findings: Iterable[Finding],
    ignores: Sequence[Ignore],
    *,
    checked: Callable[[str, str], bool] | None = None,
) -> tuple[list[Finding], list[Ignore]]:
    """The findings that no comment ignores, in their order, and the comments that ignored nothing, each with its unused codes only.

    `checked(path, code)` says whether the run looked for a code in a file (None: for all of them); what was not looked for is not
    unused.
    """
    used: set[tuple[int, str]] = set()
    kept: list[Finding] = []
    by_code: dict[str, list[int]] = {}
    for number, ignore in enumerate(ignores):
        for code in ignore.codes if not ignore.problem else ():
            by_code.setdefault(code, []).append(number)
    for finding in findings:
        matching = [number for number in by_code.get(finding.code, ()) if ignores[number].matches(finding)]
        if not matching:
            kept.append(finding)
        used.update((number, finding.code) for number in matching)
    unused: list[Ignore] = []
    for number, ignore in enumerate(ignores):
        codes = tuple(
            code
            for code in ignore.codes
            if (number, code) not in used and (checked is None or checked(ignore.path, code))
        )
        if codes and not ignore.problem:
            unused.append(replace(ignore, codes=codes))
    return kept, unused


def ignore_findings(ignores: Iterable[Ignore], unused: Iterable[Ignore]) -> list[Finding]:
    """What is wrong with comments: those that cannot be understood (KV002) and those that ignored nothing (KV001)."""
    findings = [_finding(one, MALFORMED, one.problem, _HOW) for one in ignores if one.problem]
    for one in unused:
        message = f"unused ignore: {', '.join(one.codes)} {'was' if len(one.codes) == 1 else 'were'} not found here"
        findings.append(_finding(one, UNUSED, message, "remove the comment, or the code from it"))
    return findings


def _finding(ignore: Ignore, code: str, message: str, fix: str) -> Finding:
    start = ignore.column - 1
    return Finding(
        code,
        "error" if code == MALFORMED else "warning",
        "",
        ignore.path,
        ignore.line,
        ignore.column,
        message,
        0,
        fix,
        excerpt=ignore.excerpt,
        excerpt_start=start,
        excerpt_stop=start + ignore.width,
        in_source=True,
        width=ignore.width,
    )
