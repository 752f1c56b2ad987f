"""Braces and dollars that a text only shows: in code that it quotes, and where it explains what a placeholder is."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from kvtool.diagnose.word_lists import word_set

_FENCE = re.compile(r"^[ \t]{0,12}(`{3,9}|~{3,9})[ \t]{0,4}([A-Za-z+#-]{0,20})[^\n`]{0,80}$", re.MULTILINE)
_LANGUAGES = word_set(__file__, "languages")
CODE_LINE = re.compile(
    r"\b[rR]?[fF][\"']|^\s{0,80}\d{1,6}\|"
    r"|^\s{0,80}(?:\d{1,6}[|:]?\s{1,80})?(?:def|return|raise|print|assert|import|from|class|elif)\b[^.!?]{0,80}[(\"'=]"
)
"""The beginning of a line of code."""
_CLOSING = ("", "end")
"""What is after the marks that close a block; some prompts write a word there."""
_TYPES = word_set(__file__, "types")
_AROUND = 100
_EXAMPLE = re.compile(r"\bexample\b(?!s)", re.IGNORECASE)
"""The line before a block that shows something: `Example of a task:`, `### Example: a long one`."""
_SLOT = re.compile(r"\{\{[^{}\n]{0,100}\}\}|\{%[^{}\n]{0,100}%\}|\{\w{0,100}\}|\$\w{1,100}")
_LEAST_SHOWN = 20
_MOST_SHOWN = 2_000
"""Characters beside placeholders that a shown block has; of so many of it."""
_SAID_BEHIND = re.compile(
    r"[}`\"'\s]{0,4}\s?(?:(?:is|are|will be|gets?|means|stands for)\s(?:automatically\s)?"
    r"(?:replaced|filled|substituted|inserted|expanded|interpolated|resolved|an?\splaceholders?|the\splaceholder)|placeholders?\b|syntax\b)"
)
_SAID_WORD = re.compile(r"(?=is|are|will be|get|means|stands for|placeholder|syntax)")
"""What `_SAID_BEHIND` begins with, the signs and the space before it aside."""
_MOST_BETWEEN = 5
_LONGEST = 400
"""Characters of a placeholder, with all that may be in its braces."""
_SAID_BEFORE = re.compile(
    r"\b(?:placeholders?(?:\s(?:such as|like|named|called|of the form|in the form))?|syntax|notation|literal|literally)"
    r"[\s:(]{1,3}[`\"']{0,3}\{?$"
    r"|\b(?:write|use|insert|reference|e\.g\.|such as|for example|like)[\s:(]{1,3}[`\"']{1,3}\{?$",
    re.IGNORECASE,
)
_SCHEMA = word_set(__file__, "schema")


def quoted_ranges(text: str) -> list[tuple[int, int]]:
    """Find fenced blocks of code in a named language, in order, not those that hold only a placeholder for code."""
    found: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and fence[2].lower() in _CLOSING:
            start, stop = opened.end(), fence.start()
            block = text[start:stop]
            if (_is_code(opened[2], block) and not _is_put_in(block)) or _is_example(text, opened.start(), start, stop):
                found.append((start, stop))
            opened = None
    return found


def _is_code(language: str, block: str) -> bool:
    """Return whether a block is in a language of programs, by its name, or by a line where the name says nothing: `repl`."""
    return language.lower() in _LANGUAGES or (
        language != "" and any(CODE_LINE.search(line) is not None for line in block[:_MOST_SHOWN].splitlines())
    )


def _is_put_in(block: str) -> bool:
    """Return whether a block contains only a placeholder for code: a shown one has code around its braces."""
    return _SLOT.search(block[:_AROUND]) is not None and not _SLOT.sub("", block[:_MOST_SHOWN]).strip()


def _is_example(text: str, fence: int, start: int, stop: int) -> bool:
    """Return whether a block is introduced as one example, and is more than a placeholder that examples are put into."""
    before = text[max(fence - _AROUND, 0) : fence].rstrip()
    if _EXAMPLE.search(before.rpartition("\n")[2]) is None:
        return False
    return len(_SLOT.sub("", text[start:stop][:_MOST_SHOWN]).strip()) >= _LEAST_SHOWN


def is_quoted(text: str, start: int, stop: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Return whether the placeholder that is there is only shown; `ranges` are the text's `quoted_ranges`."""
    number = bisect_right(ranges, (start, len(text))) - 1
    if text[start + 1 : stop - 1] in _TYPES:
        return True
    if number >= 0 and ranges[number][0] <= start < ranges[number][1]:
        return True
    if text.startswith("$", start) and text[start + 1 : start + 2] != "{":
        name = text[start + 1 : stop]
        if name in _SCHEMA or (name.isupper() and not name.endswith("$")):
            return True  # of a schema, or of a shell
    low = max(start - _AROUND, 0)
    line = text[max(text.rfind("\n", low, start) + 1, low) : start]
    return (
        CODE_LINE.search(line) is not None
        or _SAID_BEFORE.search(line) is not None
        or text[start:stop] in _explained(text)
    )


@lru_cache(maxsize=2)
def _explained(text: str) -> frozenset[str]:
    """The placeholders that are in a text right before words that say what they are."""
    found: set[str] = set()
    for word in _SAID_WORD.finditer(text):
        for end in range(max(word.start() - _MOST_BETWEEN, 1), word.start() + 1):
            if _SAID_BEHIND.match(text, end, end + _AROUND) is None:
                continue
            low = max(end - _LONGEST, 0)
            for begin in (text.rfind("{", low, end), text.rfind("$", low, end)):  # neither has another one in it
                found.add(text[max(begin, 0) : end])
    return frozenset(found)
