"""The blocks of a text as markdown-it-py sees them: what `markdown_blocks` is compared with."""

from __future__ import annotations

from functools import lru_cache

from markdown_it import MarkdownIt

from kvtool.text.structure.markdown_blocks import DEEPEST, BlockKind, MarkdownBlock

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


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": DEEPEST})
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.block.ruler.enableOnly(["fence", "blockquote", "hr", "list", "heading", "lheading", "paragraph"])
    return parser


def library_blocks(text: str) -> list[MarkdownBlock]:
    """The blocks in order, those inside of others behind them. Tables and HTML are paragraphs here, indents mean nothing."""
    depth = 0
    blocks: list[MarkdownBlock] = []
    for token in _parser().parse(text):
        kind = _KINDS.get(token.type)
        if token.nesting < 0 and token.type not in ("heading_close", "paragraph_close"):
            depth -= 1
        if kind is not None and token.map is not None:
            level = int(token.tag[1]) if kind == "heading" else 0
            blocks.append(MarkdownBlock(kind, token.map[0], token.map[1], depth, level, token.markup))
        if token.nesting > 0 and token.type not in ("heading_open", "paragraph_open"):
            depth += 1
    return blocks
