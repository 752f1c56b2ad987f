"""SGLang's rules once more, each written down where it happens and nothing saved up: slow, and only for requests one at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any


@dataclass(eq=False)
class Plain:
    """A node of the tree."""

    tokens: list[int]
    parent: Plain | None
    priority: int
    last_use: int
    uses: int = 0
    locks: int = 0
    children: list[Plain] = field(default_factory=list)


class PlainSglang:
    """A tree for each scope, leaves found by looking at all nodes, and a decode step for each token."""

    def __init__(self, page: int, policy: str, capacity: int, threshold: int = 2) -> None:
        self.page, self.policy, self.capacity, self.threshold = page, policy, capacity - capacity % page, threshold
        self.clock = count(1)
        self.roots: dict[Any, Plain] = {}
        self.own = 0
        self.evicted = 0

    def nodes(self) -> list[Plain]:
        pending, found = [child for root in self.roots.values() for child in root.children], []
        while pending:
            found.append(pending.pop())
            pending += found[-1].children
        return found

    @property
    def held(self) -> int:
        return sum(len(node.tokens) for node in self.nodes())

    def whole(self, tokens: list[int]) -> list[int]:
        return tokens[: len(tokens) - len(tokens) % self.page]

    def descend(self, scope: Any, tokens: list[int], visit: Any) -> tuple[Plain, int]:
        node = self.roots.setdefault(scope, Plain([], None, 0, 0))
        now, at = next(self.clock), 0
        while at < len(tokens):
            page = tokens[at : at + self.page]
            child = next((each for each in node.children if each.tokens[: self.page] == page), None)
            if child is None:
                break
            child.last_use = now
            same = 0
            while child.tokens[same : same + self.page] == tokens[at + same : at + same + self.page] != []:
                same += self.page
            at += same
            if same < len(child.tokens):
                front = Plain(
                    child.tokens[:same], node, child.priority, next(self.clock), child.uses, child.locks, [child]
                )
                node.children[node.children.index(child)] = front
                child.parent, child.tokens = front, child.tokens[same:]
                child = front
            visit(child, at)
            node = child
        return node, at

    def match(self, scope: Any, tokens: list[int]) -> tuple[Plain, int]:
        return self.descend(scope, self.whole(tokens), lambda *_: None)

    def insert(self, scope: Any, tokens: list[int], priority: int, counted: int) -> int:
        def visit(node: Plain, end: int) -> None:
            node.priority = max(node.priority, priority)
            node.uses += end > counted

        tokens = self.whole(tokens)
        node, at = self.descend(scope, tokens, visit)
        if at < len(tokens):
            leaf = Plain(tokens[at:], node, priority, next(self.clock), int(len(tokens) > counted))
            node.children.append(leaf)
        return at

    def lock(self, node: Plain | None, by: int) -> None:
        while node is not None:
            node.locks += by
            node = node.parent

    def rank(self, node: Plain) -> tuple[int, int]:
        first = {"lru": 0, "lfu": node.uses, "slru": int(node.uses >= self.threshold), "priority": node.priority}
        return first[self.policy], node.last_use

    def room(self, tokens: int) -> None:
        short = tokens - (self.capacity - self.held - self.own)
        gone = 0
        while gone < short:
            leaf = min((node for node in self.nodes() if not node.children and not node.locks), key=self.rank)
            assert leaf.parent is not None
            leaf.parent.children.remove(leaf)
            gone += len(leaf.tokens)
        self.evicted += gone

    def pages(self, tokens: int) -> int:
        return -(-tokens // self.page) * self.page

    def serve(self, prompt: list[int], answer: list[int], scope: Any, priority: int) -> tuple[int, int]:
        """Tokens that were reused, and tokens that were thrown away."""
        before = self.evicted
        text = prompt + answer[:-1]
        node, cached = self.match(scope, prompt[:-1])
        self.lock(node, 1)
        self.room(len(prompt) - cached + (self.page if self.page > 1 else 0))
        counted = 0
        if len(answer) > 1:
            self.insert(scope, prompt, priority, 0)
            node, counted = self.published(scope, prompt, node)
            for end in range(len(prompt), len(text)):
                self.own = self.pages(end - counted)
                self.room(self.page)
        self.insert(scope, text, priority, counted)
        prompt_pages = self.whole(prompt)
        if 0 < len(prompt_pages) < len(self.whole(text)):
            self.insert(scope, prompt_pages, priority + 1, len(prompt_pages))
        node, _ = self.published(scope, text, node)
        self.own = 0
        self.lock(node, -1)
        return cached, self.evicted - before

    def published(self, scope: Any, text: list[int], node: Plain) -> tuple[Plain, int]:
        end, kept = self.match(scope, text)
        assert kept == len(self.whole(text))
        self.lock(end, 1)
        self.lock(node, -1)
        return end, kept
