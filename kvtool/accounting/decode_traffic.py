"""Reads of a decode step from the KV cache, exact from the engine's own plan: each context separately, or shared parts once.

If a run has steps that decode several requests, those are measured (`SampledSteps`). A run of requests one at a time has none;
then the figures are for conversations that would decode together (`ConversationWindows`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.engine.attention.decode_planner import DecodePlanner
from kvtool.engine.blocks.hashing import block_hasher, extend_hashes
from kvtool.engine.config import DecodeMode
from kvtool.engine.kv_dtype import find_kv_dtype
from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep, Runner, Sampled
from kvtool.results.run_times import Decode, PredictedTpot, Tpot
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.plan import Plan

_MOST_WINDOWS = 8
"""Windows that are kept; each is one planned step, so this bounds time and memory."""
_MOST_STEPS = 32
"""Measured steps that are kept of a run; bounds time and memory."""
_MOST_BLOCKS = 1 << 20
"""Entries of block tables read before the sampling rate is halved: a tenth of a second of work."""
_MOST_TOKENS = 1 << 30
"""Limit of a context's tokens: plans count in int32. A larger block equals one of this size, because no measured context fills it.
"""

_Hashes = npt.NDArray[np.uint64]


class _Sample(NamedTuple):
    requests: int
    flat_tokens: int
    tokens: int
    shares: bool
    flat_seconds: float
    seconds: float


class _Reader:
    """Plan steps as the engine does and add up their reads."""

    def __init__(self, plan: Plan) -> None:
        self._latency = plan.latency
        self._mode = plan.decode_attention
        assert plan.token_bytes is not None, "decode steps are sampled for a known model"
        self._token_bytes = plan.token_bytes
        self._chosen = self._planner(plan, plan.decode_attention)
        self._sharing = self._planner(plan, "prefix-aware")

    @staticmethod
    def _planner(plan: Plan, mode: DecodeMode) -> DecodePlanner:
        geometry = plan.latency.geometry
        dtype = find_kv_dtype(plan.kv_cache_dtype)
        return DecodePlanner(
            min(plan.engine.block_size, _MOST_TOKENS),
            geometry.num_heads,
            geometry.num_kv_heads,
            geometry.head_dim,
            vector_bytes=dtype.vector_bytes(geometry.head_dim),
            mode=mode,
        )

    def read(self, table: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]) -> _Sample:
        """Read one step; `lengths` include the token that is being decoded."""
        chosen = self._chosen.plan(table, lengths)
        sharing = chosen if chosen.shared else self._sharing.plan(table, lengths)
        latency, flat, tokens = self._latency, sharing.flat_tokens, sharing.tokens_read
        seconds = latency.step_seconds((length - 1, 1) for length in lengths.tolist())
        saved = latency.attention_seconds(flat, flat) - latency.attention_seconds(flat, tokens)
        return _Sample(len(lengths), flat, tokens, chosen.shared, seconds, seconds - saved)

    def traffic(self, samples: list[_Sample], *, together: bool, steps: int) -> Decode | None:
        """Return means over the samples, out of so many `steps`; None where no two requests ever decode together.

        Bytes and seconds are those of the predicted model and accelerator, and the seconds of the step as a whole, with all that it
        does beside attention. `together`: the requests did decode together in the run.
        """
        if not any(sample.requests > 1 for sample in samples):
            return None
        requests = fmean(sample.requests for sample in samples)
        flat = fmean(sample.flat_tokens for sample in samples)
        shared = fmean(sample.tokens for sample in samples)
        sharing = fmean(sample.shares for sample in samples)
        return Decode(
            batch=requests,
            tokens_mean=flat / requests,
            sampled="steps" if together else "windows",
            samples=len(samples),
            sampled_of=steps,
            flat_bytes_per_step=round(flat * self._token_bytes),
            prefix_aware_bytes_per_step=round(shared * self._token_bytes),
            decode_attention=self._mode,
            chosen="flat" if not sharing else "prefix-aware" if sharing == 1 else "mixed",
            prefix_aware_share=sharing,
            tpot=Tpot(
                predicted=PredictedTpot(
                    flat=fmean(sample.flat_seconds for sample in samples),
                    prefix_aware=fmean(sample.seconds for sample in samples),
                ),
                measured=None,
            ),
        )


class SampledSteps:
    """A runner that measures decode steps, evenly through the run and at most `_MOST_STEPS` of them.

    It measures every step until it has that many (or has read too many block ids for them), then drops every other one and halves
    its rate.
    """

    def __init__(self, plan: Plan, runner: Runner) -> None:
        self._reader = _Reader(plan)
        self._block_size = plan.engine.block_size
        self._runner = runner
        self._samples: list[_Sample] = []
        self._stride = self._next = 1
        self._num_steps = self._read = 0

    def run(self, step: EngineStep) -> Sequence[Sampled]:
        self._num_steps += 1
        if self._num_steps >= self._next:
            self._measure_step(step)
        return self._runner.run(step)

    def _measure_step(self, step: EngineStep) -> None:
        decoding = [
            (request, start + 1)
            for request, start, count in step.scheduled
            if count == 1 and request.num_prompt_tokens <= start < _MOST_TOKENS
        ]
        if not decoding:
            return  # the next one that decodes will do
        lengths = np.array([length for _, length in decoding])
        blocks = (-(-lengths // self._block_size)).tolist()
        table = np.zeros((len(blocks), max(blocks)), dtype=np.int32)
        for row, (request, _), count in zip(table, decoding, blocks, strict=True):
            row[:count] = request.block_ids[:count]
        self._samples.append(self._reader.read(table, lengths))
        self._next = self._num_steps + self._stride
        self._read += table.size
        if len(self._samples) == _MOST_STEPS or self._read > _MOST_BLOCKS:
            del self._samples[1::2]
            self._stride *= 2
            self._read = 0

    def traffic(self) -> Decode | None:
        """Return the reads of the steps so far."""
        return self._reader.traffic(self._samples, together=True, steps=self._num_steps)


class _Window:
    """Consecutive conversations, and of each the prompt of one turn."""

    def __init__(self) -> None:
        self.prompts: list[
            tuple[int, _Hashes]
        ] = []  # tokens, and the hashes of the full blocks, where they can be shared
        self.sessions: list[tuple[str, str]] = []


class ConversationWindows:
    """Windows of consecutive conversations, each with the prompt of one of its turns: two of its turns never decode together.

    The turn is random, and so is the choice of windows, all with the same chance: at most `_MOST_WINDOWS`.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._hasher = block_hasher(plan.engine.hash_algo, plan.engine.hash_seed)
        self._random = Random(plan.seed)  # noqa: S311 - a sample, not a secret
        self._windows: list[_Window] = []
        self._current: _Window | None = None
        self._num_conversations = 0
        self._turns: dict[tuple[str, str], tuple[_Window, int, int]] = {}
        """Conversations that may continue: their window, their place in it and their number of turns."""

    def add(self, turn: Turn, request: Request) -> None:
        """Add a finished request."""
        if request.num_prompt_tokens >= _MOST_TOKENS:
            return
        session = None if turn.session is None else (turn.group, turn.session)
        if session is None or not turn.index:
            self._begin(session, request)
            return
        known = self._turns.get(session)
        if known is None:
            return
        window, place, turns = known
        self._turns[session] = window, place, turns + 1
        if not self._random.randrange(turns + 1):
            window.prompts[place] = self._prompt(request)

    def add_numbered(self, tokens: int, numbers: array[int]) -> None:
        """Add a finished request of a trace without a session, by the numbers of its blocks."""
        if tokens < _MOST_TOKENS and (found := self._next_place()) is not None:
            found[0].prompts.append(self._numbered(tokens, numbers))

    def _begin(self, session: tuple[str, str] | None, request: Request) -> None:
        found = self._next_place()
        if found is None:
            return
        window, place = found
        window.prompts.append(self._prompt(request))
        if session is not None:
            window.sessions.append(session)
            self._turns[session] = window, place, 1

    def _next_place(self) -> tuple[_Window, int] | None:
        """Return the window of the next conversation and its place there; None where that window is not kept."""
        number, place = divmod(self._num_conversations, self._plan.decode_batch)
        self._num_conversations += 1
        if not place:
            self._current = self._open_window(number)
        return None if self._current is None else (self._current, place)

    def _open_window(self, number: int) -> _Window | None:
        """Open a window by Vitter's algorithm R: after n windows each of them is kept with the same chance."""
        place = number if number < _MOST_WINDOWS else self._random.randrange(number + 1)
        if place >= _MOST_WINDOWS:
            return None
        window = _Window()
        if place == len(self._windows):
            self._windows.append(window)
        else:
            for session in self._windows[place].sessions:
                self._turns.pop(session, None)
            self._windows[place] = window
        return window

    def _prompt(self, request: Request) -> tuple[int, _Hashes]:
        if request.prompt_numbers is not None:
            return self._numbered(request.num_prompt_tokens, request.prompt_numbers)
        full = self._full(request.num_prompt_tokens)
        if len(request.block_hashes) < full:
            extend_hashes(request, self._plan.engine.block_size, self._hasher)
        hashes = b"".join(request.block_hashes[:full])
        words = np.frombuffer(hashes, dtype=np.uint64)
        return request.num_prompt_tokens, words.reshape(full, -1)[:, 0].copy() if full else words

    def _numbered(self, tokens: int, numbers: array[int]) -> tuple[int, _Hashes]:
        return tokens, np.asarray(numbers[: self._full(tokens)], dtype=np.uint64)

    def _full(self, tokens: int) -> int:
        """Return the blocks of a prompt that can be shared."""
        return tokens // self._plan.engine.block_size if self._plan.engine.enable_prefix_caching else 0

    def traffic(self) -> Decode | None:
        """Return the reads of the windows' first decode steps; None without two conversations."""
        size = self._plan.decode_batch
        windows = (
            self._windows if self._num_conversations < size else [w for w in self._windows if len(w.prompts) == size]
        )
        reader = _Reader(self._plan)
        samples = [reader.read(*self._step(window.prompts)) for window in windows]
        return reader.traffic(samples, together=False, steps=max(self._num_conversations // size, 1))

    def _step(self, prompts: list[tuple[int, _Hashes]]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return block table and lengths of the conversations that fit the cache at the same time.

        Equal hashes are one block, if it was there when the prompt was looked up. A prompt's last token is always computed, so a
        block that ends with it is a copy.
        """
        block_size, limit = self._plan.engine.block_size, self._plan.engine.num_blocks
        hashes = np.concatenate([known for _, known in prompts])
        _, first, ids = np.unique(hashes, return_index=True, return_inverse=True)
        first_at = first[ids]  # where each block occurs first
        ids = ids + 1  # 0 is the null block
        lengths = np.array([tokens + 1 for tokens, _ in prompts])
        blocks = -(-lengths // block_size)
        table = np.zeros((len(prompts), int(blocks.max())), dtype=np.int32)
        own = len(hashes) + 1
        at = taken = 0
        for index, ((tokens, known), row, count) in enumerate(zip(prompts, table, blocks.tolist(), strict=True)):
            end = at + len(known)
            shared = len(known)
            if shared and not tokens % block_size and first_at[end - 1] < at:
                shared -= 1
            row[:shared] = ids[at : at + shared]
            row[shared:count] = np.arange(own, own + count - shared)
            own += count - shared
            taken += int((first_at[at : at + shared] >= at).sum()) + count - shared
            if index and limit is not None and taken > limit - 1:
                return table[:index], lengths[:index]
            at = end
        return table, lengths
