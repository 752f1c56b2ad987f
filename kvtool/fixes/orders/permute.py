"""Documents, memories and examples in one order for all requests: the most frequent first (tier P2)."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from kvtool.diagnose.compare.json_forms import canonical
from kvtool.diagnose.compare.tools import tool_name
from kvtool.fixes.orders.items import SPLITS, Item, Split
from kvtool.fixes.turn_texts import map_texts, texts_of
from kvtool.text.cache_marks import marks_kept_in_place
from kvtool.text.message import Message, role_of
from kvtool.text.reordered import rearranged
from kvtool.workload.turn import Turn

_MOST_SESSIONS = 10_000
_MOST_TOOLS = 10_000
PARTS_LAST = "parts-last"
"""How the key of a fix begins that puts images and files after the text of their message."""
_MOST_COMPARED = 64
"""Items of a text whose order is compared with that in others."""
_MOST_TEXTS = 512


@dataclass(frozen=True, slots=True)
class GlobalOrder:
    """One order of a list: the place of each item in it (`ranks`), and items that stay where they are.

    Where not all that is found is of the list, items may be parts of what moves: `bound` ones always follow what they belong to
    (the answer of an example), and `dividers` occur more than once (a rule between examples), so they keep their places.
    """

    ranks: dict[str, int]
    steady: frozenset[str]
    whole: bool
    """Whether everything that is found is of the list; else it reaches from the first to the last item that is known to move."""
    bound: frozenset[str] = frozenset()
    dividers: frozenset[str] = frozenset()

    @classmethod
    def learn(cls, lists: Sequence[Sequence[str]], *, whole: bool) -> GlobalOrder | None:
        """Learn from the lists of requests; return None where no two items were seen in both orders, or where none of the lists
        would change.
        """
        bound = frozenset[str]() if whole else _bound(lists)
        units = [[_joined(unit) for unit in _units_of(items, bound)] for items in lists]
        counts = Counter(unit for found in units for unit in dict.fromkeys(found))
        twice = frozenset[str]() if whole else frozenset(each for found in units for each in _repeated(found))
        seen: set[tuple[str, str]] = set()
        for found in units:
            often = [unit for unit in dict.fromkeys(found) if counts[unit] > 1 and unit not in twice][:_MOST_COMPARED]
            seen.update((a, b) for index, a in enumerate(often) for b in often[index + 1 :])
        moving = {unit for a, b in seen if (b, a) in seen for unit in (a, b)}
        if not moving:
            return None
        known = counts if whole else moving
        ranks = {unit: rank for rank, unit in enumerate(sorted(known, key=lambda unit: (-counts[unit], unit)))}
        often_there = frozenset(each for each in counts if 2 * counts[each] > len(lists))
        order = cls(ranks, frozenset() if whole else often_there - moving - twice, whole, bound, twice)
        if not all(order._is_clear(found) for found in units):
            return None
        return order if any(order.arranged(items) != list(range(len(items))) for items in lists) else None

    def arranged(self, items: Sequence[str]) -> list[int]:
        """Return which item comes to each place."""
        units = _units_of(items, self.bound)
        names = [_joined(unit) for unit in units]
        order = self._arranged(names)
        starts = list(accumulate((len(unit) for unit in units), initial=0))
        return [place for unit in order for place in range(starts[unit], starts[unit + 1])]

    def _arranged(self, names: Sequence[str]) -> list[int]:
        places = list(range(len(names)))
        first, last = self._reach(names)
        if first > last or not self._is_clear(names):
            return places
        dividers = self._dividers(names)
        stretch: list[int] = []
        for place in range(first, last + 2):
            if place > last or names[place] in self.steady:
                for to, source in zip(stretch, sorted(stretch, key=lambda each: self._key(names[each])), strict=True):
                    places[to] = source
                stretch = []
            elif names[place] not in dividers:
                stretch.append(place)
        return places

    def _reach(self, names: Sequence[str]) -> tuple[int, int]:
        """Return the first and the last unit of the list, or (0, -1)."""
        known = [place for place, name in enumerate(names) if name in self.ranks]
        return (0, -1) if not known else (0, len(names) - 1) if self.whole else (known[0], known[-1])

    def _dividers(self, names: Sequence[str]) -> frozenset[str]:
        return frozenset() if self.whole else self.dividers | _repeated(names)

    def _is_clear(self, names: Sequence[str]) -> bool:
        """Return whether one divider is between any two units of the list, or none at all; else nobody knows what belongs
        together.
        """
        first, last = self._reach(names)
        dividers, inner = self._dividers(names), names[first : last + 1]
        there = [name in dividers for name in inner]
        return not any(there) or (all(there[1::2]) and not any(there[::2]) and len(set(inner[1::2])) == 1)

    def _key(self, name: str) -> tuple[int, str]:
        rank = self.ranks.get(name)
        return (len(self.ranks), name) if rank is None else (rank, "")


def _bound(lists: Sequence[Sequence[str]]) -> frozenset[str]:
    """Return items that always follow something which nothing else ever follows."""
    behind: dict[str | None, str | None] = {}
    several: set[str | None] = {None}
    before: dict[str, set[str | None]] = {}
    for items in lists:
        for item, following in pairwise([None, *items, None]):
            if behind.setdefault(item, following) != following or following is None:
                several.add(item)
            if following is not None:
                before.setdefault(following, set()).add(item)
    return frozenset(item for item, found in before.items() if found.isdisjoint(several))


def _units_of(items: Sequence[str], bound: Collection[str]) -> list[list[str]]:
    """Return the items, bound ones with those that they follow."""
    units: list[list[str]] = []
    for item in items:
        if units and item in bound:
            units[-1].append(item)
        else:
            units.append([item])
    return units


def _joined(unit: Sequence[str]) -> str:
    return "\0".join(unit)


def _repeated(items: Sequence[str]) -> frozenset[str]:
    return frozenset(item for item, count in Counter(items).items() if count > 1)


@dataclass(frozen=True, slots=True)
class ItemOrder:
    """Puts the items of lists inside texts of some roles (None: of all) in one order; numbers stay in their places."""

    split: Split
    order: GlobalOrder
    roles: Collection[str] | None
    numbered: bool

    @classmethod
    def learn(cls, samples: Iterable[Turn], roles: Collection[str] | None) -> ItemOrder | None:
        """Learn from requests; return None where no list with items in another order is found in them."""
        texts: dict[str, None] = {}
        for turn in samples:
            for at in texts_of(turn):
                if len(texts) < _MOST_TEXTS and (roles is None or at.role in roles):
                    texts[str.__str__(at.text)] = None
        for split, whole in SPLITS:
            bodies: list[list[str]] = []
            numbered = False
            for text in texts:
                items = split(text, ())
                numbered = numbered or any(item.number < item.number_stop for item in items)
                bodies.append([item.body(text) for item in items])
            known = frozenset(body for found in bodies for body in found[:-1])
            bodies = [[item.body(text) for item in split(text, known)] for text in texts]
            order = GlobalOrder.learn([found for found in bodies if found], whole=whole)
            if order is not None:
                return cls(split, order, roles, numbered)
        return None

    def __call__(self, turn: Turn) -> Turn:
        return map_texts(turn, self._arranged, self.roles)

    def first_moved(self, text: str) -> int | None:
        """Return where the first item begins that others come before or after than now; None where all stay."""
        items, places = self._places(str.__str__(text))
        return next((items[at].start for at, source in enumerate(places) if at != source), None)

    def _places(self, plain: str) -> tuple[list[Item], list[int]]:
        items = self.split(plain, self.order.ranks)
        return items, self.order.arranged([item.body(plain) for item in items])

    def _arranged(self, text: str) -> str:
        plain = str.__str__(text)
        items, places = self._places(plain)
        if places == sorted(places):
            return text
        ranges: list[tuple[int, int]] = []
        at = 0
        for place, source in enumerate(places):
            ranges.append((at, items[place].start))
            ranges += _with_number_of(items[source], items[place])
            at = items[place].stop
        return rearranged(text, [*ranges, (at, len(plain))])


def _with_number_of(item: Item, place: Item) -> list[tuple[int, int]]:
    return [(item.start, item.number), (place.number, place.number_stop), (item.number_stop, item.stop)]


@dataclass(frozen=True, slots=True)
class ExampleMessages:
    """Puts examples that are messages of their own (a question with its answer) in one order; the last message stays the last."""

    order: GlobalOrder

    @classmethod
    def learn(cls, samples: Iterable[Turn]) -> ExampleMessages | None:
        """Learn from requests that are no turns of a session; return None where no example is in another order."""
        turns = (turn.messages for turn in samples if turn.session is None and turn.messages)
        order = GlobalOrder.learn([[_said(unit) for unit in _units(messages)] for messages in turns], whole=False)
        return None if order is None else cls(order)

    def __call__(self, turn: Turn) -> Turn:
        if turn.session is not None or not turn.messages:
            return turn
        units = _units(turn.messages)
        places = self.order.arranged([_said(unit) for unit in units])
        if places == sorted(places):
            return turn
        messages = [message for place in places for message in units[place]]
        return replace(turn, messages=[*messages, *turn.messages[len(messages) :]])


def _units(messages: Sequence[Message]) -> list[list[Message]]:
    """Return the messages but the last one: each that is no answer, with the answers to it."""
    units: list[list[Message]] = []
    for message in messages[:-1]:
        if units and role_of(message) in ("assistant", "tool"):
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _said(unit: Sequence[Message]) -> str:
    return json.dumps(unit, sort_keys=True, default=repr)


def parts_last(turn: Turn) -> Turn:
    """Return the turn with images and files after the text of each message that begins with them; the very turn where none does.

    What is between texts stays: a text beside an image may be what is said of that one.
    """
    messages = [_with_parts_last(message) for message in turn.messages or ()]
    same = all(one is other for one, other in zip(messages, turn.messages or (), strict=True))
    return turn if same else replace(turn, messages=messages)


def _with_parts_last(message: Message) -> Message:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    texts = [isinstance(part, dict) and isinstance(part.get("text"), str) for part in content]
    first = texts.index(True) if True in texts else 0
    if not first or not all(texts[first:]):
        return message
    return {**message, "content": marks_kept_in_place(content, [*content[first:], *content[:first]])}


class ToolsByFirstUse:
    """Puts the tools of each turn in the order of their first appearance in the session; remembers their names."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str | None], dict[str, int]] = OrderedDict()

    def __call__(self, turn: Turn) -> Turn:
        if not isinstance(turn.tools, list) or not turn.tools:
            return turn
        key = (turn.group, turn.session)
        places = self._seen.setdefault(key, {})
        self._seen.move_to_end(key)
        if len(self._seen) > _MOST_SESSIONS:
            self._seen.popitem(last=False)
        names = [tool_name(tool) or canonical(tool).decode(errors="replace") for tool in turn.tools]
        for name in names:
            if len(places) < _MOST_TOOLS:
                places.setdefault(name, len(places))
        order = sorted(range(len(names)), key=lambda index: places.get(names[index], len(places)))
        if order == sorted(order):
            return turn
        return replace(turn, tools=marks_kept_in_place(turn.tools, [turn.tools[index] for index in order]))
