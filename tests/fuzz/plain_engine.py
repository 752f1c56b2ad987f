"""vLLM's prefix cache and scheduler once more, in lists and dicts, with tuples of tokens where the engine has hashes.

Nothing here is fast, and nothing is shared with the engine but its configuration: what both do must be the same, block for block.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtool.engine.config import EngineConfig

Content = tuple[str, tuple[int, ...]]
"""What a full block holds: the salt, and all tokens from the first one of the prompt to the last one of the block."""


@dataclass(eq=False)
class PlainRequest:
    """A prompt with the answer that is forced on it."""

    name: str
    tokens: list[int]
    answer: list[int]
    salt: str
    priority: int
    order: int
    skips: bool
    given: int = 0
    """Tokens of the answer that are among `tokens`."""
    computed: int = 0
    full: int = 0
    """Blocks that are registered."""
    blocks: list[int] = field(default_factory=list)
    admissions: list[tuple[int, int]] = field(default_factory=list)

    def content(self, index: int, size: int) -> Content:
        """Of its block of that index."""
        return self.salt, tuple(self.tokens[: (index + 1) * size])


class PlainCache:
    """`free` is the order of reuse, `users` counts holders, `content` is what a block holds, `copies` who holds that, in order."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.size = config.block_size
        self.free = list(range(1, config.num_blocks or 1))
        self.count = config.num_blocks or 1
        self.users: dict[int, int] = {}
        self.content: dict[int, Content] = {}
        self.copies: dict[Content, list[int]] = {}
        self.events: list[tuple[str, tuple[Content, ...]]] = []

    def hits(self, request: PlainRequest) -> list[int]:
        """The blocks of its longest cached prefix; its last token is always computed."""
        if not self.config.enable_prefix_caching or request.skips:
            return []
        found: list[int] = []
        for index in range((len(request.tokens) - 1) // self.size):
            copies = self.copies.get(request.content(index, self.size))
            if not copies:
                break
            found.append(copies[0])
        return found

    def allocate(self, request: PlainRequest, count: int, hits: list[int], *, reserve: int, whole: bool) -> bool:
        """Blocks for `count` more tokens; False, and nothing happens, where too few are free."""
        end = request.computed + len(hits) * self.size + count
        new = self._missing(request, end, hits)
        if self.config.num_blocks is not None and new:
            room = len([block for block in self.free if block not in hits]) - reserve
            needed = max(new, self._missing(request, len(request.tokens), hits)) if whole else new
            if needed > room:
                return False
        for block in hits:
            if block in self.free:
                self.free.remove(block)
            self.users[block] = self.users.get(block, 0) + 1
        request.blocks += hits
        request.full += len(hits)
        request.blocks += [self._fresh() for _ in range(new)]
        self._register(request, min(end, len(request.tokens)) // self.size)
        return True

    def _missing(self, request: PlainRequest, end: int, hits: list[int]) -> int:
        blocks = -(-min(end, self.config.max_model_len) // self.size)
        return max(blocks - len(request.blocks) - len(hits), 0)

    def _fresh(self) -> int:
        limited = self.config.num_blocks is not None
        if limited or (self.free and self.free[0] not in self.content):
            block = self.free.pop(0)
        else:
            block = self.count
            self.count += 1
        self.users[block] = 1
        if block in self.content:
            content = self.content.pop(block)
            self.copies[content].remove(block)
            self.events.append(("removed", (content,)))
        return block

    def _register(self, request: PlainRequest, full: int) -> None:
        if not self.config.enable_prefix_caching or full <= request.full:
            return
        stored = [request.content(index, self.size) for index in range(request.full, full)]
        for block, content in zip(request.blocks[request.full : full], stored, strict=True):
            self.content[block] = content
            self.copies.setdefault(content, []).append(block)
        self.events.append(("stored", tuple(stored)))
        request.full = full

    def release(self, request: PlainRequest) -> None:
        """What is cached goes to the end, the tail of the prompt first; the rest goes to the front."""
        front = []
        for index in reversed(range(len(request.blocks))):
            block = request.blocks[index]
            self.users[block] -= 1
            if not self.users[block]:
                if index < request.full:
                    self.free.append(block)
                else:
                    front.append(block)
        self.free = front + self.free
        request.blocks, request.full, request.computed = [], 0, 0

    def reset(self) -> bool:
        """Forget everything, if nobody holds a block."""
        if any(self.users.values()):
            return False
        self.content.clear()
        self.copies.clear()
        self.events.append(("cleared", ()))
        return True


class PlainScheduler:
    """Synchronous scheduling: what runs goes first, then what waits, as long as tokens and blocks are there."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.cache = PlainCache(config)
        self.running: list[PlainRequest] = []
        self.waiting: list[PlainRequest] = []
        self.steps = 0

    def add(self, request: PlainRequest) -> None:
        """It waits behind those that came before it; by priority, behind those that are as urgent."""
        self.waiting.append(request)
        self._sort()

    def _sort(self) -> None:
        if self.config.policy == "priority":
            self.waiting.sort(key=lambda each: (each.priority, each.order))

    def step(self) -> tuple[list[tuple[str, int, int]], list[str], list[str]]:
        """One step, run at once: (name, first token, tokens) of what was scheduled; who was preempted; who finished."""
        config = self.config
        scheduled: list[tuple[PlainRequest, int, int]] = []
        preempted: list[PlainRequest] = []
        several = len(self.running) + len(self.waiting) > 1
        longest = config.long_prefill_token_threshold if config.long_prefill_token_threshold and several else 1 << 62
        self._go_on(longest, scheduled, preempted)
        if not preempted:
            self._admit(longest, scheduled)
        for request, start, count in scheduled:
            request.computed = start + count
        self.steps += 1
        finished = [request for request, _, _ in scheduled if self._sample(request)]
        return (
            [(request.name, start, count) for request, start, count in scheduled],
            [request.name for request in preempted],
            [request.name for request in finished],
        )

    def _go_on(
        self, longest: int, scheduled: list[tuple[PlainRequest, int, int]], preempted: list[PlainRequest]
    ) -> None:
        index = 0
        while index < len(self.running) and (left := self._left(scheduled)) > 0:
            request = self.running[index]
            count = min(len(request.tokens) - request.computed, longest, left)
            while not (fits := self.cache.allocate(request, count, [], reserve=0, whole=False)):
                victim = self.running[-1]
                if self.config.policy == "priority":
                    victim = max(self.running, key=lambda each: (each.priority, each.order))
                if self.running.index(victim) < index:
                    index -= 1
                    scheduled[:] = [item for item in scheduled if item[0] is not victim]
                self.running.remove(victim)
                self._put_back(victim)
                preempted.append(victim)
                if victim is request:
                    break
            if fits:
                scheduled.append((request, request.computed, count))
                index += 1
            elif self.config.policy == "fcfs":
                return

    def _left(self, scheduled: list[tuple[PlainRequest, int, int]]) -> int:
        return self.config.max_num_batched_tokens - sum(count for _, _, count in scheduled)

    def _put_back(self, request: PlainRequest) -> None:
        self.cache.release(request)
        self.waiting.insert(0, request)
        self._sort()

    def _admit(self, longest: int, scheduled: list[tuple[PlainRequest, int, int]]) -> None:
        config = self.config
        while self.waiting and (left := self._left(scheduled)) > 0 and len(self.running) < config.max_num_seqs:
            request = self.waiting[0]
            hits = self.cache.hits(request)
            start = len(hits) * config.block_size
            count = min(len(request.tokens) - start, longest)
            if count > left and not config.enable_chunked_prefill:
                return
            count = min(count, left)
            reserve = int(config.watermark * (config.num_blocks or 0)) if self.running else 0
            whole = config.scheduler_reserve_full_isl
            if not self.cache.allocate(request, count, hits, reserve=reserve, whole=whole):
                return
            self.waiting.pop(0)
            request.admissions.append((self.steps, start))
            self.running.append(request)
            scheduled.append((request, start, count))

    def _sample(self, request: PlainRequest) -> bool:
        """A token, where the last one is computed; whether it was the last one of the answer."""
        if request.computed < len(request.tokens):
            return False
        request.tokens.append(request.answer[request.given])
        request.given += 1
        if request.given < len(request.answer) and len(request.tokens) < self.config.max_model_len:
            return False
        self.running.remove(request)
        self.cache.release(request)
        return True

    def reset(self, *, running: bool) -> bool:
        """Forget the cache; with `running`, all go back to the queue first."""
        while running and self.running:
            self._put_back(self.running.pop())
        return self.cache.reset()
