"""Choose the prefixes to mark and their times, by the gaps between their uses, and measure the cost in another run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from kvtool.accounting.caches.mark_plan import TTLS, MarkPlan
from kvtool.accounting.caches.timed_tree import SHORT, TimedNode, TimedTree
from kvtool.accounting.plan import Plan
from kvtool.accounting.prices.mark_advice import WAYS, MarkedPrefix, marked_prefixes
from kvtool.accounting.prices.money_book import MoneyBook
from kvtool.fixes.fix import Fix
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.money import PrefixAdvice

_MOST_PREFIXES = 5
"""Prefixes with a row of advice; each may take three more runs."""
_MOST_TOKENS = 2_000_000
"""The most prompt tokens of a log whose prefixes are tried one by one, each with runs of its own."""
_LEAST_VALUE = 100
"""Least value of a prefix's choice: one part in so many of the first one's value."""
_KEY = "run:marks"

Again = Callable[[Sequence[Fix]], RunResult]


@dataclass(frozen=True, slots=True)
class _Candidate:
    node: TimedNode
    model: str
    prefix: MarkedPrefix


class MarkTrials:
    """The prefixes of a run, and other runs with other marks; a run that was interrupted counts as none."""

    def __init__(self, result: RunResult, book: MoneyBook, again: Again | None, fixes: Sequence[Fix] = ()) -> None:
        """Create the trials. `again` runs with fixes (None: no trials); `fixes` are those of the run itself."""
        self._result, self._book, self._again, self._fixes = result, book, again, list(fixes)
        self._trees: dict[str, TimedTree] = {}
        self._candidates: list[_Candidate] = []
        self._applies = book.requests == book.total[book.told].costs.requests
        """True if every request is of a provider that stores marked prefixes, at a known price."""
        hosted = result.counts.hosted
        for scope, scoped in {} if hosted is None else hosted.trees.items():
            row = book.used.get(scoped.model or "")
            if row is None or not scoped.rules.needs_mark or row.above or row.hours:
                self._applies = False
                continue
            self._trees[scope] = scoped.tree
            rates = book.prices.rates(row, 0, None)
            scale = hosted.ratios.scale(scoped.model or "") if hosted is not None else None
            assert scale is not None, "the run of a provider's rules"
            for node, prefix in marked_prefixes(scoped, rates, scale):
                self._candidates.append(_Candidate(node, scoped.model or "", prefix))

    @property
    def tries(self) -> bool:
        """Return whether anything is run again."""
        return self._again is not None

    def least(self) -> Decimal | None:
        """Return the cost with each prefix marked the cheapest way by its gaps, from a run; None if that does not apply, or
        changes nothing."""
        ways = {each.node: each.prefix.best for each in self._candidates}
        as_it_is = not any(ways.values()) and all(node.entry is None for node in ways)
        return None if not self._applies or as_it_is else self._total(ways, only=False)

    def advice(self) -> list[PrefixAdvice]:
        """Return the prefixes that matter most, with the cost of their tokens unmarked and marked for each time.

        Changes are run again each way, in logs that are not too long; the cheapest is then by those runs.
        """
        shared = [each for each in self._candidates if each.prefix.requests > 1]
        shared.sort(key=lambda one: (-_choice_value(one.prefix), one.model, one.prefix.end))
        if shared:  # small differences are not reported
            most = _choice_value(shared[0].prefix)
            shared = [each for each in shared if _choice_value(each.prefix) * _LEAST_VALUE >= most > 0] or shared[:1]
        small = self._book.total[self._book.told].predicted.prompt <= _MOST_TOKENS
        told = []
        for each in shared[:_MOST_PREFIXES]:
            costs, proven = each.prefix.costs, False
            if small and self._again is not None and each.prefix.best != _current_mark(each.node):
                totals = [self._total({each.node: way}, only=True) for way in range(len(TTLS))]
                plain = totals[0]
                if plain is not None:
                    runs = [costs[0] + total - plain for total in totals if total is not None]
                    if len(runs) == len(totals):
                        costs, proven = (runs[0], runs[1], runs[2]), True
            best = min(range(len(costs)), key=lambda way: costs[way])
            told.append(
                PrefixAdvice(
                    model=each.model,
                    tokens=each.prefix.end,
                    requests=each.prefix.requests,
                    unmarked=str(costs[0]),
                    marked_5m=str(costs[1]),
                    marked_1h=str(costs[2]),
                    best=WAYS[best],
                    rerun=proven,
                )
            )
        return told

    def _total(self, ways: Mapping[TimedNode, int], *, only: bool) -> Decimal | None:
        if self._again is None:
            return None
        marks = MarkPlan(self._trees, ways, only)

        def with_marks(plan: Plan) -> Plan:
            return plan if plan.cache is None else replace(plan, cache=replace(plan.cache, marks=marks))

        run = self._again([*self._fixes, Fix(_KEY, "", "P0", None, "cheapest breakpoints", plan=with_marks)])
        if run.partial:
            self._result.partial = True
            return None
        again = money_of(run)
        if again is None:
            return None
        before, after = (money.total[money.told].costs for money in (self._book, again))
        return after.predicted.total if before.requests == after.requests else None


def _choice_value(prefix: MarkedPrefix) -> Decimal:
    """Return the difference that the choice makes."""
    return max(prefix.costs) - min(prefix.costs)


def _current_mark(node: TimedNode) -> int:
    """Return the current mark of a prefix: by what is stored at its end or after it."""
    longest, stack = None, [node]
    while stack:
        each = stack.pop()
        stack.extend(each.children.values())
        if each.entry is not None:
            longest = max(longest or 0.0, each.ttl or SHORT)
    return 0 if longest is None else 1 if longest <= SHORT else 2
