"""A block of context that an application wrote into a message of the history: all that differs there."""

from __future__ import annotations

from kvtool.diagnose.codes.structure.kv144 import CONTEXT_BLOCK
from kvtool.diagnose.compare.change import Change, RequestPart
from kvtool.diagnose.compare.tools import MAX_EXCERPT
from kvtool.text.structure.framed_blocks import FramedBlock, framed_blocks


def context_block_change(before: str, after: str, part: RequestPart) -> Change | None:
    """Return the change of a message that is the same without its blocks of one head; None where more of it differs, or nothing.

    What is left is the text of the user: there has to be some.
    """
    for head in dict.fromkeys(block.head for text in (before, after) for block in framed_blocks(text)):
        old, new = (_blocks_of(text, head) for text in (before, after))
        own = _without(after, new)
        if not own or own != _without(before, old):
            continue
        was, now = (_said(text, blocks) for text, blocks in ((before, old), (after, new)))
        start, stop = (new[0].start, new[-1].stop) if new else (0, 0)
        return Change(CONTEXT_BLOCK, part, start, stop, was[:MAX_EXCERPT], now[:MAX_EXCERPT])
    return None


def _blocks_of(text: str, head: str) -> list[FramedBlock]:
    return [block for block in framed_blocks(text) if block.head == head]


def _said(text: str, blocks: list[FramedBlock]) -> str:
    return "\n".join(text[block.start : block.stop] for block in blocks)


def _without(text: str, blocks: list[FramedBlock]) -> list[str]:
    """Return the lines of a text without blocks, blank ones aside."""
    kept, at = "", 0
    for block in blocks:
        kept += text[at : block.start]
        at = block.stop
    return [line.strip() for line in (kept + text[at:]).split("\n") if line.strip()]
