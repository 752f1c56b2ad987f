"""Causes of disagreement: they are tried in one order, each by a test; the first that makes the numbers equal is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kvtool.measure.servers.exchange import Exchange
from kvtool.profiler.reconcile.evidence import RunEvidence
from kvtool.profiler.reconcile.recorded_prompts import SentPrompts
from kvtool.profiler.reconcile.twin import Twin, TwinRun
from kvtool.results.documents.reconciliation import Disagreement, ReplayCause
from kvtool.text.terminal.numbers import plural

_SWITCH = "start the server with --enable-prompt-tokens-details"


@dataclass(frozen=True, slots=True)
class RunCause:
    """A cause that is found for the run as a whole."""

    cause: ReplayCause
    why: str


@dataclass(slots=True)
class NamedCauses:
    """Requests that disagree in the order of sending, and what was found of the run."""

    requests: list[Disagreement] = field(default_factory=list)
    run: list[RunCause] = field(default_factory=list)


@dataclass(slots=True)
class _Case:
    """A request that disagrees."""

    exchange: Exchange
    predicted: int | None
    reported: int | None


class CauseTrials:
    """Tries the causes over one run."""

    def __init__(
        self, evidence: RunEvidence, asked: SentPrompts, twin: Twin, base: TwinRun, *, ordered: bool = False
    ) -> None:
        """`ordered`: KV events show the order in which `base` ran."""
        self._ordered = ordered
        self.evidence = evidence
        self.asked = asked
        self.twin = twin
        self.base = base
        self._asks = list(evidence.base)
        """What the engine is given, with all that was corrected so far."""
        self._cleared: set[int] = set()

    def causes(self) -> NamedCauses:
        """Return every request that disagrees has one."""
        named = NamedCauses(run=list(self._of_the_run()))
        open_ = list(self._disagreeing())
        found: dict[int, tuple[ReplayCause, str]] = {}
        for tried in (
            self._not_reported,
            self._other_tokens,
            self._warm_start,
            self._other_traffic,
            self._answer,
            self._order,
            self._cleared_cache,
            self._several_servers,
            self._not_known,
            self._drafts,
            self._steps,
        ):
            open_ = [case for case in open_ if case.exchange.number not in found]
            if not open_:
                break
            for case, cause, why in tried(open_):
                found.setdefault(case.exchange.number, (cause, why))
        unexplained = "no test explains it: please report it with a recording (kvtool replay --record DIR)"
        for case in self._disagreeing():
            cause, why = found.get(case.exchange.number, ("unexplained", unexplained))
            reported = case.reported if case.reported is not None else self._substitute(case)
            named.requests.append(
                Disagreement(
                    id=case.exchange.id,
                    number=case.exchange.number,
                    predicted=case.predicted,
                    reported=reported,
                    cause=cause,
                    why=why,
                )
            )
        return named

    def _disagreeing(self) -> Iterator[_Case]:
        for each in self.evidence.answered:
            usage = each.usage
            predicted = self.base.cached.get(each.number)
            reported = None if usage is None else usage.cached
            count = sum(len(ask.prompt) for ask in self.asked.asks[each.number] if not ask.again)
            other = usage is not None and usage.prompt not in (None, count)
            if reported is None or predicted != reported or other:
                yield _Case(each, predicted, reported)

    def _of_the_run(self) -> Iterator[RunCause]:
        evidence = self.evidence
        if evidence.other_tokens:
            number, first = next(iter(evidence.other_tokens.items()))
            count = plural(len(evidence.other_tokens), "prompt")
            yield RunCause("other tokens", f"{count} tokenized differently by the server; #{number}: {first.why}")
        if evidence.traffic is not None:
            yield RunCause("other traffic", evidence.traffic)
        trace = evidence.observed.trace
        if self.twin.at_once == 1 and (pair := self._overtaken()) is not None:
            why = f"KV events admit #{pair[0]} before #{pair[1]}, which was sent first"
            yield RunCause("order", why)
        if evidence.restarted:
            yield RunCause("restart", self._restart_why())
        if evidence.replicas:
            yield RunCause("replicas", "the counters are not those of one server: this URL has several servers")
        resets = [place for place, restarted in evidence.cleared if not restarted]
        if resets and trace is not None:
            yield RunCause("reset", f"KV events: the cache was cleared {self._where(resets[0])}")
        if evidence.gaps:
            yield RunCause("gap", f"KV events are missing: {evidence.gaps[0]}")

    def _overtaken(self) -> tuple[int, int] | None:
        """Return a request that was admitted before one that was sent first, and that one; None where there is none."""
        for sent, admitted in zip(self.evidence.sent, self.evidence.admitted, strict=True):
            if sent.number != admitted.number:
                return admitted.number, sent.number
        return None

    def _restart_why(self) -> str:
        places = [place for place, restarted in self.evidence.cleared if restarted]
        if places:
            return f"KV events restart {self._where(places[0])}"
        return "the counters restarted between the two scrapes (`_created` moved, or one fell)"

    def _where(self, place: int) -> str:
        admitted = self.evidence.admitted
        return f"before #{admitted[place].number}" if place < len(admitted) else "after the last request"

    def _again(self) -> TwinRun:
        return self.twin.run(self._asks, cleared=self._cleared)

    @staticmethod
    def _equal(run: TwinRun, cases: Sequence[_Case]) -> Iterator[_Case]:
        for case in cases:
            if case.reported is not None and run.cached.get(case.exchange.number) == case.reported:
                yield case

    def _substitute(self, case: _Case) -> int | None:
        """Return what events or counters say in the place of a usage that says nothing."""
        trace = self.evidence.observed.trace
        asks = self.asked.asks[case.exchange.number]
        if trace is not None and len(asks) == 1:
            size = self.twin.config.block_size
            found = trace.hits_of(case.exchange.session_id, len(asks[0].prompt), size)
            if found is not None:
                return found
        silent = [each for each in self._disagreeing() if each.reported is None]
        left = self.evidence.hits_left()
        left = None if left is None else left - self.base.unreported
        if left is None or self.evidence.traffic is not None or any(each.predicted is None for each in silent):
            return None
        agree = left == sum(each.predicted or 0 for each in silent)
        return case.predicted if agree else left if len(silent) == 1 and left >= 0 else None

    def _not_reported(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        for case in cases:
            if case.reported is None:
                known = self._substitute(case)
                instead = "" if known is None else f"; KV events or /metrics say {known:,}"
                yield case, "not reported", f"no `cached_tokens` in its usage{instead}: {_SWITCH}"

    def _other_tokens(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        others = self.evidence.other_tokens
        for case in cases:
            if (other := others.get(case.exchange.number)) is not None:
                yield case, "other tokens", other.why
        corrected = {number: other.ask for number, other in others.items() if other.ask is not None}
        if not corrected:
            yield from self._more_than_could_be(cases)
            return
        self._asks = [corrected.get(ask.number) or ask for ask in self._asks]
        first = next(iter(corrected))
        for case in self._equal(self._again(), cases):
            yield (
                case,
                "other tokens",
                f"equal with the server's tokens of other prompts, first #{first}",
            )

    def _more_than_could_be(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        """Yield a cache that began empty and was ours alone holds no more of a prompt than ours left: else it is another prompt."""
        trace, evidence = self.evidence.observed.trace, self.evidence
        if trace is None or not trace.began_empty or evidence.traffic is not None or evidence.gaps:
            return
        most = self._most()
        for case in cases:
            if case.reported is not None and case.reported > most.get(case.exchange.number, 0):
                why = f"as rendered here, at most {most.get(case.exchange.number, 0):,} of its tokens were in the cache"
                yield case, "other tokens", why

    def _warm_start(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        trace = self.evidence.observed.trace
        if self.evidence.traffic is not None or (trace is not None and trace.began_empty):
            return
        most = self._most()
        beyond = [case for case in cases if (case.reported or 0) > most.get(case.exchange.number, 0)]
        if not beyond:
            return
        why = "more than all earlier requests can explain: the cache was not empty; start with an empty one: --salt"
        for case in cases:
            if case.reported is not None and case.reported > (case.predicted or 0):
                yield case, "warm start", why

    def _most(self) -> dict[int, int]:
        """Return what each request could hit of ours at most: as if nothing was ever evicted, and all others came before it."""
        alone = self.twin.unlimited().alone()
        if self.twin.at_once == 1 and self._overtaken() is None:
            return alone.run(self._asks).cached
        twice = alone.run([*self._asks, *(replace(ask, number=-2 - ask.number) for ask in self._asks)])
        return {-2 - number: cached for number, cached in twice.cached.items() if number < -1}

    def _other_traffic(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        traffic = self.evidence.traffic
        if traffic is None:
            return
        if not self.evidence.foreign:
            for case in cases:
                yield case, "other traffic", traffic
            return
        asks = self._asks if self.twin.at_once > 1 else list(self._asks)
        for place, ask in reversed(self.evidence.foreign):
            asks.insert(place, ask)
        self._asks = asks
        for case in self._equal(self._again(), cases):
            yield case, "other traffic", f"equal with prompts of other clients in between ({traffic})"

    def _answer(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        answers = self.evidence.answers
        if not answers:
            return
        self._asks = [replace(ask, output=answers.get(ask.number, ask.output)) for ask in self._asks]
        for case in self._equal(self._again(), cases):
            yield case, "answer", "equal with the sampled tokens of the answers (KV events)"

    def _order(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        evidence = self.evidence
        other = evidence.admitted if self.twin.at_once == 1 else evidence.sent
        if [ask.number for ask in other] == [ask.number for ask in evidence.base]:
            return
        corrected = {ask.number: ask for ask in self._asks if ask.number >= 0}
        ordered = [corrected.get(ask.number, ask) for ask in other] if len(corrected) == len(other) else list(other)
        run = self.twin.run(ordered, cleared=self._cleared)
        for case in self._equal(run, cases):
            yield case, "order", self._order_why(case)
        if self.twin.at_once == 1:
            self._asks = ordered

    def _order_why(self, case: _Case) -> str:
        number = case.exchange.number
        sent = [ask.number for ask in self.evidence.sent]
        admitted = [ask.number for ask in self.evidence.admitted]
        before = set(admitted[: admitted.index(number)])
        overtaken = [one for one in sent[: sent.index(number)] if one not in before]
        overtaking = [one for one in admitted[: admitted.index(number)] if one not in set(sent[: sent.index(number)])]
        if self.twin.at_once > 1:
            return "equal in the order of sending: the events do not show its admission"
        if overtaken:
            return f"admitted before #{overtaken[0]}, which was sent first (KV events)"
        if overtaking:
            return f"admitted after #{overtaking[0]}, which was sent later (KV events)"
        return "equal in the order of admission from KV events"

    def _cleared_cache(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        evidence = self.evidence
        for place, restarted in sorted(evidence.cleared):
            self._cleared.add(place)
            cause: ReplayCause = "restart" if restarted else "reset"
            for case in self._equal(self._again(), cases):
                yield case, cause, f"equal with an empty cache {self._where(place)}"
        if evidence.restarted and not any(restarted for _, restarted in evidence.cleared):
            first = cases[0].exchange.number
            place = next(at for at, ask in enumerate(self._asks) if ask.number == first)
            run = self.twin.run(self._asks, cleared={*self._cleared, place})
            for case in self._equal(run, cases):
                yield case, "restart", f"equal with an empty cache before #{first}"

    def _several_servers(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        if self.evidence.replicas:
            most = self._most()
            for case in cases:
                if (case.reported or 0) <= most.get(case.exchange.number, 0):
                    yield case, "replicas", "several servers at this URL, each with its own cache"

    def _not_known(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        failed = self.evidence.observed.failed
        if not failed:
            return
        for case in cases:
            earlier = [each for each in failed if (each.sent or 0.0) <= (case.exchange.sent or 0.0)]
            if earlier:
                yield (
                    case,
                    "not known",
                    f"#{earlier[0].number} before it had no answer, so its cached tokens are unknown",
                )

    def _drafts(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        """Yield what depends on accepted drafts: only on a server that uses them, and for what could be in the cache."""
        plan = self.twin.config.plan
        if plan is None or not plan.num_spec_tokens:
            return
        most = self._most()
        for case in cases:
            if case.reported is not None and case.reported <= most.get(case.exchange.number, 0):
                yield case, "steps", "the server accepts drafts, kvtool rejects all: blocks fill in other steps"

    def _steps(self, cases: Sequence[_Case]) -> Iterator[tuple[_Case, ReplayCause, str]]:
        """Yield the causes of steps: only where requests run together, and for what some order of ours could leave in the cache."""
        if self.twin.at_once == 1:
            return
        most = self._most()
        known = "the engine hits others in that of the KV events" if self._ordered else "no KV events show it"
        for case in cases:
            if case.reported is not None and case.reported <= most.get(case.exchange.number, 0):
                yield case, "steps", f"{self.twin.at_once} at once: their order decides which tokens hit; {known}"
