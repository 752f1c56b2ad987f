"""The blocks of a text that Markdown sees, by lines: headings, fences, lists, quotes, paragraphs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

BlockKind = Literal["heading", "fence", "list", "numbered", "item", "quote", "paragraph", "break"]

DEEPEST = 24
"""Lists, items and quotes that may be in each other; what is deeper is not looked at."""


class MarkdownBlock(NamedTuple):
    """Lines `[first, stop)` of a text (0 is its first), `depth` blocks inside of others; a heading has a `level`."""

    kind: BlockKind
    first: int
    stop: int
    depth: int
    level: int = 0
    mark: str = ""


_KINDS: dict[str, BlockKind] = {
    "heading_open": "heading",
    "fence": "fence",
    "bullet_list_open": "list",
    "ordered_list_open": "numbered",
    "list_item_open": "item",
    "blockquote_open": "quote",
    "paragraph_open": "paragraph",
    "hr": "break",
}


def markdown_blocks(lines: Sequence[str]) -> list[MarkdownBlock]:
    """Return the blocks in order, those inside of others after them. Tables and HTML are paragraphs here, indents mean nothing."""
    depth = 0
    blocks: list[MarkdownBlock] = []
    for token in _parser().parse("\n".join(lines)):
        kind = _KINDS.get(token.type)
        holds_blocks = token.type not in ("heading_open", "heading_close", "paragraph_open", "paragraph_close")
        if token.nesting < 0 and holds_blocks:
            depth -= 1
        if kind is not None and token.map is not None:
            level = int(token.tag[1]) if kind == "heading" else 0
            blocks.append(MarkdownBlock(kind, token.map[0], token.map[1], depth, level, token.markup))
        if token.nesting > 0 and holds_blocks:
            depth += 1
    return blocks


@cache
def _parser() -> MarkdownIt:
    """Return a parser of blocks alone that leaves each character as it is."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": DEEPEST})
    parser.core.ruler.enableOnly(["block"])
    parser.block.ruler.enableOnly(["fence", "blockquote", "hr", "list", "heading", "lheading", "paragraph"])
    return parser
