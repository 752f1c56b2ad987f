"""Comments that ignore findings: `kvtool: ignore[KV101, KV104] reason`.

Where they are written depends on the file:

- YAML and Python: `# kvtool: ignore[KV101] reason`, at the end of the line or alone on the line above. What begins on that line and
  goes on (a block of text, a statement) is covered to its end. In YAML the line that names a file (`file: prompts/x.md`) covers all
  of that file, and the `name:` of a group covers the group's findings that have no line.
- Jinja templates and prompt files that are rendered: `{# kvtool: ignore[KV101] reason #}`. Rendering removes it, so the prompt does
  not change.
- What is no Jinja: `{{! kvtool: ignore[KV101] reason }}` in Mustache and Handlebars, `// kvtool: ignore[KV101] reason` in BAML
  outside of prompts. JSON has no comments.
- Markdown that is not rendered (no Jinja in it): `<!-- kvtool: ignore[KV101] reason -->`. Such a comment IS part of the prompt and
  is sent with it; where a file is rendered it is therefore refused in favour of the Jinja comment.
"""

from __future__ import annotations

import io
import os
import os.path
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kvtool.diagnose.codes.ignores.kv001 import KV001
from kvtool.diagnose.codes.ignores.kv002 import KV002
from kvtool.errors import KvtoolError, Place
from kvtool.lint.findings.ignore_comments import HOW, MARK, Ignore, IgnoredLines, between, parse_ignore
from kvtool.lint.lint_inputs import TYPESCRIPT_SUFFIXES
from kvtool.lint.python.python_source import with_line_feeds
from kvtool.results.finding import Finding, Snippet
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.yaml_document import parse_yaml_data
from kvtool.text.files.yaml_nodes import Mapping, Scalar, YamlNode
from kvtool.text.files.yaml_nodes import Sequence as List
from kvtool.workload.yaml.named_files import FILE_KEYS, matching_files, nodes_of, values_of

_JINJA = re.compile(r"\{[{%]")


def read_ignores(path: str, text: str, *, allow_outside: bool = False) -> list[Ignore]:
    """The comments in a file, in order; how they are written follows from its suffix (`path` is how findings name it).

    `text` is the decoded file; `allow_outside`: a workload may name files anywhere. Raises KvtoolError where a YAML or Python file
    cannot be read as such.
    """
    if MARK not in text:
        return []
    suffix = Path(path).suffix.lower()
    if suffix in (".yaml", ".yml"):
        return yaml_ignores(path, text, allow_outside=allow_outside)
    if suffix == ".py":
        return python_ignores(path, text)
    if suffix in TYPESCRIPT_SUFFIXES:
        return _line_ignores(path, text)
    if suffix == ".json":
        return []
    found = _template_ignores(path, text, markdown=suffix == ".md")
    return (
        found
        if suffix != ".baml"
        else sorted([*found, *_line_ignores(path, text)], key=lambda one: (one.line, one.column))
    )


def _line_ignores(path: str, text: str) -> list[Ignore]:
    """Comments from `//` to the end of their line; one that is alone is about the next line with more than comments."""
    lines = IgnoredLines(text)
    found: list[Ignore] = []
    for start, end in reversed(list(between(text, "//", "\n", 0, len(text)))):
        line = lines.number(start)
        ignore = parse_ignore(path, text, start, end, line=line, line_start=lines.start(line))
        if ignore is not None:
            alone = not text[lines.start(line) : start].strip()
            first = lines.next_content(line + 1, lambda _, each: each.startswith("//")) if alone else line
            found.append(replace(ignore, first=first, last=first))
    return found[::-1]


def _template_ignores(path: str, text: str, *, markdown: bool) -> list[Ignore]:
    rendered = _JINJA.search(text) is not None
    lines = IgnoredLines(text)
    stop = len(text)
    comments = [*between(text, "{#", "#}", 0, stop), *between(text, "{{!", "}}", 0, stop)]
    comments += between(text, "<!--", "-->", 0, stop) if markdown else ()
    alone = frozenset(lines.number(start) for start, _ in comments)
    found: list[Ignore] = []
    for start, end in sorted(comments, reverse=True):  # so that each run of comments is gone through once
        line = lines.number(start)
        ignore = parse_ignore(path, text, start, end, line=line, line_start=lines.start(line))
        if ignore is None:
            continue
        if text.startswith("<!--", start) and rendered:
            problem = "an HTML comment in a template is sent to the model; write {# kvtool: ignore[...] #}"
            ignore = replace(ignore, problem=problem)
        first = lines.covered(start, end, alone)
        found.append(replace(ignore, first=first, last=first))
    return found[::-1]


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
    every = list(findings)
    found = _FoundPlaces(every)
    used = {
        (number, code)
        for number, ignore in enumerate(ignores)
        for code in (ignore.codes if not ignore.problem else ())
        if found.ignore(ignore, code)
    }
    kept = [finding for number, finding in enumerate(every) if number not in found.ignored]
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


class _FoundPlaces:
    """Findings by place, so that each comment looks only at those that it ignores; `ignored` are the numbers of these."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.ignored: set[int] = set()
        self._files: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._groups: dict[tuple[str, str, str], list[int]] = {}
        self._whole: set[tuple[str, str]] = set()
        for number, finding in enumerate(findings):
            path = os.path.normpath(finding.path)
            self._files.setdefault((finding.code, path), []).append((finding.line, number))
            if not finding.line:
                self._groups.setdefault((finding.code, path, finding.group), []).append(number)
        for placed in self._files.values():
            placed.sort()

    def ignore(self, ignore: Ignore, code: str) -> bool:
        """Ignore the findings of this code that the comment is about; whether there are any."""
        files = [(code, file) for file in ignore.files if (code, file) in self._files]
        for file in files:
            if file not in self._whole:  # many comments may name one file
                self._whole.add(file)
                self.ignored.update(number for _, number in self._files[file])
        path = os.path.normpath(ignore.path)
        placed = self._files.get((code, path), [])
        low = bisect_left(placed, (max(ignore.first, 1),))
        here = [number for _, number in placed[low : bisect_left(placed, (ignore.last + 1,))]]
        here += self._groups.get((code, path, ignore.group), []) if ignore.group is not None else []
        self.ignored.update(here)
        return bool(files or here)


def ignore_findings(ignores: Iterable[Ignore], unused: Iterable[Ignore]) -> list[Finding]:
    """Report wrong comments: those that cannot be understood (KV002) and those that ignored nothing (KV001)."""
    findings = [_finding(one, KV002.code, one.problem, HOW) for one in ignores if one.problem]
    for one in unused:
        message = f"unused ignore: nothing here has code {', '.join(one.codes)}"
        findings.append(_finding(one, KV001.code, message, "remove the comment or the unused code"))
    return findings


def _finding(ignore: Ignore, code: str, message: str, fix: str) -> Finding:
    start = ignore.column - 1
    return Finding.of(
        code,
        "error" if code == KV002.code else "warning",
        "",
        ignore.path,
        ignore.line,
        ignore.column,
        message,
        0,
        fix,
        snippet=Snippet.of(ignore.excerpt, start, start + ignore.width),
        in_source=True,
        width=ignore.width,
    )


def python_ignores(path: str, text: str) -> list[Ignore]:
    """The comments of a Python file; KvtoolError where its tokens cannot be told apart."""
    text = with_line_feeds(text)
    lines = IgnoredLines(text)
    result: list[Ignore] = []
    for first, last, comments in _statements(path, text):
        for line, column, comment in comments:
            start = lines.start(line) + column
            found = parse_ignore(path, text, start, start + len(comment), line=line, line_start=lines.start(line))
            if found is not None:
                result.append(replace(found, first=first, last=last) if first else found)
    return result


def _statements(path: str, text: str) -> Iterator[tuple[int, int, list[tuple[int, int, str]]]]:
    """First and last line of each logical line, with the comments before and in it; 0, 0 for those after the last one."""
    comments: list[tuple[int, int, str]] = []
    first = 0
    skipped = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                if MARK in token.string:
                    comments.append((token.start[0], token.start[1], token.string))
            elif token.type == tokenize.NEWLINE:
                yield first or token.start[0], token.start[0], comments
                comments, first = [], 0
            elif token.type not in skipped:
                first = first or token.start[0]
    except (tokenize.TokenError, SyntaxError) as error:
        raise KvtoolError(f"not Python: {error.args[0]}", place=Place(path)) from error
    if comments:
        yield 0, 0, comments


_COMMENT = re.compile(r"(?:(?<=[ \t\n])|^)#[^\r\n]*kvtool:[^\r\n]*", re.MULTILINE)
_BREAK = re.compile(r"\r\n|\n|\r")


def yaml_ignores(path: str, text: str, *, allow_outside: bool) -> list[Ignore]:
    """The comments of a YAML file (and those of templates written in it); KvtoolError where it is no YAML."""
    places = _Places(path, text, RootFolder.of(path, allow_outside=allow_outside))
    lines = places.lines
    result: list[Ignore] = []
    for found in reversed(list(_COMMENT.finditer(text))):  # as `next_content` wants them
        if places.inside_text(found.start()):
            continue
        number = lines.number(found.start())
        ignore = parse_ignore(path, text, found.start(), found.end(), line=number, line_start=lines.start(number))
        if ignore is not None:
            result.append(places.covering(ignore, found.start()))
    for start, stop in places.spans:
        for at, end in between(text, "{#", "#}", start, stop):
            number = lines.number(at)
            ignore = parse_ignore(path, text, at, end, line=number, line_start=lines.start(number))
            if ignore is not None:
                first = lines.covered(at, end, frozenset())
                result.append(replace(ignore, first=first, last=first))
    return sorted(result, key=lambda one: (one.line, one.column))


class _Places:
    """The keys and items that begin on each line of a YAML file."""

    def __init__(self, path: str, text: str, root: RootFolder) -> None:
        top = parse_yaml_data(text, path)
        self._text = text
        self._folder = Path(path).parent
        self._root = root
        self.lines = IgnoredLines(text)
        scalars = sorted(_scalars(top), key=lambda scalar: scalar.start)
        written = [(scalar.line, *_written(scalar, text)) for scalar in scalars]
        self.spans = [(start, stop) for _, start, stop in written if stop > start]
        self._starts = [start for start, _ in self.spans]
        self._last: dict[int, int] = {}
        for line, start, stop in written:
            self._last[line] = max(self._last.get(line, line), self.lines.number(max(stop - 1, start)))
        for line, stop in _flat_mappings(top, text):
            self._last[line] = max(self._last.get(line, line), self.lines.number(stop))
        self._files: dict[int, list[str]] = {}
        for scalar in values_of(top, FILE_KEYS):
            self._files.setdefault(scalar.line, []).append(scalar.value)
        self._groups = {scalar.line: scalar.value for scalar in _group_names(top)}

    def inside_text(self, offset: int) -> bool:
        """Return whether a character belongs to a value: there a `#` begins no comment."""
        at = bisect_right(self._starts, offset)
        return at > 0 and offset < self.spans[at - 1][1]

    def covering(self, ignore: Ignore, start: int) -> Ignore:
        """The comment that begins at `start` with the lines, files and group that it is about."""
        first = ignore.line
        if not self._text[self.lines.start(first) : start].strip():
            first = self.lines.next_content(first + 1, lambda _, line: line.startswith("#"))
        names = self._files.get(first, ())
        files = [os.path.normpath(name) for value in names for name in matching_files(self._folder, value, self._root)]
        last = self._last.get(first, first)
        return replace(ignore, first=first, last=last, files=tuple(files), group=self._groups.get(first))


def _scalars(root: YamlNode) -> Iterator[Scalar]:
    return (node for node in nodes_of(root) if isinstance(node, Scalar))


def _flat_mappings(root: YamlNode, text: str) -> Iterator[tuple[int, int]]:
    """First line and last character of each mapping that holds nothing but values, such as a message or a segment."""
    for node in nodes_of(root):
        if isinstance(node, Mapping) and all(isinstance(value, Scalar) for value in node.values.values()):
            ends = [_written(value, text)[1] for value in node.values.values() if isinstance(value, Scalar)]
            yield node.line, max([node.start, *(end - 1 for end in ends)])


def _group_names(root: YamlNode) -> Iterator[Scalar]:
    groups = root.values.get("groups") if isinstance(root, Mapping) else None
    for group in groups.items if isinstance(groups, List) else ():
        name = group.values.get("name") if isinstance(group, Mapping) else None
        if isinstance(name, Scalar):
            yield name


def _written(scalar: Scalar, text: str) -> tuple[int, int]:
    """Start and end in the source of a value's characters: of a block scalar the lines below its header."""
    start, stop = scalar.start, scalar.end
    if scalar.style in ("|", ">"):
        found = _BREAK.search(text, start)
        start = found.end() if found else stop
    written = text[start:stop].rstrip()
    return start, start + len(written)
