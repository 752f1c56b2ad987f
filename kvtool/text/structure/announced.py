# ruff: noqa: RUF001 - signs of other scripts are meant
"""Paragraphs that announce the blocks after them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.text.structure.prose import ROW, introduction
from kvtool.text.structure.raw_unit import RawUnit
from kvtool.text.structure.sentences import introduces, is_sentence, is_title, sentence_ends
from kvtool.text.structure.tag_pairs import PlacedLines, tag_name

_LONGEST_POINTER = 300
_BELOW = re.compile(
    r"""\b(?:following|below|as\sfollows|next\s(?:table|list|block)
    |folgend\w{0,2}|nachstehend\w{0,2}|nachfolgend\w{0,2}|unten
    |suivante?s?|ci-dessous|ci-après|siguientes?|a\scontinuación|abajo|seguintes?|abaixo|a\sseguir
    |següents?|a\scontinuació|seguent[ei]|di\sseguito|qui\ssotto|următo\w{1,4}|mai\sjos
    |volgende|hieronder|onderstaande?|følgende|nedenfor|nedenstående|följande|nedan\w{0,6}|seuraav\w{1,4}|alla\solev\w{1,4}|järgmi\w{1,5}
    |następując\w{1,3}|poniż\w{1,6}|následujíc\w{1,3}|níže|nasledujúc\w{1,3}|nižšie|sljedeć\w{1,3}|sledeć\w{1,3}|naslednj\w{1,3}|spodaj
    |következő\w{0,3}|alábbi\w{0,3}|aşağıda\w{0,3}|şu\stablo
    |следующ\w{1,4}|ниже\w{0,9}|наступн\w{1,4}|нижче\w{0,9}|следн\w{1,4}|по-долу|ακόλουθ\w{1,3}|παρακάτω
    |berikut|di\sbawah|sau\sđây|dưới\sđây|bên\sdưới
    |הבאה?|הבאים|להלן|التالي\w{0,3}|الآتي\w{0,3}|أدناه|زیر|ذیل|درج\sذیل
    )\b
    |下記|以下|下表|下列|如下|次の|下の|아래|다음|निम्न\w*|नीचे|নিচে\w*|নিম্ন\w*|ต่อไปนี้|ด้านล่าง""",
    re.IGNORECASE | re.VERBOSE,
)


def points_below(sentence: str) -> bool:
    """Return whether a sentence speaks of what follows it, in one of the languages in which prompts are mostly written."""
    return len(sentence) <= _LONGEST_POINTER and _BELOW.search(sentence) is not None


_SEVERAL = frozenset({"quote", "fence", "element"})
"""Units of which one line may announce several."""
_HEADED = frozenset({"list", "numbered", "data", "fence"})
"""Units that may be below a title."""


def with_introductions(lines: PlacedLines, found: Sequence[RawUnit], begins: Sequence[int]) -> list[RawUnit]:
    """Paragraphs that end with an announcement of the block after them, or with rows that go on there, are parted there.

    `begins` are the lines on which the ranges begin; -1 for a section and an item, which no line announces.
    """
    ends: dict[int, RawUnit] = {}  # the largest block that begins on a line
    for raw, line in zip(found, begins, strict=True):
        if line >= 0 and (line not in ends or raw.stop > ends[line].stop):
            ends[line] = raw
    announcing = _Announcing(lines, ends)
    raws: list[RawUnit] = []
    for raw, line in zip(found, begins, strict=True):
        announced = announcing.by(raw, line) if raw.kind == "paragraph" else None
        if announced is None:
            raws.append(raw)
            continue
        raws.append(announced)
        before = raw.start + len(lines.text[raw.start : announced.start].rstrip())
        if before > raw.start:
            raws.append(raw._replace(stop=before))
        raws.append(RawUnit("paragraph", announced.start, raw.stop, announced.start))
    return raws


_LABEL = re.compile(
    r"[ \t]*(?:\*\*|__)?([^\W\d_][^\W\d]{0,24})(?:[ \t]?#?\d{1,3})?(?:\*\*|__)?[ \t]?[:：](?:\*\*|__)?(?=\s)"
)


class _Announcing:
    def __init__(self, lines: PlacedLines, ends: dict[int, RawUnit]) -> None:
        self._lines = lines
        self._text = lines.text
        self._ends = ends

    def by(self, raw: RawUnit, first: int) -> RawUnit | None:
        """Return the announcement in the last line of a paragraph, with that line."""
        lines = self._lines
        last = first if raw.stop <= lines.starts[first + 1] else lines.of(raw.stop - 1)
        number = lines.behind(last)
        block = self._ends.get(number)
        if block is None or block.start < raw.stop:
            return None
        low = max(lines.starts[last], raw.start)
        if (
            introduces(self._text[low : raw.stop])
            or (number == last + 1 and self._is_title(low, raw, first, block))
            or self._points(low, raw.stop, block)
        ):
            several = block.kind == "paragraph" or block.kind in _SEVERAL
            stop = self._text_after_similar(block) if several else block.stop
            return RawUnit("introduced", self._last_sentence(low, raw.stop), stop, block.start)
        if block.kind == "paragraph" and self._is_row(block.start):
            found = introduction(self._text, raw.start, raw.stop)
            if found is not None and self._is_row(found[1]):
                return RawUnit("introduced", found[0], self._text_after_similar(block), found[1])
        return None

    def _points(self, low: int, stop: int, block: RawUnit) -> bool:
        """Return whether the last sentence of a line speaks of the list, the table or the data after it."""
        listed = block.kind in _HEADED or (block.kind == "paragraph" and self._text[block.start] == "|")
        return listed and points_below(self._text[self._last_sentence(low, stop) : stop])

    def _last_sentence(self, low: int, stop: int) -> int:
        """Return the start of the last sentence of a line."""
        return next(reversed(sentence_ends(self._text, low, stop, ())), low)

    def _is_title(self, low: int, raw: RawUnit, first: int, block: RawUnit) -> bool:
        """Return whether the last line of a paragraph, right above a list, is the title of it."""
        if block.kind not in _HEADED or self._text[self._lines.starts[first] : raw.start].strip():
            return False  # what an item says, its marker before it, is no title
        above = self._text[raw.start : low].rstrip().rpartition("\n")[2]
        return (not above or is_sentence(above)) and is_title(self._text[low : raw.stop])

    def _text_after_similar(self, block: RawUnit) -> int:
        """The end of the blocks that one line announces: quotes, say, paragraphs of rows, as a map of files has several, or
        paragraphs that begin with the same label, as examples do."""
        stop = block.stop
        while block.kind in _SEVERAL or self._is_row(block.start) or self._label(block):
            following = self._ends.get(self._lines.behind(self._lines.of(stop - 1)))
            if following is None or following.kind != block.kind or not self._is_like(block, following):
                break
            block, stop = following, following.stop
        return stop

    def _is_like(self, block: RawUnit, other: RawUnit) -> bool:
        if block.kind == "element":
            one, another = self._text[block.start : block.body], self._text[other.start : other.body]
            return tag_name(one) == tag_name(another)
        if block.kind in _SEVERAL or self._is_row(other.start):
            return True
        return bool(label := self._label(block)) and label == self._label(other)

    def _label(self, block: RawUnit) -> str:
        """The label that a paragraph of several lines begins with, without a number; empty where it has none."""
        text = self._text
        if block.kind != "paragraph" or text.find("\n", block.start, block.stop) < 0:
            return ""
        found = _LABEL.match(text, block.start, block.stop)
        return found[1].casefold() if found is not None else ""

    def _is_row(self, at: int) -> bool:
        return ROW.match(self._lines.shown[self._lines.of(at)]) is not None
