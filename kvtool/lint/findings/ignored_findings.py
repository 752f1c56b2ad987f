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

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from kvtool.diagnose.codes.ignores.kv001 import KV001
from kvtool.diagnose.codes.ignores.kv002 import KV002
from kvtool.lint.findings.ignore_comments import HOW, MARK, Ignore, IgnoredLines, between, parse_ignore
from kvtool.results.finding import Finding, Snippet

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
        from kvtool.lint.findings.yaml_ignores import yaml_ignores

        return yaml_ignores(path, text, allow_outside=allow_outside)
    if suffix == ".py":
        from kvtool.lint.findings.python_ignores import python_ignores

        return python_ignores(path, text)
    if suffix == ".json":
        return []
    found = _template_ignores(path, text, markdown=suffix == ".md")
    return (
        found
        if suffix != ".baml"
        else sorted([*found, *_line_ignores(path, text)], key=lambda one: (one.line, one.column))
    )


def _line_ignores(path: str, text: str) -> list[Ignore]:
    """Comments from `//` to the end of their line; one that stands alone is about the next line with more than comments."""
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
            problem = "this file is rendered, and an HTML comment would be sent: write it as {# kvtool: ignore[...] #}"
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
    """What is wrong with comments: those that cannot be understood (KV002) and those that ignored nothing (KV001)."""
    findings = [_finding(one, KV002.code, one.problem, HOW) for one in ignores if one.problem]
    for one in unused:
        message = f"unused ignore: {', '.join(one.codes)} {'was' if len(one.codes) == 1 else 'were'} not found here"
        findings.append(_finding(one, KV001.code, message, "remove the comment, or the code from it"))
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
