"""SGLang's unified radix cache for models with sliding windows or states, requests one at a time in a pool without a limit.

All nodes have KV of full attention. In addition a node has the KV of windows, or it was freed since; and it has the state after its
last token, or none. A prefix is reusable where all that its next token reads is still there.
"""

from __future__ import annotations

from math import lcm
from typing import Protocol

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.served_model import ServedModel
from kvtool.engine.rules.rule_set import RuleRequest, Served
from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_request import RadixRequest
from kvtool.engine.rules.sglang_tree import TOKEN_BYTES, PageNode, PageTree

FREED_EVERY = 128
"""Tokens that slide out of the window while an answer is computed, before SGLang frees them: SGLANG_SWA_EVICTION_INTERVAL."""


class HybridNode(PageNode):
    """A piece of a prefix, with what is kept of its windows and of its states."""

    __slots__ = ("has_state", "in_window")
    has_state: bool
    in_window: bool


class HybridTree(PageTree):
    """The tree of one model: a split leaves the state at the end, and windows in both parts."""

    node_type = HybridNode

    def _node(self, key: bytes, parent: PageNode, under: object, priority: int) -> HybridNode:
        made = super()._node(key, parent, under, priority)
        assert isinstance(made, HybridNode)
        made.has_state = made.in_window = False
        return made

    def split(self, node: PageNode, at: int) -> HybridNode:
        """Cut a node at `at` bytes and return the front."""
        front = super().split(node, at)
        assert isinstance(front, HybridNode)
        assert isinstance(node, HybridNode)
        front.in_window = node.in_window
        return front

    def path(self, node: PageNode) -> list[tuple[HybridNode, int]]:
        """Return the nodes from the root to `node`, each with the tokens at which it ends."""
        nodes: list[HybridNode] = []
        while isinstance(node, HybridNode) and node.parent is not None:
            nodes.append(node)
            node = node.parent
        ends, end = [], 0
        for each in reversed(nodes):
            end += len(each.key) // TOKEN_BYTES
            ends.append((each, end))
        return ends


class Kept(Protocol):
    """What a kind of layer keeps beside full attention, for one request after the other."""

    def find_hit(self, path: list[tuple[HybridNode, int]]) -> int:
        """Return the longest prefix of a path that the layers can go on from."""

    def begin(self, hit: int, present: int) -> None:
        """Begin a request: `hit` tokens are reused, `present` have KV of full attention."""

    def compute(self, start: int, end: int) -> None:
        """Compute a chunk of the prompt."""

    def decode(self, prompt: int, answer: int) -> None:
        """Compute the answer, of which the last token has no KV, and end."""

    def entering(self, computed: int) -> int:
        """Return how many of the computed tokens enter the tree now."""

    def mark(self, path: list[tuple[HybridNode, int]]) -> None:
        """Note at the nodes of the tokens that have entered what is kept there."""


class Windows:
    """Sliding windows: a prefix needs the last window before its end, or all from the start."""

    def __init__(self, window: int, tree: HybridTree) -> None:
        self._window = window
        self._tree = tree
        self._page = page_size = tree.page_size
        self._kept = -(-max(window, page_size) // page_size) * page_size
        """Tokens that are kept of a running request: a window in whole pages."""
        self.begin(0, 0)

    def find_hit(self, path: list[tuple[HybridNode, int]]) -> int:
        """Return the end of the last run of nodes with windows that is as long as a window, or begins at the root."""
        hit, begin, run = 0, 0, True
        start = -self._window
        for node, end in path:
            if not node.in_window:
                run = False
            elif not run:
                run, start = True, begin
            if run and end - start >= self._window:
                hit = end
            begin = end
        return hit

    def begin(self, hit: int, present: int) -> None:
        """Begin after `hit` tokens; where full attention has more, a window is kept there for the next request."""
        self._branch = present if present > hit else 0
        self._in_tree = hit
        self._freed = 0
        self._computed = hit
        self._runs = True

    def compute(self, start: int, end: int) -> None:
        """Compute a chunk; nothing is freed before it enters the tree."""

    def entering(self, computed: int) -> int:
        """Stop where the prompt leaves what full attention has: this once, a window is kept there."""
        self._computed = computed
        length = self._branch if self._in_tree < self._branch <= computed else computed
        if self._runs:
            self._free(length - 1)
        return length

    def mark(self, path: list[tuple[HybridNode, int]]) -> None:
        """Give the entered tokens their windows, but for those that were freed since."""
        begin = 0
        for node, end in path:
            live = max(begin, self._freed)
            if end > self._in_tree and live < end and not node.in_window:
                if live > begin:
                    self._tree.split(node, (live - begin) * TOKEN_BYTES)
                node.in_window = True
            begin = end
        self._in_tree = begin
        if self._branch and begin >= self._branch:
            self._branch = 0
            if self._runs:
                self._free(self._computed - 1)

    def decode(self, prompt: int, answer: int) -> None:
        """Free what slides out of the window while the answer is computed, in steps."""
        known = prompt + 2
        while (known := max(known, self._freed + FREED_EVERY + self._window + 1)) < prompt + answer:
            self._free(known - 1)
            known += 1
        self._runs = False

    def _free(self, before: int) -> None:
        if before - self._window <= self._freed:
            return
        self._freed = max(self._freed, self._in_tree)
        kept = max(self._freed, before - self._kept)
        self._freed = kept - kept % self._page


class States:
    """States of linear attention: a prefix ends where one was kept."""

    def __init__(self, options: SglangOptions) -> None:
        self._every_end = options.mamba_radix_cache_strategy == "no_buffer"
        self._chunk = max(options.mamba_chunk_size, options.page_size)
        self._grid = lcm(self._chunk, options.page_size)
        self._interval = lcm(self._grid, options.mamba_track_interval)
        self.begin(0, 0)

    def find_hit(self, path: list[tuple[HybridNode, int]]) -> int:
        """Return the last end of a node with a state."""
        return next((end for node, end in reversed(path) if node.has_state), 0)

    def begin(self, hit: int, present: int) -> None:
        """Begin after `hit` tokens; a state is kept where the prompt leaves what full attention has."""
        branch = present - present % self._grid
        self._branch = branch if branch > hit else 0
        self._tracked: int | None = None

    def compute(self, start: int, end: int) -> None:
        """Compute a chunk and keep one state of it: the last on the grid, or the one where the prompt leaves the tree."""
        if end - start < self._grid:
            return
        last = start + (end - start) // self._grid * self._grid
        reach = end if last == start + (end - start) // self._chunk * self._chunk else last + 1
        forks = start < self._branch < reach and (self._branch - start) % self._chunk == 0
        self._tracked = self._branch if forks else last

    def decode(self, prompt: int, answer: int) -> None:
        """Keep a state at each multiple of the interval."""
        computed = prompt + answer - 1
        if computed - computed % self._interval > prompt:
            self._tracked = computed - computed % self._interval

    def entering(self, computed: int) -> int:
        """Return where the last state is: the tree takes no token after it."""
        return computed if self._every_end else self._tracked or 0

    def mark(self, path: list[tuple[HybridNode, int]]) -> None:
        """Keep the state at the end of what has entered."""
        path[-1][0].has_state = True
        self._tracked = None


class HybridCache:
    """SGLang's prefix cache of such a model under requests that run alone."""

    def __init__(self, options: SglangOptions) -> None:
        self.options = options
        self.tree = HybridTree(options.page_size)
        window = options.sliding_window
        self._kept: Kept = States(options) if window is None else Windows(window, self.tree)

    def serve(self, asked: RuleRequest) -> Served:
        """Look a request up, run it alone to its end, and keep its prompt and answer."""
        request = RadixRequest(asked, self.tree.root)
        if not request.num_prompt:
            return Served(0)
        kept, total, answer = self._kept, request.num_prompt, request.num_answer
        node, present = self.tree.match(request.scope, request.key(total - 1))
        hit = kept.find_hit(self.tree.path(node))
        kept.begin(hit, present)
        chunk = self.options.chunked_prefill_size or total
        start = hit
        while start < total:
            end = min(start + chunk, total)
            kept.compute(start, end)
            if end < total or answer > 1:
                self._enter(request, end)
            start = end
        kept.decode(total, answer)
        self._enter(request, total + answer - 1)
        return Served(hit, 0, self._loss(hit, present))

    def _enter(self, request: RadixRequest, computed: int) -> None:
        tokens = self.tree.pages_of(self._kept.entering(computed))
        if tokens:
            node, _ = self.tree.extend(self.tree.root, request.scope, request.key(tokens), 0)
            self._kept.mark(self.tree.path(node))

    def _loss(self, hit: int, present: int) -> str:
        if hit >= present:
            return ""
        return "no_state" if self.options.sliding_window is None else "window"

    @property
    def num_tokens(self) -> int:
        """Tokens in the tree now."""
        return self.tree.num_tokens


def sglang_facts(model: ServedModel) -> dict[str, int | str]:
    """Return values by the names of SglangOptions: the window, or how states are kept. EngineError for layers that are left out.

    SGLang chooses extra_buffer by itself for Qwen3-Next, Qwen3.5, Nemotron-H, Granite 4, Falcon-H1 and Kimi-Linear.
    """
    windows = sorted({layer.window for layer in model.attention if layer.window is not None})
    whole = any(layer.window is None and layer.chunk is None for layer in model.attention)
    if windows and (len(windows) > 1 or model.states):
        other = "states" if model.states else "windows of several lengths"
        raise EngineError(
            f"{model.name} has {other} beside its windows; these rules of SGLang support one kind",
            hint="choose another model, or another engine's rules",
        )
    if windows and whole:
        return {"sliding_window": windows[0]}
    return {"mamba_radix_cache_strategy": "extra_buffer"} if model.states and whole else {}
