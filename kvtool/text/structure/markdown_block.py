"""A block of Markdown, by lines."""

from __future__ import annotations

from typing import Literal, NamedTuple

BlockKind = Literal["heading", "fence", "list", "numbered", "item", "quote", "paragraph", "break"]

DEEPEST = 24
"""Lists, items and quotes that may stand in each other; what is deeper is not looked at."""


class MarkdownBlock(NamedTuple):
    """Lines `[first, stop)` of a text (0 is its first), `depth` blocks inside of others; a heading has a `level`."""

    kind: BlockKind
    first: int
    stop: int
    depth: int
    level: int = 0
    mark: str = ""
