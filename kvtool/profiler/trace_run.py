"""Requests of a trace that are like most of them: through the cache by their numbers, and into the books many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.accounting.decode_traffic import ConversationWindows
from kvtool.accounting.ledger.traced_batch import TracedBatch
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.server import ServeChain
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.engine.impossible_requests import most_tokens
from kvtool.engine.prediction.latency import PrefillTimes
from kvtool.workload.call import NO_CALL
from kvtool.workload.kept_requests import KeptTrace
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.profiler.passes import PassResult

_TOGETHER = 1 << 12
_MOST_BLOCKS = 1 << 20
"""Requests that go into the books together, and known blocks of theirs."""
_MOST_GROUPS = 64
"""Groups of which requests may go together: more would make small batches of each."""


class TraceRun:
    """Stands for `begin`, `execute` and `end` of a pass; results are the same. What is taken is in the books after `flush`.

    It is for passes by numbers that serve one request at a time, and want no more of a request than what groups sum.
    """

    def __init__(
        self,
        plan: Plan,
        numbers: TraceNumbers,
        serve: ServeChain,
        result: PassResult,
        prefill: PrefillTimes,
        *,
        follows_engine: bool,
        windows: ConversationWindows | None,
        keep: KeptTrace | None,
        only_hits: bool,
        first_look: bool,
        timed: bool,
    ) -> None:
        self._plan = plan
        self._numbers = numbers
        self._serve = serve
        self._result = result
        self._prefill = prefill
        self._windows = windows
        self._keep = keep
        self._only_hits = only_hits
        self._first_look = first_look
        self._timed = timed
        engine = plan.engine
        self._size = engine.block_size
        self._longest = engine.max_model_len
        self._follows_engine = follows_engine
        self._most_tokens = most_tokens(engine)
        self._batch = TracedBatch(self._size)

    def take(self, turn: Turn) -> bool:
        """Serve a request; False for one that is to be looked at: it has more to it, or does not fit."""
        hashed = turn.hashed
        if (
            hashed is None
            or hashed.answer
            or hashed.block_size != self._size
            or turn.call is not NO_CALL
            or turn.session is not None
            or turn.index
        ):
            return False
        tokens, answer = hashed.num_tokens, max(turn.output_tokens or 1, 1)
        if self._follows_engine and not self._fits(tokens, answer):
            return False
        batch = self._batch
        group = batch.number(turn.group)
        if group >= _MOST_GROUPS:
            return False
        chain = hashed.chain
        if chain is None:
            chain = self._numbers.number(hashed.hash_ids, turn.salt)
        if self._keep is not None:
            self._keep.add(turn, chain)
        hit, outputs = self._serve(chain, tokens, answer)
        batch.add(group, tokens, chain, hit, outputs)
        if self._windows is not None:
            self._windows.add_numbered(tokens, chain.numbers)
        if len(batch) >= _TOGETHER or len(batch.again) >= _MOST_BLOCKS:
            self.flush()
        return True

    def _fits(self, tokens: int, answer: int) -> bool:
        """Whether `check_fits` would let it pass."""
        return 0 < tokens < self._longest and min(tokens + answer - 1, self._longest) <= self._most_tokens

    def flush(self) -> None:
        """Enter in the books what was served since the last time."""
        batch, result, plan = self._batch, self._result, self._plan
        if not len(batch):
            return
        rows, ledger = batch.rows(), result.ledger
        if self._follows_engine and plan.engine.enable_prefix_caching:
            result.queries += int(rows.tokens.sum())
            result.hit_queries += int(rows.hit.sum())
        if self._only_hits:
            for name, part in batch.of_groups(rows):
                ledger.group(name).add_all(part.tokens, part.hit)
        else:
            ledger.enter_traced(batch, evicts=plan.engine.num_blocks is not None)
            result.generation_tokens += int(rows.outputs.sum())
            for name, part in batch.of_groups(rows) if self._first_look else ():
                result.boundaries.add_all(name, part.tokens, part.own, unit=batch.unit)
        if self._timed:
            self._add_times()
        batch.clear()

    def _add_times(self) -> None:
        """What each would wait for its first token: at least its last one is computed."""
        batch, result, seconds = self._batch, self._result, self._prefill.seconds
        rows = batch.rows()
        for number, tokens, cached in zip(rows.group.tolist(), rows.tokens.tolist(), rows.hit.tolist(), strict=True):
            off = seconds(tokens, 0)
            hit = min(cached, tokens - 1)
            result.add_ttft(batch.groups[number], seconds(tokens, hit) if hit else off, tokens - cached)
            result.ttft_off.append(off)
