# ruff: noqa: RUF001 - signs of other scripts are meant
"""Lists that Markdown does not know as such: numbered `(1)`, `4.2`, `§3`, `①`, `一、`, `٢.` or `b)`, written so that it does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_OWN_DIGITS = "".join(chr(zero + value) for zero in (0x660, 0x6F0, 0x966, 0x9E6, 0xE50, 0xFF10) for value in range(10))
_HAN = "一二三四五六七八九十"
_CIRCLED = "".join(
    map(chr, (*range(0x2460, 0x2474), *range(0x2776, 0x2780), *range(0x24F5, 0x24FF), *range(0x3251, 0x3260)))
)
RULE = r"(?i:rule|step|regel|schritt|règle|étape|regla|paso|regra|passo|правило|шаг|規則|规则|步骤|규칙|नियम|قاعدة)[ #]?\d{1,3}"
"""`Rule 3:`, in some languages."""
_FORMS = (
    r"\((?:\d{1,3}|[a-z]|[ivx]{1,4})\)",
    r"\d{1,3}(?:\.\d{1,3}){1,3}[.)]?(?=[ \t])",
    r"§{1,2}[ \t]?\d{1,3}(?:\.\d{1,3})?[.:)]?(?=[ \t])",
    rf"[{_CIRCLED}]",
    rf"(?:第?[{_HAN}]{{1,3}}(?:[、．]|条|條)|[（(][{_HAN}]{{1,3}}[）)])",
    rf"[{_OWN_DIGITS}]{{1,3}}[.)\-،、．）]",
    r"(?:\d{1,3}[、．）]|（\d{1,3}）)(?!\d)",
    r"[^\W\d_][.)](?=[ \t])",
    r"[IVXivx]{2,5}[.)](?=[ \t])",
    rf"{RULE}[.:)、]",
)
NUMBER = "(?:" + "|".join(_FORMS) + ")"
"""The beginning of such an item."""
_NUMBERED = re.compile(r"([ ]{0,3})(?:" + "|".join(f"({form})" for form in _FORMS) + r")[ \t\u3000]*(?=\S)")
_FIRST = frozenset(f" (§（第0123456789IVXivxRrSsÉéPpШшПп規规步규नق{_CIRCLED}{_HAN}{_OWN_DIGITS}")
"""How such a line begins, for a look at each; a letter has its sign after it."""
_BEHIND = frozenset(".)")
_NATIVE = re.compile(r"[ ]{0,3}\d{1,9}([.)])[ \t]")
_LEAST = 2


def mark_numbered(lines: list[str], shown: Sequence[str]) -> None:
    """Make such lines numbered lists, where there are several of one form; those that are marked as something else stay.

    Markdown parts two lists that are numbered `1.` and `1)`: a list of another form than the one before gets the other sign.
    """
    found: dict[int, tuple[int, re.Match[str]]] = {}
    several: Counter[int] = Counter()
    native: dict[int, str] = {}
    for number, line in enumerate(lines):
        if line[:1] not in _FIRST and line[1:2] not in _BEHIND:
            continue
        if line is not shown[number]:
            continue
        if match := _NUMBERED.match(line):
            form = match.lastindex or 0
            found[number] = form, match
            several[form] += 1
        elif match := _NATIVE.match(line):
            native[number] = match[1]
    if not found:
        return
    before, sign = 0, "."
    for number in sorted({*found, *native}):
        if number in native:
            before, sign = 0, native[number]
            continue
        form, match = found[number]
        if several[form] < _LEAST:
            continue
        if form != before:
            before, sign = form, ")" if sign == "." else "."
        lines[number] = f"{match[1]}1{sign} {lines[number][match.end() :]}"
