"""Advice that was tried: move what varies behind what is shared, run the engine again, keep what wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvtool.accounting import PassResult
from kvtool.diagnose.causes import Cause
from kvtool.diagnose.findings import (
    Finding,
    Rerun,
    is_candidate,
    is_declared_stable,
    no_gain_finding,
    volatile_finding,
)
from kvtool.ledger.totals import GroupTotals, Totals
from kvtool.rewrite.move import destination, movers
from kvtool.text import Origin
from kvtool.workload.turn import Turn

Locate = Callable[[Origin, int], tuple[int, int]]
Again = Callable[[Callable[[Turn], Turn], bool], PassResult]
"""Runs the workload again with its turns changed; the flag asks for causes."""

_MOST_FIXES = 4
"""Volatile lines of a group that are moved together at most; each takes one more pass."""
_NEXT_FIX = 0.05
"""Share of a group's prompt tokens that the next line must block to be worth another pass."""
_MORE = 0.005
"""By how much a hit rate must rise for one more fix to be asked of anybody."""


def _worth_keeping(rates: Sequence[float]) -> int:
    """How many fixes to keep, of hit rates with the first 0, 1, … of them: the fewest that come close to the best."""
    best = max(rates)
    return 0 if best <= rates[0] else next(n for n, rate in enumerate(rates) if n and rate >= best - _MORE)


class Advisor:
    """Finds the lines whose move wins hits in a workload that was accounted for once."""

    def __init__(self, result: PassResult, again: Again, *, locate: Locate, path: str, block_size: int) -> None:
        self._result = result
        self._again = again
        self._locate = locate
        self._path = path
        self._block_size = block_size

    def findings(self) -> list[Finding] | None:
        """Move the costliest slot of each group behind the shared text and run again; then what is in the way next, too.

        One fix alone often gives nothing, as the next volatile line stands right behind it. Kept is what won. None: interrupted.
        """
        groups = {group.name: group for group in self._result.ledger.totals()}
        chains: dict[str, list[Cause]] = {}
        rates = {name: [group.hit_rate] for name, group in groups.items()}  # with the first 0, 1, … causes moved
        last = self._result
        for round_ in range(_MOST_FIXES):
            found = {name: self._next_cause(last, group, chains.get(name, [])) for name, group in groups.items()}
            if not any(found.values()):
                break
            for name, cause in found.items():
                if cause is not None:
                    chains.setdefault(name, []).append(cause)
            last = self._moved(chains, explain=round_ + 1 < _MOST_FIXES)
            if last.partial:
                return None
            for group in last.ledger.totals():
                if found.get(group.name) is not None:
                    rates[group.name].append(group.hit_rate)
        kept = {name: chain[: _worth_keeping(rates[name])] for name, chain in chains.items()}
        for name, chain in chains.items():
            if not kept[name] and is_declared_stable(chain[0]):
                kept[name] = chain[:1]  # told whether or not moving it wins anything
        stuck = [chains[name][0] for name, chain in kept.items() if not chain]
        kept = {name: chain for name, chain in kept.items() if chain}
        if kept and kept != chains:
            last = self._moved(kept, explain=False)
            if last.partial:
                return None
        told = [
            no_gain_finding(cause, groups[cause.group], place=self._place(cause), block_size=self._block_size)
            for cause in stuck
        ]
        return self._volatile_findings(groups, kept, last) + [finding for finding in told if finding is not None]

    def _moved(self, chains: dict[str, list[Cause]], *, explain: bool) -> PassResult:
        causes = [cause for chain in chains.values() for cause in chain]
        return self._again(movers(causes), explain)

    @staticmethod
    def _next_cause(result: PassResult, group: GroupTotals, chain: list[Cause]) -> Cause | None:
        """The costliest cause that is left; behind the first one it must be worth an error."""
        seen = [cause.slot for cause in chain]
        least = _NEXT_FIX if chain else 0.0
        for cause in result.causes.of_group(group.name):
            if is_candidate(cause, group) and cause.slot not in seen and cause.blocked >= least * group.prompt_tokens:
                return cause
        return None

    def _volatile_findings(
        self, groups: dict[str, GroupTotals], kept: dict[str, list[Cause]], moved: PassResult
    ) -> list[Finding]:
        after = {group.name: group for group in moved.ledger.totals()}
        before_all, after_all = Totals.of(groups.values()).hit_rate, Totals.of(after.values()).hit_rate
        findings = []
        for name, chain in kept.items():
            if name not in after:
                continue
            rerun = Rerun(groups[name].hit_rate, after[name].hit_rate, before_all, after_all)
            lost = chain[0].blocked
            for number, cause in enumerate(chain):
                lost = min(lost, cause.blocked)  # they stand in the way of the same tokens, one behind the other
                finding = volatile_finding(
                    cause,
                    rerun,
                    tokens_lost=lost,
                    place=self._place(cause),
                    block_size=self._block_size,
                    number=number,
                    together=len(chain),
                    destination=destination(cause.slot),
                )
                if finding is not None:
                    findings.append(finding)
        return findings

    def _place(self, cause: Cause) -> tuple[str, int, int]:
        if cause.origin is None:
            return self._path, 0, 0
        line, column = self._locate(cause.origin, cause.offset)
        return cause.origin.path, line, column
