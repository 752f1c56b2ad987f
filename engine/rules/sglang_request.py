"""A request in SGLang: its options, its hit, and its computed tokens."""

from __future__ import annotations

import numpy as np

from kvtool.engine.rules.rule_set import Ids, RuleRequest
from kvtool.engine.rules.sglang_tree import TOKEN_BYTES, PageNode


class RadixRequest:
    """A request and its place in the tree; it owns the pages after its part of the tree."""

    __slots__ = (
        "cached",
        "computed",
        "held",
        "node",
        "num_answer",
        "num_prompt",
        "priority",
        "published",
        "sampled",
        "scope",
        "target",
        "text",
    )

    def __init__(self, asked: RuleRequest, root: PageNode) -> None:
        self.num_prompt = len(asked.prompt)
        self.num_answer = max(1, len(asked.answer))
        self.text = _bytes(asked.prompt) + _bytes(asked.answer[:-1])
        """All tokens that get KV: the last one that is sampled has none."""
        self.scope = asked.scope
        self.priority = asked.priority
        self.cached: int | None = None
        """Tokens that it found when it was let in first."""
        self.sampled = 0
        self.start(root, 0)

    def start(self, node: PageNode, held: int) -> None:
        """Begin after `held` tokens, which end at `node`."""
        self.node = node
        self.held = held
        """Its tokens in the tree, in whole pages."""
        self.computed = held
        """Tokens that have KV, those that were found included."""
        self.target = held
        """Tokens that have KV after the prefill that it is let into."""
        self.published = 0
        """The moment when its computed tokens entered the tree."""

    @property
    def num_known(self) -> int:
        """Tokens of its prompt, and of its answer as far as that goes."""
        return self.num_prompt + self.sampled

    @property
    def num_left(self) -> int:
        """Tokens of its answer that are still to be sampled."""
        return self.num_answer - self.sampled

    def key(self, tokens: int) -> bytes:
        """Return its first tokens, as the tree takes them."""
        return self.text[: tokens * TOKEN_BYTES]


def _bytes(ids: Ids) -> bytes:
    return np.ascontiguousarray(ids, dtype=np.int32).tobytes()
