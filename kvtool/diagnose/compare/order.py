"""The same segments in another order: found among the units that an alignment left over, or between separators of a line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import chain, pairwise
from typing import NamedTuple

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.structure.kv111 import TOOLS_REORDERED
from kvtool.diagnose.codes.structure.kv113 import DOCUMENTS_REORDERED, LIST_REORDERED
from kvtool.diagnose.codes.structure.kv114 import EXAMPLES_REORDERED
from kvtool.diagnose.compare.tools import is_tool, parted
from kvtool.diagnose.compare.units import Unit
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.diagnose.word_lists import read_words, word_pattern
from kvtool.text.structure.tag_name import TAG_NAME, TAG_START

_pattern = partial(word_pattern, __file__)
"""Return a pattern of the TOML file beside this module."""

_CALL = re.compile(
    r"^(?:\W{0,3}\d{1,3})?\W{0,6}(?:[A-Za-z_][\w.]{0,60}\([^()\n]{0,200}\)|<(?:tool|function|action|command)\b)",
    re.MULTILINE,
)
_NAMED = re.compile(r"[^\w.:`'\"-]+")
_DOTTED = re.compile(r"[`'\"]?[A-Za-z]\w{0,40}(?:[.:]\w{1,40}){1,4}[`'\"]?")
_IDENTIFIER = re.compile(r"[`'\"]?(?:[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+)(?:\(\))?[`'\"]?")
_AND = frozenset({"and", "or", "und", "oder", "et", "ou", "y", "o", "e"})
_FILE = re.compile(
    r"\.(?:py|md|txt|pdf|json|csv|html?|ya?ml|toml|xml|log|[jt]sx?|docx?|xlsx?|png|jpe?g|com|org|net|io)\W?$",
    re.IGNORECASE,
)
_LEAD = 200
"""Characters before a list that say what it is of, and those in which they stand where other items come between:"""
_LEADS = 4_096
_ARROW = re.compile("[=-]>|[\u2192\u21d2\u27f6]")
"""What items of one list have in their middle: no line with it introduces the list."""
_HEADING = re.compile(r"(#{1,6})[ \t]")
_ELEMENT = re.compile(rf"[ \t]*</?({TAG_NAME})")
_OPENS = re.compile(rf"[ \t]*<{TAG_START}[^<>]{{0,200}}>[ \t\r]*")
_BAR = "|"
_BULLETS = " \t-*+0123456789.)("
_LIST = re.compile("[,;|]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_LEAST_MOVED = 32
_MAX_HULL = 65_536


class Moved(NamedTuple):
    """Units of either text that are elsewhere in the other one, by their places in the lists of units."""

    a: frozenset[int]
    b: frozenset[int]


def moved_units(
    a: Sequence[Unit], left_a: list[list[int]], b: Sequence[Unit], left_b: list[list[int]], inner: int
) -> Moved | None:
    """Return what moved among the units without a partner, where it is most of what differs; None where it is not.

    `left_a` and `left_b` are those of each gap. The first `inner` gaps are before shared text; what is after them may be new.
    """
    all_a, all_b = list(chain.from_iterable(left_a)), list(chain.from_iterable(left_b))
    inner_b = sum(map(len, left_b[:inner]))
    exact_a, exact_b = [a[at].key for at in all_a], [b[at].key for at in all_b]
    if not all_a or not all_b or _in_place(exact_a, left_a, exact_b, left_b):
        return None
    moved = _common(a, all_a, exact_a, all_b, exact_b, inner_b)
    if moved is None:
        relaxed_a, relaxed_b = [a[at].relaxed for at in all_a], [b[at].relaxed for at in all_b[:inner_b]]
        others = left_b[:inner]
        if Counter(relaxed_a) == Counter(relaxed_b) and not _in_place(relaxed_a, left_a, relaxed_b, others):
            moved = Moved(frozenset(all_a), frozenset(all_b[:inner_b]))
    return moved


def _in_place(keys_a: list[str], left_a: list[list[int]], keys_b: list[str], left_b: list[list[int]]) -> bool:
    """Return whether the keys are the same ones in the same gaps: then nothing moved, there were only too many to be aligned."""
    return keys_a == keys_b and list(map(len, left_a[: len(left_b)])) == list(map(len, left_b))


def _common(
    a: Sequence[Unit],
    left_a: list[int],
    keys_a: list[str],
    left_b: list[int],
    keys_b: list[str],
    inner_b: int,
) -> Moved | None:
    both = Counter(keys_a) & Counter(keys_b)
    if not both:
        return None
    found_a, found_b = (
        frozenset(places[at] for at in parted(keys, both)[0]) for places, keys in ((left_a, keys_a), (left_b, keys_b))
    )
    length = sum(len(a[at].key) for at in found_a)
    if len(found_a) == len(left_a) and len(found_b) == inner_b == len(left_b):
        return Moved(found_a, found_b)
    length_b = sum(len(key) for at, key in zip(left_b[:inner_b], keys_b, strict=False) if at in found_b)
    if length < _LEAST_MOVED or 2 * length < sum(map(len, keys_a)) or 2 * length_b < sum(map(len, keys_b[:inner_b])):
        return None
    return Moved(found_a, found_b)


def order_kind(text: str, start: int, stop: int, moved: Sequence[Unit] = ()) -> DifferenceKind:
    """Return what the segments of `text[start:stop]` are: tools, examples, or documents (whatever else comes in sets)."""
    if moved and all(is_tool(unit.value) for unit in moved):
        return TOOLS_REORDERED
    if _are_tools(text, start, stop):
        return TOOLS_REORDERED
    line = text.rfind("\n", 0, start)
    line = text.rfind("\n", 0, max(line, 0)) + 1  # the label may stand on the line before
    stop = min(stop, start + _MAX_HULL)
    hull = text[line:stop]
    lead = introduction_of(text, start)
    if _pattern("examples").search(lead) and not _pattern("documents").search(lead):
        return EXAMPLES_REORDERED
    found = _pattern("example_line").findall(hull)
    lines = sum(1 for each in hull.split("\n") if each.strip())
    heads = heads_of_examples(hull)
    if heads >= 2 and THRESHOLDS.example_lines * heads >= lines:
        return EXAMPLES_REORDERED
    if len(found) >= 2 and 12 * len(found) >= lines:
        return EXAMPLES_REORDERED
    if is_short_list(text, start, stop):
        return LIST_REORDERED
    above = _heading_above(text, start)
    return (
        EXAMPLES_REORDERED
        if _pattern("examples").search(above) and not _pattern("documents").search(above)
        else DOCUMENTS_REORDERED
    )


def is_short_list(text: str, start: int, stop: int) -> bool:
    """Return whether a list is on one line, of few words each, and nothing before it says that they are documents."""
    line = text[start:stop]
    if "\n" in line or _pattern("documents").search(text[max(text.rfind("\n", 0, start) + 1, start - _LEAD) : start]):
        return False
    items = [item for item in _LIST.split(line) if item.strip()]
    return len(items) > 1 and sum(len(item.split()) for item in items) <= THRESHOLDS.list_item_words * len(items)


def _heading_above(text: str, start: int) -> str:
    """Return the nearest Markdown heading, or line that ends with a colon and is alone, above a place; empty where there is
    none.
    """
    lines = (text[start - _LEADS : start] if start > _LEADS else f"\n{text[:start]}").split("\n")
    for above, line in reversed([*pairwise(lines)]):  # before the first of them may stand more
        alone = not above.strip() and line.rstrip().endswith((":", "\uff1a"))
        if line.lstrip().startswith("#") or alone:
            return line.strip()[:_LEAD]
    return ""


def introduction_of(text: str, start: int) -> str:
    """Return what introduces the item at `start`: what is before it on its line, else the last line before that is no item like
    it.
    """
    line = text.rfind("\n", 0, start) + 1
    if heading := _HEADING.match(text, line):
        return _heading_over(text, line, len(heading[1]))
    if (held := _ELEMENT.match(text, line)) and ">" not in text[line:start]:
        return _element_around(text, line, held[1])
    if text[line:start].strip(_BULLETS):
        return text[max(line, start - _LEAD) : start]
    mark = text[start : start + 1]
    marks = tuple("0123456789") if mark.isdecimal() else mark
    lines = text[max(line - _LEADS, 0) : line].split("\n")
    arrow = _ARROW.search(text, line, min(text.find("\n", start) % (len(text) + 1), start + _LEAD))
    others = [each for each in reversed(lines) if each.strip() and not (arrow and arrow[0] in each)]
    at = next((at for at, each in enumerate(others) if not each.lstrip().startswith(marks)), len(others))
    header = others[at - 1][:_LEAD] if at and mark == _BAR else ""  # what the columns of a table are
    return header + "".join(others[at : at + 1])[-_LEAD:]


def _element_around(text: str, line: int, name: str) -> str:
    """Return the opening tag above an element at `line` that has another name and a line of its own, else the last line that is no
    tag.
    """
    for each in reversed(text[max(line - _LEADS, 0) : line].split("\n")):
        tag = _ELEMENT.match(each)
        if each.strip() and (tag is None or (tag[1] != name and _OPENS.fullmatch(each))):
            return each[-_LEAD:] if tag is None else tag[1]
    return ""


def _heading_over(text: str, line: int, level: int) -> str:
    """Return the nearest heading above the one at `line` that is of a higher level; empty where there is none."""
    for each in reversed(text[max(line - _LEADS, 0) : line].split("\n")):
        found = _HEADING.match(each)
        if found is not None and len(found[1]) < level:
            return each[:_LEAD]
    return ""


def _are_tools(text: str, start: int, stop: int) -> bool:
    """Return whether what is before a list, on its line or the last one before it that is not blank, says that it is of tools.

    Where nothing does, items that all look like calls or are elements of such a name, or names such as `fs.read` on one line.
    """
    lead = introduction_of(text, start)
    if _pattern("documents").search(lead):
        return False
    if (said := list(_pattern("tools").finditer(lead))) and _pattern("examples").search(lead, said[-1].end()) is None:
        return True  # no `tool for rosters. Examples of its labels:`
    items = [line for line in text[start : min(stop, start + _MAX_HULL)].split("\n") if line.strip()]
    if len(items) == 1:
        names = [name for name in _NAMED.split(items[0].strip(" \t\r.,;")) if name not in _AND]
        begin = next((at for at, name in enumerate(names) if _IDENTIFIER.fullmatch(name)), len(names))
        before, called = f"{lead} {' '.join(names[:begin])}", names[begin:]
        if called and all(map(_IDENTIFIER.fullmatch, called)) and len(called) + len(_IDENTIFIER.findall(lead)) > 2:
            return not _pattern("fields").search(before)
        return len(names) > 2 and all(_DOTTED.fullmatch(name) and not _FILE.search(name) for name in names)
    return len(items) > 1 and all(map(_CALL.match, items))


def shuffled(a: str, b: str) -> bool:
    """Return whether two short texts are the same items between commas (semicolons, bars), sentence ends or line ends,
    rearranged.
    """
    for items_a, items_b in zip(_items(a), _items(b), strict=True):
        if len(items_a) != len(items_b) or len(items_a) < 2 or items_a == items_b:
            continue
        enough = len(items_a) > 2 or min(map(len, items_a)) >= 8
        if enough and sum(map(len, items_a)) == sum(map(len, items_b)) and Counter(items_a) == Counter(items_b):
            return True
    return False


def _items(text: str) -> Iterator[list[str]]:
    text = text.strip(" \t\r\n,;|")
    yield [item.strip() for item in _LIST.split(text)]
    yield _SENTENCE_END.split(text)
    yield [item for line in text.split("\n") if (item := line.strip())]


def heads_of_examples(text: str) -> int:
    """Return how many lines of a text are nothing but the head of an example, or begin with it as with a label."""
    return sum(1 for _ in _example_head().finditer(text))


@cache
def _example_head() -> re.Pattern[str]:
    """Compile the pattern of a line that is the head of an example, with or without a number."""
    words = "|".join(read_words(__file__)["example_words"])
    return re.compile(
        rf"^\W{{0,8}}(?:\d{{1,4}}[.)]?[ \t]{{1,2}})?(?:{words})"
        r"[ \t]{0,2}(?:(?:n[ro]?[.º°]?|№|#)[ \t]?)?[(\[]?\d{0,4}(?:[)\]]?[ \t]{0,2}[:.)>\uff1a\u2014\u2013-]|\W{0,6}$)",
        re.IGNORECASE | re.MULTILINE,
    )
