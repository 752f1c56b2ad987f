"""Advice that was tried: rewrite what is in the way, run the engine again, keep what wins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.diagnose.findings import needs_finding
from kvtool.diagnose.slots import Slot
from kvtool.fixes.fix import ALL_TIERS, Fix, Tier
from kvtool.fixes.moves.question_text import ASKED
from kvtool.fixes.proofs import check_proof
from kvtool.profiler.advice.combined_fixes import MOST_ROUNDS, Lookahead, Pile
from kvtool.profiler.advice.kept_fixes import Advice, KeptFix, StuckCause, with_places
from kvtool.profiler.advice.trials import Again, Chain, Trials, computed
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.samples import SampleBook
from kvtool.workload.turn import Turn

Propose = Callable[[SlotCause, Sequence[Turn]], list[Fix]]

_MORE = 0.005
"""By how much a hit rate must rise for one more fix to be asked of anybody, and may fall elsewhere for it."""
LEAST_GAIN: dict[Tier, float] = {"P2": THRESHOLDS.warning_share, "P3": THRESHOLDS.error_share}
"""How much a group's hit rate must rise for text to be moved (as much as makes a warning), and to be changed (an error)."""
_PROOFS = 32
"""Samples that a fix changes and that are compared with what its tier promises."""
_MOVES = ("move", "move-within", "move-after")
"""Keys of fixes that move the line of their cause."""


class Tried:
    """What advice on one run shares, whichever tiers are allowed: the trials, and the fixes of a cause."""

    def __init__(self, result: RunResult, again: Again, propose: Propose) -> None:
        self.result = result
        self.again = again
        self.trials = Trials(result, again)
        self.propose = propose
        self._proven: dict[tuple[str, Slot], list[Fix]] = {}

    def fixes_of(self, cause: SlotCause) -> list[Fix]:
        """Return the fixes of a cause that can be tried, change something, and keep what their tier promises."""
        key = cause.group, cause.slot
        if key not in self._proven:
            samples = self.result.book(SampleBook).of_group(cause.group)
            fixes = self.propose(cause, samples)
            self._proven[key] = [fix for fix in fixes if fix.can_be_tried and keeps_promise(fix, samples)]
        return self._proven[key]


class Advisor:
    """Finds the fixes that win hits in a workload that was accounted for once.

    One fix alone often gives nothing, as the next volatile line stands right after it. So fixes pile up first, each for the
    costliest cause that is left; then what adds nothing is dropped again, and the rest is put in order of marginal value.
    """

    def __init__(
        self,
        tried: Tried,
        *,
        tiers: Collection[Tier] = ALL_TIERS,
        without: Collection[str] = (),
        silent: Collection[str] = (),
        capacity: int | None = None,
        lookahead: Lookahead | None = None,
        compares: bool = False,
        richer: Advice | None = None,
    ) -> None:
        """`without` are keys of fixes, `silent` groups of which nothing is advised.

        `capacity` is how many tokens the cache holds; None is without limit. `lookahead` spares
        runs of a large workload.

        `compares`: all fixes of a cause are tried, as a change that lets prompts share text need not win where a provider's marks
        decide what is stored. `richer` is advice with more tiers: what these tiers allow of it wins no less here.
        """
        self._result = tried.result
        self._groups = {group.name: group for group in tried.result.ledger.totals() if group.name not in silent}
        self._trials = tried.trials
        self._tried = tried
        self._tiers = frozenset(tiers)
        self._without = frozenset(without)
        self._capacity = capacity
        self._pile = Pile(self._groups, self._proven, of_misses=compares)
        self._lookahead = lookahead
        self._compares = compares
        self._richer = richer

    def advise(self) -> Advice:
        """Advise by trials. Raise TrialInterruptedError where Ctrl-C came in between."""
        piled = self._with_richer(self._piled())
        if self._compares:
            piled = self._with_better(self._all_of_one_kind(piled))
        kept = {name: self._worth_keeping(name, chain) for name, chain in piled.items()}
        kept = self._without_idle({name: chain for name, chain in kept.items() if chain})
        kept = self._with_better(kept)
        if self._compares:
            kept = self._with_other_tiers(kept)
        proof = self._harmless(kept)
        steps = self._steps(kept)
        first = [chain[0] for name, chain in piled.items() if not kept.get(name)]
        stuck = [StuckCause(fix.cause, fix) for fix in first if fix.cause is not None]
        left = [*stuck, *self._not_handled(kept, stuck)]
        won = {(name, fix.cause.slot) for name, chain in kept.items() for fix in chain if fix.cause is not None}
        left_out = [(name, fix) for name, chain in piled.items() for fix in chain]
        idle = [self._with_others(fix) for name, fix in left_out if fix.cause and (name, fix.cause.slot) not in won]
        return Advice(steps, left, proof, frozenset(self._pile.tried), idle)

    def _piled(self) -> dict[str, Chain]:
        """Return for each group a fix of its costliest cause, then of what is costliest with that fix, and so on."""
        chains: dict[str, Chain] = {}
        tried: dict[str, list[Chain]] = {}
        last = self._result
        for rounds_left in reversed(range(MOST_ROUNDS)):
            longer = self._pile.longer(last, chains)
            if not longer or (chains and not self._may_win(chains, longer, rounds_left + 1)):
                break
            chains |= longer
            last = self._trials.run(chains, explain=self._pile.open_groups(longer) if rounds_left else ())
            for name, chain in longer.items():
                tried.setdefault(name, []).append(chain)
        return {name: self._best_of(name, chain, tried[name]) for name, chain in chains.items()}

    def _with_richer(self, piled: dict[str, Chain]) -> dict[str, Chain]:
        """Return the chains, or what is allowed of those of the richer advice, where that wins more: a fix that is not allowed may
        have led to it.
        """
        known = {} if self._richer is None else self._richer.kept
        allowed = {
            name: chain
            for name, steps in known.items()
            if name in self._groups and (chain := tuple(step.fix for step in steps if self._is_allowed(step.fix)))
        }
        worths = self._trials.weigh(allowed)
        return piled | {
            name: chain
            for name, chain in allowed.items()
            if worths[name] > (self._rate_of(name, piled[name]) if name in piled else 0.0) + self._more(name)
        }

    def _best_of(self, name: str, chain: Chain, tried: Sequence[Chain]) -> Chain:
        """Return the chain, or one of those before it that won more: another fix in place of its last one may have won less."""
        best = max(tried, key=lambda each: self._rate_of(name, each))
        return best if self._rate_of(name, best) > self._rate_of(name, chain) + self._more(name) else chain

    def _more(self, name: str, share: float = _MORE) -> float:
        return self._trials.least(name, share)

    def _rate_of(self, name: str, chain: Chain) -> float:
        """Return the most that any beginning of a chain gave."""
        rates = (self._trials.worth(name, chain[:length]) for length in range(1, len(chain) + 1))
        return max((rate for rate in rates if rate is not None), default=0.0)

    def _may_win(self, chains: Mapping[str, Chain], longer: Mapping[str, Chain], rounds: int) -> bool:
        """Return whether a run of all with longer chains may be worth its time."""
        return self._lookahead is None or self._lookahead.may_win(self._pile, chains, longer, rounds)

    def _proven(self, cause: SlotCause) -> list[Fix]:
        """Return the fixes of a cause that are allowed."""
        fixes = self._tried.fixes_of(cause)
        return list(filter(self._is_allowed, fixes))

    def _is_allowed(self, fix: Fix) -> bool:
        return fix.tier in self._tiers and fix.key not in self._without

    def _worth_keeping(self, name: str, chain: Chain) -> Chain:
        """Return the fewest fixes from the front that come close to the best that any number of them gave."""
        if self._compares:
            for length in range(1, len(chain)):
                self._trials.weigh({name: chain[:length]})
        known = [(length, self._trials.worth(name, chain[:length])) for length in range(len(chain) + 1)]
        rates = [(length, rate) for length, rate in known if rate is not None]
        best = max(rate for _, rate in rates)
        if best < rates[0][1] + self._more(name, THRESHOLDS.warning_share):
            return ()
        return chain[: next(length for length, rate in rates if rate >= best - self._more(name))]

    def _without_idle(self, chains: dict[str, Chain]) -> dict[str, Chain]:
        """Return the chains without fixes that the others do not need."""
        for index in range(max(map(len, chains.values()), default=0)):
            place = {name: len(chain) - 1 - index for name, chain in chains.items()}
            shorter = {
                name: chain[: place[name]] + chain[place[name] + 1 :]
                for name, chain in chains.items()
                if len(chain) > 1 and place[name] >= 0
            }
            if not shorter:
                continue
            full = self._trials.weigh({name: chains[name] for name in shorter})
            rates = self._trials.weigh(shorter)
            chains |= {
                name: chain
                for name, chain in shorter.items()
                if rates[name] >= full[name] - self._more(name) and rates[name] > (self._trials.worth(name, ()) or 0.0)
            }
        return chains

    def _with_better(self, chains: dict[str, Chain]) -> dict[str, Chain]:
        """Return the chains with other fixes of the same causes and tiers where those win more, fix by fix from the front."""
        for index in range(max(map(len, chains.values()), default=0)):
            choices = {name: self._instead(chain, index) for name, chain in chains.items()}
            chains = self._with_best_of(chains, choices, _MORE)
        return chains

    def _with_best_of(
        self, chains: dict[str, Chain], choices: Mapping[str, Sequence[Chain]], least: float
    ) -> dict[str, Chain]:
        """Return the chains, those of their choices in their place that win more than `least` more."""
        for number in range(max(map(len, choices.values()))):
            tried = {name: found[number] for name, found in choices.items() if number < len(found)}
            rates = self._trials.weigh(tried)
            best = self._trials.weigh({name: chains[name] for name in tried})
            more = {name: self._more(name, least) for name in tried}
            chains = chains | {name: chain for name, chain in tried.items() if rates[name] > best[name] + more[name]}
        return chains

    def _with_other_tiers(self, chains: dict[str, Chain]) -> dict[str, Chain]:
        """Return the chains with a less safe fix of the same cause, where that wins as much more as its tier has to win."""
        for index in range(max(map(len, chains.values()), default=0)):
            for tier, least in LEAST_GAIN.items():
                choices = {name: self._instead(chain, index, tier) for name, chain in chains.items()}
                chains = self._with_best_of(chains, choices, least)
        return self._without_idle(chains)

    def _all_of_one_kind(self, chains: dict[str, Chain]) -> dict[str, Chain]:
        """Return the chains with all of their moves to another place, where that wins more: one line that is left where it was
        may take all that the others would win.
        """
        for kind in _MOVES:
            tried: dict[str, Chain] = {}
            for name, chain in chains.items():
                others = tuple(self._of_kind(fix, kind) for fix in chain)
                if others != chain:
                    tried[name] = others
            if tried:
                worths = self._trials.weigh(tried)
                best = self._trials.weigh({name: chains[name] for name in tried})
                more = {name: self._more(name) for name in tried}
                chains = chains | {
                    name: chain for name, chain in tried.items() if worths[name] > best[name] + more[name]
                }
        return chains

    def _of_kind(self, fix: Fix, kind: str) -> Fix:
        """Return the move of the same cause to another place; the fix itself where there is none."""
        assert fix.cause is not None
        known = (other for other in self._pile.known(fix.cause) if other.kind == kind)
        return next(known, fix) if fix.kind in _MOVES else fix

    def _with_others(self, fix: Fix) -> list[Fix]:
        """Return a fix with the others of its cause that change no more."""
        others = [] if fix.cause is None else self._pile.known(fix.cause)
        return [fix, *(other for other in others if other is not fix and other.tier <= fix.tier)]

    def _instead(self, chain: Chain, index: int, tier: Tier | None = None) -> list[Chain]:
        """Return the chain with each other fix of the same cause in place of the one at `index`, of the same tier or of one that
        is less safe than that.
        """
        if index >= len(chain) or (tier is not None and tier <= chain[index].tier):
            return []
        fix = chain[index]
        assert fix.cause is not None
        return [
            (*chain[:index], other, *chain[index + 1 :])
            for other in self._pile.known(fix.cause)
            if other.tier == (tier or fix.tier) and other is not fix
        ]

    def _harmless(self, chains: dict[str, Chain]) -> RunResult | None:
        """Return the run with all that is kept; fixes that cost others hits, or more than they win, are dropped from `chains`
        first.
        """
        while chains:
            proof = self._trials.run(chains, explain=self._groups)
            after = {group.name: group.hit_rate for group in proof.ledger.totals()}
            gains = {name: after[name] - group.hit_rate for name, group in self._groups.items() if name in after}
            harmless = min(gains.values(), default=0.0) >= -_MORE and min(gains[name] for name in chains) > 0
            if harmless and computed(proof) < computed(self._result):
                return proof
            least = min(chains, key=lambda name: (gains.get(name, 0.0), name))
            del chains[least]
        return None

    def _steps(self, chains: Mapping[str, Chain]) -> dict[str, list[KeptFix]]:
        """Return the fixes of each group, the one that adds most first, measured alone and one after the other."""
        alone = self._each_alone(chains)
        ordered = self._ordered(chains, alone)
        steps: dict[str, list[KeptFix]] = {}
        for name, chain in ordered.items():
            group = self._groups[name]
            before = group.hit_rate
            for number, fix in enumerate(chain, 1):
                after = self._trials.rate(name, chain[:number])
                assert after is not None, "the order was found by running each beginning of it"
                assert fix.cause is not None
                predicted = self._predicted(group, chain[:number])
                spent = [self._trials.cost(name, chain[:length]) for length in (number - 1, number)]
                costs = None if spent[0] is None or spent[1] is None else (spent[0], spent[1])
                steps.setdefault(name, []).append(
                    KeptFix(fix, fix.cause, before, after, alone[name, fix.key], predicted, costs)
                )
                before = after
        samples = self._result.book(SampleBook)
        return {name: with_places(chain, samples.of_group(name)) for name, chain in steps.items()}

    def _each_alone(self, chains: Mapping[str, Chain]) -> dict[tuple[str, str], float]:
        rates: dict[tuple[str, str], float] = {}
        for index in range(max(map(len, chains.values()), default=0)):
            single = {name: (chain[index],) for name, chain in chains.items() if index < len(chain)}
            for name, rate in self._trials.measure(single).items():
                rates[name, single[name][0].key] = rate
        return rates

    def _ordered(self, chains: Mapping[str, Chain], alone: Mapping[tuple[str, str], float]) -> dict[str, Chain]:
        """Order fixes greedily: the one that wins most on top of those before it; of equals the one that was found first.

        The first one is of a cause that loses something by itself, if any is.
        """
        ordered: dict[str, Chain] = {}
        for name, chain in chains.items():
            losing = {cause.slot for cause in self._result.causes.of_group(name) if cause.blocked}
            first = [fix for fix in chain if fix.cause is not None and fix.cause.slot in losing] or chain
            best_alone = max(alone[name, fix.key] for fix in first)
            ordered[name] = (next(fix for fix in first if alone[name, fix.key] == best_alone),)
        while any(len(ordered[name]) < len(chain) for name, chain in chains.items()):
            left = {name: [fix for fix in chain if fix not in ordered[name]] for name, chain in chains.items()}
            best: dict[str, tuple[float, Chain]] = {}
            for index in range(max(map(len, left.values()))):
                tried = {name: (*ordered[name], left[name][index]) for name in chains if index < len(left[name])}
                for name, rate in self._trials.measure(tried).items():
                    if name not in best or rate > best[name][0]:
                        best[name] = rate, tried[name]
            ordered |= {name: chain for name, (_, chain) in best.items()}
        return ordered

    def _predicted(self, group: GroupTotals, chain: Chain) -> float:
        """Return the group's hit rate with these fixes, as the alignment of its prompts promises it.

        What a limited cache loses now, it goes on losing in proportion, unless all that is computed fits into it then.
        """
        if not group.prompt_tokens:
            return 0.0
        slots = {slot for fix in chain for slot in self._closed(group.name, fix)}
        reached = max(group.reachable_tokens + self._result.causes.predicted(group.name, slots), 0)
        kept = group.hit_tokens / group.reachable_tokens if group.reachable_tokens else 1.0
        if self._capacity is None or group.prompt_tokens - reached <= self._capacity:
            kept = 1.0
        return min(reached * kept / group.prompt_tokens, 1.0)

    def _closed(self, group: str, fix: Fix) -> Iterator[Slot]:
        """Yield what a fix takes out of the way: its cause and, where it moves a line, what else varies on that."""
        if fix.cause is None:
            return
        mine = fix.cause.slot
        yield mine
        if fix.kind in _MOVES and (mine.line or mine.line_in_text):
            for cause in self._result.causes.of_group(group):
                if _line_of(cause.slot) == _line_of(mine):
                    yield cause.slot

    def _not_handled(self, kept: Mapping[str, Chain], stuck: Sequence[StuckCause]) -> list[StuckCause]:
        """Return the other causes that are to be told whatever can be done about them, with the advice for each."""
        handled = {(cause.group, cause.slot) for each in stuck for cause in [each.cause]}
        handled |= {(name, fix.cause.slot) for name, chain in kept.items() for fix in chain if fix.cause is not None}
        found: list[StuckCause] = []
        for name, group in self._groups.items():
            for cause in self._result.causes.of_group(name):
                if not needs_finding(cause, group) or (name, cause.slot) in handled:
                    continue
                fixes = self._tried.propose(cause, self._result.book(SampleBook).of_group(name))
                said = next((fix for fix in fixes if not fix.can_be_tried), None)
                asked = said is not None and said.kind == ASKED
                found.append(StuckCause(cause, advice="" if said is None else said.what, asked=asked))
        return found


def keeps_promise(fix: Fix, samples: Sequence[Turn]) -> bool:
    """Return whether a fix of turns changes any of the samples, and only in the way that its tier allows."""
    if fix.make is None:
        return True
    transform = fix.make()
    changed = 0
    for turn in samples:
        after = transform(turn)
        if after is not turn:
            changed += 1
            if check_proof(fix, turn, after) is not None:
                return False
            if changed == _PROOFS:
                break
    return changed > 0 or len(samples) == 0


def _line_of(slot: Slot) -> tuple[str, str, int, int, int | None, str | None]:
    """Return what tells the line that a slot is on from others."""
    return slot.path, slot.part, slot.line, slot.line_in_text, slot.content_part, slot.words
