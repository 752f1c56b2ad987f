"""Pictures of prompts cut into blocks, with kvtool's own tokens and block hashes; drawn as SVG with nothing from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import NATIVE
from kvtool.text.tokens.tokenizer import Tokenizer, load_tokenizer

BLOCK = 4
"""Tokens in a block of the pictures: fewer than in any engine, so that a block's text can be read."""
_WIDTH, _LEFT, _BOX, _GAP = 860, 16, 134, 6
_TIMES = ("09:14", "09:15")
_SPACE = "\u00b7"
_STYLE = """
  text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 12px; fill: #1c2330; }
  .head { font-family: system-ui, -apple-system, "Segoe UI", sans-serif; font-size: 14px; font-weight: 600; }
  .small { font-size: 11px; fill: #4a5365; }
  .paper { fill: #ffffff; stroke: #d0d5dd; }
  .hit { fill: #d3f1dd; stroke: #1a7f46; }
  .new { fill: #eceff3; stroke: #6b7586; }
  .lost { fill: #fde0d8; stroke: #b3401f; stroke-dasharray: 5 3; }
  .part { fill: #ffffff; stroke: #6b7586; stroke-dasharray: 2 3; }
"""


@dataclass(frozen=True, slots=True)
class Block:
    """`hash` is None for a part block, which has none; `known` tells whether an earlier request of the picture has the same text
    in a block, `hit` whether it is found by its hash."""

    text: str
    hash: str | None
    hit: bool
    known: bool

    @property
    def kind(self) -> str:
        if self.hash is None:
            return "part"
        return "hit" if self.hit else "lost" if self.known else "new"


def figures() -> dict[str, str]:
    """File names and texts of all pictures."""
    tokenizer = load_tokenizer(None)
    rules = "You are the agent of Acme. Be brief."
    first = [f"It is {time}. {rules} Hi!" for time in _TIMES]
    last = [f"{rules} It is {time}. Hi!" for time in _TIMES]
    costs = "The clock first: one token differs, and every block from it on is another one"
    saves = "The clock last: the blocks before it are the same, and are reused"
    return {
        "clock-first.svg": _picture(costs, blocks_of(tokenizer, first)),
        "clock-last.svg": _picture(saves, blocks_of(tokenizer, last)),
    }


def blocks_of(tokenizer: Tokenizer, prompts: Sequence[str]) -> list[list[Block]]:
    """The blocks of prompts that are sent one after the other."""
    hashes: set[BlockHash] = set()
    texts: set[str] = set()
    rows = []
    for prompt in prompts:
        ids = tokenizer.encode_ids(prompt)
        whole = len(ids) // BLOCK * BLOCK
        chain = NATIVE.chain(ids[:whole], BLOCK, None, None, None)
        row = []
        for number, block_hash in enumerate(chain):
            text = tokenizer.decode(ids[number * BLOCK : (number + 1) * BLOCK])
            row.append(Block(text, block_hash.hex()[:8], block_hash in hashes, text in texts))
        if whole < len(ids):
            row.append(Block(tokenizer.decode(ids[whole:]), None, hit=False, known=False))
        hashes.update(chain)
        texts.update(block.text for block in row)
        rows.append(row)
    return rows


def _picture(title: str, rows: Sequence[Sequence[Block]]) -> str:
    height = 58 + 84 * len(rows) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title">',
        f'<title id="title">{escape(title)}</title>',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="head" x="{_LEFT}" y="28">{escape(title)}</text>',
    ]
    for number, row in enumerate(rows):
        parts += _row(row, number, 46 + 84 * number)
    legend = (
        ("hit", "reused"),
        ("lost", "same text, not reused"),
        ("new", "computed"),
        ("part", "part of a block: never kept"),
    )
    x = _LEFT
    for kind, words in legend:
        parts.append(f'<rect class="{kind}" x="{x}" y="{height - 28}" width="14" height="14" rx="3"/>')
        parts.append(f'<text class="small" x="{x + 20}" y="{height - 17}">{words}</text>')
        x += 44 + 7 * len(words)
    return "\n".join([*parts, "</svg>", ""])


def _row(row: Sequence[Block], number: int, top: int) -> list[str]:
    parts = [f'<text class="small" x="{_LEFT}" y="{top + 10}">request {number + 1}</text>']
    for place, block in enumerate(row):
        x, y = _LEFT + place * (_BOX + _GAP), top + 16
        width = _BOX if block.hash is not None else _BOX * 2 // 3
        shown = block.text.replace(" ", _SPACE)
        below = "no hash" if block.hash is None else block.hash
        word = {"hit": "reused", "lost": "new", "new": "new", "part": ""}[block.kind]
        parts += [
            f'<rect class="{block.kind}" x="{x}" y="{y}" width="{width}" height="30" rx="4"/>',
            f'<text x="{x + 6}" y="{y + 19}" xml:space="preserve">{escape(shown)}</text>',
            f'<text class="small" x="{x + 6}" y="{y + 45}">{below}{"  " + word if word else ""}</text>',
        ]
    return parts
