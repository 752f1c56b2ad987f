"""Runs of the workload with fixes: each set of a group's fixes is run once, and several groups are tried in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kvtool.accounting.ledger.totals import TokenTotals
from kvtool.fixes.fix import Fix
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.report import lost_tokens

Again = Callable[[Sequence[Fix], bool], RunResult]
"""Runs the workload again with these fixes; the flag asks for causes."""

Chain = tuple[Fix, ...]
"""Fixes of one group, in the order in which they were found."""


class TrialInterruptedError(Exception):
    """Ctrl-C came in the middle of a run that tried fixes."""


class Trials:
    """Measured hit rates of groups under sets of fixes.

    Where fixes make prompts longer, so that a larger part hits and yet more tokens are computed than without any, the rate counts
    as no higher than it was.
    """

    def __init__(self, result: RunResult, again: Again) -> None:
        self._again = again
        self._explained: list[tuple[list[Fix], RunResult]] = []
        """The runs with causes: what is kept in the end was often run before, on the way there."""
        self._rates: dict[tuple[str, frozenset[str]], float] = {}
        self._first = {group.name: (group.hit_rate, lost_tokens(group)) for group in result.ledger.totals()}
        self._note({group.name: () for group in result.ledger.totals()}, result)

    def run(self, chains: Mapping[str, Chain], *, explain: bool = False) -> RunResult:
        """Run with a chain for each group, once if with causes; groups that are not named run as they are."""
        fixes = [fix for chain in chains.values() for fix in steady_first(chain)]
        result = next((known for before, known in self._explained if _are_same(before, fixes)), None)
        if result is None:
            result = self._again(fixes, explain)
            if result.partial:
                raise TrialInterruptedError
            if explain:
                self._explained.append((fixes, result))
        self._note(chains, result)
        return result

    def rate(self, group: str, chain: Chain) -> float | None:
        """The group's hit rate with these fixes; None where that was not run."""
        return self._rates.get((group, _key(chain)))

    def measure(self, wanted: Mapping[str, Chain]) -> dict[str, float]:
        """The hit rates with these chains, from one run of those that are not known yet."""
        missing = {name: chain for name, chain in wanted.items() if self.rate(name, chain) is None}
        if missing:
            self.run(missing)
        return {name: self._rates[name, _key(chain)] for name, chain in wanted.items()}

    def _note(self, chains: Mapping[str, Chain], result: RunResult) -> None:
        for group in result.ledger.totals():
            if group.name in chains:
                rate, most = self._first.get(group.name, (0.0, 0))
                counted = group.hit_rate if lost_tokens(group) <= most else min(group.hit_rate, rate)
                self._rates.setdefault((group.name, _key(chains[group.name])), counted)


def steady_first(fixes: Iterable[Fix]) -> list[Fix]:
    """In the order in which they are made: each moves its text behind that of those before it, so what varies most comes last."""
    return sorted(fixes, key=lambda fix: 0 if fix.cause is None else fix.cause.distinct)


def total_rate(result: RunResult) -> float:
    """The hit rate of all groups together."""
    return TokenTotals.of(result.ledger.totals()).hit_rate


def computed(result: RunResult) -> int:
    """Prompt tokens of all groups that did not hit."""
    return lost_tokens(TokenTotals.of(result.ledger.totals()))


def _are_same(some: Sequence[Fix], others: Sequence[Fix]) -> bool:
    """Whether they are the very same fixes, in the same order."""
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def _key(chain: Chain) -> frozenset[str]:
    return frozenset(fix.key for fix in chain)
