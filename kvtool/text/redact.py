"""Redaction of quoted lines: keys, passwords, addresses, numbers of cards and phones are replaced by the name of what they are.

It errs on the safe side: of two ways to read a text, the one in which it holds a secret. Everything runs in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kvtool.text.sensitive import find_sensitive

_WORDS = {"an API key": "key", "an email address": "email", "a card number": "card", "an IBAN": "IBAN"}
_MARK = "[redacted "
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{1,40}-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{1,40}-----")
_PEM_LINE = re.compile(r"^[ \t]{0,40}+([A-Za-z0-9+/]{48,80}+={0,2}+)[ \t\r]{0,40}+$", re.MULTILINE)
_BEARER = re.compile(r"(?i:bearer)(?<!\w(?i:bearer))[ \t]{1,4}+([A-Za-z0-9._~+/-]{8,4000}+={0,2}+)")
_LONG_TOKEN = 20
_USER = re.compile(r"://([^\s/@:]{0,256}+:[^\s/@]{1,1000}+)@")
_PHONE = re.compile(
    r"\+(?<![\w+]\+)(\d[\d ().-]{6,24}+)"
    r"|(?<![\w.+-])(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?!\w|[.-]\d)"
    r"|(?<![\w.:+-])0(?:\d{2,5}[ /-]\d{3,8}(?:[ -]\d{2,4}){0,2}|\d(?:[ .-]\d\d){4})(?!\w|[.:-]\d)",
    re.ASCII,
)
_FEWEST, _MOST = 8, 15
"""Digits of a phone number with its country code (ITU-T E.164)."""
_ASSIGNMENT = re.compile(
    r"(?:(?i:(?P<phrase>pass-?phrase)|(?P<password>passwor[dt]|passwd|pwd|pass(?=\\?[\"'`]?\s{0,4}[:=]))"
    r"|secret(?!ar)|api[ _-]?key|access[ _-]?key|private[ _-]?key|account[ _-]?key|auth[ _-]?key"
    r"|credentials?|authorization|token(?!s|iz)))"
    r"[\w-]{0,32}+(?:\\{0,3}[\"'`]\]?)?+(?:[ \t]{0,4}+(?P<sign>=>|:=|={1,2}|:)[ \t]{0,4}+|[ \t]{1,4}+(?:is|was)[ \t]{1,4}+)"
    r"(?:(?i:basic|bearer|digest|token)[ \t]{1,4}+)?+(?P<quote>\\{0,3}[\"'`])?+"
)
_VALUE = re.compile(r"\S+")
_REST = re.compile(r"[^\r\n]+")
_PROSE = re.compile(r"[^\W\d_]{1,15}+[,;]?[ \t]+[^\W\d_]")
"""A word and another one: what is after a colon in a sentence."""
_STAND_IN = re.compile(
    r"(?:\{\{|\{%|\$\{|\$\().*|\{[A-Za-z_][\w.!:]{0,60}\}|\$[A-Z_]{1,60}|%\([\w.]{1,60}\)s|%s|<[A-Za-z][\w-]{0,60}>"
    r"|\*{3,}|x{3,}|\.{3,}|-{3,}|…|(?i:none|null|nil|true|false|required|optional|str|string)|\[redacted.*",
    re.DOTALL,
)
"""What means a value: a placeholder, nothing, a type, or what was blacked out already."""
_BLANK = re.compile(r"<[A-Za-z][\w -]{0,60}>(?!\S{4})")
"""`<your token>`, of several words."""
_LONGEST_STAND_IN = 400
_SHORT_NUMBER = re.compile(r"[\d.,_]{1,8}+")
_TAIL = ".,;:)]}>\"'`\\"


class _Span(NamedTuple):
    start: int
    stop: int
    word: str


def redact_marked(text: str, start: int, stop: int) -> tuple[str, int, int]:
    """The text with `[redacted key]` and the like in place of what looks secret or personal, and where `[start, stop)` is in it.

    A range that begins or ends in a secret takes in all of it.
    """
    spans = _merged(_spans(text))
    pieces: list[str] = []
    at = 0
    for span in spans:
        pieces += [text[at : span.start], _mark(span)]
        at = span.stop
    return "".join([*pieces, text[at:]]), _moved(start, spans, 0), _moved(stop, spans, 1)


def _mark(span: _Span) -> str:
    return f"{_MARK}{span.word}]"


def _moved(index: int, spans: list[_Span], after: int) -> int:
    """Return the place of a character once the spans are replaced; one within a span is where its mark begins or (`after`) ends."""
    shift = 0
    for span in spans:
        if index <= span.start:
            break
        if index < span.stop:
            return span.start + shift + after * len(_mark(span))
        shift += len(_mark(span)) - (span.stop - span.start)
    return index + shift


def _merged(found: Iterator[_Span]) -> list[_Span]:
    """In order, those that overlap as one, named like the first."""
    spans: list[_Span] = []
    for span in sorted(found):
        if spans and span.start < spans[-1].stop:
            spans[-1] = spans[-1]._replace(stop=max(spans[-1].stop, span.stop))
        else:
            spans.append(span)
    return spans


def _spans(text: str) -> Iterator[_Span]:
    for kind, start, stop in find_sensitive(text, every=True):
        yield _Span(start, stop, _WORDS.get(kind, "number"))
    yield from _pem(text)
    for match in _BEARER.finditer(text):
        if len(match[1]) >= _LONG_TOKEN or any(char.isdigit() for char in match[1]):
            yield _Span(*match.span(1), "key")
    for match in _USER.finditer(text):
        if not _STAND_IN.fullmatch(match[1].partition(":")[2]):
            yield _Span(*match.span(1), "login")
    for match in _PHONE.finditer(text):
        number = match[0].rstrip(" ().-")
        if _FEWEST <= sum(char.isdigit() for char in number) <= _MOST:
            yield _Span(match.start(), match.start() + len(number), "phone")
    yield from _assigned(text)


def _pem(text: str) -> Iterator[_Span]:
    """Blocks, to their end or that of the text, and single lines out of the middle of one."""
    at = 0
    while (begin := _PEM.search(text, at)) is not None:
        end = _PEM_END.search(text, begin.end())
        at = len(text) if end is None else end.end()
        yield _Span(begin.start(), at, "key")
    for match in _PEM_LINE.finditer(text):
        if any(char.isdigit() for char in match[1]) and not match[1].islower() and not match[1].isupper():
            yield _Span(*match.span(1), "key")


def _assigned(text: str) -> Iterator[_Span]:
    """Find a value that is said to be a password or a key: the quoted text after the name, or the word."""
    at = 0
    while (name := _ASSIGNMENT.search(text, at)) is not None:
        at = start = name.end()
        if quote := name["quote"]:
            stop = _end_of_quoted(text, start, quote)
        else:
            value = (_REST if name["phrase"] else _VALUE).match(text, start)
            stop = start + len(value[0].rstrip(_TAIL)) if value is not None else start
        if start < stop and _is_secret(name, text, start, stop):
            yield _Span(start, stop, "secret")
            at = stop


def _is_secret(name: re.Match[str], text: str, start: int, stop: int) -> bool:
    """Return whether the value of a name that says of secrets is one, and neither a placeholder nor the next word of a sentence."""
    if _BLANK.match(text, start) or (stop - start <= _LONGEST_STAND_IN and _STAND_IN.fullmatch(text, start, stop)):
        return False
    password = name["phrase"] or name["password"]
    if not password and _SHORT_NUMBER.fullmatch(text, start, stop):
        return False
    if name["quote"] or name["sign"] not in (None, ":"):
        return True
    if name["sign"] == ":":
        return bool(password or not _PROSE.match(text, start))
    return not _PROSE.match(text, start) if password else any(char.isdigit() for char in text[start:stop])


def _end_of_quoted(text: str, start: int, quote: str) -> int:
    """The place of the closing quote, or the end of the line where there is none in it."""
    stop = text.find(quote, start)
    while stop > start and len(quote) == 1 and text[stop - 1] == "\\":
        stop = text.find(quote, stop + 1)
    end = _REST.match(text, start, len(text) if stop < 0 else stop)
    return end.end() if end is not None else start
