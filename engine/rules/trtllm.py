"""TensorRT-LLM's KV cache, after its C++ block manager (V1): a tree of blocks with partial reuse.

Read from source and not run. Requests come one at a time, so no block is in use by another.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import Ids, OtherSetting, RuleRequest, RuleSet, Rung, Served

_TOKEN = 4
"""Bytes of a token id."""
_NO_PRIORITY = 35
"""TensorRT-LLM's default priority of blocks, also of blocks never used."""


@dataclass(frozen=True, slots=True)
class TrtLlmOptions:
    """Options that affect reuse, by the names of `kv_cache_config` and of a request's retention config."""

    tokens_per_block: int = 32
    max_tokens: int | None = None
    """Size of the pool, rounded up to blocks; None has room for everything."""
    enable_partial_reuse: bool = True
    copy_on_partial_reuse: bool = True
    retention_priority: int = _NO_PRIORITY
    """Priority of blocks with prompt tokens, 0 to 100; the lowest is evicted first."""
    decode_retention_priority: int = _NO_PRIORITY
    """Priority of blocks with answer tokens only."""

    def __post_init__(self) -> None:
        size = self.tokens_per_block
        if size < 1 or size & (size - 1):
            raise EngineError(f"blocks of {size} tokens: TensorRT-LLM needs a power of two", hint="use 32, its default")
        for name in ("retention_priority", "decode_retention_priority"):
            if not 0 <= getattr(self, name) <= 100:
                raise EngineError(f"{name} {getattr(self, name)}: priorities must be from 0 to 100")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise EngineError(f"max_tokens must be at least 1, not {self.max_tokens}")

    @property
    def num_blocks(self) -> int | None:
        """Number of blocks of the pool; None is unlimited."""
        return None if self.max_tokens is None else -(-self.max_tokens // self.tokens_per_block)


class _Block:
    """A block of the pool and, where it is in the tree, the tokens by which it is found."""

    __slots__ = ("children", "key", "order", "parent", "priority")

    def __init__(self) -> None:
        self.key = b""
        self.parent: _Block | None = None
        self.children: dict[bytes, _Block] = {}
        self.order: list[bytes] = []
        """The children's keys, sorted: the longest common start is a neighbour of a key's place."""
        self.priority = _NO_PRIORITY

    def add(self, key: bytes, block: _Block) -> None:
        block.key, block.parent = key, self
        self.children[key] = block
        insort(self.order, key)

    def detach(self) -> None:
        """Take a block without children out of the tree."""
        parent = self.parent
        assert parent is not None, "a block of the tree"
        assert not self.children, "a leaf"
        del parent.children[self.key]
        del parent.order[bisect_left(parent.order, self.key)]
        self.parent = None


class TrtLlmCache:
    """Blocks in a tree for each scope, and unused blocks in queues, one for each priority."""

    def __init__(self, options: TrtLlmOptions = TrtLlmOptions()) -> None:
        self.options = options
        self._blocks = options.num_blocks
        self._roots: dict[Hashable, _Block] = {}
        self._free: dict[int, OrderedDict[_Block, None]] = {}
        """Free blocks by priority, the next victim at the front. Never used ones are not listed; they come before all of priority
        35."""
        self._made = 0
        self._tokens = 0

    @property
    def num_tokens(self) -> int:
        return self._tokens

    def check(self) -> None:
        """Assert the invariants between requests."""
        in_tree, stack = 0, list(self._roots.values())
        queued = {block for queue in self._free.values() for block in queue}
        while stack:
            block = stack.pop()
            assert sorted(block.children) == block.order, "the keys of the children in order"
            for key, child in block.children.items():
                assert child.key == key, "a child that knows its tokens"
                assert child.parent is block, "a child that knows its place"
                assert child in queued, "a block that nobody uses, and that is not free"
                assert len(key) == self._key_bytes or not child.children, "children below a part of a block"
                in_tree += len(key) // _TOKEN
                stack.append(child)
        assert in_tree == self._tokens, "tokens in the tree"
        assert len(queued) == self._made, "a lost block"
        assert self._blocks is None or self._made <= self._blocks, "more blocks than there are"

    @property
    def _key_bytes(self) -> int:
        return self.options.tokens_per_block * _TOKEN

    def serve(self, asked: RuleRequest) -> Served:
        """Look a request up, compute the rest, and put all but its last token into the tree."""
        options, size = self.options, self.options.tokens_per_block
        sequence = np.concatenate([asked.prompt, asked.answer]) if len(asked.answer) else asked.prompt
        stored = max(len(sequence) - 1, 0)
        needed = max(-(-len(asked.prompt) // size), -(-stored // size))
        if self._blocks is not None and needed > self._blocks:
            raise EngineError(
                f"a request of {len(sequence):,} tokens needs {needed:,} blocks of {size}; the pool has {self._blocks:,}",
                hint="a larger --max-tokens",
            )
        root = self._roots.setdefault(asked.scope, _Block())
        before = self._tokens
        held, cached = self._look_up(root, self._keys(asked.prompt, len(asked.prompt) - 1))
        for number in range(len(held), needed):
            in_prompt = number * size < len(asked.prompt)
            held.append(self._take(options.retention_priority if in_prompt else options.decode_retention_priority))
        evicted = before - self._tokens
        self._store(root, self._keys(sequence, stored), held)
        for block in reversed(held):  # the end of a sequence goes before its start
            self._free.setdefault(block.priority, OrderedDict())[block] = None
        return Served(cached, max(evicted, 0))

    def _keys(self, ids: Ids, count: int) -> list[bytes]:
        """Return the first `count` tokens in blocks, the last of which may be a part."""
        data = np.ascontiguousarray(ids[: max(count, 0)], dtype=np.int32).tobytes()
        return [data[start : start + self._key_bytes] for start in range(0, len(data), self._key_bytes)]

    def _look_up(self, root: _Block, keys: list[bytes]) -> tuple[list[_Block], int]:
        """Return the blocks that the request has from now on, and the tokens of its prompt in them."""
        held: list[_Block] = []
        cached = 0
        for key in keys:
            block = root.children.get(key)
            if block is None or len(key) < self._key_bytes:
                part, tokens = self._part(root, key)
                if part is not None:
                    held.append(self._private(part))
                    cached += tokens
                break
            self._claim(block, self.options.retention_priority)
            held.append(block)
            cached += self.options.tokens_per_block
            root = block
        return held, cached

    def _part(self, root: _Block, key: bytes) -> tuple[_Block | None, int]:
        """Return the child with the longest common start, and that in tokens. Of equals TensorRT-LLM takes any."""
        if not self.options.enable_partial_reuse or not root.order:
            return None, 0
        near = root.order
        if self.options.copy_on_partial_reuse:
            at = bisect_left(near, key)
            near = near[max(at - 1, 0) : at + 1]
        else:
            near = [each for each in near if not root.children[each].children]
        best, most = None, 0
        for each in near:
            tokens = _common(each, key)
            if tokens > most:
                best, most = root.children[each], tokens
        return best, most

    def _private(self, block: _Block) -> _Block:
        """Return a block with the start of another: a copy if that has children, else the other itself, which leaves the tree."""
        if block.children:
            return self._take(block.priority)
        self._claim(block, self.options.retention_priority)
        self._forget(block)
        return block

    def _claim(self, block: _Block, priority: int) -> None:
        del self._free[block.priority][block]
        block.priority = priority

    def _take(self, priority: int) -> _Block:
        """Return a block for something new: of the lowest priority the one that was given back first."""
        block = self._next()
        for child in list(block.children.values()):
            self._forget_all(child)
        if block.parent is not None:
            self._forget(block)
        block.priority = priority
        return block

    def _next(self) -> _Block:
        if self._blocks is None:
            self._made += 1
            return _Block()
        for priority in sorted(self._free):
            if priority >= _NO_PRIORITY and self._made < self._blocks:
                break
            if self._free[priority]:
                return self._free[priority].popitem(last=False)[0]
        assert self._made < self._blocks, "a request that fits finds its blocks"
        self._made += 1
        return _Block()

    def _forget_all(self, block: _Block) -> None:
        """Remove the contents of a taken block's descendants; they keep their place among the free blocks."""
        for child in list(block.children.values()):
            self._forget_all(child)
        self._forget(block)

    def _forget(self, block: _Block) -> None:
        self._tokens -= len(block.key) // _TOKEN
        block.detach()

    def _store(self, root: _Block, keys: list[bytes], held: list[_Block]) -> None:
        """Put a request's blocks into the tree; existing nodes stay."""
        known = True
        for key, block in zip(keys, held, strict=False):
            there = root.children.get(key) if known else None
            if there is not None:
                root = there
                continue
            known = False
            root.add(key, block)
            self._tokens += len(key) // _TOKEN
            root = block


def _common(one: bytes, other: bytes) -> int:
    """Return tokens that both begin with."""
    length = min(len(one), len(other)) // _TOKEN
    same = np.frombuffer(one, np.int32, length) == np.frombuffer(other, np.int32, length)
    return length if same.all() else int(same.argmin())


def _remedies(options: TrtLlmOptions) -> tuple[OtherSetting[TrtLlmOptions], ...]:
    found = []
    if options.max_tokens is not None:
        tokens = 2 * options.max_tokens
        what = f"double the cache: --max-tokens {tokens}"
        found.append(OtherSetting("evicted", what, replace(options, max_tokens=tokens)))
    if not options.enable_partial_reuse:
        what = "reuse parts of blocks: --enable-partial-reuse"
        found.append(OtherSetting("partial_block", what, replace(options, enable_partial_reuse=True)))
    if options.tokens_per_block > 8 and not options.enable_partial_reuse:
        what = "use smaller blocks: --tokens-per-block 8"
        found.append(OtherSetting("partial_block", what, replace(options, tokens_per_block=8)))
    return tuple(found)


TRTLLM = RuleSet(
    name="trtllm",
    engine="TensorRT-LLM, V1 block manager (sources of 2025 and 2026)",
    status="read",
    evidence="read from source, not verified: its GPU build was never run beside it",
    not_modelled=(
        "ties among children with equal shared length",
        "the host pool (host_cache_size)",
        "durations of priorities",
        "the V2 manager, which Llama 4, GPT-OSS, Gemma and hybrid models use",
        "sliding windows",
        "concurrent requests",
    ),
    options=TrtLlmOptions(),
    make=TrtLlmCache,
    unit=lambda options: 1 if options.enable_partial_reuse else options.tokens_per_block,
    ladder=(Rung("evicted", lambda options: replace(options, max_tokens=None)),),
    rest="taken_over",
    remedies=_remedies,
    eviction="the least recently used block of the lowest priority; each request has its own priority",
    limited=lambda options, tokens: replace(options, max_tokens=tokens),
)
