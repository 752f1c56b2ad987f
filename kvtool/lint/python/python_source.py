"""Places in a Python file: of expressions, of what is in braces in an f-string, of placeholders inside of a string."""

from __future__ import annotations

import ast
import codecs
import io
import re
import sys
import tokenize
import warnings
from bisect import bisect_right
from contextlib import suppress
from itertools import accumulate

from kvtool.errors import KvtoolError, Place
from kvtool.lint.skeleton import TemplatePlace
from kvtool.text.files.text_files import decode

_TOKEN = re.compile(r"#[^\n]*|([A-Za-z]{0,3})('''|\"\"\"|'|\")|\\[\s\S]")
_GENERIC = re.compile(
    r"^([ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+\w+)"
    r"(\[[^\[\]\n]{0,400}(?:\[[^\[\]\n]{0,400}\][^\[\]\n]{0,400}){0,20}\])(?=[ \t]*[(:])",
    re.MULTILINE,
)
_TYPE = re.compile(r"^([ \t]*type)[ \t](?=\w+[ \t]*(?:\[[^\]\n]*\][ \t]*)?=(?!=))", re.MULTILINE)
_OTHER = {"'": '"', '"': "'"}
_DEEPEST = 8


class _NotFollowedError(Exception):
    """The text is none that this follows."""


def parsed(text: str) -> ast.Module:
    """The tree of a Python file, also of one for a later version where this can follow it; what `ast.parse` raises."""
    try:
        return ast.parse(text)
    except SyntaxError:
        earlier = for_earlier_parsers(text)
        if earlier == text:
            raise
        with suppress(SyntaxError):
            tree = ast.parse(earlier)
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    node.value = _STAND_IN.sub(_meant, node.value)
            return tree
        raise


_STAND_INS = {"'": "\x02", '"': "\x03", "\\": "\x05"}
_MEANT = {stand_in: sign for sign, stand_in in _STAND_INS.items()}
"""What is parsed in the place of signs within a field of an f-string; an escape of others begins with `\\x01` there."""
_STAND_IN = re.compile(r"\x01(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)|\x04?([\x02\x03\x05])")


def _meant(stand_in: re.Match[str]) -> str:
    """Return the character that an escape stands for, or a quote."""
    if stand_in[2]:
        return _MEANT[stand_in[2]]
    return codecs.decode("\\" + stand_in[1], "unicode_escape") if stand_in[1].isascii() else stand_in[1]


def _escape_for_earlier(sign: str) -> str:
    return f"\x04{_STAND_INS[sign]}" if sign in _STAND_INS else f"\x01{sign}" if sign.isprintable() else "xx"


def for_earlier_parsers(text: str) -> str:
    """The text, as an earlier Python reads it, or as it is; as many characters, and as many bytes, in each line."""
    text = _GENERIC.sub(lambda found: found[1] + " " * len(found[2]), text)
    text = _TYPE.sub(lambda found: f"{found[1]}_", text)
    pieces: list[str] = []
    at = 0
    try:
        while (found := _TOKEN.search(text, at)) is not None:
            pieces.append(text[at : found.start()])
            at = found.end()
            if found[2] is None:
                pieces.append(found[0])
                continue
            stop, written = _string_for_earlier(text, found, "", 0)
            pieces.append(written)
            at = stop
    except (_NotFollowedError, IndexError):
        return text
    return "".join([*pieces, text[at:]])


def _string_for_earlier(text: str, start: re.Match[str], around: str, deep: int) -> tuple[int, str]:
    """The end of a string that begins with `start`, and the string for within others, whose quotes are the signs `around`."""
    if deep > _DEEPEST:
        raise _NotFollowedError
    prefix, quote = start[1].lower(), start[2]
    own = quote
    if around and (len(quote) > 1 or quote in around):
        own = next((sign for sign in "'\"" if sign not in around), "") if len(quote) == 1 else ""
    formatted = "f" in prefix
    written: list[str] = []
    at = start.end()
    while not text.startswith(quote, at):
        sign = text[at]
        if sign == "\\":
            written.append(text[at : at + 2] if not around else _escape_for_earlier(text[at + 1]))
            at += 2
        elif formatted and sign == "{" and text[at + 1] != "{":
            stop, field = _field_for_earlier(text, at, around + (own or quote)[0], deep)
            written.append(field)
            at = stop
        elif formatted and sign in "{}":
            written.append(text[at : at + 2])
            at += 2
        else:
            if sign == "\n" and (around or len(quote) == 1):
                raise _NotFollowedError
            written.append(_STAND_INS.get(sign, sign) if around else sign)
            at += 1
    stop = at + len(quote)
    inside = "".join(written)
    if own:
        return stop, f"{start[1]}{own}{inside}{own}"
    if not text[start.start() : stop].isascii():
        raise _NotFollowedError
    return stop, "0".ljust(stop - start.start())  # there is no third quote: what the string says is not known


def _field_for_earlier(text: str, at: int, around: str, deep: int) -> tuple[int, str]:
    """The end of the field of an f-string that begins at `at`, and the field."""
    written: list[str] = []
    depth = 0
    while True:
        sign = text[at]
        found = _TOKEN.match(text, at)
        if found is not None and found[2] is not None:
            at, piece = _string_for_earlier(text, found, around, deep + 1)
            written.append(piece)
            continue
        if sign in "\n#\\":
            raise _NotFollowedError
        depth += (sign in "{[(") - (sign in "}])")
        written.append(sign)
        at += 1
        if not depth:
            return at, "".join(written)


_EXCERPT = 400
_LITERAL = re.compile(r"([A-Za-z]{0,3})('''|\"\"\"|'|\")")
_GAP = re.compile(r"(?:[ \t\r\n\f]++|\\\r?\n|#[^\n]*+)*+")


def with_line_feeds(text: str) -> str:
    """A Python file with the line ends that its parser sees; lines and columns stay what they are."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


class PythonSource:
    """A Python file: its tree, and where things are in it. KvtoolError, with the place, where it does not parse."""

    fills_strings = True
    """Whether its language can fill the `{name}` of any string later."""
    trusts_names = True
    """Whether names say enough for a warning: a text called `prompt`, an `order_id`. In published TypeScript they do not."""
    formatted = "an f-string"
    """What its language calls a string with values in it."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = with_line_feeds(text)
        self.lines = self.text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._ends: dict[int, list[int]] = {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what the compiler thinks of the file is not for us to tell
                self.tree = self._parsed()
        except SyntaxError as error:
            raise self._syntax_error(error) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise KvtoolError(
                "the file cannot be parsed, or is nested too deeply to read", place=Place(path)
            ) from error

    def _parsed(self) -> ast.Module:
        return parsed(self.text)

    def _syntax_error(self, error: SyntaxError) -> KvtoolError:
        line = min(max(error.lineno or 1, 1), len(self.lines))
        excerpt = self.lines[line - 1].rstrip("\r")
        place = Place(self.path, line, max(error.offset or 1, 1), excerpt if len(excerpt) <= _EXCERPT else None)
        hint = f"kvtool runs on Python {sys.version_info[0]}.{sys.version_info[1]}; use that of the file if it is later"
        return KvtoolError(f"not Python: {error.msg}", hint=hint, place=place)

    def offset(self, line: int, column: int) -> int:
        """The offset of a place that the parser gives: a line from 1 and a column in UTF-8 bytes."""
        text = self.lines[line - 1]
        if not text.isascii():
            if line not in self._ends:
                self._ends[line] = [*accumulate(len(character.encode(errors="replace")) for character in text)]
            column = bisect_right(self._ends[line], column)
        return self._starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.arg) -> tuple[int, int]:
        """Start and end of a node."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def spot(self, start: int, stop: int) -> TemplatePlace:
        """The place of a range, as much of it as its first line has."""
        line = bisect_right(self._starts, start)
        end = min(stop, self._starts[line] - 1)
        return TemplatePlace(self.path, line, start - self._starts[line - 1] + 1, max(end - start, 1))

    def spot_of(self, node: ast.expr | ast.stmt | ast.arg) -> TemplatePlace:
        return self.spot(*self.span(node))

    def fields(self, node: ast.JoinedStr) -> list[TemplatePlace]:
        """The places of the `{…}` of an f-string, in order.

        Found in the source: before Python 3.12 the parser's own places are wrong in strings of several lines. Where the source is
        written in a way that this does not follow, they are taken all the same.
        """
        values = [value for value in node.values if isinstance(value, ast.FormattedValue)]
        start, stop = self.span(node)
        found = _fields(self.text, start, stop)
        if len(found) == len(values):
            return [self.spot(first, last) for first, last in found]
        return [self.spot_of(value.value) for value in values]


def _fields(text: str, at: int, stop: int) -> list[tuple[int, int]]:
    """The braces of all literals in a source range that holds nothing but string literals."""
    found: list[tuple[int, int]] = []
    while at < stop and (literal := _LITERAL.match(text, at, stop)) is not None:
        prefix, quote = literal[1].lower(), literal[2]
        at = literal.end()
        while at < stop and not text.startswith(quote, at):
            char = text[at]
            if char == "\\" and ("r" not in prefix or text[at + 1 : at + 2] in (quote[0], "\\")):
                named = "r" not in prefix and text.startswith("N{", at + 1)
                at = max(text.find("}", at, stop) + 1 if named else 0, at + 2)
            elif char == "{" and "f" in prefix:
                if text.startswith("{", at + 1):
                    at += 2
                    continue
                end = _closing(text, at, stop)
                found.append((at, end))
                at = end
            else:
                at += 1
        gap = _GAP.match(text, at + len(quote), stop)
        at = gap.end() if gap else stop
    return found


def _closing(text: str, at: int, stop: int) -> int:
    """Just after the brace that closes the one at `at`."""
    depth = 0
    quote = ""
    while at < stop:
        char = text[at]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return stop


_AS_UTF8 = frozenset(("utf-8", "utf-8-sig", "idna", "punycode", "undefined"))
"""What is read as UTF-8: that, and encodings of Python's own that no file is written in; one takes the square of its length."""


def python_text(data: bytes, shown: str) -> str:
    """The text of a Python file, line ends untouched; KvtoolError, with the place, where it is not what it says it is."""
    name = _named_encoding(data)
    if name is None or b"\0" in data:
        return decode(data, shown=shown, place=Place(shown), may_be_empty=True)
    try:
        return data.decode(name)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise KvtoolError(
            f"`{shown}` contains the byte 0x{data[error.start]:02x}, which is not {name}, the encoding of its coding line",
            place=Place(shown, line),
        ) from error


def _named_encoding(data: bytes) -> str | None:
    """The encoding that a coding line names; None where it is UTF-8, or none that is known."""
    try:
        name = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        if codecs.lookup(name).name in _AS_UTF8:
            return None
        b" ".decode(name)  # refuses what is no encoding of text, or none of bytes by themselves
    except (SyntaxError, LookupError, UnicodeError):
        return None
    return name
