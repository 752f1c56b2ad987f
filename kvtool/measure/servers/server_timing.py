"""Times a server's first tokens, alone: refuses where anybody else sends."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kvtool.engine.model.configs.geometry import Geometry
from kvtool.errors import KvtoolError
from kvtool.measure.bench.calibration_file import Calibration
from kvtool.measure.servers.http_exchange import BackgroundLoop, ServerConnection, ServerError
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.counted_between import counted_between
from kvtool.measure.servers.metrics.counters import looking
from kvtool.measure.servers.request_body import COMPLETIONS, SentAs, ToSend
from kvtool.measure.servers.sender import Sender
from kvtool.measure.servers.server_address import ServerAddress, server_address
from kvtool.measure.servers.server_facts import ask_server
from kvtool.measure.servers.server_fit import (
    TimedPrefill,
    fitted_line,
    fitted_seconds,
    line_misses,
    server_calibration,
)
from kvtool.results.documents.bench import Misses
from kvtool.results.documents.server_bench import ServerBench, TimedPrompt

if TYPE_CHECKING:
    from types import TracebackType


_LENGTHS = (0.1, 0.25, 0.5, 0.75, 1.0)  # of the longest prompt
_RATIOS = (0.1, 0.3, 0.5, 0.7, 0.9)  # of a prompt that is in the cache
_REPEATS = 5  # of each case: a median of five
HELD_OUT = (2, 7)
"""Of the cases, the middle ones of both kinds: the calibration's constants are not fitted to them."""
_FIRST_ID, _LAST_ID = 100, 250
"""Tokens that every vocabulary has, one of bytes, too; what they say does not matter."""
TIMEOUT = 60.0
"""Seconds for an answer as a whole."""
_ALONE = "measure again when the server has no other traffic"
_ROOM = 8
"""Tokens that a prompt leaves of the longest one."""
_STEP = 2048
"""Tokens of a step, where the server does not say: vLLM's default, or less than it."""
_SHORTEST = 64  # tokens of the shortest prompt


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """Token ids, how many of them the prompt before it begins with, too, and its case; None: it only fills the cache."""

    tokens: Sequence[int]
    shared: int
    case: int | None


def bench_prompts(longest: int, seed: int) -> list[BenchPrompt]:
    """Return prompts in an order in which nothing that grows with time falls together with a length.

    Before each warm prompt stands one that has its beginning, so that nothing evicts it.
    """
    rng = random.Random(seed)  # noqa: S311 - prompts that are the same in each run, nothing secret

    def some(count: int) -> list[int]:
        return [rng.randrange(_FIRST_ID, _LAST_ID) for _ in range(count)]

    found: list[list[BenchPrompt]] = []
    for _ in range(_REPEATS):
        found += [[BenchPrompt(some(int(longest * part)), 0, case)] for case, part in enumerate(_LENGTHS)]
        for case, ratio in enumerate(_RATIOS, start=len(_LENGTHS)):
            first = some(longest)
            shared = int(longest * ratio)
            found.append(
                [BenchPrompt(first, 0, None), BenchPrompt([*first[:shared], *some(longest - shared)], shared, case)]
            )
    rng.shuffle(found)
    warm_up = BenchPrompt(some(longest), 0, None)
    return [warm_up, *(prompt for pair in found for prompt in pair)]


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Seconds from the request to its first token, and what the server says of its prompt; None: it does not."""

    seconds: float
    prompt_tokens: int | None
    cached_tokens: int | None


class FirstTokenTimer:
    """Prompts to one server over one connection, while the block lasts; nothing is sent twice, nor to another place."""

    def __init__(self, address: ServerAddress, model: str, *, timeout: float = TIMEOUT) -> None:
        self.address = address
        self._model = model
        self._timeout = timeout
        self._number = 0

    def __enter__(self) -> Self:
        self._loop = BackgroundLoop()
        how = SentAs(self._model, token_ids=False)
        self._sender = Sender(self.address, how, timeout=self._timeout, at_once=1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.run(self._sender.__aexit__(kind, error, trace))
        finally:
            self._loop.close()

    def first_token(self, tokens: Sequence[int]) -> FirstToken:
        """Time the first token. ServerError where there is none; the prompt is sent once, whatever comes of it."""
        body = {"model": self._model, "prompt": list(tokens), "max_tokens": 1, "temperature": 0}
        return self._loop.run(self._timed(ToSend(COMPLETIONS, body)))

    async def _timed(self, request: ToSend) -> FirstToken:
        await self._sender.connect()  # the connection is there before the clock runs
        number, self._number = self._number, self._number + 1
        answer, _ = await self._sender.send(number, f"kvtool-bench-{number}", request)
        url = self.address.url(request.endpoint)
        if not answer.answered:
            raise ServerError(url, f"returned no token: {answer.trouble}", status=answer.status)
        if answer.first is None or answer.sent is None:
            raise ServerError(url, "streamed no token")
        usage = answer.usage
        return FirstToken(
            answer.first - answer.sent,
            None if usage is None else usage.prompt,
            None if usage is None else usage.cached,
        )


@dataclass(frozen=True, slots=True)
class WantedCalibration:
    """The sizes of the server's model, and its types, as options name them."""

    geometry: Geometry
    dtype: str
    kv_cache_dtype: str


class ServerBenchRun:
    """A server, and the prompts for it; while the block lasts it can be timed."""

    def __init__(self, url: str, *, longest: int | None, seed: int = 0) -> None:
        """Ask the server for its configuration. Raise KvtoolError where it says too little."""
        self.address = server_address(url)
        with ServerConnection(self.address) as connection:
            self._facts = ask_server(connection)
        model = self._facts.model
        if model is None:
            raise KvtoolError(f"{self.address.root} does not report a model name")
        self._model = model
        self.prompts = bench_prompts(self._longest(longest), seed)
        self.tokens = sum(len(prompt.tokens) for prompt in self.prompts)
        """Of all prompts."""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._look = self._stack.enter_context(looking(self.address.root, what="kvtool bench --server"))
        self._timer = self._stack.enter_context(FirstTokenTimer(self.address, self._model))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def model_path(self) -> str | None:
        """Return the path of the server's model, if it can be found from here."""
        found = self._facts.value("tokenizer")
        return found if isinstance(found, str) else None

    def timed(
        self, wanted: WantedCalibration | None, advance: Callable[[int], None]
    ) -> tuple[ServerBench, Calibration | None]:
        """Send all prompts and fit; the calibration where one is wanted. KvtoolError where the server was not alone."""
        points = self._points(advance)
        line = fitted_line(points)
        calibration = held_out = None
        if wanted is not None:
            calibration = server_calibration(
                points,
                wanted.geometry,
                server=f"{self._facts.scrape.of.server if self._facts.scrape else 'server'} {self._facts.version or ''}".strip(),
                dtype=wanted.dtype if wanted.dtype != "auto" else "bfloat16",
                kv_cache_dtype=wanted.kv_cache_dtype,
                block_size=self._block_size,
            )
            found = calibration.residuals(held_out=True)
            held_out = Misses(median=found.median, worst=found.worst)
        document = ServerBench(
            schema="kvtool.server-bench/1",
            source=self.address.root,
            version=self._facts.version,
            model=self._model,
            requests=len(self.prompts),
            tokens=self.tokens,
            points=[
                TimedPrompt(
                    prompt_tokens=point.cached + point.computed,
                    cached_tokens=point.cached,
                    seconds=point.seconds,
                    fastest_s=min(point.runs),
                    slowest_s=max(point.runs),
                    fitted_s=fitted_seconds(line, point),
                )
                for point in points
            ],
            fitted=line,
            fit=line_misses(points, held_out=False),
            held_out=line_misses(points, held_out=True),
            calibration_held_out=held_out,
        )
        return document, calibration

    @property
    def _block_size(self) -> int:
        found = self._facts.value("block_size")
        return found if isinstance(found, int) else 16

    def _longest(self, asked: int | None) -> int:
        """Return the longest prompt in tokens: so that each is one step."""
        length, step = self._facts.value("max_model_len"), self._facts.value("max_num_batched_tokens")
        most = step if isinstance(step, int) else _STEP
        if isinstance(length, int):
            most = min(most, length - _ROOM)
        longest = most if asked is None else min(asked, most)
        if longest < _SHORTEST:
            raise KvtoolError(f"prompts of {longest} tokens are too short to measure the time per token")
        return longest

    def _points(self, advance: Callable[[int], None]) -> list[TimedPrefill]:
        """Return each prompt alone, in order."""
        before = self._look()
        if busy := (before.gauge(names.RUNNING) or 0) + (before.gauge(names.WAITING) or 0):
            raise KvtoolError(f"the server has {busy:g} other requests", hint=_ALONE)
        runs: dict[int, list[float]] = {}
        cached_tokens: dict[int, list[int]] = {}
        lengths: dict[int, int] = {}
        for prompt in self.prompts:
            answer = self._timer.first_token(prompt.tokens)
            advance(1)
            if prompt.case is None:
                continue
            cached = answer.cached_tokens
            if cached is None:  # it does not say: whole blocks of what the prompt before had, too
                cached = prompt.shared // self._block_size * self._block_size
            lengths[prompt.case] = count = answer.prompt_tokens or len(prompt.tokens)
            cached_tokens.setdefault(prompt.case, []).append(min(cached, count - 1))
            runs.setdefault(prompt.case, []).append(answer.seconds)
        counted = counted_between(before, self._look())
        done = counted.get(names.REQUESTS)
        if counted.broken is not None or (done is not None and done > len(self.prompts)):
            raise KvtoolError("the server had other requests meanwhile, or restarted", hint=_ALONE)
        return [
            TimedPrefill(
                cached=(cached := statistics.median_low(cached_tokens[case])),
                computed=lengths[case] - cached,
                seconds=statistics.quantiles(times, n=4, method="inclusive")[0],
                runs=tuple(times),
                held_out=case in HELD_OUT,
            )
            for case, times in sorted(runs.items())
        ]
