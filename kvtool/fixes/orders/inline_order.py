"""Items of lists that are on one line in one order for all requests: the most frequent first (tier P2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from kvtool.diagnose.compare.inline_items import LONGEST_LINE, InlineList, lists_on, words_before
from kvtool.diagnose.compare.order import introduction_of
from kvtool.diagnose.compare.units import common_prefix
from kvtool.diagnose.word_lists import word_pattern
from kvtool.fixes.orders.permute import ItemOrder
from kvtool.fixes.turn_texts import lines_with_places, map_texts, texts_of
from kvtool.text.reordered import rearranged
from kvtool.workload.turn import Turn

_pattern = partial(word_pattern, __file__)
"""Return a pattern of the TOML file beside this module."""

AS_MEANT = "keep the order: the text before the list says that it is a ranking. Move shared text before the list"
"""What may be done about a list whose order says something."""


_LOOKED_AT = 8
_MOST_TEXTS = 512
_MOST_LISTS = 20_000
_WORDS_ALIKE = 3
"""Words with which lines of the same list begin."""


@dataclass(frozen=True, slots=True)
class InlineOrder:
    """Puts the items of lists after these beginnings of lines in one order (`ranks`); what parts them stays where it is.

    The beginnings come with the one first whose items were seen in most orders: where `Tools: ` introduces a list, a beginning
    without it has that in its first item.
    """

    ranks: dict[str, dict[str, int]]
    roles: Collection[str] | None

    @classmethod
    def learn(cls, samples: Iterable[Turn], roles: Collection[str] | None) -> InlineOrder | None:
        """Learn from requests; return None where no line has the items of a line of another request in another order."""
        texts: dict[str, None] = {}
        for turn in samples:
            for at in texts_of(turn):
                if len(texts) < _MOST_TEXTS and (roles is None or at.role in roles):
                    texts[str.__str__(at.text)] = None
        lines = Counter(line for text in texts for line in dict.fromkeys(text.split("\n")))
        found: dict[str, dict[tuple[str, ...], int]] = {}
        seen = 0
        varying = {line: count for line, count in lines.items() if count < len(texts)}
        alike = [*_begun_alike(varying, 1), *_begun_alike(varying, _WORDS_ALIKE)]
        for line, count in varying.items():
            begins = {begin for begin in alike if line.startswith(begin)}
            for each in _lists_on(line, begins):
                seen += 1
                orders = found.setdefault(each.intro, {})
                bodies = each.bodies(line)
                orders[bodies] = orders.get(bodies, 0) + count
            if seen > _MOST_LISTS:
                break
        known = {intro: _most_orders(orders, any_first=bool(intro)) for intro, orders in found.items()}
        proven = sorted(
            (intro for intro in known if known[intro] > 1), key=lambda each: (-known[each], -len(each), each)
        )
        return cls({intro: _ranks(found[intro]) for intro in proven}, roles) if proven else None

    def __call__(self, turn: Turn) -> Turn:
        return map_texts(turn, self._arranged, self.roles)

    def _arranged(self, text: str) -> str:
        plain = str.__str__(text)
        intros = tuple(self.ranks)
        ranges: list[tuple[int, int]] = []
        at = 0
        for start, stop in lines_with_places(plain):
            if not plain.startswith(intros, start, stop):
                continue
            for place, source in self._places(plain[start:stop]):
                ranges += [(at, start + place[0]), (start + source[0], start + source[1])]
                at = start + place[1]
        return rearranged(text, [*ranges, (at, len(plain))]) if ranges else text

    def _places(self, line: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Return for each item of the line's list the range of the one that comes there; nothing where all stay."""
        lists = {
            each.intro: each.items for each in _lists_on(line, {each for each in self.ranks if line.startswith(each)})
        }
        intro = next((each for each in self.ranks if each in lists), None)
        if intro is None:
            return []
        ranks, items = self.ranks[intro], lists[intro]
        if not intro and not all(line[start:stop] in ranks for start, stop in items):
            return []
        ordered = sorted(items, key=lambda item: ranks.get(line[item[0] : item[1]], len(ranks)))
        return [] if ordered == list(items) else list(zip(items, ordered, strict=True))


def _lists_on(line: str, begins: Collection[str]) -> list[InlineList]:
    """Return the lists that may be on a line, those after these beginnings of it, too."""
    found = {each.intro: each for begin in sorted({*begins, ""}) for each in lists_on(line, begin=len(begin))}
    return list(found.values())


def _begun_alike(lines: Iterable[str], words: int) -> list[str]:
    """Return what the lines that begin with the same few words begin with, up to the end of a word."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for line in lines:
        if len(line) <= LONGEST_LINE:
            groups.setdefault(tuple(line.split(None, words)[:words]), []).append(line)
    found = []
    for alike in groups.values():
        low, high = min(alike), max(alike)
        begin = low[: words_before(low, common_prefix(low, high))]
        if len(alike) > 1 and begin.strip():
            found.append(begin)
    return found


def _most_orders(orders: Collection[tuple[str, ...]], *, any_first: bool) -> int:
    """Count in how many orders the same items were seen; of those that always begin with the same one, where that counts as none.

    What nothing introduces begins with words that may be no part of an item: those do not change places.
    """
    firsts: dict[tuple[str, ...], set[str]] = {}
    for bodies in orders:
        firsts.setdefault(tuple(sorted(bodies)), set()).add(bodies[0])
    counts = Counter(tuple(sorted(bodies)) for bodies in orders)
    return max((count for bodies, count in counts.items() if any_first or len(firsts[bodies]) > 1), default=0)


def _ranks(orders: dict[tuple[str, ...], int]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for bodies, count in orders.items():
        for body in bodies:
            counts[body] += count
    return {body: rank for rank, body in enumerate(sorted(counts, key=lambda body: (-counts[body], body)))}


def is_ranked(listed: ItemOrder | None, inline: InlineOrder | None, samples: Sequence[Turn]) -> bool:
    """Return whether the order of what would be arranged is meant: most of a few requests say so before the list."""
    if inline is not None and any(map(_pattern("ranked").search, inline.ranks)):
        return True
    said = changed = 0
    for turn in samples:
        for at in texts_of(turn):
            if listed is None or (listed.roles is not None and at.role not in listed.roles):
                continue
            place = listed.first_moved(at.text)
            if place is not None:
                changed += 1
                said += _pattern("ranked").search(introduction_of(str.__str__(at.text), place)) is not None
        if changed >= _LOOKED_AT:
            break
    return 2 * said > changed
