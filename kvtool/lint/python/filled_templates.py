"""Templates in strings, filled with what is known: `str.format`, `%`, `string.Template`, Jinja, `str.replace`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, permutations
from random import Random

from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.errors import KvtoolError
from kvtool.lint.evidence.placeholders import asked
from kvtool.lint.evidence.quoted_code import is_quoted, quoted_ranges
from kvtool.lint.evidence.value_precision import dated, sure_kind
from kvtool.lint.formats.jinja_prompts import jinja_template
from kvtool.lint.formats.mustache import mustache_nodes
from kvtool.lint.python.changed_values import changed, placed, places_found
from kvtool.lint.python.syntax import percents
from kvtool.lint.python.text_values import (
    MESSAGE_KEYS,
    Either,
    Items,
    Literal,
    Many,
    Mapped,
    Message,
    Mixed,
    Param,
    Piece,
    Unknown,
    Value,
    either,
    pieces_of,
)
from kvtool.lint.python.work_budget import spend
from kvtool.lint.skeleton import (
    JINJA_MARK,
    Choice,
    Hole,
    Node,
    Repeat,
    TemplatePlace,
    is_for_format,
    leaves,
    placeholders,
    without_base,
)
from kvtool.text.traced import Origin, Traced

_MOST_NODES = 5_000
_MUSTACHE = re.compile(r"\{\{\s{0,8}[$#/^][A-Za-z_]")
"""What shows that double braces are those of Mustache: `{{$name}}`, `{{#section}}`."""
_OTHER_MARKS = re.compile(r"<<[A-Z][A-Z0-9_]{2,40}>>|\[\[ ## \w{1,40} ## \]\]")
"""Placeholders that code fills by itself: where a text has them, braces in it are what they show."""
_LEAST_MARKS = 2
_LEADS = ("system", "developer")
_FIELD = re.compile(r"\{\{|\}\}|\{([A-Za-z_0-9]{0,99})((?:[.\[][^{}\n\"=]{0,100})?)(?:![rsa])?(?::([^{}\n ]{0,60}))?\}")


_MOST_TEXTS = 8
"""Texts of a mapping that are taken where the key is not known."""


def filled_text(value: Value) -> bool:
    """Return whether there is a text in it that may be filled."""
    return any(isinstance(piece, Literal | str) for piece in pieces_of(value))


def any_of(value: Value) -> Value:
    """One of the texts of a mapping, where the key is not known."""
    texts = [one for piece in value if isinstance(piece, Mapped) for _, one in piece.pairs if filled_text(one)]
    return either(*texts[:_MOST_TEXTS]) if texts else ()


def percent_filled(left: Value, right: list[Value], given: Mapping[str, Value]) -> Iterator[Piece]:
    """`text % values`: the values are where the text has `%`; each `%(name)s` by its name."""
    waiting = list(right)
    for piece in left:
        if not isinstance(piece, Literal):
            yield piece
            continue
        at = 0
        places = _Places(piece)
        for start, stop, name in percents(piece.text):
            yield piece.text[at:start]
            at = stop
            value = given.get(name) if name else waiting.pop(0) if waiting else None
            yield from places.put(piece.text[start:stop], value, name)
        yield piece.text[at:]


def formatted(base: Value, given: Mapping[str, Value], positional: list[Value], style: str) -> Iterator[Piece]:
    """Texts with their placeholders filled."""
    for piece in base:
        if isinstance(piece, Literal):
            if style == "format":
                yield from _fields(piece, given, positional)
            elif style == "jinja":
                yield from _jinja(piece, given)
            elif style == "mustache":
                yield from _filled(map(_piece, _mustache(piece, _with_values(given))), given)
            else:
                yield from _dollars(piece, given)
        elif isinstance(piece, Either):
            yield Either(tuple(tuple(formatted(one, given, positional, style)) for one in piece.branches))
        elif isinstance(piece, Many):
            yield replace(piece, body=tuple(formatted(piece.body, given, positional, style)))
        elif isinstance(piece, Items):
            yield Items(tuple(tuple(formatted(one, given, positional, style)) for one in piece.values), piece.order)
        elif isinstance(piece, Mixed):
            yield replace(piece, parts=tuple(tuple(formatted(one, given, positional, style)) for one in piece.parts))
        elif isinstance(piece, Message):
            yield Message(piece.role, tuple(formatted(piece.content, given, positional, style)))
        else:
            yield piece


def template_style(piece: Piece) -> str:
    """Return the style of the placeholders in a text that a template is made of."""
    text = piece.text if isinstance(piece, Literal) else ""
    doubled = all(one[0] in ("{{", "}}") for one in _FIELD.finditer(text))
    if doubled and _MUSTACHE.search(text) and isinstance(piece, Literal) and piece.source is not None:
        return "mustache"
    if JINJA_MARK.search(text) and doubled:
        return "jinja"
    return "format" if "{" in text or "$" not in text else "dollar"


def _fields(literal: Literal, given: Mapping[str, Value], positional: list[Value]) -> Iterator[Piece]:
    at = number = 0
    text = literal.text
    places = _Places(literal)
    quoted = quoted_ranges(text) if "```" in text or "~~~" in text else []
    for match in _FIELD.finditer(text):
        if match[0] in ("{{", "}}"):
            yield text[at : match.start()] + match[0][0]
            at = match.end()
            continue
        name = match[1]
        if not name and match[2] and not positional:
            continue  # `{.columns}` names nothing where nothing is filled in by its position
        if not name or name.isdigit():
            index = int(name) if name else number
            number += 1
            value = positional[index] if index < len(positional) else None
        else:
            value = given.get(name)
        yield text[at : match.start()]
        at = match.end()
        if value is None and is_quoted(text, match.start(), match.end(), quoted):
            places.pass_over(match[0])
            yield match[0]
            continue
        for piece in places.put(match[0], value, (name + match[2]) if not name.isdigit() else ""):
            yield dated(piece, match[3]) if isinstance(piece, Hole) and match[3] else piece
    yield text[at:]


def _dollars(literal: Literal, given: Mapping[str, Value]) -> Iterator[Piece]:
    at = 0
    places = _Places(literal)
    for start, stop, name in placeholders(literal.text, "dollar"):
        yield literal.text[at:start]
        at = stop
        yield from places.put(literal.text[start:stop], given.get(name), name)
    yield literal.text[at:]


def _put(value: Value | None, name: str, spot: TemplatePlace) -> Value:
    """Return the value for a placeholder, at its place."""
    if value is None:
        kind = sure_kind(name) if name else None
        hole = asked(name, spot) if kind is None else Hole(spot, kind, f"`{name}`")
        return (hole,) if hole is not None else ()
    hole = asked(name, spot)
    if hole is not None and (hole.doubt == "use" or filled_text(value)):
        value = changed(value, lambda piece: _named(piece, hole))
    return placed(value, spot, held=True)


def _named(piece: Piece, hole: Hole) -> Value | None:
    """Return what is in a value for a placeholder whose name says more: one loss has one place, also in a text that is put in."""
    own = piece.hole if isinstance(piece, Param) else piece if isinstance(piece, Hole) and not piece.hidden else None
    if hole.doubt != "use" and (own is None or own.doubt != "open"):
        return None
    if isinstance(piece, Param) and (own is None or own.doubt):
        return (Param(piece.name, hole),)
    return (hole,) if own is not None and own.doubt else None


class _Places:
    """Values for the placeholders of a literal, in order, at their places."""

    def __init__(self, literal: Literal) -> None:
        self._literal = literal
        self._at = literal.start

    def put(self, written: str, value: Value | None, name: str) -> Value:
        """A placeholder, as it is written, with what is put into it, None where that is not known."""
        spot = self.pass_over(written)
        return () if spot is None else _put(value, name, spot)

    def pass_over(self, written: str) -> TemplatePlace | None:
        """Return the place of the next placeholder; None in a text that no file holds."""
        source = self._literal.source
        if source is None:
            return None
        found = source.text.find(written, self._at, self._literal.stop)
        if found < 0:
            return source.spot(self._literal.start, self._literal.start + 1)
        self._at = found + len(written)
        return source.spot(found, found + len(written))


def with_replaced(base: Value, needle: str, value: Value) -> Iterator[Piece]:
    """`text.replace("{date}", value)`: other replacements leave the text as it is."""
    for piece in base:
        if isinstance(piece, Either):
            yield Either(tuple(tuple(with_replaced(one, needle, value)) for one in piece.branches))
            continue
        if not isinstance(piece, Literal | str) or not needle or len(needle) < 2:
            yield piece
            continue
        text = piece.text if isinstance(piece, Literal) else piece
        if needle not in text or not value:
            yield piece
            continue
        parts = text.split(needle, 40)
        at = piece.start if isinstance(piece, Literal) else 0
        for number, part in enumerate(parts):
            if number:
                found = (
                    piece.source.text.find(needle, at, piece.stop)
                    if isinstance(piece, Literal) and piece.source
                    else -1
                )
                if found >= 0 and isinstance(piece, Literal) and piece.source:
                    at = found + len(needle)
                    yield from placed(value, piece.source.spot(found, at), held=True)
                else:
                    yield from value
            if isinstance(piece, Literal) and piece.source is not None:  # the next replacement finds its place in it
                yield replace(piece, text=part, start=at, shown=True)
            else:
                yield part


def _jinja(literal: Literal, given: Mapping[str, Value] | None = None) -> Iterator[Piece]:
    """A Jinja template in a string, filled with what is given; one that is none after all is text."""
    origin = _origin(literal)
    if origin is None:
        yield literal.text
        return
    try:
        pieces: Value = tuple(
            _piece(node) for node in jinja_template(Traced.of(literal.text, origin), _with_values(given or {}))
        )
        if not origin.verbatim:
            pieces = places_found(pieces, literal)
    except KvtoolError:
        yield literal.text
        return
    yield from _filled(pieces, given or {})


def _with_values(given: Mapping[str, Value]) -> frozenset[str]:
    """The placeholders of which is known what is put in."""
    return frozenset(name for name, value in given.items() if value)


def _filled(pieces: Iterable[Piece], given: Mapping[str, Value]) -> Value:
    """A template that is read, with what is given in the place of what only its names say."""

    def change(piece: Piece) -> Value | None:
        if not isinstance(piece, Hole) or piece.certain:
            return None
        name = piece.what.strip("`")
        return _put(value, name, piece.spot) if (value := given.get(name)) else None

    return changed(tuple(pieces), change) if given else tuple(pieces)


def _origin(literal: Literal) -> Origin | None:
    """Return the place of a literal, by character where it is written as it reads; None where no file holds it."""
    source = literal.source
    if source is None:
        return None
    spot = source.spot(literal.start, literal.stop)
    at = source.text[literal.start : literal.stop].find(literal.text)
    if at >= 0:
        spot = source.spot(literal.start + at, literal.start + at + 1)
    return Origin(spot.path, spot.line, spot.column, 1, at >= 0, text=literal.text)


def _mustache(literal: Literal, known: Collection[str] = ()) -> list[Node]:
    """A text with `{{$name}}`, as Semantic Kernel has it, or with `{{#section}}`."""
    origin = _origin(literal)
    return [] if origin is None else mustache_nodes(Traced.of(literal.text, origin), known)


def _piece(node: Node) -> Piece:
    if isinstance(node, Choice):
        return Either(tuple(tuple(map(_piece, branch)) for branch in node.branches))
    return Many(tuple(map(_piece, node.body))) if isinstance(node, Repeat) else node


def nodes_of(value: Iterable[Piece], *, unfilled: bool, most: list[int], copied: bool = False) -> list[Node]:
    """A value as the text it becomes. `unfilled`: its placeholders may be filled by code that is not seen.

    `copied`: of a copy, in which a list in no fixed order is one of its orders, and what is not known has its name."""
    result: list[Node] = []
    for piece in value:
        most[0] -= 1
        if most[0] < 0:
            break
        if isinstance(piece, str | Hole):
            result.append(piece)
        elif isinstance(piece, Unknown):
            result += [piece.hole] if copied else []
        elif isinstance(piece, Literal):
            result += _unfilled(piece) if unfilled else [piece.text]
        elif isinstance(piece, Param):
            result += [piece.hole] if piece.hole is not None else []
        elif isinstance(piece, Items):
            result += [
                node for one in piece.values for node in nodes_of(one, unfilled=unfilled, most=most, copied=copied)
            ]
        elif isinstance(piece, Mapped):
            texts = [one for key in MESSAGE_KEYS if (one := piece.get(key)) is not None]
            result += [node for one in texts for node in nodes_of(one, unfilled=unfilled, most=most, copied=copied)]
        elif isinstance(piece, Message):
            content = nodes_of(piece.content, unfilled=unfilled, most=most, copied=copied)
            result += without_base(content) if piece.role in _LEADS else content
        elif isinstance(piece, Either):
            result.append(
                Choice(
                    tuple(tuple(nodes_of(one, unfilled=unfilled, most=most, copied=copied)) for one in piece.branches)
                )
            )
        elif isinstance(piece, Mixed):
            parts = [tuple(nodes_of(one, unfilled=unfilled, most=most, copied=copied)) for one in piece.parts]
            result += _in_orders(parts, piece) if copied else [piece.order, *_one_after_another(parts, piece.between)]
        elif isinstance(piece, Many):
            body = tuple(nodes_of(piece.body, unfilled=unfilled, most=most, copied=copied))
            result.append(Repeat(body, piece.between))
    return result


_MOST_ORDERS = 40
"""Orders of a list in a copy of a prompt: as many as a first workload has requests of a group. A list of four has 24."""
_LONGEST_ORDERS = 40_000
"""Characters of a list in all of these orders."""


def _in_orders(parts: Sequence[tuple[Node, ...]], mixed: Mixed) -> list[Node]:
    """Return a list in one of its orders; a long one, or one of which little is known, after the hole of its order."""
    length = sum(len(leaf) for part in parts for leaf in leaves(part) if isinstance(leaf, str))
    if len(parts) < 2 or length * _MOST_ORDERS > _LONGEST_ORDERS:
        return [mixed.order, *_one_after_another(parts, mixed.between)]
    chance = Random(len(parts))  # noqa: S311 - for examples, the same in each run
    further = iter(lambda: chance.sample(parts, len(parts)), None)
    orders = islice(permutations(parts) if len(parts) <= 4 else chain([parts], further), _MOST_ORDERS)
    return [Choice(tuple(tuple(_one_after_another(order, mixed.between)) for order in orders), mixed.order)]


def _one_after_another(parts: Iterable[tuple[Node, ...]], between: str) -> Iterator[Node]:
    for number, part in enumerate(parts):
        if number and between:
            yield between
        yield from part


def _unfilled(literal: Literal) -> list[Node]:
    """A text that may be a template: a placeholder for a clock or an id is information."""
    if literal.source is None or literal.shown or ("{" not in literal.text and "%(" not in literal.text):
        return [literal.text]
    by_percent = "%(" in literal.text and _FIELD.search(literal.text) is None
    if len(set(_OTHER_MARKS.findall(literal.text))) >= _LEAST_MARKS:
        return [literal.text]
    if _MUSTACHE.search(literal.text):
        spend(len(literal.text))
        return _mustache(literal)
    if JINJA_MARK.search(literal.text) and all(one[0] in ("{{", "}}") for one in _FIELD.finditer(literal.text)):
        spend(len(literal.text))
        return nodes_of(_jinja(literal), unfilled=False, most=[_MOST_NODES])
    if not by_percent and not is_for_format(literal.text):
        return [literal.text]
    nodes: list[Node] = []
    for piece in percent_filled((literal,), [], {}) if by_percent else _fields(literal, {}, []):
        if isinstance(piece, Hole):
            if piece.doubt:
                nodes.append(piece)
            elif piece.kind.code in (TIME.code, REQUEST_ID.code):
                nodes.append(Hole(piece.spot, piece.kind, piece.what, minor=True))
        elif isinstance(piece, str):
            nodes.append(piece)
    return nodes
