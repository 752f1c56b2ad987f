"""Texts with `{name}`, `$name` or other placeholders in files of their own. Nothing is filled in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Formatter

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.lint.evidence.placeholders import doubt_of, placeholder
from kvtool.lint.evidence.quoted_code import is_quoted, quoted_ranges
from kvtool.lint.evidence.surrounding_text import label_before
from kvtool.lint.skeleton import Hole, Node, TemplatePlaces, placeholders, text_nodes
from kvtool.text.traced import Traced

_CHAIN = re.compile(r"\{([A-Za-z_]\w{0,99}(?:\.[A-Za-z_]\w{0,60}){1,6})[}:!]")
"""A placeholder of an attribute: `{state.question}`."""


def traced_template(text: Traced, style: str, *, sent: bool = False) -> list[Node]:
    """Return a text with `{name}` (`format`), `$name` (`dollar`) or other (`marks`) placeholders as nodes.

    Without a style all of it is constant. `sent`: as it is sent, with a hole for each value, also for those that are the same in
    all requests, and with one brace of two that `format` reads.
    """
    plain = str.__str__(text)
    if not style:
        return [plain]
    places = TemplatePlaces(text)
    quoted = quoted_ranges(plain)

    def hole(start: int, stop: int, name: str) -> Node | None:
        if is_quoted(plain, start, stop, quoted) and not sent:
            return None
        if name.isdigit():
            name = label_before(plain, start)
        elif (chain := _CHAIN.match(plain, start)) is not None:
            name = chain[1]
        found = placeholder(name, places.at(start, stop)) if name else None
        if found is not None and found.doubt == "open" and style == "marks":
            return plain[start:stop] if sent else None
        return found or (Hole(places.at(start, stop), OTHER, f"`{name or 'value'}`", doubt="open") if sent else None)

    nodes = text_nodes(plain, style, hole)
    try:
        escaped = sent and style == "format" and any(Formatter().parse(text))
    except ValueError:
        escaped = False
    return [one.replace("{{", "{").replace("}}", "}") if escaped and isinstance(one, str) else one for one in nodes]


def marked_template(text: Traced, marks: Sequence[str]) -> list[Node]:
    """A text as nodes with a hole for each of the marks, which code replaces, and of what is written as other marks are."""
    plain = str.__str__(text)
    places = TemplatePlaces(text)
    known = _mark_pattern(marks)
    spans = {(found.start(), found.end()): _mark_name(found[0]) for found in known.finditer(plain)}
    for start, stop, name in placeholders(plain, "marks"):
        if doubt_of(name) != "open" and not any(start < end and begin < stop for begin, end in spans):
            spans[start, stop] = name
    nodes: list[Node] = []
    at = 0
    for (start, stop), name in sorted(spans.items()):
        nodes.append(plain[at:start])
        if (hole := placeholder(name, places.at(start, stop))) is not None:
            nodes.append(hole)
        at = stop
    nodes.append(plain[at:])
    return [node for node in nodes if node != ""]


def _mark_pattern(marks: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that finds these marks; those in capitals only as whole words."""
    return re.compile("|".join(rf"(?<!\w){re.escape(one)}(?!\w)" for one in sorted(marks, key=len, reverse=True)))


def _mark_name(mark: str) -> str:
    """Return the name in a mark."""
    return re.sub(r"\W+", "_", mark).strip("_")


def placeholder_count(text: str, style: str) -> int:
    return sum(1 for _ in placeholders(text, style))
