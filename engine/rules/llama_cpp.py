"""The rules of llama.cpp's server: a request gets a slot, a saved prompt may take its place, and what they share is reused."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.llama_cpp_memory import KVMemory, ServerSlot
from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions
from kvtool.engine.rules.llama_cpp_prefix import as_bytes, common_prefix, length, moved_chunks
from kvtool.engine.rules.llama_cpp_saved import SavedPrompts
from kvtool.engine.rules.rule_set import Asked, Served

_SAVED_BELOW = np.float32(0.5)
"""A slot is saved before a request that would keep less of it."""


@dataclass(frozen=True, slots=True)
class LlamaCppAsked(Asked):
    """A request with what llama.cpp's own API says of it besides."""

    id_slot: int | None = None
    """The slot to run in."""
    cache_prompt: bool = True
    """Whether anything may be reused; the slot is overwritten in any case."""
    lora: Hashable = None
    """The adapters; a slot that ran with others is cleared."""


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

    def serve(self, asked: Asked) -> Served:
        """As EngineCache says; what is lost is neither in a slot nor in host memory any more."""
        prompt = as_bytes(asked.prompt)
        most = self.options.slot_ctx - length(prompt)
        if not prompt or most <= 0:
            raise self._impossible(length(prompt))
        own = asked if isinstance(asked, LlamaCppAsked) else LlamaCppAsked(asked.prompt, asked.answer)
        slot, lost = self._slot(prompt, own)
        memory = self.memory
        if own.lora != slot.lora:
            slot.tokens, slot.lora = b"", own.lora
            slot.checkpoints.clear()
        if self.saved is not None and self.options.saves_idle_slots:
            lost += self._save_idle(self.saved, slot)
        self.num_served += 1
        before, moved, usable = length(slot.tokens), 0, 0
        if own.cache_prompt:
            shared = common_prefix(slot.tokens, prompt)
            if self.options.cache_reuse and memory.can_move:
                for begin, to, tokens in moved_chunks(slot.tokens, prompt, shared, self.options.cache_reuse):
                    memory.move(slot, begin, begin + tokens, to)
                    moved += tokens
            usable = memory.usable(slot, shared + moved, length(prompt))
        cached = min(usable, length(prompt) - 1)
        answer = as_bytes(own.answer[: min(len(own.answer), most)][:-1])
        if not self._kept(slot.tokens):
            lost += before - cached
        lost += memory.compute(slot, prompt, answer, cached, self.num_served)
        slot.used = self.num_served
        return Served(cached, lost, "shifted" if moved else "")

    def _kept(self, tokens: bytes) -> bool:
        return self.saved is not None and self.saved.covers(tokens)

    def _impossible(self, tokens: int) -> EngineError:
        if not tokens:
            return EngineError("a prompt without tokens", hint="llama.cpp answers it with nothing")
        return EngineError(
            f"a prompt of {tokens:,} tokens does not fit into a slot of llama.cpp: its context is {self.options.slot_ctx:,},"
            " with at least one token of the answer",
            hint="give a larger --ctx-size, or with --parallel fewer slots",
        )

    def _slot(self, prompt: bytes, asked: LlamaCppAsked) -> tuple[ServerSlot, int]:
        """The slot that a request runs in, with what serves it best, and how many saved tokens went for it."""
        slot, to_save = self._choose(prompt, asked.id_slot)
        lost = 0
        if to_save and self.saved is not None:
            lost = self._save(self.saved, slot)
            if (better := self.saved.better(slot.tokens, prompt)) is not None and self.memory.read(slot, better):
                self.saved.remove(better)
            lost += self.saved.trim()
        return slot, lost

    def _choose(self, prompt: bytes, id_slot: int | None) -> tuple[ServerSlot, bool]:
        """A slot, and whether it is to be saved before it is overwritten."""
        slots = self.memory.slots
        best = None if id_slot is None else slots[id_slot % len(slots)]
        least, most = np.float32(self.options.slot_prompt_similarity), np.float32(0)
        if least:
            for slot in slots if best is None else [best]:
                if slot.tokens:
                    part = np.float32(common_prefix(slot.tokens, prompt)) / np.float32(length(prompt))
                    if part > most and part > least:
                        best, most = slot, part
            if best is not None:
                kept = most * np.float32(length(prompt))
                return best, bool(kept < _SAVED_BELOW * np.float32(length(best.tokens)))
        if best is not None:
            return best, False
        return max(slots, key=lambda slot: (-slot.used, slot.id)), True

    def _save(self, saved: SavedPrompts, slot: ServerSlot) -> int:
        if not slot.tokens or saved.covers(slot.tokens):
            return 0
        return saved.save(self.memory.write(slot))

    def _save_idle(self, saved: SavedPrompts, busy: ServerSlot) -> int:
        lost = 0
        for slot in self.memory.slots:
            if slot is not busy:
                lost += self._save(saved, slot) + saved.trim()
                if self.options.unified:
                    self.memory.clear(slot)
        return lost

    def check(self) -> None:
        """What holds between two requests."""
        if self.saved is not None:
            self.saved.check()
        assert self.memory.num_tokens <= self.options.total_ctx
        assert all(length(slot.tokens) < self.options.slot_ctx for slot in self.memory.slots)
