"""A look at what further fixes would win, in a part of a large workload: most win nothing, and a run of all takes its time."""

from __future__ import annotations

from collections.abc import Mapping

from kvtool.profiler.advice.combined_fixes import Pile
from kvtool.profiler.advice.trials import Again, Chain, Trials, steady_first

_WINS = 0.0025
"""By how much a group's hit rate must rise in the part: half of what a fix must win in all to be asked of anybody."""


class Lookahead:
    """Runs a part of the workload, and says whether chains of fixes may win more with what would be added to them.

    What it says decides only whether all of it is run with more fixes; every figure comes from runs of all.
    """

    def __init__(self, again: Again) -> None:
        """`again` runs the part; its causes count for the whole workload."""
        self._again = again

    def may_win(self, pile: Pile, chains: Mapping[str, Chain], longer: Mapping[str, Chain], rounds: int) -> bool:
        """Whether in up to so many rounds, of which `longer` is the first, any group hits more than with `chains`.

        The pile stays as it is. Raises TrialInterruptedError.
        """
        pile = pile.copy()
        now = dict(chains)
        trials = Trials(self._again([fix for chain in now.values() for fix in steady_first(chain)], False), self._again)
        before = {name: trials.rate(name, ()) for name in longer}
        for left in reversed(range(rounds)):
            now |= longer
            result = trials.run(now, explain=left > 0 and any(map(pile.may_change, now.values())))
            for name in longer:
                rate, base = trials.rate(name, now[name]), before.get(name)
                if rate is None or base is None or rate > base + _WINS:
                    return True
            longer = pile.longer(result, now)
            if not longer:
                break
        return False
