"""Ends of sentences in the scripts of the world; lines that go on in the next one, and lines that introduce others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.text.structure.masking import Span

_END = re.compile(r"(?:[.!?…؟۔।॥]++[\"'”’»)\]*_`]*+(?=\s)|[。！？｡]++[\"'”’»」』）)\]]*+)[ \t\u3000]*+")
_STOP = re.compile(r"[.!?…؟۔।॥。！？｡]")
"""What no sentence ends without."""
_PARTS = re.compile(r"[\n.!?…؟۔।॥。！？｡]")
"""What nothing is more than one sentence without."""
_CLOSED = re.compile(r"[.!?…؟۔।॥。！？｡][\"'”’»」』）)\]*_`]*\s*\Z")
_SHORTENED = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|approx|vs|cf|no|nos|nr|st|dr|mr|mrs|ms|prof|inc|ltd|co|fig|p|pp|vol|z\.\s?B|d\.\s?h|u\.\s?a|ca|bzw|usw|sr|sra"
    r"|mlle|tel|kl|klo|godz|hrs?|мин|сек|руб|тел|стр|m|mme|pág|т\.\s?е|т\.\s?д|г|ул|д|[A-ZА-Я]|a\.\s?m|p\.\s?m))\.\Z"
    r"|[\u0e00-\u0eff]\.\Z",  # Thai and Lao end no sentence with a point: `น.` is an hour
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"(?:\A|[^\w.,:/-])\d{1,3}\.\Z")
_MONTHLIKE = re.compile(r"[^\W\d_]")
_LABEL = re.compile(
    r"(?:[-*+•][ \t]+)?[\"'*_`]{0,3}[^\W\d_][^:：\n.!?。]{0,48}[\"'*_`]{0,3}[:：=](?:\*\*|__)?(?=\s|\Z|[^\x00-\x7f/])"
)
_WORD = re.compile(r"[^\W\d_]+")
_NO_SPACES = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_LINE_OF = r"(?:={2,}|-{2,}|\*{2,}|#{2,}|~{2,}|─{2,}|═{2,})"
_INTRODUCES = re.compile(
    r"[^\n]*[:：](?:\*\*|__|[*_])?[ \t\r]*\Z|[ \t]*(?:\*\*|__)[^*_\n]{1,80}(?:\*\*|__)[ \t\r]*\Z"
    r"|[ \t]*\[{1,2}[a-z_][\w.\"-]{0,60}\]{1,2}[ \t\r]*\Z"
    rf"|[ \t]*{_LINE_OF}[ \t]*[^\s=*#~─═-][^\n]{{0,80}}?[ \t]*{_LINE_OF}[ \t\r]*\Z"
)
_INTRODUCES_WITH = frozenset(":：*_]=-#~─═")
"""What a line that announces others ends with, white space aside."""
_RULE = re.compile(rf"[ \t]*({_LINE_OF})[ \t]*\S")
END_WORD = re.compile(r"(?i:\b(?:end|ends|ende|fin|fine|fim|eind|slut|koniec|конец)\b|/)")
"""What the lower of two lines around a text has."""
_TAIL = 24
_LONGEST_INTRODUCTION = 300
_LIKELY_WRAPPED = 32
_WRAPPED = 60
"""Characters of a line that may go on with a word in lower case, and with any word."""
_GOES_ON = frozenset(",;、，；(—–")
_GONE_ON = frozenset(",;)")
"""What a line ends with that goes on, and what the next one begins with."""
_JOINS = re.compile(
    r"(?:and|or|but|nor|so|which|who|whose|that|where|when|while|because|if|unless|with|of|in|on|at|to|from|for|by"
    r"|und|oder|aber|sowie|die|der|das|weil|wenn|et|ou|mais|qui|que|dont|y|o|e|pero|mas|ma|che|en|maar|och|og|i|и|но)\b"
)
"""Words that join what follows to what is before, also where that is a name and a value."""
_WORDS_OF_A_SENTENCE = 2
_WORDS_OF_A_TITLE = 6


def words_in(text: str) -> int:
    """About how many words a text has; of scripts without spaces, two characters are one."""
    if text.isascii():
        return len(_WORD.findall(text))
    dense = len(_NO_SPACES.findall(text))
    return dense // 2 + sum(1 for found in _WORD.finditer(text) if not _NO_SPACES.match(found[0]))


def has_label(text: str) -> bool:
    """Return whether a line begins with a name of what follows: `Date: …`."""
    return (":" in text or "=" in text or "：" in text) and _LABEL.match(text) is not None


def is_sentence(text: str) -> bool:
    """Return whether a text says something by itself: it ends like a sentence, and is more than a label with a value."""
    shown = text.strip()
    return (
        _CLOSED.search(shown[-_TAIL:]) is not None and not has_label(shown) and words_in(shown) >= _WORDS_OF_A_SENTENCE
    )


def introduces(line: str) -> bool:
    """Return whether a line announces what is below it."""
    if line.rstrip(" \t\r")[-1:] not in _INTRODUCES_WITH:
        return False
    if not 0 < len(line.strip()) <= _LONGEST_INTRODUCTION or _INTRODUCES.match(line) is None:
        return False
    return _RULE.match(line) is None or END_WORD.search(line) is None


def rule_of(line: str) -> str | None:
    """The rule that a line begins with before its text: `---` of `--- NOTES ---`; None where it begins with none."""
    begun = _RULE.match(line)
    return None if begun is None else begun[1]


def closes(rule: str, other: str) -> bool:
    """Return whether a line is the lower rule of what another one begins: `--- END NOTES ---` or `-----` of `--- NOTES ---`."""
    shown = other.strip()
    return shown.startswith(rule[:2]) and (not shown.strip(rule[0]) or END_WORD.search(shown) is not None)


def is_title(line: str) -> bool:
    """Return whether a line may be the title of what is below it: a few words that say nothing by themselves."""
    return 1 <= words_in(line) <= _WORDS_OF_A_TITLE and not is_sentence(line) and not has_label(line.strip())


def may_go_on(one: str, other: str) -> bool:
    """Return whether a line that ends without white space is long enough to go on in the next one, or has a sign between them."""
    return len(one) >= _LIKELY_WRAPPED or one[-1] in _GOES_ON or other.lstrip()[0] in _GONE_ON


def goes_on(line: str, following: str) -> bool:
    """Return whether a line is the beginning of a sentence that the next line goes on with."""
    one, other = line.rstrip(), following.lstrip()
    if not one or not other or not may_go_on(one, other):
        return False
    first = other[0]
    if _CLOSED.search(one[-_TAIL:]) or introduces(one) or has_label(other):
        return False
    lower = first.islower() and len(one) >= _LIKELY_WRAPPED and (_JOINS.match(other) is not None or not _is_valued(one))
    if lower or one[-1] in _GOES_ON or first in _GONE_ON:
        return not _is_name(one) and not _is_name(other)
    return (
        len(one) >= _WRAPPED
        and words_in(one) >= 8
        and one[-1].islower()
        and words_in(other) >= 2
        and not has_label(one)
    )


def _is_valued(line: str) -> bool:
    """Return whether a line is a name and a value with digits, which no word of a sentence is among: `Date: Tuesday, 1 May`."""
    label = _LABEL.match(line)
    words = [] if label is None else line[label.end() :].split()
    numbers = [any(map(str.isdigit, word)) for word in words]
    return any(numbers) and all(number or not word[0].islower() for number, word in zip(numbers, words, strict=True))


def _is_name(line: str) -> bool:
    """A path, an identifier or another single word: it is a row of a listing and goes on nowhere."""
    return len(line.split(None, 2)) < 2


def is_one(text: str, start: int, stop: int) -> bool:
    """Return whether `[start, stop)` is a line without a sign of a sentence's end."""
    return _PARTS.search(text, start, stop) is None


def has_stop(text: str, start: int, stop: int) -> bool:
    """Return whether there is a sign in `[start, stop)` that a sentence may end with."""
    return _STOP.search(text, start, stop) is not None


def sentence_ends(text: str, start: int, stop: int, solid: Sequence[Span]) -> list[int]:
    """Find the ends of sentences of one line in `[start, stop)`, with the space after them; none is inside of a solid span."""
    ends: list[int] = []
    if not has_stop(text, start, stop):
        return ends
    index = 0
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    for found in _END.finditer(text, start, stop):
        end = found.end()
        if end >= stop:
            break
        while index < len(solid) and solid[index][1] <= found.start():
            index += 1
        if index < len(solid) and solid[index][0] <= found.start():
            continue
        closing = text[max(found.start() - _TAIL, start) : found.start() + 1]
        behind = text[end]
        if behind.islower() or (
            text[found.start()] == "." and (_SHORTENED.search(closing) or _is_ordinal(closing, behind))
        ):
            continue
        ends.append(end)
    return ends


def _is_ordinal(closing: str, behind: str) -> bool:
    """`4. März`: a number with a dot and then a word, as many languages write dates and places in an order."""
    return _ORDINAL.search(closing) is not None and _MONTHLIKE.match(behind) is not None
