"""Runs of the workload with fixes: each set of a group's fixes is run once, and several groups are tried in one run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.totals import GroupTotals, TokenTotals
from kvtool.fixes.fix import Fix, no_gain
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.finding import Finding, Rerun
from kvtool.results.report import lost_tokens
from kvtool.text.terminal.numbers import percent

if TYPE_CHECKING:
    from kvtool.fixes.chat.chat_probe import Checked

_OF_MODELS = "KV32"
"""Codes of what the KV cache groups of a model lose."""
Again = Callable[[Sequence[Fix], Collection[str]], RunResult]
"""Runs the workload again with these fixes, and searches the causes of these groups."""

Chain = tuple[Fix, ...]
"""Fixes of one group, in the order in which they were found."""


class TrialInterruptedError(Exception):
    """Ctrl-C came in the middle of a run that tried fixes."""


class Trials:
    """Measured hit rates of groups under sets of fixes, and what these are worth.

    The rate is that of `counted_rate`. The worth is that rate; where a provider charges for what it stores, it is what the cache
    saves, as a part of the first prompts' price without it: below 0 where writes cost more than reads save.
    """

    def __init__(self, result: RunResult, again: Again) -> None:
        self._again = again
        self._explained: list[tuple[list[Fix], frozenset[str], RunResult]] = []
        """The runs with causes: what is kept in the end was often run before, on the way there."""
        self._rates: dict[tuple[str, frozenset[str]], float] = {}
        self._worths: dict[tuple[str, frozenset[str]], float] = {}
        self._costs: dict[tuple[str, frozenset[str]], Decimal] = {}
        self._full = {name: full for name, (_, full) in result.prompt_costs().items()}
        self._first = totals_by_name(result)
        self._note({group.name: () for group in result.ledger.totals()}, result)

    def run(self, chains: Mapping[str, Chain], *, explain: Collection[str] = ()) -> RunResult:
        """Run with a chain for each group, once if with the causes of the groups to `explain`; groups that are not named run as
        they are."""
        fixes = [fix for chain in chains.values() for fix in steady_first(chain)]
        known = (
            result
            for before, groups, result in self._explained
            if groups.issuperset(explain) and _are_same(before, fixes)
        )
        result = next(known, None)
        if result is None:
            result = self._again(fixes, explain)
            if result.partial:
                raise TrialInterruptedError
            if explain:
                self._explained.append((fixes, frozenset(explain), result))
        self._note(chains, result)
        return result

    def rate(self, group: str, chain: Chain) -> float | None:
        """Return the group's hit rate with these fixes; None where that was not run."""
        return self._rates.get((group, _key(chain)))

    def worth(self, group: str, chain: Chain) -> float | None:
        """Return what decides between fixes; None where that was not run."""
        return self._worths.get((group, _key(chain)))

    def least(self, group: str, share: float) -> float:
        """Return by how much the worth must rise for a gain of a share: of all tokens, or of what the prompts cost now."""
        return share if group not in self._full else share * max(1 - self._worths[group, _key(())], 0.0)

    def cost(self, group: str, chain: Chain) -> Decimal | None:
        """Return what the prompts of a group cost with these fixes; None where that was not run or has no price."""
        return self._costs.get((group, _key(chain)))

    def measure(self, wanted: Mapping[str, Chain]) -> dict[str, float]:
        """Return the hit rates with these chains, from one run of those that are not known yet."""
        self._know(wanted)
        return {name: self._rates[name, _key(chain)] for name, chain in wanted.items()}

    def weigh(self, wanted: Mapping[str, Chain]) -> dict[str, float]:
        """Return the worths of these chains, likewise."""
        self._know(wanted)
        return {name: self._worths[name, _key(chain)] for name, chain in wanted.items()}

    def _know(self, wanted: Mapping[str, Chain]) -> None:
        missing = {name: chain for name, chain in wanted.items() if self.rate(name, chain) is None}
        if missing:
            self.run(missing)

    def _note(self, chains: Mapping[str, Chain], result: RunResult) -> None:
        costs = result.prompt_costs()
        for group in result.ledger.totals():
            if group.name in chains:
                counted = counted_rate(group, self._first.get(group.name))
                key = group.name, _key(chains[group.name])
                self._rates.setdefault(key, counted)
                worth = counted
                if group.name in costs and group.name in self._full:
                    cost = self._costs.setdefault(key, costs[group.name][0])
                    worth = float(1 - cost / self._full[group.name])
                self._worths.setdefault(key, worth)


def steady_first(fixes: Iterable[Fix]) -> list[Fix]:
    """Return fixes in the order in which they are made: each moves its text after that of those before it, so what varies most
    comes last.
    """
    return sorted(fixes, key=lambda fix: 0 if fix.cause is None else fix.cause.distinct)


def counted_rate(group: GroupTotals, first: GroupTotals | None) -> float:
    """Return the hit rate by which changes of a group's prompts are judged; `first` are its totals without any.

    Where prompts get longer, so that a larger part hits and yet more tokens are computed than at first, it counts as no higher
    than it was.
    """
    if first is None or lost_tokens(group) <= lost_tokens(first):
        return group.hit_rate
    return min(group.hit_rate, first.hit_rate)


def totals_by_name(result: RunResult) -> dict[str, GroupTotals]:
    """Return the totals of each group."""
    return {group.name: group for group in result.ledger.totals()}


def total_rate(result: RunResult) -> float:
    """Return the hit rate of all groups together, in the tokens of the provider where reports say how many these are."""
    book = money_of(result)
    reads = [] if book is None else [side.predicted for side in book.total.values()]  # an edited prompt has no report
    prompt, cached = sum(read.prompt for read in reads), sum(read.cached for read in reads)
    return min(cached / prompt, 1.0) if prompt else TokenTotals.of(result.ledger.totals()).hit_rate


def computed(result: RunResult) -> int:
    """Count prompt tokens of all groups that did not hit."""
    return lost_tokens(TokenTotals.of(result.ledger.totals()))


def _are_same(some: Sequence[Fix], others: Sequence[Fix]) -> bool:
    """Return whether they are the very same fixes, in the same order."""
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def _key(chain: Chain) -> frozenset[str]:
    return frozenset(fix.key for fix in chain)


class RunTrials:
    """Runs with one fix each, which all findings share."""

    def __init__(self, result: RunResult, again: Again) -> None:
        self._before = totals_by_name(result)
        self._again = again
        self._after: dict[str, dict[str, GroupTotals]] = {}

    def proven(self, findings: Iterable[Finding], fixes: Sequence[Fix]) -> list[Finding]:
        """Return findings with the fix of their code that wins most for their group, and what it won. Raises
        TrialInterruptedError.
        """
        return [self._with_best(finding, [fix for fix in fixes if fix.code == finding.code]) for finding in findings]

    def checked(self, checks: Iterable[Checked]) -> list[Finding]:
        """Return the findings of a chat template, those with a fix that can be tried with what it won. Raises
        TrialInterruptedError.

        Their tokens are those of one conversation, which their messages say; the causes of this run have what it lost by them.
        """
        found = [
            check.finding if check.fix is None else self._with_best(check.finding, [check.fix]) for check in checks
        ]
        return [finding.model_copy(update={"tokens_lost": 0}) for finding in found]

    def _with_best(self, finding: Finding, fixes: Sequence[Fix]) -> Finding:
        before = self._before.get(finding.group)
        fixes = [fix for fix in fixes if fix.can_be_tried and fix.group in (None, finding.group)]
        if before is None or not fixes or finding.fix_key or finding.no_gain:
            return finding
        rates = [self._rate(fix, finding.group) for fix in fixes]
        best = max(range(len(fixes)), key=lambda at: (rates[at], -at))
        fix, rate = fixes[best], rates[best]
        if rate <= before.hit_rate:
            tested = ", ".join(" ".join(each.flags) or each.what for each in fixes)
            of_prompts = finding.code.startswith(_OF_MODELS)  # they advise on prompts; what was tried are settings
            told = f"{finding.fix} ({tested}: tested, no gain)" if of_prompts else no_gain(tested)
            return finding.model_copy(update={"fix": told, "no_gain": True})
        won = f"{percent(before.hit_rate)} -> {percent(rate)}"
        told = f"{fix.what}: {finding.group} {won} (verified)"
        tried = Rerun(
            group_before=before.hit_rate,
            group_after=rate,
            total_before=_total(self._before),
            total_after=_total(self._after[fix.key]),
            group_alone=rate,
            group_predicted=None,
        )
        return finding.model_copy(update={"fix": told, **carried(fix), "tried": tried})

    def _rate(self, fix: Fix, group: str) -> float:
        """Return the group's hit rate with this fix."""
        if fix.key not in self._after:
            result = self._again([fix], ())
            if result.partial:
                raise TrialInterruptedError
            self._after[fix.key] = totals_by_name(result)
        after = self._after[fix.key].get(group)
        return 0.0 if after is None else after.hit_rate


def carried(fix: Fix) -> dict[str, object]:
    """Return what a finding says of the fix that mends it."""
    return {"tier": fix.tier, "fix_key": fix.name, "warnings": list(fix.warnings), "flags": fix.flags}


def _total(groups: dict[str, GroupTotals]) -> float:
    return TokenTotals.of(groups.values()).hit_rate
