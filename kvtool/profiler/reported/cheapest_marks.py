"""The cheapest marks of a run's requests, with their cost from another run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, partial

from kvtool.accounting.caches.breakpoints import block_places
from kvtool.accounting.caches.mark_plan import MarkPlan, MarkSet, PlacedMark, set_of
from kvtool.accounting.caches.request_layout import PromptLayout
from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.plan import Plan
from kvtool.accounting.prices.bill import shown_money
from kvtool.accounting.prices.mark_compiler import MarkedKind, compile_marks, own_sets, plan_sets
from kvtool.accounting.prices.money_book import MoneyBook
from kvtool.accounting.prices.price_row import Rates
from kvtool.diagnose.run_findings import KEEP_LONGER, MARK_THE_END
from kvtool.fixes.fix import Fix, Transform, combined
from kvtool.fixes.fix_thresholds import THRESHOLDS
from kvtool.fixes.marked_turn import marked_turn
from kvtool.fixes.moves.shared_heads import SharedHeads
from kvtool.profiler.advice.trials import steady_first
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.profiler.run.samples import SampleBook
from kvtool.results.finding import Finding
from kvtool.results.money import BlockSplit, MarkAdvice, MarkPosition, marks_in_words
from kvtool.workload.turn import Turn

KEY = "run:marks"
SPLIT_KEY = "run:blocks"

Again = Callable[[Sequence[Fix]], RunResult]


@dataclass(frozen=True, slots=True)
class CheaperMarks:
    """Marks that cost less than those of a run, and the cost of all requests with them: from a run."""

    before: Decimal
    cost: Decimal
    marks: list[MarkAdvice]
    fix: Fix
    """Puts the marks into the requests."""
    plan_fixes: list[Fix]
    """The same for runs of the same requests, which need not be read again."""
    result: RunResult
    """The run with the marks."""
    groups: Mapping[str, tuple[Decimal, Decimal]]
    """The cost of each group's requests before, and with the marks."""
    kinds: Sequence[MarkedKind]


@dataclass(frozen=True, slots=True)
class _Split:
    """Texts that are parted where the shared text ends, and by group at which lines of which blocks."""

    heads: SharedHeads
    fix: Fix
    places: Mapping[str, list[BlockSplit]]


class MarkTrial:
    """The cheapest marks of a run's requests; a run that was interrupted counts as none."""

    def __init__(
        self,
        result: RunResult,
        book: MoneyBook,
        again: Again | None,
        fixes: Sequence[Fix] = (),
        samples: SampleBook | None = None,
        *,
        marks: bool = True,
    ) -> None:
        """Create the trial. `again` runs with fixes (None: no trial); `fixes` are those of the run itself, `samples` requests
        before all of them, and `marks` whether other marks are tried."""
        self.result, self._book, self.again, self.fixes = result, book, again, list(fixes)
        self._samples = samples
        self._marks = marks
        self.added: Sequence[Fix] = ()
        """Those of the fixes that `cheapest_with` chose."""

    @classmethod
    def of(
        cls,
        result: RunResult,
        again: Again,
        fixes: Sequence[Fix] = (),
        samples: SampleBook | None = None,
        *,
        marks: bool = True,
    ) -> MarkTrial | None:
        """Return the trial of a run with these fixes; None where nothing is priced."""
        book = money_of(result)
        if result.partial or book is None or not book.total[book.told].costs.requests:
            return None
        return cls(result, book, again, fixes, samples, marks=marks)

    @property
    def settings(self) -> list[Fix]:
        """Return the added fixes that change what requests say beside their prompts."""
        return [fix for fix in self.added if fix.cause is None]

    @property
    def needs_marks(self) -> bool:
        """Return whether fixes were added that win nothing without the cheapest marks."""
        return self.cheaper is not None and len(self.settings) < len(self.added)

    @property
    def proof(self) -> RunResult:
        """The run with the fixes, and with the marks that these need."""
        return self.cheaper.result if self.needs_marks and self.cheaper is not None else self.result

    @property
    def priced_requests(self) -> int:
        """The requests whose cost is known."""
        return self._book.total[self._book.told].costs.requests

    @property
    def refused(self) -> bool:
        """Return whether the provider refuses requests for the number of their marks."""
        hosted = self.result.counts.hosted
        return hosted is not None and bool(hosted.too_many_marks)

    @cached_property
    def cheaper(self) -> CheaperMarks | None:
        """Marks that cost less than those that were sent, by another run; None where none do, or the saving is too small.

        A text whose beginning other requests have, too, is parted there where marks then cost less than without.
        """
        if self.again is None or not self._layouts(self.result):
            return None
        found = self._compiled(self.result, None)
        change = combined(self.fixes)
        book = self._samples
        samples = [] if book is None else [change(turn) for group in book.groups for turn in book.of_group(group)]
        heads = SharedHeads.learn(samples)
        parted = None if heads is None else self._parted(heads, samples)
        if heads is not None and parted is not None and saves_enough(found.cost if found else self.cost, parted.cost):
            found = parted
            fewer = heads.marked_in(map(combined([parted.fix]), samples))
            parted = None if fewer in (None, heads) else self._parted(fewer, samples)
            found = found if parted is None or saves_enough(parted.cost, found.cost) else parted
        if self.result.partial or found is None:
            return None
        return found if self.refused or saves_enough(found.before, found.cost) else None

    def after(self, fixes: Sequence[Fix]) -> MarkTrial | None:
        """Return the trial on top of fixes, by another run; None where nothing is tried or priced, or it was interrupted."""
        if self.again is None:
            return None
        every = [*self.fixes, *steady_first(fixes)]
        run = self.again(every)
        trial = MarkTrial.of(run, self.again, every, self._samples, marks=self._marks)
        self.result.partial = self.result.partial or run.partial
        return trial

    def cheapest_with(self, choices: Sequence[Sequence[Fix]]) -> MarkTrial:
        """Return the trial whose cheapest marks cost least, with one fix of each of these choices or none of it.

        One setting, one move or other marks may save nothing where another one is missing: all are made first, and what saves
        nothing beside the others is left out again, what changes most first.
        """
        chosen = [fixes[0] for fixes in choices]
        best = self._added(chosen)
        for at, fixes in enumerate(choices):
            for fix in fixes[1:]:
                tried = [*chosen[:at], fix, *chosen[at + 1 :]]
                other = self._added(tried)
                if best is not None and other is not None and saves_enough(best.least, other.least):
                    chosen, best = tried, other
        for fix in sorted(chosen, key=lambda fix: fix.tier, reverse=True):
            fewer = [each for each in chosen if each is not fix]
            other = self._added(fewer)
            if best is not None and other is not None and not saves_enough(other.least, best.least):
                chosen, best = fewer, other
        return self if best is None or not saves_enough(self.least, best.least) else best

    def _added(self, fixes: Sequence[Fix]) -> MarkTrial | None:
        """Return the trial on top of added fixes, with its marks."""
        if not fixes:
            return self
        trial = None if self.result.partial else self.after(fixes)
        if trial is None:
            return None
        trial.added, _ = fixes, trial.cheaper
        self.result.partial = trial.result.partial
        return None if trial.result.partial else trial

    @property
    def every_fix(self) -> list[Fix]:
        """Return the fixes of the run, and those that put the cheapest marks on top."""
        return [*self.fixes, *([] if self.cheaper is None else self.cheaper.plan_fixes)]

    @property
    def least(self) -> Decimal:
        """What all requests cost with the cheapest marks."""
        return self.cost if self.cheaper is None else self.cheaper.cost

    @property
    def cost(self) -> Decimal:
        """What all requests cost with the marks that they have."""
        return self._book.total[self._book.told].costs.predicted.total

    def _layouts(self, run: RunResult) -> Sequence[PromptLayout]:
        """Return the requests to which other marks are given; nothing where none are tried."""
        hosted = run.counts.hosted
        return () if hosted is None or not self._marks else hosted.layouts or ()

    def _compiled(self, run: RunResult, split: _Split | None) -> CheaperMarks | None:
        """Return the cheapest marks of a run's requests with what all requests cost with them, by one more run."""
        hosted, layouts = run.counts.hosted, self._layouts(run)
        if self.again is None or hosted is None or not layouts:
            return None
        epoch = hosted.rules.epoch

        def rates_of(layout: PromptLayout) -> Rates | None:
            return self._book.rates_of(layout.call, layout.prompt, moment_of(epoch, layout.use.now))

        kinds = compile_marks(layouts, rates_of)
        if not kinds:
            return None
        fix = marks_fix(plan_sets(kinds))
        fixes = [fix] if split is None else [split.fix, fix]
        with_marks = self.again([*self.fixes, *fixes])
        if with_marks.partial:
            self.result.partial = True
            return None
        again = money_of(with_marks)
        if again is None:
            return None
        before, after = (money.total[money.told].costs for money in (self._book, again))
        if before.requests != after.requests:
            return None
        marking = partial(_marking, layouts, plan_sets(kinds))
        sent = replace(fix, make=marking, plan=None)
        if split is not None:
            sent = replace(sent, tier=split.fix.tier, make=lambda: _one_after_another(split.heads, marking()))
        groups = {
            name: (self._book.cost_of(name), again.cost_of(name)) for name in self._book.groups if name in again.groups
        }
        advice = _advice(kinds, {} if split is None else split.places)
        changed = [each for each in advice if any(groups[name][0] != groups[name][1] for name in each.groups)]
        if len(changed) < len(advice):
            changed = [each.model_copy(update={"others_keep": True}) for each in changed]
        told = advice if self.refused else changed or advice
        return CheaperMarks(before.predicted.total, after.predicted.total, told, sent, fixes, with_marks, groups, kinds)

    def _parted(self, heads: SharedHeads, samples: Sequence[Turn]) -> CheaperMarks | None:
        """Return the cheapest marks of the requests with their texts parted."""
        assert self.again is not None, "marks are tried"
        places: dict[str, list[BlockSplit]] = {}
        for turn in samples:
            names = {each.path: each.name for each in block_places(turn)}
            for at, head in heads.split_texts(turn):
                message = at.message or 0
                path = (message,) if at.part is None else (message, "content", at.part)
                split = BlockSplit(place=names.get(path, ""), line=head.count("\n") + (not head.endswith("\n")))
                if split.place and split not in places.setdefault(turn.group, []):
                    places[turn.group].append(split)
        fix = Fix(SPLIT_KEY, "", "P1", None, "end a block where the shared text ends", make=lambda: heads)
        run = self.again([*self.fixes, fix])
        self.result.partial = self.result.partial or run.partial
        return None if self.result.partial else self._compiled(run, _Split(heads, fix, places))

    def proven(self, finding: Finding) -> Finding:
        """Return a finding about prefixes that are not stored, or not for long enough, with the cheapest marks as its fix."""
        if finding.fix not in (MARK_THE_END, KEEP_LONGER) or self.again is None or not self._layouts(self.result):
            return finding
        cheaper = self.cheaper
        before, after = (Decimal(0), Decimal(0)) if cheaper is None else self._alone(cheaper, finding.group)
        if cheaper is None or not (self.refused or saves_enough(before, after)):
            kept = "keep the cache breakpoints (tested: no others cost less)"
            return finding.model_copy(update={"fix": kept, "severity": "info", "no_gain": True})
        marks = [each for each in cheaper.marks if finding.group in each.groups]
        fix = marks_in_words([each.model_copy(update={"others_keep": False}) for each in marks])
        told = f"{fix}: {shown_money(before)} -> {shown_money(after)}, {shown_money(before - after)} saved (verified)"
        return finding.model_copy(update={"fix": told, "tier": cheaper.fix.tier, "fix_key": cheaper.fix.name})

    def _alone(self, cheaper: CheaperMarks, group: str) -> tuple[Decimal, Decimal]:
        """Return the cost of a group's requests before, and with its own marks alone: by another run where others have some."""
        found = cheaper.groups[group]
        if self.again is None or all(group in kind.groups for kind in cheaper.kinds):
            return found
        run = self.again([*self.fixes, *cheaper.plan_fixes[:-1], marks_fix(own_sets(cheaper.kinds, group))])
        self.result.partial = self.result.partial or run.partial
        book = None if run.partial else money_of(run)
        return found[0], found[0] if book is None else book.cost_of(group)


def saves_enough(before: Decimal, after: Decimal) -> bool:
    """Return whether other marks are worth a change."""
    return after <= before * (1 - Decimal(str(THRESHOLDS.mark_saving)))


def marks_fix(sets: Mapping[str, Mapping[int, MarkSet | None]]) -> Fix:
    """Return the fix that sends these marks in place of those of the log."""
    marks = MarkPlan(sets)

    def with_marks(plan: Plan) -> Plan:
        return plan if plan.cache is None else replace(plan, cache=replace(plan.cache, marks=marks))

    return Fix(KEY, "", "P0", None, "cheapest breakpoints", plan=with_marks)


def _marking(layouts: Sequence[PromptLayout], sets: Mapping[str, Mapping[int, MarkSet]]) -> Transform:
    """Return what puts the marks into the requests of the run, by their names."""
    marks = {
        each.name: (set_of(sets[each.scope], each.keys[: each.lead]), each.rules)
        for each in layouts
        if each.scope in sets and each.name is not None
    }
    return lambda turn: marked_turn(turn, *marks[turn.name]) if turn.name in marks else turn


def _one_after_another(first: Transform, second: Transform) -> Transform:
    return lambda turn: second(first(turn))


def _advice(kinds: Sequence[MarkedKind], splits: Mapping[str, list[BlockSplit]]) -> list[MarkAdvice]:
    """Return the marks, kinds of one model with the same ones together, most requests first."""
    told: dict[tuple[str, tuple[MarkPosition, ...]], list[MarkedKind]] = {}
    for kind in kinds:
        if kind.requests:
            positions = sorted((_position(mark, kind.example) for mark in kind.marks), key=lambda one: one.tokens)
            told.setdefault((kind.example.call.model or "", tuple(positions)), []).append(kind)
    advice = [
        MarkAdvice(
            model=model,
            groups=list(dict.fromkeys(group for kind in of for group in kind.groups)),
            requests=sum(kind.requests for kind in of),
            marks=list(positions),
            explicit=of[0].example.rules.implicit,
            splits=list(
                dict.fromkeys(split for kind in of for group in kind.groups for split in splits.get(group, ()))
            ),
        )
        for (model, positions), of in told.items()
    ]
    return sorted(advice, key=lambda one: -one.requests)


def _position(mark: PlacedMark, example: PromptLayout) -> MarkPosition:
    at = mark.place.of(example.lead, example.messages, len(example.keys))
    tokens = 0 if at is None else example.ends[at]
    return MarkPosition(place=place_name(mark, example), ttl=_shown_ttl(example.kept[mark.ttl]), tokens=tokens)


def _shown_ttl(seconds: float | None) -> str:
    """Return a time to live as requests have it: `5m`, `1h`."""
    if seconds is None:
        return ""
    return f"{seconds / 3600:g}h" if seconds >= 3600 else f"{seconds / 60:g}m"


def place_name(mark: PlacedMark, example: PromptLayout) -> str:
    """Return where a mark is in the body of a request like this one: `system[-1]`, `messages[-1]`, `tools[0]`."""
    kind, number = mark.place
    match kind:
        case "message":
            return f"messages[{-1 - number}]"
        case "late_block":
            last = len(example.keys) - 1 - (example.messages[-2] if len(example.messages) > 1 else example.lead - 1)
            return f"{'messages[-1].content' if number < last else 'block'}[{-1 - number}]"
        case "lead":
            return "system[-1]" if example.lead > example.tools else "tools[-1]"
        case "block":
            return example.block_name(number)
