"""The table of `kvtool what-if` for a log of hosted models: other marks, times to live, cache keys and models, each from a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial

from kvtool.accounting.caches.timed_tree import LONG, SHORT
from kvtool.accounting.hosted_models import hosted_model
from kvtool.accounting.misses.advised_change import costliest_change
from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.plan import Plan
from kvtool.accounting.prices.bill import shown_money
from kvtool.accounting.prices.money_book import MoneyBook, Read
from kvtool.config.command_line import flags
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import Fix
from kvtool.profiler.advice.trials import TrialInterruptedError, steady_first
from kvtool.profiler.opening import Opened
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.profiler.reported.cheapest_marks import MarkTrial, marks_fix
from kvtool.profiler.reported.cheapest_settings import cheapest_trial
from kvtool.profiler.reported.money_report import unpriced_notice
from kvtool.profiler.reported.named_caches import explicit_caches, named_caches_note
from kvtool.profiler.reported.one_key import shared_keys
from kvtool.profiler.reported.reported_use import reported_use
from kvtool.profiler.reported.request_settings import fix_of_calls, longer_retentions, retention_fix
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.profiler.run.samples import SampleBook
from kvtool.profiler.what_if.change_table import EditsOf, advice_withheld, lacks_prompts
from kvtool.profiler.what_if.planned_change import RunChange
from kvtool.results.choices import ChangeKind, Sure
from kvtool.results.documents.parts import ReportedUse
from kvtool.results.documents.what_if import HOSTED_RULES, MissingRow, SweepRow, WhatIfDocument
from kvtool.results.misses import CacheMisses, MissCause
from kvtool.results.money import amount_text, marks_in_words
from kvtool.results.next_step import SEE_EDITED_REQUEST
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.progress import Progress
from kvtool.workload.call import Call
from kvtool.workload.drive import NO_ANSWER

_WORTH = Decimal("0.01")
"""Part of today's cost that a change must save to be named first."""
_TODAY = "today"
_PROMPTS = "edit the prompts as kvtool optimize shows, and keep the cache breakpoints"
_BOTH = "edit the prompts and the cache breakpoints as kvtool optimize shows"
_OF_PROMPTS = (_PROMPTS, _BOTH)
_KINDS: dict[MissCause, ChangeKind] = {"key_changed": "cache-key", "not_marked": "marks", "expired": "ttl"}
"""The rows that try what to change about a cause."""
_TIMES = {SHORT: "5m", LONG: "1h"}
_SET_TTL = 'set "ttl": "{}" in every mark'
_MOST_MODELS = 4
"""Models with rows of their own."""


def hosted_document(opened: Opened, edits_of: EditsOf, progress: Progress, *, advice: bool = True) -> WhatIfDocument:
    """Return today's cost and that of each change, the cheapest first; KvtoolError where no price is known."""
    profiler = opened.profiler(ReportOptions(), progress)
    try:
        today = profiler.explained()
    except TrialInterruptedError:
        raise KeyboardInterrupt from None
    book = _book(today)
    if book is None:
        own = " ".join(flags(block_size=EngineConfig.block_size))
        lack = "kvtool knows none of its models" if opened.group_names is None else "a workload file names no model"
        raise KvtoolError(
            f"{opened.name}: {lack}, so it has no price",
            hint=f"kvtool profile shows what is reused; {own} plans a server of your own",
        )
    misses = today.find(MissBook)
    table = _HostedTable(profiler, today, book, advice=advice)
    silent = None if misses is None or misses.predictable else misses
    if silent is not None and not silent.total.replay.requests:
        raise lacks_prompts(opened)
    rows = table.rows() if silent is None else table.replayed(silent)
    found, currency = None if misses is None else misses.misses(), next(iter(book.currencies), "USD")
    first, side = rows[0], book.total[book.told]
    requests = side.predicted.requests if silent is None else silent.total.requests
    reachable = min(side.reachable if silent is None else silent.total.promised, first.references)
    withheld = "" if misses is None else misses.agreement.too_few
    notes, explicit = [*opened.wrong_usage, *unpriced_notice(book)], named_caches_note(today)
    return WhatIfDocument(
        schema="kvtool.what-if/1",
        input=opened.name,
        rules=HOSTED_RULES,
        block_size=1,
        requests=requests,
        references=first.references,
        distinct_blocks=first.references - reachable,
        reachable_blocks=reachable,
        reachable_hit_rate=reachable / max(first.references, 1),
        sampled=1.0,
        notes=notes,
        answer=[
            *_told(reported_use(today), first, requests),
            *([advice_withheld(withheld)] if withheld else []),
            *(
                (not table.edits and found is not None and _named_first(found, rows, currency, differs=bool(withheld)))
                or _answer(
                    rows, f"{SEE_EDITED_REQUEST}: {edits_of(table.shown)}", only_prompts=bool(withheld), other=explicit
                )
            ),
            *explicit,
        ],
        rows=[first, *sorted(rows[1:], key=lambda row: Decimal(row.cost or 0))],
        missing=table.missing,
    )


class _HostedTable:
    """Makes the rows of one log."""

    def __init__(self, profiler: Profiler, today: RunResult, book: MoneyBook, *, advice: bool) -> None:
        self._profiler, self._runs, self._today, self._book = profiler, profiler.runs, today, book
        self._advice = advice
        self.missing: list[MissingRow] = []
        self.edits: Sequence[Fix] = ()
        """Those of prompts."""
        self.shown: Sequence[Fix] = ()
        """Those that `optimize` has to make to reach the rows of prompts."""
        self._idle: Sequence[Sequence[Fix]] = ()
        """Those that win nothing alone, by cause."""

    def rows(self) -> list[SweepRow]:
        """Return today's row, and one for each change that is one."""
        rows = [_row("today", f"{_TODAY}, predicted" if self._book.told else _TODAY, "", self._book)]
        for change in self._changes():
            book = _book(self._runs.priced(f"trying {change.name}", change.fixes))
            if book is None or book.total[book.told].costs.requests != self._costs_requests:
                self._lack(change.name, "It changes what requests say, so their reported tokens no longer apply")
                continue
            row = _row(change.kind, change.name, change.does, book)
            if (row.cost, row.hit_blocks) != (rows[0].cost, rows[0].hit_blocks):
                rows.append(row)
        return [*rows, *self._explicit()]

    def replayed(self, misses: MissBook) -> list[SweepRow]:
        """Return what was reported, and a row for each time to live, by the gaps of a log that no rules predict."""
        replay = misses.total.replay
        self._lack("other changes", "The log does not contain what predictions need")
        side = self._book.total[True]
        paid, told = side.costs.paid.total, side.told
        rows = [_told_row("today", f"{_TODAY}, reported", "", told, paid, sure="exact")]
        for seconds, ttl in _TIMES.items():
            read = Read(told.requests, told.prompt, told.cached + replay.gained[seconds])
            cost = paid + replay.costs[seconds] - replay.paid
            rows.append(_told_row("ttl", f"all breakpoints {ttl}", _SET_TTL.format(ttl), read, cost, sure="predicted"))
        return rows

    def _explicit(self) -> Iterator[SweepRow]:
        """Yield a row for explicit caches that cost less than what was paid; other requests read and cost what was reported."""
        caches = explicit_caches(self._today)
        if caches:
            side = self._book.total[self._book.told]
            cost = side.costs.paid.total + sum((each.cost - each.paid for each in caches), Decimal(0))
            read = Read(side.told.requests, side.told.prompt, side.told.cached + sum(each.more_read for each in caches))
            what = ", ".join(dict.fromkeys(f"prompts of {each.model} up to {each.end}" for each in caches))
            does = f"keep {what} in explicit caches"
            yield _told_row("explicit-cache", "explicit caches", does, read, cost, sure="predicted")

    @property
    def _costs_requests(self) -> int:
        return self._book.total[self._book.told].costs.requests

    def _changes(self) -> Iterator[RunChange]:
        hosted = self._today.counts.hosted
        assert hosted is not None, "the run of a provider's rules"
        layouts = hosted.layouts or []
        calls = self._calls()
        yield from self._prompts()
        if layouts:
            again = partial(self._runs.priced, "trying breakpoints")
            trial = MarkTrial(self._today, self._book, again, samples=self._today.find(SampleBook))
            if (cheaper := trial.cheaper) is not None and any(advice.marks for advice in cheaper.marks):
                does = marks_in_words(cheaper.marks)
                yield RunChange("marks", "cheapest breakpoints", does, cheaper.plan_fixes)
            else:
                self._lack("other breakpoints", "No other placement of cache breakpoints costs less")
            settled = cheapest_trial(trial)
            if settled.settings and (both := settled.cheaper) is not None:
                does = ", and ".join([*(fix.what for fix in settled.settings), marks_in_words(both.marks)])
                yield RunChange("marks", "settings and breakpoints", does, settled.every_fix)
            edited = trial.after(self.edits) if self.edits else trial
            best = None if edited is None else cheapest_trial(edited, self._idle)
            if best is not None and best.cheaper is not None and len(best.fixes) > len(best.settings):
                self.shown = [*self.edits, *best.every_fix]
                yield RunChange("marks", "prompt fixes and breakpoints", _BOTH, best.every_fix)
            if all(each.rules.needs_mark for each in layouts):
                sets = {each.scope: dict[int, tuple[()]]() for each in layouts}
                yield RunChange("marks", "no breakpoints", "send no cache_control", [marks_fix(sets)])
            if all(LONG in each.rules.tiers for each in layouts):
                for seconds, ttl in _TIMES.items():
                    yield RunChange("ttl", f"all breakpoints {ttl}", _SET_TTL.format(ttl), [_with_ttl(seconds)])
        for name in sorted({name for call in calls for name in longer_retentions(call)}):
            fix = retention_fix(name)
            yield RunChange("ttl", f"retention {name}", fix.what, [fix])
        fewer = shared_keys(self._today, partial(self._runs.priced, "trying fewer cache keys"))
        if fewer is not None:
            yield RunChange("cache-key", "fewer cache keys", fewer[0].what, [fewer[0]])
        yield from self._models(calls)

    def _prompts(self) -> Iterator[RunChange]:
        """Yield a row for the edits of prompts that `optimize` makes first, all together."""
        misses = self._today.find(MissBook)
        if not self._advice:
            self._lack("prompts", " ".join(flags(advice=False)))
            return
        silent = [] if misses is None else misses.differing_groups
        if {group.name for group in self._today.ledger.totals()}.issubset(silent):
            self._lack("prompts", "Reads differ from the published rules, so no gain is verified")
            return
        try:
            _, followed = self._profiler.advised_with_edits(self._today)
        except TrialInterruptedError:
            raise KeyboardInterrupt from None
        self._idle = followed.idle
        if followed.fixes:
            self.edits = self.shown = steady_first(followed.fixes)
            yield RunChange("prompts", "prompt fixes", _PROMPTS, self.edits)
        else:
            of = " of groups that follow the published rules" if silent else ""
            self._lack("prompts", f"No edit of the prompts{of} lowers the cost")

    def _models(self, calls: list[Call]) -> Iterator[RunChange]:
        """Yield a row for each model of the log, with all requests of its provider sent to it."""
        models = list(dict.fromkeys((call.model, call.provider) for call in calls if call.model is not None))
        if len(models) < 2:
            self._lack("another model", "The log names only one: kvtool does not guess what another one would answer")
            return
        for model, provider in models[:_MOST_MODELS]:
            own = hosted_model(model, provider).provider

            def sent(call: Call, model: str = model, own: str = own) -> Call:
                same = call.model is not None and hosted_model(call.model, call.provider).provider == own
                return replace(call, model=model) if same else call

            what = f"send all requests to {model}"
            yield RunChange("model", f"all to {model}", what, [fix_of_calls(f"model-{model}", "", what, sent)])

    def _calls(self) -> list[Call]:
        """Return the calls of the log, one of each model and cache key."""
        calls: dict[object, Call] = {}
        for conversation in self._runs.source.conversations():
            turn = conversation.next_turn(None)
            while turn is not None:
                calls.setdefault((turn.call.model, turn.call.provider, turn.call.scope.key), turn.call)
                turn = conversation.next_turn(NO_ANSWER)
        return list(calls.values())

    def _lack(self, change: str, why: str) -> None:
        self.missing.append(MissingRow(change=change, why=why))


def _book(result: RunResult) -> MoneyBook | None:
    """Return the costs of a run; None where it was interrupted or nothing is priced."""
    book = money_of(result)
    if result.partial:
        raise KeyboardInterrupt
    return book if book is not None and book.total[book.told].costs.requests else None


def _row(kind: ChangeKind, name: str, does: str, book: MoneyBook) -> SweepRow:
    side = book.total[book.told]
    return _told_row(kind, name, does, side.predicted, side.costs.predicted.total, sure="rules")


def _told_row(kind: ChangeKind, name: str, does: str, read: Read, cost: Decimal, *, sure: Sure) -> SweepRow:
    return SweepRow(
        kind=kind,
        change=name,
        does=does,
        more_hardware=False,
        block_size=1,
        hit_blocks=read.cached,
        references=read.prompt,
        hit_rate=min(read.rate, 1.0),
        computed_tokens=max(read.prompt - read.cached, 0),
        cost=amount_text(cost),
        sure=sure,
    )


def _told(reported: ReportedUse | None, today: SweepRow, requests: int) -> list[str]:
    """Return what was reported, then what the rules predict of the same requests; nothing without a report."""
    if reported is None:
        return []
    predicted = f"hit rate {percent(today.hit_rate)}, cost {shown_money(Decimal(today.cost or 0))}"
    paid = "" if reported.paid is None else f", paid {shown_money(Decimal(reported.paid), reported.currency)}"
    of, of_them = "", ""
    if reported.requests != requests:
        of, of_them = (f" for {plural(count, 'request')}" for count in (reported.requests, requests))
    by_rules = [f"Predicted by the rules{of_them}: {predicted}."] if today.sure == "rules" else []
    return [f"Reported{of}: hit rate {percent(reported.hit_rate)}{paid}.", *by_rules]


def _named_first(found: CacheMisses, rows: list[SweepRow], currency: str, *, differs: bool) -> list[str]:
    """Return the change that a profile of the log names first, with the row that tries it; nothing where it names none."""
    change = costliest_change(found, currency)
    if change is None:
        return []
    kind = _KINDS.get(change.cause)
    tried = [] if differs else [row for row in rows[1:] if row.kind == kind]
    if not tried:
        return [f"Change first: {change.text}."]
    best = min(tried, key=_cost_of)
    return [
        f"Change first: {change.text}. {_gain(rows[0], best)}",
        *_not_first(rows, best, "the costliest misses have another cause"),
    ]


def _cost_of(row: SweepRow) -> Decimal:
    return Decimal(row.cost or 0)


def _gain(today: SweepRow, best: SweepRow) -> str:
    rates = f"hit rate {percent(today.hit_rate)} -> {percent(best.hit_rate)}"
    return f"Predicted: {shown_money(_cost_of(today))} -> {shown_money(_cost_of(best))}, {rates}."


def _answer(rows: list[SweepRow], edits: str, *, only_prompts: bool, other: Sequence[str] = ()) -> list[str]:
    """Return what to change first, and for prompts the command `edits` that shows it. `only_prompts`: reports differ from the rules
    of marks, times and keys in some groups, so that only edits of the others are proposed. Nothing is said of no change then, nor
    where there is an `other` one.
    """
    is_replayed = rows[0].sure != "rules"
    today, *others = (row for row in rows if row.sure == "rules" or is_replayed)  # an estimate is beside what was paid
    others = [row for row in others if row.does in _OF_PROMPTS or not only_prompts]
    before = Decimal(today.cost or 0)
    best = min((row for row in others if row.kind != "model"), key=_cost_of, default=None)
    if best is None or _cost_of(best) > before * (1 - _WORTH):
        if other or only_prompts:
            return []
        found = "No change saves 1% of the cost"
        return [f"{found}."] if today.change != _TODAY else [f"{found}. Predicted cost: {shown_money(before)}."]
    first = f"Change first: {best.does}. {_gain(today, best)}"
    told = [first, *_not_first(rows, best, "reads differ from the published rules")]
    return [*told, edits] if best.does in _OF_PROMPTS else told


def _not_first(rows: list[SweepRow], best: SweepRow, why: str) -> list[str]:
    """Say why another row that costs less is not the change to begin with; nothing where none costs less."""
    least = min((row for row in rows[1:] if row.sure == best.sure), key=_cost_of)
    if _cost_of(least) >= _cost_of(best):
        return []
    why = "another model gives other answers" if least.kind == "model" else why
    return [f"Not first: {least.change} ({shown_money(_cost_of(least))}), as {why}."]


def _with_ttl(seconds: float) -> Fix:
    def kept(plan: Plan) -> Plan:
        return plan if plan.cache is None else replace(plan, cache=replace(plan.cache, mark_ttl=seconds))

    return Fix(f"run:ttl-{seconds:g}", "", "P0", None, "another time to live of breakpoints", plan=kept)
