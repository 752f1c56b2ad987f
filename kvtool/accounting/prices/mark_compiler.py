"""Find the cheapest marks of a log's requests: their places and times to live, priced by replaying the provider's rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations, product

from kvtool.accounting.caches.mark_plan import OTHERS, MarkPlace, MarkSet, PlacedMark, in_order, placed
from kvtool.accounting.caches.request_layout import MOST_REPLAYED, PromptLayout, replay, share_keys
from kvtool.accounting.caches.timed_tree import SHORT
from kvtool.accounting.prices.bill import Charged, bill_of
from kvtool.accounting.prices.price_row import Rates

_LEAST_PART = 20
"""A kind of requests is at least one in so many of its scope, so that kinds are few."""
_MOST_BLOCKS = 4
"""Numbered blocks that are tried: those after which most tokens are shared."""
_MESSAGES = 3
"""Messages at the end that are tried."""
_FEW = 60
"""Requests for which every step is tried."""
_FEW_OPTIONS = 14
"""Marks of which all sets of three are tried, of few requests."""
_TRIED = 3
"""Marks that are tried in place of each mark, of more requests."""
_WORTH = Decimal("0.001")
"""The part of the cost that one more kind of requests must save, to get marks of its own."""

RatesOf = Callable[[PromptLayout], Rates | None]
_Marked = Mapping[int, float | None]


@dataclass(frozen=True, slots=True)
class MarkedKind:
    """Requests of a scope with one leading prefix (`key`; OTHERS: all without marks of their own), and their cheapest marks."""

    scope: str
    key: int
    marks: MarkSet
    requests: int
    example: PromptLayout
    """The longest of those that are kept as a whole."""
    groups: tuple[str, ...]


def compile_marks(layouts: Iterable[PromptLayout], rates_of: RatesOf) -> list[MarkedKind]:
    """Return the cheapest marks by kind of requests. A scope with a request of an unknown price is left out."""
    scopes: defaultdict[str, list[PromptLayout]] = defaultdict(list)
    for layout in layouts:
        scopes[layout.scope].append(layout)
    found: list[MarkedKind] = []
    for members in scopes.values():
        rates = [rates for layout in members if (rates := rates_of(layout)) is not None]
        if len(rates) == len(members):
            found += _compile_scope(members, rates)
    return found


def own_sets(kinds: Iterable[MarkedKind], group: str) -> dict[str, dict[int, MarkSet | None]]:
    """Return the sets of a `MarkPlan` that marks the requests of the kinds of one group alone."""
    sets: defaultdict[str, dict[int, MarkSet | None]] = defaultdict(dict)
    for kind in kinds:
        sets[kind.scope][kind.key] = kind.marks if group in kind.groups else None
    return dict(sets)


def plan_sets(kinds: Iterable[MarkedKind]) -> dict[str, dict[int, MarkSet]]:
    """Return the sets of a `MarkPlan`."""
    sets: defaultdict[str, dict[int, MarkSet]] = defaultdict(dict)
    for kind in kinds:
        sets[kind.scope][kind.key] = kind.marks
    return dict(sets)


class MarkCosts:
    """Costs of the requests that read one cache, with other marks."""

    def __init__(self, layouts: Sequence[PromptLayout], rates: Sequence[Rates]) -> None:
        share_keys(layouts)
        self._layouts = layouts
        self._rates = rates
        self._shapes = [_shape(each) for each in layouts]
        self._placed: dict[tuple[MarkSet, object], _Marked] = {}

    def cost(self, chosen: Sequence[int], sets: Sequence[MarkSet]) -> Decimal:
        """Return the cost of the prompts of these requests, by number, each with a set of marks."""
        layouts = [self._layouts[at] for at in chosen]
        marks = [self._marks(marks, at) for at, marks in zip(chosen, sets, strict=True)]
        sums: defaultdict[Rates, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for at, layout, found in zip(chosen, layouts, replay(layouts, marks), strict=True):
            total = sums[self._rates[at]]
            total[0] += layout.prompt
            total[1] += found.read
            total[2] += found.written
            total[3] += found.written_1h
        return sum((bill_of(Charged(*total), rates).total for rates, total in sums.items()), Decimal(0))

    def cheapest(self, chosen: Sequence[int], start: MarkSet = ()) -> MarkSet:
        """Return the cheapest set of marks for all of these requests: the mark that saves most is added as long as one pays; then
        each is exchanged for another one, or left out, as long as that pays.

        None of them comes before one for a longer time in any of the requests, which the provider would refuse.

        For few requests every step is tried, and each pair of marks first, of few options each three. For many a mark is not tried
        again where it saved less before than another one saves now, and `start` is where the search begins.
        """
        layouts = [self._layouts[at] for at in chosen]
        most, few = max(layout.rules.most for layout in layouts), len(chosen) <= _FEW
        options = [PlacedMark(*option) for option in product(_places(layouts), _times(layouts))]
        shapes = dict.fromkeys(self._shapes[at] for at in chosen)
        costs: dict[frozenset[PlacedMark], Decimal] = {}

        def sent(marks: MarkSet) -> MarkSet:
            return in_order(marks, shapes)

        def cost(marks: MarkSet) -> Decimal:
            key = frozenset(marks)
            if key not in costs:
                costs[key] = self.cost(chosen, [marks] * len(chosen))
            return costs[key]

        best: MarkSet = start
        if few and most > 1:
            sizes = range(2, 4 if most > 2 and len(options) <= _FEW_OPTIONS else 3)
            sets = (chosen for size in sizes for chosen in combinations(options, size))
            first = [sent(chosen) for chosen in sets if len({mark.place for mark in chosen}) == len(chosen)]
            best = min(((), start, *first), key=cost)
        saved = dict.fromkeys(options, cost(()))  # by an option when it was tried last, at most
        while True:
            others = [each for each in options if all(each.place != mark.place for mark in best)]
            found = best
            for option in sorted(others, key=lambda each: -saved[each]) if len(best) < most else ():
                if not few and saved[option] <= cost(best) - cost(found):
                    break
                more = sent((*best, option))
                saved[option] = cost(best) - cost(more)
                found = min(found, more, key=cost)
            if found is best:
                others.sort(key=lambda each: -saved[each])
                exchanged = self._exchanged(best, options, others if few else others[:_TRIED])
                found = min(map(sent, exchanged), key=cost)
            if cost(found) >= cost(best):
                break
            best = found
        return _fewest(best, cost)

    @staticmethod
    def _exchanged(marks: MarkSet, options: Sequence[PlacedMark], others: Sequence[PlacedMark]) -> list[MarkSet]:
        """Return the sets in which one mark is left out, has another time, or is one of the others."""
        found = [marks]
        for at, mark in enumerate(marks):
            times = [each for each in options if each.place == mark.place and each != mark]
            found += [(*marks[:at], *new, *marks[at + 1 :]) for new in [(), *((each,) for each in [*times, *others])]]
        return found

    def _marks(self, marks: MarkSet, at: int) -> _Marked:
        key = marks, self._shapes[at]
        if key not in self._placed:
            self._placed[key] = placed(marks, *self._shapes[at])
        return self._placed[key]


def _shape(layout: PromptLayout) -> tuple[int, tuple[int, ...], int, int, frozenset[int]]:
    """Return what decides where a set of marks is in a request."""
    return layout.lead, tuple(layout.messages), len(layout.keys), layout.rules.most, layout.unmarkable


def _compile_scope(members: Sequence[PromptLayout], rates: Sequence[Rates]) -> list[MarkedKind]:
    replayed = members[:MOST_REPLAYED]
    trials = MarkCosts(replayed, rates)
    every = range(len(replayed))
    keys = _kinds(members)
    common = trials.cheapest(every)
    own: dict[int, MarkSet] = {}
    if len(set(keys)) > 1:
        kinds: defaultdict[int, list[int]] = defaultdict(list)
        for at in every:
            kinds[keys[at]].append(at)
        best = {key: trials.cheapest(of, common) for key, of in kinds.items() if key != OTHERS}

        def cost(own: Mapping[int, MarkSet]) -> Decimal:
            return trials.cost(every, [own.get(keys[at], common) for at in every])

        least = cost(own)
        for key in sorted(best, key=lambda key: -len(kinds[key])):
            tried = {**own, key: best[key]}
            if best[key] != common and (total := cost(tried)) < least * (1 - _WORTH):
                own, least = tried, total
        if best and (total := cost(best)) < least * (1 - _WORTH):
            own = best
    found = {key: own.get(key, common) for key in dict.fromkeys([*keys, OTHERS])}
    for key in found:

        def cost_with(marks: MarkSet, key: int = key) -> Decimal:
            return trials.cost(every, [marks if keys[at] == key else found[keys[at]] for at in every])

        found[key] = _fewest(found[key], cost_with)
    return [_kind(members, keys, key, marks) for key, marks in found.items()]


def _fewest(marks: MarkSet, cost: Callable[[MarkSet], Decimal]) -> MarkSet:
    """Return the marks without those that save nothing."""
    for mark in marks:
        fewer = tuple(each for each in marks if each != mark)
        marks = fewer if cost(fewer) <= cost(marks) else marks
    return marks


def _kind(members: Sequence[PromptLayout], keys: Sequence[int], key: int, marks: MarkSet) -> MarkedKind:
    of = [each for each, its in zip(members, keys, strict=True) if its == key]
    groups = tuple(dict.fromkeys(each.group for each in of))
    example = max(of, key=lambda each: len(each.keys), default=members[0])
    return MarkedKind(members[0].scope, key, marks, len(of), example, groups)


def _kinds(layouts: Sequence[PromptLayout]) -> list[int]:
    """Return for each request the longest leading prefix that it shares with enough others."""
    counts = Counter(key for layout in layouts for key in layout.keys[: layout.lead])
    least = max(2, -(-len(layouts) // _LEAST_PART))
    return [
        next((key for key in reversed(layout.keys[: layout.lead]) if counts[key] >= least), OTHERS)
        for layout in layouts
    ]


def _times(layouts: Sequence[PromptLayout]) -> list[float | None]:
    """Return the times to live that are tried: a longer one only where a prefix is used again within it, and not before."""
    times = sorted({ttl for layout in layouts for ttl in layout.kept}, key=lambda ttl: ttl or SHORT)
    if len(times) == 1:
        return times
    used: dict[int, float] = {}
    gaps: set[float] = set()
    for layout in layouts:
        now = layout.use.now
        for key in layout.keys:
            gaps.add(now - used.get(key, now))
            used[key] = now
    return [ttl for ttl in times if ttl is None or any(SHORT < gap <= ttl for gap in gaps)]


def _places(layouts: Sequence[PromptLayout]) -> list[MarkPlace]:
    """Return the places that are tried: the end of the leading text, the last messages, the block before the last one (that may
    change), blocks at the distance of the look-back in long messages, and those after which many requests part."""
    places = [MarkPlace("lead")]
    places += [MarkPlace("message", at) for at in range(_MESSAGES)]
    lookback = max(layout.rules.lookback for layout in layouts)
    distances = range(lookback, min(_most_new(layouts), 4 * lookback), lookback)
    places += [MarkPlace("late_block", at) for at in (1, *distances)]
    places += [MarkPlace("block", at) for at in _parting_blocks(layouts)]
    kept: dict[tuple[int | None, ...], MarkPlace] = {}
    for place in places:
        numbers = tuple(place.of(each.lead, each.messages, len(each.keys)) for each in layouts)
        markable = (number not in each.unmarkable for each, number in zip(layouts, numbers, strict=True))
        if any(number is not None and takes for number, takes in zip(numbers, markable, strict=True)):
            kept.setdefault(numbers, place)
    return list(kept.values())


def _most_new(layouts: Sequence[PromptLayout]) -> int:
    """Return the most blocks that a request has after those of an earlier message that came before."""
    seen: set[int] = set()
    most = 0
    for layout in layouts:
        new = next((at for at, key in enumerate(layout.keys) if key not in seen), len(layout.keys))
        if new > layout.lead:
            most = max(most, len(layout.keys) - new)
        seen.update(layout.keys)
    return most


def _parting_blocks(layouts: Sequence[PromptLayout]) -> list[int]:
    """Return the numbers of blocks after which requests part: those with most shared tokens, and the most used."""
    shared: Counter[int] = Counter()
    seen: list[set[int]] = []
    counts: list[int] = []
    for layout in layouts:
        for at, key in enumerate(layout.keys):
            if at == len(seen):
                seen.append(set())
                counts.append(0)
            counts[at] += 1
            if key in seen[at]:
                shared[at] += layout.ends[at]
            else:
                seen[at].add(key)
    repeated = [count - len(keys) for count, keys in zip(counts, seen, strict=True)]
    parting = [at for at in shared if at + 1 == len(seen) or repeated[at] > repeated[at + 1]]
    most_tokens = sorted(parting, key=lambda at: (-shared[at], at))[:_MOST_BLOCKS]
    most_used = sorted(parting, key=lambda at: (-repeated[at], -at))[:_MOST_BLOCKS]
    return list(dict.fromkeys([*most_tokens, *most_used]))
