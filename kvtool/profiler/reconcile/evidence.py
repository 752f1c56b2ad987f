"""Evidence of a run beside its answers: the order of admission, the tokens that the server read, foreign traffic, its counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.profiler.reconcile.event_trace import EventTrace
from kvtool.profiler.reconcile.observed import ObservedRun
from kvtool.profiler.reconcile.recorded_prompts import SentPrompts
from kvtool.profiler.reconcile.twin import FOREIGN, Ask, TwinRun
from kvtool.text.terminal.numbers import plural
from kvtool.workload.turn import Ids


@dataclass(frozen=True, slots=True)
class OtherTokens:
    """A prompt that the server read otherwise: the first token that differs, and the prompt as the server has it."""

    why: str
    ask: Ask | None
    """None where only the count is known to differ."""


@dataclass(slots=True)
class RunEvidence:
    """The evidence of one run. Lists of asks are in the order in which they came; what events show is empty without them."""

    observed: ObservedRun
    answered: list[Exchange]
    """Those that are predicted, in the order of sending."""
    sent: list[Ask]
    admitted: list[Ask]
    """As the server took them in, as far as its events show it; else as they were sent."""
    other_tokens: dict[int, OtherTokens] = field(default_factory=dict)
    answers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Tokens of answers that only the events tell."""
    foreign: list[tuple[int, Ask]] = field(default_factory=list)
    """Prompts of others, each with the place in `admitted` that it is before."""
    traffic: str | None = None
    """That others used the server, with what shows it."""
    cleared: list[tuple[int, bool]] = field(default_factory=list)
    """Places in `admitted` before which the cache was emptied, and whether by a restart."""
    counters_agree: bool | None = None
    restarted: bool = False
    replicas: bool = False
    gaps: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def base(self) -> list[Ask]:
        """Return what the prediction begins with: one at a time as sent, else as admitted."""
        return self.sent if self.observed.at_once == 1 else self.admitted

    @property
    def prompt_tokens(self) -> int:
        """Count prompt tokens as the server did."""
        return sum(each.usage.prompt or 0 for each in self.answered if each.usage is not None)

    @property
    def reported_tokens(self) -> int:
        """Count cached tokens, as far as the server reports them."""
        return sum(each.usage.cached or 0 for each in self.answered if each.usage is not None)

    @property
    def unreported(self) -> int:
        """Count answers that do not say how many tokens were cached."""
        return sum(1 for each in self.answered if each.usage is None or each.usage.cached is None)

    @classmethod
    def of(cls, observed: ObservedRun, asked: SentPrompts) -> RunEvidence:
        """Collect the evidence of a recording, with the prompts as they are rendered here."""
        answered = [each for each in observed.exchanges if each.number in asked.asks]
        sent = [ask for each in answered for ask in asked.asks[each.number]]
        trace = observed.trace
        order = answered if trace is None else _admission(answered, trace)
        admitted = [ask for each in order for ask in asked.asks[each.number]]
        evidence = cls(observed, answered, sent, admitted)
        evidence.count()
        for each in answered:
            evidence._compare_tokens(each, asked.asks[each.number])
        if trace is not None:
            evidence._trace(trace, order, asked)
        return evidence

    def count(self) -> None:
        """Compare the growth of counters with the sums of usage, as often as the counters have each prompt."""
        counted = self.observed.counted
        if counted is None:
            return
        self.restarted = counted.broken == "restart"
        self.replicas = counted.broken == "several servers"
        if counted.broken is not None:
            self.counters_agree = False
            return
        usages = [each.usage for each in self.observed.answered]
        queries, hits = counted.get(names.QUERIES), counted.get(names.HITS)
        if queries is None or hits is None or any(usage is None or usage.prompt is None for usage in usages):
            return
        asks: dict[int, list[Ask]] = {}
        for ask in self.sent:
            asks.setdefault(ask.number, []).append(ask)
        answered = zip(self.observed.answered, usages, strict=True)
        asked = queries - sum(
            (usage.prompt or 0) * _lookups(asks.get(each.number)) for each, usage in answered if usage is not None
        )
        found = hits - sum(usage.cached or 0 for usage in usages if usage is not None)
        silent = any(usage is not None and usage.cached is None for usage in usages) or self.makes_several
        self.counters_agree = asked == 0 and (found == 0 or silent)
        if asked > 0 or (found > 0 and not silent):
            more = f"{asked:,} tokens looked up and {0 if silent else found:,} hit"
            self.traffic = f"/metrics counted {more} more than the answers report"
        elif not self.counters_agree:
            self.notes.append(
                f"/metrics counted less than the answers report: {-asked:,} tokens looked up and {-found:,} hit"
            )

    @property
    def makes_several(self) -> bool:
        """Return whether an exchange made several requests: then usage has the cached tokens of one of them."""
        return not all(ask.reported for ask in self.sent)

    def count_hits(self, run: TwinRun) -> None:
        """Hold the counted hits against usage and, where that does not have them, against what is predicted."""
        if self.counters_agree and self.makes_several and not self.unreported:
            self.counters_agree = self.hits_left() == run.unreported

    def hits_left(self) -> int | None:
        """Return tokens that were hit by requests whose usage does not say it, by the counters."""
        counted = self.observed.counted
        if counted is None or counted.broken is not None or (hits := counted.get(names.HITS)) is None:
            return None
        return hits - sum(each.usage.cached or 0 for each in self.observed.answered if each.usage is not None)

    def _compare_tokens(self, each: Exchange, asks: Sequence[Ask]) -> None:
        usage, said = each.usage, each.prompt_ids
        if said is not None and len(asks) == 1:
            self._differ(each, asks[0], np.asarray(said, dtype=np.int32), whole=True)
        count = sum(len(ask.prompt) for ask in asks if not ask.again)
        if each.number not in self.other_tokens and usage is not None and usage.prompt not in (None, count):
            why = f"the server counts {usage.prompt:,} prompt tokens, kvtool {count:,}"
            self.other_tokens[each.number] = OtherTokens(why, None)

    def _differ(self, each: Exchange, ask: Ask, theirs: Ids, *, whole: bool) -> None:
        """Note where a prompt is another one on the server; `whole`: `theirs` is all of it, else its beginning."""
        common = min(len(theirs), len(ask.prompt))
        differing = np.flatnonzero(theirs[:common] != ask.prompt[:common])
        if len(differing):
            at = int(differing[0])
            why = (
                f"token {at + 1:,} of its prompt is {int(ask.prompt[at])} in kvtool and {int(theirs[at])} on the server"
            )
        elif whole and len(theirs) != len(ask.prompt):
            why = f"the server counts {len(theirs):,} prompt tokens, kvtool {len(ask.prompt):,}"
        else:
            return
        prompt = theirs
        if not whole:  # what stands behind the last full block is the end of ours
            usage = each.usage
            count = len(ask.prompt) if usage is None or usage.prompt is None else usage.prompt
            missing = min(max(count - len(theirs), 0), len(ask.prompt))
            prompt = np.concatenate([theirs[:count], ask.prompt[len(ask.prompt) - missing :]])
        self.other_tokens[each.number] = OtherTokens(why, replace(ask, prompt=prompt))

    def _trace(self, trace: EventTrace, order: Sequence[Exchange], asked: SentPrompts) -> None:
        ours = {each.session_id for each in self.observed.exchanges if each.session_id is not None}
        for each in self.answered:
            stored, asks = trace.stored.get(each.session_id or ""), asked.asks[each.number]
            if stored is None or stored.start is None or len(asks) != 1:
                continue
            theirs = np.asarray(stored.tokens, dtype=np.int32)
            known = self.other_tokens.get(each.number)
            if known is None or known.ask is None:
                self._differ(each, asks[0], theirs, whole=False)
            if each.number not in asked.known_answers and each.number not in self.other_tokens:
                answer, mine = stored.tokens[len(asks[0].prompt) :], asks[0].output
                if answer and tuple(answer) != mine[: len(answer)]:
                    self.answers[each.number] = (*answer, *mine[len(answer) :])
        places = self._places(trace, order, asked)
        foreign = trace.foreign(ours) if ours else []
        if foreign:
            self.traffic = f"KV events of {plural(len(foreign), 'session')} of other clients"
        elif ours and trace.anonymous:
            self.traffic = f"KV events store {plural(trace.anonymous, 'block')} for requests of other clients"
        for session in foreign:
            stored = trace.stored[session]
            if stored.start is not None and stored.tokens:
                place = _before(places, trace.admitted[session])
                self.foreign.append((place, Ask(FOREIGN, np.asarray(stored.tokens, dtype=np.int32))))
        self.cleared = [(_before(places, at), False) for at in trace.cleared]
        for at, found in trace.breaks:
            if found.restarted:
                self.restarted = True
                self.cleared.append((_before(places, at), True))
            else:
                self.gaps.append(str(found))

    def _places(self, trace: EventTrace, order: Sequence[Exchange], asked: SentPrompts) -> list[tuple[int, int]]:
        """Return for each request that events name: the place of its first event, and its place in `admitted`."""
        found: list[tuple[int, int]] = []
        place = 0
        for each in order:
            if each.session_id in trace.admitted:
                found.append((trace.admitted[each.session_id], place))
            place += len(asked.asks[each.number])
        return [*found, (len(trace.events), place)]


def _lookups(asks: Sequence[Ask] | None) -> int:
    """Return how often the counters have the prompts that a usage counts once: for each answer, and never where nothing is looked
    up.
    """
    if not asks:
        return 1
    return sum(ask.reads for ask in asks) // sum(not ask.again for ask in asks)


def _before(places: Iterable[tuple[int, int]], event: int) -> int:
    """Return the place of the first request that was admitted at this event or after it."""
    return min((place for first, place in places if first >= event), default=0)


def _admission(answered: Sequence[Exchange], trace: EventTrace) -> list[Exchange]:
    """Return the requests in the order of their first events; one that stored nothing is after the last that was sent before it."""
    seen = sorted(
        (each for each in answered if each.session_id in trace.admitted),
        key=lambda each: trace.admitted[each.session_id or ""],
    )
    for each in answered:
        if each.session_id in trace.admitted:
            continue
        sent = each.sent if each.sent is not None else float("inf")
        place = max((at for at, one in enumerate(seen, 1) if (one.sent or 0.0) < sent), default=0)
        seen.insert(place, each)
    return seen
