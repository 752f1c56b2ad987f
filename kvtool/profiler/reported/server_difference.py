"""Explain why the user's own server read more or less than the embedded engine: one cause for each token, each of them tested.

Another size of blocks or of the cache explains the difference that vanishes in a run with that size; the rest is compared with the
log. Differences that pass no test stay unexplained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf, isnan

from kvtool.accounting.misses.read_steps import step_of_reads
from kvtool.accounting.plan import Plan
from kvtool.config.command_line import flags
from kvtool.engine.config import EngineConfig
from kvtool.profiler.reported.server_reads import ServerRead, ServerReads, hits_with
from kvtool.results.misses import Hypothesis, ServerCache
from kvtool.text.align import common_prefix
from kvtool.text.terminal.numbers import in_words, plural

_MOST_BLOCKS = 1_000_000
"""The largest cache that is tried, in blocks; bounds the search."""
_PART = 5
"""An explanation may leave at most one in so many tokens of the difference: chance leaves more."""
_EVICTED = 10
"""One in so many of the evicted tokens may still be evicted in a cache that is enough."""
_MOST_PAIRS = 1_000_000
"""Requests that are compared with earlier ones, a bound on time."""


@dataclass(slots=True)
class ServerDifference:
    """Causes with their tokens, in all, by group and by request (in the order of `ServerReads.rows`), and the results of reruns."""

    total: Counter[str] = field(default_factory=Counter)
    groups: dict[int, Counter[str]] = field(default_factory=dict)
    requests: list[dict[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    evictions: Hypothesis | None = None
    """The cache whose evictions explain reads of the `evicted` requests; None: no size does."""
    evicted: frozenset[str] = frozenset()


class _Tokens:
    """The prediction for each request, step by step from the run to the report, and the causes so far."""

    def __init__(self, rows: Sequence[ServerRead]) -> None:
        self.rows = rows
        self.now = [row.to_server_tokens(row.hit) for row in rows]
        self.causes: list[dict[str, int]] = [{} for _ in rows]

    @property
    def apart(self) -> int:
        """Tokens that no cause has yet."""
        return sum(abs(now - row.reported) for now, row in zip(self.now, self.rows, strict=True))

    def take(self, at: int, cause: str, tokens: int) -> None:
        """Give a request's next tokens a cause."""
        if tokens <= 0:
            return
        less = self.now[at] > self.rows[at].reported
        self.now[at] += -tokens if less else tokens
        self.causes[at][cause] = self.causes[at].get(cause, 0) + tokens

    def rerun(self, hits: Sequence[int], less: str, more: str) -> int:
        """Give the difference that vanishes with these hits a cause, by whether less or more was reported; return its size."""
        before = self.apart
        for at, row in enumerate(self.rows):
            now, other = self.now[at], row.to_server_tokens(hits[row.kept])
            if now > row.reported:
                self.take(at, less, now - max(min(now, other), row.reported))
            elif now < row.reported:
                self.take(at, more, min(max(now, other), row.reported) - now)
        return before - self.apart


def explained(reads: ServerReads, plan: Plan) -> ServerDifference:
    """Return the causes of the whole difference; nothing where there is none."""
    rows = list(reads.rows())
    found = ServerDifference()
    tokens = _Tokens(rows)
    if not _has_no_reads(tokens) and reads.complete and plan.one_at_a_time:
        runs = _Runs(reads, plan, tokens)
        engine = _find_sizes(runs, plan, tokens, found.notes) if tokens.apart else plan.engine
        if engine is not None and engine.num_blocks is not None:
            _find_evictions(found, runs, engine)
        if found.evictions is not None:
            found.notes.clear()  # they say the size
    if tokens.apart:
        _find_causes_in_log(reads, tokens, plan.engine.block_size)
    for row, causes in zip(rows, tokens.causes, strict=True):
        found.requests.append(causes)
        found.total.update(causes)
        found.groups.setdefault(row.group, Counter()).update(causes)
    return found


def _has_no_reads(tokens: _Tokens) -> bool:
    """Return whether no repeated request read anything: then there was no cache lookup."""
    if any(row.reported for row in tokens.rows) or sum(now > 0 for now in tokens.now) < 2:
        return False
    for at, now in enumerate(tokens.now):
        tokens.take(at, "caching_off", now)
    return True


def _find_sizes(runs: _Runs, plan: Plan, tokens: _Tokens, notes: list[str]) -> EngineConfig | None:
    """Return the cache of another size that explains most of the difference, and note it; None where none does."""
    size = _block_size(tokens.rows, plan.engine.block_size)
    tried = [plan.engine] if size is None else [plan.engine, _in_blocks(plan.engine, size)]
    ways = [[sized, runs.best_capacity(sized)] for sized in tried]
    best = min(ways, key=lambda way: runs.apart(way[-1]))
    if _PART * runs.apart(best[-1]) > tokens.apart:
        return None
    gives: list[str] = []
    if best[0] is not plan.engine:
        tokens.rerun(runs.hits(best[0]), "block_size", "block_size_more")
        gives.append(" ".join(flags(block_size=best[0].block_size)))
    if tokens.apart and best[1] != best[0]:
        tokens.rerun(runs.hits(best[1]), "evicted_there", "larger_cache")
        blocks = best[1].num_blocks
        gives.append(" ".join(flags(num_gpu_blocks=blocks)) or "an unlimited cache")
    rest = f"; {plural(tokens.apart, 'token')} apart" if tokens.apart else ", request by request"
    notes.append(f"the server read what {in_words(gives)} gives{rest}")
    return best[-1]


def _find_evictions(found: ServerDifference, runs: _Runs, engine: EngineConfig) -> None:
    """Name the requests that read what this cache gives, and less than one that evicts nothing; and a size that is enough."""
    endless = replace(engine, num_blocks=None)
    agreeing = runs.agreeing(engine)
    most, least = runs.read(endless), runs.read(engine)
    enough = runs.least_blocks(endless, most - (most - least) // _EVICTED)
    found.evicted = frozenset(
        runs.kept[row.kept].id for row in agreeing if runs.server_hits(endless, row) > row.reported
    )
    if not found.evicted or engine.num_blocks is None or enough <= engine.num_blocks:
        return
    found.evictions = Hypothesis(
        cause="evicted",
        replicas=1,
        routing=None,
        cache=ServerCache(
            block_size=engine.block_size,
            blocks=engine.num_blocks,
            enough=enough,
            hit_rate=runs.read(replace(engine, num_blocks=enough)) / max(sum(row.prompt for row in runs.rows), 1),
        ),
        explained=len(found.evicted),
        misses=len(found.evicted),
        agree=len(agreeing),
        requests=len(runs.rows),
    )


def _in_blocks(engine: EngineConfig, size: int) -> EngineConfig:
    """Return the same cache in blocks of another size."""
    blocks = engine.num_blocks
    scaled = None if blocks is None else max((blocks - 1) * engine.block_size // size, 1) + 1
    return replace(engine, block_size=size, num_blocks=scaled)


def _block_size(rows: Sequence[ServerRead], ours: int) -> int | None:
    """Return the size of blocks that all reported numbers have in common; None if that is ours or too few show it."""
    size = step_of_reads(row.reported for row in rows)
    return size if size != ours else None


class _Runs:
    """The same requests in engines of other sizes, each size once."""

    def __init__(self, reads: ServerReads, plan: Plan, tokens: _Tokens) -> None:
        self.kept = reads.kept
        self.rows = tokens.rows
        self._plan = plan
        self._reported = sum(row.reported for row in tokens.rows)
        self._hits_by_size: dict[tuple[int, int | None], list[int]] = {}

    def hits(self, engine: EngineConfig) -> list[int]:
        """Return the hits of each request."""
        key = engine.block_size, engine.num_blocks
        if key not in self._hits_by_size:
            self._hits_by_size[key] = hits_with(self.kept, engine, self._plan.latency)
        return self._hits_by_size[key]

    def apart(self, engine: EngineConfig) -> int:
        """Return the distance in tokens from the reported numbers, request by request."""
        return sum(abs(self.server_hits(engine, row) - row.reported) for row in self.rows)

    def agreeing(self, engine: EngineConfig) -> list[ServerRead]:
        """Return the requests of which this cache gives the reported read, to a block."""
        return [row for row in self.rows if abs(self.server_hits(engine, row) - row.reported) <= engine.block_size]

    def server_hits(self, engine: EngineConfig, row: ServerRead) -> int:
        """Return what a request hits, in tokens of its server."""
        return row.to_server_tokens(self.hits(engine)[row.kept])

    def read(self, engine: EngineConfig) -> int:
        """Return what all requests hit, in tokens of their server."""
        return sum(self.server_hits(engine, row) for row in self.rows)

    def least_blocks(self, engine: EngineConfig, wanted: int) -> int:
        """Return the smallest number of blocks with which so many tokens hit."""
        blocks = self._blocks(engine)
        low, high = max(blocks) + 1, min(sum(blocks) + 1, _MOST_BLOCKS)
        while low < high:
            middle = (low + high) // 2
            enough = self.read(replace(engine, num_blocks=middle)) >= wanted
            low, high = (low, middle) if enough else (middle + 1, high)
        return low

    def _blocks(self, engine: EngineConfig) -> list[int]:
        return [(len(one.prompt) + len(one.output)) // engine.block_size + 1 for one in self.kept]

    def best_capacity(self, engine: EngineConfig) -> EngineConfig:
        """Return the engine with the number of blocks whose reads are closest to the report; by default the given one."""
        tried = [engine, replace(engine, num_blocks=None)]
        if self.read(tried[1]) > self._reported:
            low = self.least_blocks(engine, self._reported)
            fits = max(self._blocks(engine))
            tried += [replace(engine, num_blocks=number) for number in (low, low - 1) if number >= fits]
        return min(tried, key=self.apart)


def _find_causes_in_log(reads: ServerReads, tokens: _Tokens, size: int) -> None:
    """Find causes of each request's rest from the log."""
    pairs = _MOST_PAIRS
    latest = list(accumulate((-inf if isnan(one.end) else one.end for one in reads.kept), max, initial=-inf))
    for at, row in enumerate(tokens.rows):
        left = tokens.now[at] - row.reported
        if left > 0:
            if row.own != row.prompt:  # tokenizers differ at the edges of a shared text, not within it
                tokens.take(at, "other_tokens", min(left, max(size, abs(row.prompt - row.own))))
            elif reads.complete and pairs > 0 and row.arrival < latest[row.kept]:
                pairs -= row.kept
                if _was_in_flight(reads, row, size):
                    tokens.take(at, "parallel", left)
            tokens.take(at, "not_explained", tokens.now[at] - row.reported)
        elif left < 0:
            _more(tokens, at, size)


def _more(tokens: _Tokens, at: int, size: int) -> None:
    """Explain why more of a request was read there."""
    row = tokens.rows[at]
    kept = min(row.to_server_tokens(row.reachable), row.reported) - tokens.now[at]
    tokens.take(at, "larger_cache", kept)
    left = row.reported - tokens.now[at]
    if row.cut or row.prompt > row.own:
        tokens.take(at, "text_not_in_the_log" if row.cut or left > size else "tokenizer", left)
    elif row.own != row.prompt:
        tokens.take(at, "tokenizer", left)
    else:
        tokens.take(at, "warm_before_the_log", row.reported - max(row.known, tokens.now[at]))
        tokens.take(at, "not_explained_more", row.reported - tokens.now[at])


def _was_in_flight(reads: ServerReads, row: ServerRead, size: int) -> bool:
    """Return whether no answered request had sent more than the tokens read, but an unanswered one had."""
    prompt, salt = reads.kept[row.kept].prompt, reads.kept[row.kept].salt
    others = [one for one in reads.kept[: row.kept] if one.salt == salt]
    finished = [one for one in others if one.end <= row.arrival]
    waiting = [one for one in others if one.end > row.arrival]
    longest = max((common_prefix(one.prompt, prompt) for one in finished), default=0)
    if longest // size * size > row.reported:
        return False
    return any(common_prefix(one.prompt, prompt) // size * size > row.reported for one in waiting)
