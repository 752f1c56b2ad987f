"""Ignore comments in Python files: real comments only, each for the whole statement that it stands beside or above."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator
from dataclasses import replace

from kvtool.errors import KvtoolError, Place
from kvtool.lint.findings.ignore_comments import MARK, Ignore, IgnoredLines, parse_ignore
from kvtool.lint.python.expression_places import with_line_feeds


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
    """First and last line of each logical line, with the comments before and in it; 0, 0 for those behind the last one."""
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
