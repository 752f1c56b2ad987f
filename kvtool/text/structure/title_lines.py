# ruff: noqa: RUF001 - signs of other scripts are meant
"""Lines that readers take for headings, by their form: `**Rules**`, `【規則】`, `=== Rules ===`, `■ Rules`, a few words alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.text.structure.sentences import END_WORD, has_label, is_sentence, words_in

LEVEL = 7
"""The level of the form that comes first in a text, below all headings that Markdown has; the next one is a level lower."""
_LONGEST = 80
_MOST_WORDS = 8
_MOST_PLAIN_WORDS = 5
_LEAST = 2
"""Lines of one form with text below them, from which on they are headings."""
_SIGNS = "\u00a7\u203b\u25a0-\u27bf\u2b1b-\u2bff\U0001f300-\U0001faff"
_FORM = re.compile(
    r"[ ]{0,3}(?:(?P<strong>(?:\*\*[^*\n]{1,80}\*\*|__[^_\n]{1,80}__)[:：]?)"
    r"|(?P<bracket>(?:【[^】\n]{1,80}】|「[^」\n]{1,80}」|《[^》\n]{1,80}》|〈[^〉\n]{1,80}〉|〔[^〕\n]{1,80}〕|（[^）\n]{1,80}）|\([^\W\d_][^()\n]{1,78}\)|［[^］\n]{1,80}］)[:：]?)"
    r"|(?P<square>\[[^\W\d_][^\]\[\n]{1,80}\][:：]?)|(?P<angle><<[^<>\n]{1,80}>>)"
    r"|(?P<ruled>(?P<rule>[—–]{1,40}|[=~─═+:*-]{2,40})[ \t]*[^\s=~─═+:—–*\n-][^\n]{0,76}?[ \t]*(?P=rule))"
    rf"|(?P<sign>[{_SIGNS}]\ufe0f?[ \t]*[^\W_][^\n]{{1,76}})"
    r"|(?P<number>(?:(?:\d{1,2}|[IVX]{1,5}|[^\W\d_])[.)]|[一二三四五六七八九十]{1,3}[、．]"
    r"|第[\d一二三四五六七八九十]{1,3}[章節节条條部][ \t\u3000:：]?)"
    r"[ \t]*[^\W\d_][^\n]{1,76})"
    r"|(?P<emphasis>(?:\*[^*\s][^*\n]{0,78}\*|_[^_\s][^_\n]{0,78}_)[:：]?)"
    r"|(?P<plain>[^\W\d_][^\n\d:：=|]{1,60}(?:[^\W\d_]|[\u0900-\u0dff\u0e00-\u0eff])))[ \t\r]*\Z"
)
_LOWER = frozenset("=~─═+:—–*-[【<")
"""How the lower of two lines around a text begins."""
_FORMS = ("strong", "bracket", "square", "angle", "sign", "number", "emphasis", "plain")
_LISTED = re.compile(r"[ ]{0,3}(?:[-*+•‣▪·]|\||\d{1,2}[.):、]|[①-⑳])[ \t]*\S")
_LETTERS_WITHOUT_SPACES = re.compile(r"[\u0e00-\u0eff]")
_NUMBERED_ITEM = re.compile(r"[ ]{0,3}(?:\d{1,2}|[IVX]{1,5}|[^\W\d_])[.)][ \t]")


def titles_in(lines: Sequence[str]) -> dict[int, int]:
    """The numbers of such lines, each with its level, where there are several of one form; `lines` end without white space."""
    found: dict[str, list[int]] = {}
    likely: dict[str, list[int]] = {}
    ended: set[str] = set()
    before = ""
    for number, line in enumerate(lines):
        apart, before = not before, line
        if not 2 < len(line) <= _LONGEST or not (apart or line[0] in _LOWER):
            continue
        if (form := _form(line)) is None:
            continue
        if END_WORD.search(line) is not None and form not in ("plain", "number"):
            ended.add(form)  # it is the lower of two lines around a text
        if apart and _heads(lines, number, form):
            found.setdefault(form, []).append(number)
        elif apart and _may_head(lines, number, form):
            likely.setdefault(form, []).append(number)
    several = [
        sorted((*numbers, *likely.get(form, ())))
        for form, numbers in found.items()
        if len(numbers) >= _LEAST and form not in ended
    ]
    return {number: level for level, numbers in enumerate(several, LEVEL) for number in numbers}


def _form(line: str) -> str | None:
    """The form that a line has: of ruled ones, the sign of the rule; None of lines that are no headings."""
    match = _FORM.match(line)
    if match is None:
        return None
    return match["rule"][0] if match["ruled"] else next(name for name in _FORMS if match[name] is not None)


def _heads(lines: Sequence[str], number: int, form: str) -> bool:
    """Return whether a line says nothing by itself, and a sentence or a list is below it that is none of its form."""
    line = lines[number]
    if is_sentence(line.strip(" *_[]【】「」")):
        return False
    if not _is_short(line, form):
        return False
    below = next((at for at in range(number + 1, min(number + 3, len(lines))) if lines[at]), None)
    if below is None:
        return False
    text = lines[below]
    if form in ("plain", "number"):
        first = text.lstrip()[:1]
        alike = _NUMBERED_ITEM.match(text) is not None if form == "number" else False
        indented = len(text) - len(text.lstrip()) > len(line) - len(line.lstrip())
        return not alike and not indented and not first.islower() and _says(text)
    return _form(text) != form


def _may_head(lines: Sequence[str], number: int, form: str) -> bool:
    """Return whether a line is one of several headings, by sure ones of its form: rows, a list or a label follow them."""
    line, below = lines[number], next(filter(None, lines[number + 1 : number + 3]), "")
    if form not in ("plain", "number") or not below or is_sentence(line) or not _is_short(line, form):
        return False
    return _LISTED.match(below) is not None or has_label(below)


def _is_short(line: str, form: str) -> bool:
    """Return whether a line has a few words; of letters without spaces, three times as many are counted as there are."""
    most = _MOST_PLAIN_WORDS if form == "plain" else _MOST_WORDS
    return 1 <= words_in(line) <= most * (3 if _LETTERS_WITHOUT_SPACES.search(line) is not None else 1)


def _says(text: str) -> bool:
    """Return whether a line is, or begins, a sentence."""
    return is_sentence(text) or words_in(text) > _MOST_WORDS
