"""Write the ledger of a run: the fate of each token, causes alone, or hits alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kvtool.accounting.ledger.ledger import Ledger, LedgerEntry
from kvtool.accounting.ledger.traced_batch import TracedBatch
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.server import Rungs, ServedRequest, ServerTraits
from kvtool.diagnose.causes.cause_book import CauseBook
from kvtool.profiler.run.cause_sample import CauseSample
from kvtool.profiler.run.run_books import Hits, hits_key
from kvtool.results.choices import TokensBy
from kvtool.workload.jobs import Job, JobMaker, TokensTurn
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.views.collector import ViewBook
    from kvtool.profiler.run.compared_ahead import ComparedAhead


class LedgerWriter(Protocol):
    """Write the ledger of a run."""

    ledger: Ledger
    causes: CauseBook
    takes_batches: bool
    """False where each request of a trace is needed by itself."""

    def begin(self, job: Job) -> LedgerEntry | None:
        """Enter a request that will run; None where it gets no entry."""
        ...

    def end(self, job: Job, entry: LedgerEntry | None, served: ServedRequest, /) -> None:
        """Enter the result of a request."""
        ...

    def add_batch(self, batch: TracedBatch) -> None:
        """Enter many requests of a trace that are done."""
        ...

    def close(self) -> None:
        """Finish the sums when all requests are entered."""
        ...


def new_ledger(
    plan: Plan,
    maker: JobMaker,
    traits: ServerTraits,
    *,
    find_gaps: bool,
    fates: bool,
    by: TokensBy | None = None,
    watcher: ViewBook | None = None,
) -> Ledger:
    """Make the ledger of a run; see `Ledger`."""
    kept_for: Callable[[Turn], float | None] | None = None
    if traits.hosted:
        from kvtool.accounting.caches.dated_rules import life_of as kept_for
    return Ledger(
        plan.base_block,
        newline=lambda: maker.renderer.tokenizer.newline_mask,
        caching=plan.engine.enable_prefix_caching,
        whole_prompt_may_hit=traits.whole_prompt_may_hit,
        find_gaps=find_gaps,
        by=by,
        watcher=watcher,
        fates=fates,
        salted=traits.salted,
        moves=traits.moves,
        kept_for=kept_for,
    )


class HitWriter:
    """Write the hits of each group, and no fate of any token."""

    takes_batches = True

    def __init__(self, plan: Plan, maker: JobMaker, traits: ServerTraits) -> None:
        self.ledger = new_ledger(plan, maker, traits, find_gaps=False, fates=True)
        self.causes = new_causes(plan, maker)

    def begin(self, job: Job) -> None:
        """Enter a request that will run."""
        self.ledger.group(job.turn.group)

    def end(self, job: Job, _entry: LedgerEntry | None, served: ServedRequest) -> None:
        """Enter the result of a request."""
        self.ledger.count(job.turn.group, job.request.num_prompt_tokens, served.hit)

    def add_batch(self, batch: TracedBatch) -> None:
        """Enter many requests of a trace that are done."""
        for name, part in batch.of_groups(batch.rows()):
            self.ledger.group(name).add_all(part.tokens, part.hit)

    def close(self) -> None:
        """Finish nothing: the sums are complete."""


class CauseWriter:
    """Write the hits of each group and the causes of losses, and no fate of any token."""

    takes_batches = False

    def __init__(
        self, plan: Plan, maker: JobMaker, traits: ServerTraits, ledger: Ledger, *, looks: CauseSample
    ) -> None:
        """Create the writer. `looks` limits the search for causes to a part of the requests; their tokens then represent their
        whole group."""
        self.ledger = ledger
        self.causes = new_causes(plan, maker)
        self.ahead: ComparedAhead | None = None
        """Comparisons by the process that reads the requests."""
        self._plan = plan
        self._maker = maker
        self._traits = traits
        self._looks = looks

    def begin(self, job: Job) -> LedgerEntry | None:
        """Enter a request that will run, and find its causes."""
        compare, turn = self._is_compared(job), job.turn
        entry = self.ledger.submit(
            turn,
            job.ids,
            job.ids[:0] if self._traits.whole_prompt_may_hit else job.computed_output(),  # that rule keeps prompts only
            prompt=job.prompt,
            unit=job.unit if job.is_trace else None,
            num_tokens=job.request.num_prompt_tokens,
            compare=compare,
            chain=job.chain,
            scope=hosted_scope(turn) if self._traits.hosted else None,
            reads=not (self._plan.by_vllm and job.request.skip_reading_cache),
        )
        if entry.alignment is not None and job.prompt is not None:
            self.ledger.explain(entry, self.causes.add(job.turn, job.prompt, entry.alignment))
        return entry

    def _is_compared(self, job: Job) -> bool:
        """Return whether a request's causes are searched: it then gets its texts, and its comparison if that was made ahead."""
        if self.ahead is not None:
            self.ahead.comes(job.turn)
        chosen = not job.is_trace and self._looks.take(job.turn.group, job.request.num_prompt_tokens)
        if chosen and self.ledger.find_gaps and isinstance(job.turn, TokensTurn):
            job.turn = job.turn.whole()
            job.prompt = self._maker.prepare(job.turn).prompt
        return chosen

    def end(self, job: Job, _entry: LedgerEntry | None, served: ServedRequest) -> None:
        """Enter the result of a request."""
        self.ledger.count(job.turn.group, job.request.num_prompt_tokens, served.hit)

    def add_batch(self, batch: TracedBatch) -> None:
        """Raise an error: each request is needed separately."""
        raise AssertionError(batch)

    def close(self) -> None:
        """Extend the causes to whole groups."""
        for group, weight in self._looks.weights():
            self.causes.scale(group, weight)


class FateWriter(CauseWriter):
    """Write the fate of each token, and the causes of losses."""

    def __init__(
        self,
        plan: Plan,
        maker: JobMaker,
        traits: ServerTraits,
        *,
        explain: bool = True,
        by: TokensBy | None = None,
        watcher: ViewBook | None = None,
        one_in: Mapping[str, int] | None = None,
        relaxed: Sequence[tuple[str, Hits]] = (),
    ) -> None:
        """Create the writer. Without `explain` no causes are searched.

        `relaxed` are the hits of runs without a limit of the engine, each with the fate that the limit explains, in the order of
        the ladder.
        """
        ledger = new_ledger(plan, maker, traits, find_gaps=explain, fates=True, by=by, watcher=watcher)
        super().__init__(plan, maker, traits, ledger, looks=CauseSample(one_in or {}))
        self._relaxed = relaxed
        self._may_evict = plan.engine.num_blocks is not None
        self.takes_batches = by is None and not relaxed

    def end(self, job: Job, entry: LedgerEntry | None, served: ServedRequest) -> None:
        """Give each token of a request its fate."""
        assert entry is not None
        self.ledger.settle(entry, served.hit, relaxed=self._rungs(job, served))

    def _rungs(self, job: Job, served: ServedRequest) -> Rungs | None:
        """Return the hits without each limit; None if only the cache's size is known to limit hits."""
        rungs = list(served.rungs or ())
        for fate, hits in self._relaxed:
            others = hits.get(hits_key(job))
            if others:
                rungs.append((fate, others.pop(0)))
        return rungs if rungs or served.rungs is not None else None

    def add_batch(self, batch: TracedBatch) -> None:
        """Enter many requests of a trace that are done."""
        self.ledger.enter_traced(batch, evicts=self._may_evict)

    def close(self) -> None:
        """Split the tokens computed for the first time, check the sums, and extend the causes to whole groups."""
        self.ledger.close()
        super().close()


def new_causes(plan: Plan, maker: JobMaker) -> CauseBook:
    """Make the causes of a run."""
    return CauseBook(lambda ids: maker.renderer.tokenizer.decode(ids), block_size=plan.base_block)


def hosted_scope(turn: Turn) -> str | None:
    """Return the name of the provider's cache that a request can read."""
    from kvtool.accounting.caches.scopes import scope_of

    return scope_of(turn)
