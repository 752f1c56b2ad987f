"""The KV cache of llama.cpp's server: pools, whether tokens fit, and the windows and checkpoints of its slots."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions
from kvtool.engine.rules.llama_cpp_prefix import TOKEN_BYTES, length
from kvtool.engine.rules.llama_cpp_saved import SavedPrompt
from kvtool.engine.rules.llama_cpp_state import StateCells
from kvtool.engine.rules.llama_cpp_window import Positions, WindowCells, WindowCheckpoint

NEVER = -1

_CELL_BYTES = 12  # per saved token: position, number of sequences, the sequence
_LAYER_BYTES = 24  # type and row size of keys, and of values
_HEADER_BYTES = 8
"""Bytes before the layers of a saved pool, in llama.cpp's format."""
_STREAM_BYTES = 4  # how many cells of a pool follow
_STATE_HEADER_BYTES = 20  # cells, the position, number of sequences, the order of numbers, layers

Cells = WindowCells | StateCells

_BEFORE_END = 4
"""A checkpoint is made so many tokens before the end of a prompt, and a micro batch before that."""


@dataclass(slots=True)
class ServerSlot:
    """One prompt in place; all its tokens have KV in layers without a window."""

    id: int
    tokens: bytes = b""
    checkpoints: list[WindowCheckpoint] = field(default_factory=list)
    used: int = NEVER
    """The number of the last request that ran here."""
    lora: Hashable = None


class KVMemory:
    """The contents of the slots, in one pool for all or in one for each."""

    def __init__(self, options: LlamaCppOptions) -> None:
        self.options = options
        self.slots = [ServerSlot(index) for index in range(options.slots)]
        self.batch = min(options.batch_size, options.total_ctx)
        self.ubatch = min(options.ubatch_size, self.batch)
        self.windows: list[Cells] = []
        sharing = options.slots if options.unified else 1
        if options.state_layers:
            self.windows = [StateCells(sharing) for _ in range(options.slots // sharing)]
        elif (window := options.sliding_window) is not None:
            cells = -(-min(options.pool_ctx, window * sharing + self.ubatch) // 256) * 256
            if options.swa_full:
                cells = options.pool_ctx
            self.windows = [WindowCells(cells, window, sharing) for _ in range(options.slots // sharing)]

    @property
    def can_move(self) -> bool:
        """Return whether tokens may change position: not if the window has fewer cells than other layers."""
        own = self.windows[0] if self.windows else None
        return not isinstance(own, WindowCells) or len(own.pos) == self.options.pool_ctx

    @property
    def lost_to(self) -> str:
        """Return the fate of common tokens that are not usable."""
        return "no_state" if self.options.state_layers else "window"

    @property
    def checkpoints(self) -> bool:
        """Return whether windows or states are saved while a prompt is computed."""
        return self.options.kept_window is not None and self.options.ctx_checkpoints > 0

    def window_of(self, slot: ServerSlot) -> tuple[Cells, int] | None:
        """Return the cells of a slot's window or state, and its number there."""
        if not self.windows:
            return None
        return (self.windows[0], slot.id) if self.options.unified else (self.windows[slot.id], 0)

    def clear(self, slot: ServerSlot) -> None:
        """Forget a slot's prompt."""
        slot.tokens = b""
        slot.checkpoints.clear()
        self.cut(slot, 0)

    def cut(self, slot: ServerSlot, tokens: int) -> None:
        """Free the part of a slot's window after so many tokens."""
        if (own := self.window_of(slot)) is not None:
            own[0].cut(own[1], tokens)

    def move(self, slot: ServerSlot, begin: int, end: int, to: int) -> None:
        """Move tokens of a slot from `begin` to before `end` to `to`."""
        if (own := self.window_of(slot)) is not None:
            own[0].move(own[1], begin, end, to)

    def write(self, slot: ServerSlot) -> SavedPrompt:
        """Return a copy of a slot in host memory."""
        window = None if (own := self.window_of(slot)) is None else own[0].saved(own[1])
        num_bytes = 0
        if self.options.kv_layers:
            num_bytes += self._bytes(length(slot.tokens), self.options.kv_bytes_per_token, self.options.kv_layers)
        if window is not None:
            num_bytes += self._window_bytes(window)
        num_bytes += sum(checkpoint.num_bytes for checkpoint in slot.checkpoints)
        return SavedPrompt(slot.tokens, window, tuple(slot.checkpoints), num_bytes)

    def read(self, slot: ServerSlot, saved: SavedPrompt) -> bool:
        """Replace a slot's content by a saved prompt; return False, with an empty slot, if the pool has no room for it."""
        others = self.num_tokens - length(slot.tokens)
        self.clear(slot)
        if not self._has_room(others + length(saved.tokens)):
            return False
        if (own := self.window_of(slot)) is not None and saved.window is not None:
            own[0].restore(own[1], saved.window)
        slot.tokens = saved.tokens
        slot.checkpoints = list(saved.checkpoints)
        return True

    @property
    def num_tokens(self) -> int:
        """Tokens in all slots."""
        return sum(length(slot.tokens) for slot in self.slots)

    def _bytes(self, tokens: int, each: int, layers: int) -> int:
        streams = 1 if self.options.unified else self.options.slots
        head = _STREAM_BYTES * (1 + streams)
        return head + (_HEADER_BYTES + layers * _LAYER_BYTES + tokens * (_CELL_BYTES + each) if tokens else 0)

    def _has_room(self, tokens: int) -> bool:
        """Return whether a shared pool has room for so many tokens. States alone need none."""
        return not self.options.unified or not self.options.kv_layers or tokens <= self.options.pool_ctx

    def _window_bytes(self, positions: Positions) -> int:
        if self.options.state_layers:
            return _STATE_HEADER_BYTES + self.options.state_layers * _LAYER_BYTES + self.options.state_bytes
        return self._bytes(len(positions), self.options.window_bytes_per_token, self.options.window_layers)

    # tokens that a request computes

    def usable(self, slot: ServerSlot, shared: int, prompt: int) -> int:
        """Return how many of a slot's common tokens are usable: their window is there, or in a checkpoint."""
        if (own := self.window_of(slot)) is None:
            return shared
        least = max(0, shared - (self.options.kept_window or 0) - (shared == prompt))
        if shared and own[0].first[own[1]] >= least:
            for checkpoint in reversed(slot.checkpoints):
                if checkpoint.last <= shared and (checkpoint.first < least or checkpoint.first == 0):
                    own[0].restore(own[1], checkpoint.positions)
                    shared = min(shared, max(checkpoint.first + 1, checkpoint.last))
                    usable = min(shared, checkpoint.num_tokens)
                    break
            else:
                shared = usable = 0
        else:
            usable = shared
        slot.checkpoints = [checkpoint for checkpoint in slot.checkpoints if checkpoint.last <= shared]
        return usable

    def compute(self, slot: ServerSlot, prompt: bytes, answer: bytes, start: int, request: int) -> None:
        """Compute a prompt from token `start` on and then an answer; idle slots go where there is no room."""
        end = length(prompt)
        slot.tokens = prompt[: start * TOKEN_BYTES]
        self.cut(slot, start)
        for begin, until in self._batches(start, end):
            near_end = end < until + self.ubatch
            if (
                near_end
                and self.checkpoints
                and (own := self.window_of(slot)) is not None
                and own[0].first[own[1]] >= 0
            ):
                self._checkpoint(slot, begin, request, own)
            self._make_room(slot, until - begin)
            slot.tokens = prompt[: until * TOKEN_BYTES]
            self._put(slot, until - begin, self.ubatch)
        self._make_room(slot, length(answer))
        slot.tokens = prompt + answer
        self._put(slot, length(answer), 1)

    def _batches(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        stops: Sequence[int] = ()
        if self.checkpoints:
            stops = [end - min(self.batch, before) for before in (_BEFORE_END + self.ubatch, _BEFORE_END)]
        while start < end:
            until = min([start + self.batch, end, *(stop for stop in stops if stop > start)])
            yield start, until
            start = until

    def _make_room(self, slot: ServerSlot, tokens: int) -> None:
        """Clear idle slots in their order until so many tokens fit."""
        for other in self.slots:
            if self._has_room(self.num_tokens + tokens):
                break
            if other is not slot:
                self.clear(other)

    def _put(self, slot: ServerSlot, tokens: int, most: int) -> None:
        if (own := self.window_of(slot)) is not None:
            own[0].append(own[1], tokens, most)

    def _checkpoint(self, slot: ServerSlot, tokens: int, request: int, own: tuple[Cells, int]) -> None:
        cells, number = own
        most, kept = self.options.ctx_checkpoints, slot.checkpoints
        earlier: int | None = None
        for checkpoint in list(kept):
            if len(kept) + 1 < most:
                break
            close = earlier is not None and checkpoint.num_tokens <= earlier + self.options.checkpoint_min_step
            if close and checkpoint.request != request:
                kept.remove(checkpoint)
            else:
                earlier = checkpoint.num_tokens
        del kept[: max(len(kept) - most + 1, 0)]
        kept[:] = [checkpoint for checkpoint in kept if checkpoint.num_tokens != tokens]
        positions = cells.saved(number)
        size = self._window_bytes(positions)
        kept.append(WindowCheckpoint(tokens, cells.first[number], cells.last[number], positions, size, request))
