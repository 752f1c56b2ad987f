"""The rules of llama.cpp's server: a request gets a slot, a saved prompt may replace it, and their common tokens are reused."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from kvtool.engine.blocks.block_keys import Lora
from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.llama_cpp_memory import KVMemory, ServerSlot
from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions
from kvtool.engine.rules.llama_cpp_prefix import as_bytes, common_prefix, length, moved_chunks
from kvtool.engine.rules.llama_cpp_saved import SavedPrompts
from kvtool.engine.rules.rule_set import RuleRequest, Served

_SAVED_BELOW = np.float32(0.5)
"""A slot is saved before a request that would keep a smaller part of it."""


@dataclass(frozen=True, slots=True)
class LlamaCppRequest(RuleRequest):
    """A request with the extra fields of llama.cpp's own API."""

    id_slot: int | None = None
    """The slot to run in."""
    cache_prompt: bool = True
    """True if anything may be reused; the slot is overwritten in any case."""
    lora: Hashable = None
    """The adapters; a slot that last ran with others, or with none, is cleared."""


class LlamaCppCache:
    """Slots and saved prompts of one server, with requests one at a time."""

    def __init__(self, options: LlamaCppOptions) -> None:
        self.options = options
        self.memory = KVMemory(options)
        self.saved = SavedPrompts(options.host_bytes, options.total_ctx) if options.cache_ram else None
        self.num_served = 0

    @property
    def num_tokens(self) -> int:
        """Tokens in slots and in host memory."""
        return self.memory.num_tokens + (self.saved.num_tokens if self.saved is not None else 0)

    def serve(self, asked: RuleRequest) -> Served:
        """Serve as EngineCache; evicted tokens are neither in a slot nor in host memory any more."""
        prompt = as_bytes(asked.prompt)
        room = self.options.slot_ctx - length(prompt)
        if not prompt or room <= 0:
            raise self._impossible(length(prompt))
        own = (
            asked
            if isinstance(asked, LlamaCppRequest)
            else LlamaCppRequest(asked.prompt, asked.answer, lora=_adapter(asked.scope))
        )
        before = [slot.tokens for slot in self.memory.slots]
        dropped = self._dropped
        slot, to_save = self._choose(prompt, own.id_slot)
        if to_save and self.saved is not None:
            self._exchange(self.saved, slot, prompt)
        begun = slot.tokens
        if own.lora is not None and own.lora != slot.lora:
            slot.tokens = b""
            slot.checkpoints.clear()
        slot.lora = own.lora  # a request without adapters uses a slot with its adapters
        if self.saved is not None and self.options.saves_idle_slots:
            self._save_idle(self.saved, slot)
        self.num_served += 1
        shared, moved = self._shared(slot, prompt) if own.cache_prompt else (0, 0)
        usable = self.memory.usable(slot, shared + moved, length(prompt))
        cached = min(usable, length(prompt) - 1)
        # the server stops where the context is full; the last token has no KV
        answer = as_bytes(own.answer[:room][:-1])
        self.memory.compute(slot, prompt, answer, cached, self.num_served)
        slot.used = self.num_served
        evicted = self._dropped - dropped + self._lost(before, slot, begun, cached)
        return Served(cached, evicted, self.memory.lost_to if usable < shared + moved else "shifted" if moved else "")

    @property
    def _dropped(self) -> int:
        return self.saved.num_dropped if self.saved is not None else 0

    def _lost(self, before: list[bytes], busy: ServerSlot, begun: bytes, kept: int) -> int:
        """Return the tokens of slots that were lost: of all before a request, and of the busy one at its start."""
        lost = self._missing(begun, kept)
        for slot, tokens in zip(self.memory.slots, before, strict=True):
            if tokens != (begun if slot is busy else slot.tokens):
                lost += self._missing(tokens, 0)
        return lost

    def _missing(self, tokens: bytes, kept: int) -> int:
        return 0 if self.saved is not None and self.saved.covers(tokens) else length(tokens) - kept

    def _impossible(self, tokens: int) -> EngineError:
        if not tokens:
            return EngineError("a prompt has no tokens", hint="remove it: llama.cpp gives no answer")
        return EngineError(
            f"a prompt of {tokens:,} tokens does not fit into a slot: its context is {self.options.slot_ctx:,},"
            " with at least one token of the answer",
            hint="raise --ctx-size, or lower --parallel",
        )

    def _shared(self, slot: ServerSlot, prompt: bytes) -> tuple[int, int]:
        """Return the tokens of a slot with which a prompt begins, and the moved tokens after them."""
        shared, moved = common_prefix(slot.tokens, prompt), 0
        if self.options.cache_reuse and self.memory.can_move:
            for begin, to, tokens in moved_chunks(slot.tokens, prompt, shared, self.options.cache_reuse):
                self.memory.move(slot, begin, begin + tokens, to)
                moved += tokens
        return shared, moved

    def _exchange(self, saved: SavedPrompts, slot: ServerSlot, prompt: bytes) -> None:
        """Save a slot, and replace it by a saved prompt that serves the prompt better."""
        self._save(saved, slot)
        if (better := saved.better(slot.tokens, prompt)) is not None and self.memory.read(slot, better):
            saved.remove(better)
        saved.trim()

    def _choose(self, prompt: bytes, id_slot: int | None) -> tuple[ServerSlot, bool]:
        """Return a slot, and whether it is to be saved before it is overwritten."""
        slots = self.memory.slots
        best = None if id_slot is None else slots[id_slot % len(slots)]
        least, most = np.float32(self.options.slot_prompt_similarity), np.float32(0)
        if least:
            for slot in slots:  # a number beyond the last slot wraps around and disables the search
                if slot.tokens and id_slot in (None, slot.id):
                    part = np.float32(common_prefix(slot.tokens, prompt)) / np.float32(length(prompt))
                    if part > most and part > least:
                        best, most = slot, part
            if best is not None:
                kept = most * np.float32(length(prompt))
                return best, bool(kept < _SAVED_BELOW * np.float32(length(best.tokens)))
        if best is not None:
            return best, False
        return max(slots, key=lambda slot: (-slot.used, slot.id)), True

    def _save(self, saved: SavedPrompts, slot: ServerSlot) -> None:
        if slot.tokens and not saved.covers(slot.tokens):
            saved.save(self.memory.write(slot))

    def _save_idle(self, saved: SavedPrompts, busy: ServerSlot) -> None:
        for slot in self.memory.slots:
            if slot is not busy:
                self._save(saved, slot)
                saved.trim()
                if self.options.unified:
                    self.memory.clear(slot)

    def check(self) -> None:
        """Assert the invariants between two requests."""
        if self.saved is not None:
            self.saved.check()
        for cells in self.memory.windows:
            cells.check()
        assert not self.options.kv_layers or self.memory.num_tokens <= self.options.total_ctx
        assert all(length(slot.tokens) < self.options.slot_ctx for slot in self.memory.slots)


def _adapter(scope: Hashable) -> Lora | None:
    """Return the only scope of requests that llama.cpp knows: the adapter."""
    parts = scope if isinstance(scope, tuple) else (scope,)
    return next((part for part in parts if isinstance(part, Lora)), None)
