"""Lines that readers take for items or headings, written so that Markdown sees them as such, too."""

from __future__ import annotations

import re

from kvtool.text.structure.sentences import is_sentence

CITED = re.compile(r"[ ]{0,3}(\[\d{1,3}\])(?=[ \t]*\S)")
"""The beginning of an item that is numbered to be cited."""
_NUMBER = r"(?:\d{1,2}|[IVX]{1,5}|[A-Z])[.)][ \t]+"
_CAPITALS = re.compile(rf"(?:{_NUMBER})?[^\W\d_][^\Wa-z_][^a-z\n=|<>{{}}\[\]\"]{{0,60}}\Z")
_NUMBERED = re.compile(_NUMBER)
_LEAST_BELOW_TITLE = 2
"""Other lines in capitals, from which on the first may be the title of them all."""
_SHOUTED = re.compile(r"[^\W\d_]{4}")
_HEADING = "## X"


def mark_cited(lines: list[str]) -> None:
    """Make items like `[2] Lease` a numbered list, where there are several."""
    found = [(number, cited) for number, line in enumerate(lines) if "[" in line[:4] and (cited := CITED.match(line))]
    for number, cited in found if len(found) > 1 else ():
        low, high = cited.span(1)
        lines[number] = f"{lines[number][:low]}1.{' ' * (high - low - 2)}{lines[number][high:]}"


def mark_capitals(lines: list[str]) -> None:
    """Make lines in capitals above others (`2. CUSTOMER`) headings, where there are several."""
    found = [
        number
        for number, line in enumerate(lines[:-1])
        if line.isupper()
        and _CAPITALS.match(line)
        and _SHOUTED.search(line)
        and not is_sentence(line)
        and (not number or not lines[number - 1].strip())
    ]
    if (
        len(found) > _LEAST_BELOW_TITLE
        and not any(line.strip() for line in lines[: found[0]])
        and _titles_all(found, lines)
    ):
        del found[0]
    for number in found if len(found) > 1 else ():
        lines[number] = _HEADING


def _titles_all(found: list[int], lines: list[str]) -> bool:
    """Whether the first of lines in capitals is the title of all: the others bear numbers, and it bears none."""
    first, *others = [_NUMBERED.match(lines[number]) is not None for number in found]
    return not first and all(others)
