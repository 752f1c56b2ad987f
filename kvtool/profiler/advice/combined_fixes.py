"""Fixes that pile up: for each group one of its costliest cause, then one of what is costliest with that, and so on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.findings import is_candidate
from kvtool.diagnose.slots import Slot
from kvtool.fixes.fix import Fix, Tier
from kvtool.profiler.advice.trials import Again, Chain, Trials, steady_first
from kvtool.profiler.run.run_result import RunResult

_WINS = 0.0025
"""By how much a group's hit rate must rise in the part: half of what a fix must win in all to be asked of anybody."""
MOST_ROUNDS = 6
_MOST_FIXES = 4
_NEXT_FIX = 0.01
"""Share of a group's prompt tokens that the next cause must block to be worth another pass."""
_FAILED = 0.1
"""Share of what a cause blocked that it must still block, its fix applied, for the fix to count as failed."""


class Pile:
    """Says which fix comes next, given a run with those that are there; remembers which ones were tried."""

    def __init__(
        self, groups: Mapping[str, GroupTotals], fixes_of: Callable[[SlotCause], list[Fix]], *, of_misses: bool = False
    ) -> None:
        """`groups` as they are without any fix; `fixes_of` a cause are asked for once. `of_misses`: what a cause blocks is compared
        with the tokens that are not read, which are most of a bill, and not with all.
        """
        self._groups = groups
        self._of_misses = of_misses
        self._fixes_of = fixes_of
        self._left: dict[tuple[str, Slot], list[Fix]] = {}
        """Fixes of a cause that were not tried yet, of `_known` ones."""
        self._known: dict[tuple[str, Slot], list[Fix]] = {}
        self.tried: set[Tier] = set()
        """The tiers of all fixes that were in a chain."""
        self._blocked: dict[tuple[str, Slot], int] = {}
        """What a cause blocked when it was first met."""

    def copy(self) -> Pile:
        """Return one that goes on from here by itself."""
        pile = Pile(self._groups, self._fixes_of, of_misses=self._of_misses)
        pile._left = {key: list(fixes) for key, fixes in self._left.items()}
        pile._known, pile._blocked = dict(self._known), dict(self._blocked)
        return pile

    def longer(self, result: RunResult, chains: Mapping[str, Chain]) -> dict[str, Chain]:
        """Return chains with a fix more, or another last one, of the groups that have any; `result` is the run with the chains so
        far.
        """
        return {
            name: chain
            for name, group in self._groups.items()
            if (chain := self._extended(result, group, chains.get(name, ()))) is not None
        }

    def open_groups(self, longer: Mapping[str, Chain]) -> list[str]:
        """Return the groups whose next fix hangs on the causes of a run with these chains, which have got longer. In the others
        nothing was found to add, and nothing changes."""
        return [name for name, chain in longer.items() if self._may_change(chain)]

    def _may_change(self, chain: Chain) -> bool:
        """Return whether a chain may still get longer, or another last fix."""
        cause = chain[-1].cause
        return len(chain) < _MOST_FIXES or (cause is not None and bool(self._left.get((cause.group, cause.slot))))

    def known(self, cause: SlotCause) -> list[Fix]:
        """Return the fixes of a cause that it was asked for."""
        return self._known.get((cause.group, cause.slot), [])

    def _extended(self, result: RunResult, group: GroupTotals, chain: Chain) -> Chain | None:
        """Return the chain with one more fix, or with another one for a cause that its last fix did not remove; None: nothing to
        add.
        """
        handled = {fix.cause.slot for fix in chain if fix.cause is not None}
        of = group.prompt_tokens - (group.hit_tokens if self._of_misses else 0)
        least = _NEXT_FIX * of if chain else 0.0
        for cause in result.causes.of_group(group.name):
            if not is_candidate(cause, group, of) or cause.blocked < least:
                continue
            key = group.name, cause.slot
            if cause.slot in handled:
                last = chain[-1]
                failed = cause.blocked >= _FAILED * self._blocked.get(key, 0)
                if last.cause is not None and last.cause.slot == cause.slot and failed and self._left.get(key):
                    return (*chain[:-1], self._next(key))
                continue
            if len(chain) >= _MOST_FIXES:
                return None
            if key not in self._left:
                self._known[key] = self._fixes_of(cause)
                self._left[key] = list(self._known[key])
                self._blocked[key] = cause.blocked
            if self._left[key]:
                return (*chain, self._next(key))
        return None

    def _next(self, key: tuple[str, Slot]) -> Fix:
        """Return the next fix of a cause."""
        fix = self._left[key].pop(0)
        self.tried.add(fix.tier)
        return fix


class Lookahead:
    """Runs a part of the workload, and says whether chains of fixes may win more with what would be added to them.

    What it says decides only whether all of it is run with more fixes; every figure comes from runs of all.
    """

    def __init__(self, again: Again) -> None:
        """`again` runs the part; its causes count for the whole workload."""
        self._again = again

    def may_win(self, pile: Pile, chains: Mapping[str, Chain], longer: Mapping[str, Chain], rounds: int) -> bool:
        """Return whether in up to so many rounds, of which `longer` is the first, any group hits more than with `chains`.

        The pile stays as it is. Raises TrialInterruptedError.
        """
        pile = pile.copy()
        now = dict(chains)
        trials = Trials(self._again([fix for chain in now.values() for fix in steady_first(chain)], ()), self._again)
        before = {name: trials.rate(name, ()) for name in longer}
        for left in reversed(range(rounds)):
            now |= longer
            result = trials.run(now, explain=pile.open_groups(longer) if left else ())
            for name in longer:
                rate, base = trials.rate(name, now[name]), before.get(name)
                if rate is None or base is None or rate > base + _WINS:
                    return True
            longer = pile.longer(result, now)
            if not longer:
                break
        return False
