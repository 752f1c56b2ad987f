"""Measured TPOT: requests of the workload that decode together on this machine, flat and with prefix-aware attention."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import median

import numpy as np

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import extend_hashes
from kvtool.engine.clock import WallClock
from kvtool.engine.config import DecodeMode, EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.request import Request
from kvtool.errors import MessageRefusedError
from kvtool.results.run_times import MeasuredTpot
from kvtool.workload.drive import NO_ANSWER, first_turns, side_by_side
from kvtool.workload.jobs import JobMaker
from kvtool.workload.turn import Source

_MOST_STEPS = 64  # of each way, at most
_LEAST_STEPS = 8
"""Of which there is a median to speak of."""
_STEP_SECONDS = 0.5  # that one step of a prefill may take
_LEAST_CHUNK = 256
"""Tokens of a step of the prefill: as many as take about so long, but not fewer. The deadline is looked at between steps."""
_WARM_UP_STEPS = 3
"""Not timed: in the first ones kernels are compiled and graphs recorded."""


@dataclass(slots=True)
class MeasuredDecode:
    """Seconds of each decode step of the same requests; a step gives each of them a token."""

    requests: int
    tokens: float
    """Of the context of a request when the first step was timed."""
    flat: array[float] = field(default_factory=lambda: array("d"))
    sharing: array[float] = field(default_factory=lambda: array("d"))
    """With prefix-aware attention; empty where that was not measured."""

    @property
    def flat_seconds(self) -> float | None:
        """Return the median; None of too few steps."""
        return median(self.flat) if len(self.flat) >= _LEAST_STEPS else None

    @property
    def sharing_seconds(self) -> float | None:
        return median(self.sharing) if len(self.sharing) >= _LEAST_STEPS else None

    def tpot(self) -> MeasuredTpot | None:
        """Return the time per token; None where the steps of one of the ways that were begun are too few."""
        flat, sharing = self.flat_seconds, self.sharing_seconds
        if flat is None or (self.sharing and sharing is None):
            return None
        return MeasuredTpot(
            requests=self.requests,
            tokens_mean=self.tokens,
            steps=len(self.flat),
            flat=flat,
            prefix_aware=sharing,
        )


class DecodeMeasurement:
    """Prefills requests together, once for each way to attend, and then times their steps in turn until `deadline`."""

    def __init__(
        self,
        model: Decoder,
        config: EngineConfig,
        *,
        kv_cache_dtype: str,
        modes: Sequence[DecodeMode],
        most_blocks: Callable[[int], int],
        rate: float,
        deadline: float,
    ) -> None:
        """`most_blocks` says how many blocks each of so many caches may have, `rate` how many tokens a second are prefilled."""
        self._model = model
        chunk = max(int(_STEP_SECONDS * rate), _LEAST_CHUNK)
        chunk = min(config.max_num_batched_tokens, chunk)
        self._config = replace(config, async_scheduling=False, max_num_batched_tokens=chunk)
        self._kv_cache_dtype = kv_cache_dtype
        self._modes = modes
        self._most_blocks = most_blocks(len(modes))
        self._rate = rate
        self._deadline = deadline
        self._engines: list[Engine] = []

    def begin(self, prompts: Sequence[Request]) -> MeasuredDecode | None:
        """Prefill as many of the prompts as time and memory allow; None where these are not even two."""
        chosen = self._that_fit(prompts)
        if len(chosen) < 2:
            return None
        room = self._room(chosen)
        blocks = 1 + sum(new for _, new in self._needs(chosen, room))
        self._engines = [self._prefilled(mode, chosen, room, blocks) for mode in self._modes]
        if time.monotonic() > self._deadline:
            return None
        running = self._engines[0].scheduler.running
        return MeasuredDecode(len(running), sum(request.num_tokens for request in running) / len(running))

    def steps(self, result: MeasuredDecode) -> Iterator[None]:
        """Yield times a step of each way at a time, in turn first and second: a drift of the machine's speed favours neither."""
        ways = [(engine, self._times(result, mode)) for engine, mode in zip(self._engines, self._modes, strict=True)]
        longest = 0.0
        for number in range(_WARM_UP_STEPS + _MOST_STEPS):
            began = time.monotonic()
            if began + longest > self._deadline:
                return
            for engine, times in ways if number % 2 else reversed(ways):
                before = time.perf_counter()
                engine.step()
                if number >= _WARM_UP_STEPS:
                    times.append(time.perf_counter() - before)
            longest = max(longest, time.monotonic() - began)
            yield

    @staticmethod
    def _times(result: MeasuredDecode, mode: DecodeMode) -> array[float]:
        return result.flat if mode == "flat" else result.sharing

    def _that_fit(self, prompts: Sequence[Request]) -> list[Request]:
        """Return the first prompts whose prefill takes half of the time that is left at most, and that fit the memory."""
        seconds = (self._deadline - time.monotonic()) / 2 / len(self._modes)
        tokens, blocks = seconds * self._rate, self._most_blocks - 1
        chosen: list[Request] = []
        for prompt, (new_tokens, new_blocks) in zip(prompts, self._needs(prompts, self._room(prompts)), strict=True):
            tokens -= new_tokens
            blocks -= new_blocks
            if tokens < 0 or blocks < 0:
                break
            chosen.append(prompt)
        return chosen

    def _needs(self, prompts: Sequence[Request], room: int) -> Iterator[tuple[int, int]]:
        """Return for each prompt the tokens and blocks, with `room` for output, that it does not share with those before it."""
        block_size = self._config.block_size
        seen: set[BlockHash] = set()
        for prompt in prompts:
            hits = 0
            if self._config.enable_prefix_caching:
                extend_hashes(prompt, block_size)
                usable = prompt.block_hashes[: (prompt.num_prompt_tokens - 1) // block_size]
                hits = next((at for at, known in enumerate(usable) if known not in seen), len(usable))
                seen.update(prompt.block_hashes)
            blocks = -(-(prompt.num_prompt_tokens + room) // block_size)
            yield prompt.num_prompt_tokens - hits * block_size, blocks - hits

    def _room(self, prompts: Sequence[Request]) -> int:
        """Return the most output tokens: those who were prefilled first decode while the others are prefilled."""
        prefill = sum(request.num_prompt_tokens for request in prompts) // self._config.max_num_batched_tokens
        return _WARM_UP_STEPS + _MOST_STEPS + 2 * prefill + len(prompts) + 2

    def _prefilled(self, mode: DecodeMode, prompts: Sequence[Request], room: int, blocks: int) -> Engine:
        """Return an engine in which all requests have their first token, and go on."""
        config = replace(
            self._config,
            num_blocks=blocks,
            max_num_seqs=max(self._config.max_num_seqs, len(prompts)),
            max_num_batched_tokens=max(
                self._config.max_num_batched_tokens, 4 * len(prompts)
            ),  # room beside those who decode
            max_model_len=1 << 31,
            enable_chunked_prefill=True,
        )
        runner = ModelRunner(
            self._model,
            config.block_size,
            blocks,
            kv_cache_dtype=self._kv_cache_dtype,
            decode_attention=mode,
        )
        runner.kv.reserve(blocks)
        engine = Engine(config, runner, WallClock())
        requests = [
            Request(
                prompt.id,
                prompt.num_prompt_tokens,
                prompt_ids=prompt.prompt_ids,
                max_tokens=room,
                cache_salt=prompt.cache_salt,
            )
            for prompt in prompts
        ]
        for request in requests:
            engine.add(request)
        while any(request.first_token_at is None for request in requests) and time.monotonic() <= self._deadline:
            engine.step()
        return engine


def decode_modes(mode: DecodeMode, *, shares: bool) -> tuple[DecodeMode, ...]:
    """Return the modes to measure: prefix-aware attention where it may be used, by default (`shares`) or because it is asked
    for."""
    return ("flat",) if mode == "flat" or (mode == "auto" and not shares) else ("flat", "prefix-aware")


def prompts_together(
    source: Source,
    maker: JobMaker,
    *,
    batch: int,
    limit: int | None,
    vocabulary: int,
    fits: Callable[[Request], bool],
    deadline: float,
) -> list[Request]:
    """Return the prompt of one turn that fits, drawn at random, of each of the first conversations; fewer where time runs out."""
    random = Random(maker.seed)  # noqa: S311 - a sample, not a secret
    found: list[Request] = []
    sessions: set[tuple[str, str]] = set()
    for conversation in first_turns(side_by_side(source.conversations()), limit):
        drawn: Request | None = None
        turns = 0
        turn = conversation.next_turn(None)
        if turn is not None and turn.session is not None:
            if (turn.group, turn.session) in sessions:
                continue  # another record of a conversation that is here already
            sessions.add((turn.group, turn.session))
        while turn is not None and time.monotonic() <= deadline:
            try:
                job = maker.make(turn)
            except MessageRefusedError:
                turn = conversation.next_turn(NO_ANSWER)
                continue
            turns += fits(job.request)
            if fits(job.request) and not random.randrange(turns):
                drawn = job.request
            job.request.outputs = list(job.request.output_ids or [])
            turn = conversation.next_turn(job.output())
        if drawn is not None and drawn.prompt_ids is not None:
            drawn.prompt_ids = np.mod(drawn.prompt_ids, vocabulary)
            found.append(drawn)
        if len(found) == batch or time.monotonic() > deadline:
            break
    return found
