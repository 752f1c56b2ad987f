"""llama.cpp's server once more, as plainly as it can be written: token by token, with lists and fractions."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions

Tokens = list[int]


@dataclass
class PlainSlot:
    tokens: Tokens = field(default_factory=list)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    used: int = -1


def same(one: Tokens, other: Tokens) -> int:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


class PlainPool:
    """Cells as pairs of slot and position."""

    def __init__(self, size: int, window: int) -> None:
        self.cells: list[tuple[int, int] | None] = [None] * size
        self.window = window
        self.head = 0

    def positions(self, slot: int) -> list[int]:
        """In the order of the cells."""
        return [cell[1] for cell in self.cells if cell is not None and cell[0] == slot]

    def reached(self, slot: int) -> list[int]:
        held = self.positions(slot)
        return [position for position in held if max(held) - position < self.window]

    def free(self, slot: int, begin: int, end: int) -> None:
        freed = [index for index, cell in enumerate(self.cells) if cell and cell[0] == slot and begin <= cell[1] < end]
        for index in freed:
            self.cells[index] = None
        if freed:
            self.head = min(self.head, freed[0])

    def put(self, slot: int, positions: list[int]) -> None:
        used = sum(cell is not None for cell in self.cells)
        start = 0 if self.head > used + 2 * len(positions) else self.head
        chosen: list[int] = []
        for index in [*range(start, len(self.cells)), *range(start)]:
            cell = self.cells[index]
            if cell is None or max(self.positions(cell[0])) + 1 - cell[1] >= self.window:
                chosen.append(index)
            if len(chosen) == len(positions):
                break
        assert len(chosen) == len(positions)
        gone: dict[int, int] = {}
        for index, position in zip(chosen, positions, strict=True):
            if (old := self.cells[index]) is not None:
                gone[old[0]] = max(gone.get(old[0], 0), old[1])
            self.cells[index] = (slot, position)
        for number, position in gone.items():
            self.free(number, 0, position + 1)
        self.head = chosen[-1] + 1


class PlainServer:
    def __init__(self, options: LlamaCppOptions) -> None:
        self.options = options
        self.slots = [PlainSlot() for _ in range(options.slots)]
        self.saved: list[dict[str, Any]] = []
        self.requests = 0
        self.pools: list[PlainPool] = []
        self.batch = min(options.batch_size, options.total_ctx)
        self.ubatch = min(options.ubatch_size, self.batch)
        if options.sliding_window:
            size = options.sliding_window * (options.slots if options.unified else 1) + self.ubatch
            size = min(size, options.pool_ctx)
            while size % 256:
                size += 1
            if options.swa_full:
                size = options.pool_ctx
            self.pools = [PlainPool(size, options.sliding_window) for _ in self.slots]
            if options.unified:
                self.pools = self.pools[:1] * options.slots

    def serve(self, prompt: Tokens, answer: Tokens, id_slot: int | None = None, cache_prompt: bool = True) -> int:
        options = self.options
        number, save = self.choose(prompt, id_slot)
        slot = self.slots[number]
        if save and options.cache_ram:
            self.save(number)
            self.load(number, prompt)
            self.trim()
        if options.cache_idle_slots and options.cache_ram:
            for other in range(len(self.slots)):
                if other != number:
                    self.save(other)
                    self.trim()
                    if options.unified:
                        self.clear(other)
        self.requests += 1
        past = same(slot.tokens, prompt) if cache_prompt else 0
        if cache_prompt and options.cache_reuse and (not self.pools or len(self.pools[0].cells) == options.pool_ctx):
            past = self.shift(number, prompt, past)
        past = self.with_window(number, past, len(prompt))
        past -= past == len(prompt)
        self.compute(number, prompt, past)
        for token in answer[: options.slot_ctx - len(prompt)][:-1]:
            self.room(number, 1)
            slot.tokens.append(token)
            if self.pools:
                self.pools[number].put(self.key(number), [len(slot.tokens) - 1])
        slot.used = self.requests
        return past

    def key(self, number: int) -> int:
        return number if self.options.unified else 0

    def choose(self, prompt: Tokens, id_slot: int | None) -> tuple[int, bool]:
        named = None if id_slot is None else id_slot % len(self.slots)
        least = Fraction(str(self.options.slot_prompt_similarity))
        best, most = named, Fraction(0)
        if least:
            for number, slot in enumerate(self.slots):
                if slot.tokens and (id_slot is None or id_slot == number):
                    part = Fraction(same(slot.tokens, prompt), len(prompt))
                    if part > least and part > most:
                        best, most = number, part
            if best is not None:
                return best, most * len(prompt) * 2 < len(self.slots[best].tokens)
        if best is not None:
            return best, False
        oldest = min(slot.used for slot in self.slots)
        return max(number for number, slot in enumerate(self.slots) if slot.used == oldest), True

    def clear(self, number: int) -> None:
        self.slots[number].tokens = []
        self.slots[number].checkpoints = []
        if self.pools:
            self.pools[number].free(self.key(number), 0, 1 << 40)

    def size(self, cells: int, each: int, layers: int) -> int:
        total = 4 + 4 * (1 if self.options.unified else len(self.slots))
        if cells:
            total += 4 + 4 + layers * (4 + 8 + 4 + 8) + cells * (4 + 4 + 4 + each)
        return total

    def save(self, number: int) -> None:
        slot, limit = self.slots[number], self.options.cache_ram * 1024 * 1024
        if not slot.tokens or any(each["tokens"][: len(slot.tokens)] == slot.tokens for each in self.saved):
            return
        size = self.size(len(slot.tokens), self.options.kv_bytes_per_token, self.options.kv_layers)
        window: list[int] = []
        if self.pools:
            window = self.pools[number].reached(self.key(number))
            size += self.window_size(window)
        size += sum(each["size"] for each in slot.checkpoints)
        if 0 < limit < size:
            return
        self.saved = [each for each in self.saved if slot.tokens[: len(each["tokens"])] != each["tokens"]]
        while limit > 0 and size + sum(each["size"] for each in self.saved) > limit:
            self.saved.pop(0)
        entry = {"tokens": list(slot.tokens), "window": window, "checkpoints": list(slot.checkpoints), "size": size}
        self.saved.append(entry)

    def window_size(self, positions: list[int]) -> int:
        return self.size(len(positions), self.options.window_bytes_per_token, self.options.window_layers)

    def trim(self) -> None:
        while self.options.cache_ram < 0 and sum(len(each["tokens"]) for each in self.saved) > self.options.total_ctx:
            self.saved.pop(0)

    def load(self, number: int, prompt: Tokens) -> None:
        slot = self.slots[number]
        common = same(slot.tokens, prompt)
        kept = Fraction(common, len(slot.tokens)) if slot.tokens else Fraction(-1)
        alike, best = Fraction(common, len(prompt)), None
        for each in self.saved:
            common = same(each["tokens"], prompt)
            part, more = Fraction(common, len(each["tokens"])), Fraction(common, len(prompt))
            if part >= Fraction(1, 4) and part > kept and more > alike:
                kept, alike, best = part, more, each
        if best is None:
            return
        self.clear(number)
        if (
            self.options.unified
            and sum(len(other.tokens) for other in self.slots) + len(best["tokens"]) > self.options.pool_ctx
        ):
            return
        slot.tokens, slot.checkpoints = list(best["tokens"]), list(best["checkpoints"])
        if self.pools:
            self.pools[number].put(self.key(number), best["window"])
        self.saved.remove(best)

    def shift(self, number: int, prompt: Tokens, past: int) -> int:
        held, here, there = self.slots[number].tokens, past, past
        while here < len(held) and there < len(prompt):
            count = same(held[here:], prompt[there:])
            if count >= self.options.cache_reuse:
                if self.pools:
                    pool, key = self.pools[number], self.key(number)
                    pool.free(key, there, here)
                    for index, cell in enumerate(pool.cells):
                        if cell and cell[0] == key and here <= cell[1] < here + count:
                            pool.cells[index] = (key, cell[1] - here + there)
                    pool.head = 0
                past += count
                here, there = here + count, there + count
            else:
                here += 1
        return past

    def with_window(self, number: int, past: int, prompt: int) -> int:
        if not self.pools:
            return past
        slot, pool, key = self.slots[number], self.pools[number], self.key(number)
        window = 0 if self.options.swa_full else pool.window
        needed = max(0, past - window - (1 if past == prompt else 0))
        before = after = past
        if past and min(pool.positions(key)) >= needed:
            fitting = [
                each
                for each in slot.checkpoints
                if each["last"] <= past and (each["first"] < needed or not each["first"])
            ]
            past = after = 0
            if fitting:
                best = fitting[-1]
                pool.free(key, 0, 1 << 40)
                pool.put(key, best["window"])
                after = min(before, max(best["first"] + 1, best["last"]))
                past = min(after, best["tokens"])
        slot.checkpoints = [each for each in slot.checkpoints if each["last"] <= after]
        return past

    def room(self, number: int, tokens: int) -> None:
        for other in range(len(self.slots)):
            full = sum(len(slot.tokens) for slot in self.slots) + tokens > self.options.pool_ctx
            if self.options.unified and full and other != number:
                self.clear(other)

    def compute(self, number: int, prompt: Tokens, past: int) -> None:
        slot, end = self.slots[number], len(prompt)
        checkpoints = self.pools and self.options.ctx_checkpoints and not self.options.swa_full
        slot.tokens = prompt[:past]
        if self.pools:
            self.pools[number].free(self.key(number), past, 1 << 40)
        stops = [end - min(self.batch, 4 + self.ubatch), end - min(self.batch, 4)] if checkpoints else []
        while past < end:
            begin = past
            while past < end:
                past += 1
                if past in stops or past - begin == self.batch:
                    break
            if checkpoints and self.pools[number].positions(self.key(number)):
                near = end < past + self.ubatch
                if near:
                    self.checkpoint(number, begin)
            self.room(number, past - begin)
            slot.tokens = prompt[:past]
            for at in range(begin, past, self.ubatch) if self.pools else ():
                self.pools[number].put(self.key(number), list(range(at, min(at + self.ubatch, past))))

    def checkpoint(self, number: int, tokens: int) -> None:
        kept, most = self.slots[number].checkpoints, self.options.ctx_checkpoints
        last: int | None = None
        index = 0
        while len(kept) + 1 >= most and index < len(kept):
            each = kept[index]
            close = last is not None and each["tokens"] <= last + self.options.checkpoint_min_step
            if close and each["request"] != self.requests:
                del kept[index]
            else:
                last = each["tokens"]
                index += 1
        while len(kept) >= most:
            del kept[0]
        kept[:] = [each for each in kept if each["tokens"] != tokens]
        held = self.pools[number].positions(self.key(number))
        window = self.pools[number].reached(self.key(number))
        size = self.window_size(window)
        kept.append(
            {
                "tokens": tokens,
                "first": min(held),
                "last": max(held),
                "window": window,
                "size": size,
                "request": self.requests,
            }
        )
