"""Blocks of context that an application writes into user messages: after the question, or left where they were first sent."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from xxhash import xxh3_64_intdigest

from kvtool.fixes.fix_thresholds import THRESHOLDS
from kvtool.fixes.moves.movable_unit import Movable
from kvtool.fixes.moves.move import MovedText, append_units, last_asked
from kvtool.fixes.moves.split_text import parted_at
from kvtool.fixes.turn_texts import INSTRUCTIONS, texts_of, with_texts
from kvtool.text.message import Message, role_of
from kvtool.text.reordered import rearranged
from kvtool.text.structure.framed_blocks import framed_blocks
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

CONTEXT_LAST = "context-last"
"""The kind of a fix that moves blocks of context to the end of the last message."""
CONTEXT_FIRST = "context-first"
"""The kind of a fix that moves them to the end of the instructions."""
CONTEXT_KEPT = "context-kept"
"""The kind of a fix that leaves them where they were first sent."""
MOVE_CONTEXT = "move the block of context to the end of the last message, after the question"
CONTEXT_TO_SYSTEM = "move the block of context to the end of the system message"
KEEP_CONTEXT = (
    "leave each block of context in the message where it was first sent, and append a new one to the last message"
)

_MOST_MESSAGES = 100_000


@dataclass(frozen=True, slots=True)
class ContextBlocks:
    """The first lines of blocks that an application writes into user messages."""

    heads: frozenset[str]

    @classmethod
    def learn(cls, samples: Sequence[Turn]) -> ContextBlocks | None:
        """Return None where no line introduces blocks in a good part of the requests, and other ones in some of them."""
        requests: Counter[str] = Counter()
        bodies: dict[str, set[int]] = {}
        for turn in samples:
            found: set[str] = set()
            for at in texts_of(turn):
                if at.role != "user":
                    continue
                text = str.__str__(at.text)
                for block in framed_blocks(text):
                    found.add(block.head)
                    bodies.setdefault(block.head, set()).add(hash(text[block.start : block.stop]))
            requests.update(found)
        often = THRESHOLDS.context_requests * len(samples)
        heads = frozenset(head for head, count in requests.items() if count >= often and len(bodies[head]) > 1)
        return cls(heads) if heads else None

    def parted(self, text: str) -> tuple[Traced, list[MovedText]]:
        """Return a text without its blocks of context, and these; of a text that is nothing else, all of it and none."""
        traced = text if isinstance(text, Traced) else Traced(text)
        plain = str.__str__(text)
        blocks = [Movable(each.start, each.stop, "section") for each in framed_blocks(plain) if each.head in self.heads]
        found = parted_at(plain, blocks, len(plain))
        kept = rearranged(traced, found.kept)
        if not found.units or not kept.strip():
            return traced, []
        if not plain[found.units[-1].stop :].strip():  # nothing parts the rest from what was last
            kept = kept[: len(kept.rstrip("\n"))]
        return kept, [MovedText(traced[unit.start : unit.stop], apart=True) for unit in found.units]


@dataclass(frozen=True, slots=True)
class MovedContext:
    """Moves the blocks of context of all user messages to the end of the last message (P2), or of the `first` instructions: what
    is the same for a conversation is then read with these.
    """

    blocks: ContextBlocks
    first: bool = False

    def __call__(self, turn: Turn) -> Turn:
        at = _last_instructions(turn.messages or ()) if self.first else last_asked(turn.messages or ())
        if at is None:
            return turn
        changed: dict[tuple[int | None, int | None], str] = {}
        moved: list[MovedText] = []
        for text_at in texts_of(turn):
            if text_at.role == "user" and text_at.message is not None:
                text, units = self.blocks.parted(text_at.text)
                if units:
                    changed[text_at.message, text_at.part] = text
                    moved += units
        after = append_units(with_texts(turn, changed), moved, at=at, own_block=True) if moved else turn
        return turn if after.messages == turn.messages else after


def _last_instructions(messages: Sequence[Message]) -> int | None:
    """Return the number of the last of the messages of instructions that come first."""
    leading = sum(1 for _ in takewhile(lambda message: role_of(message) in INSTRUCTIONS, messages))
    return leading - 1 if leading else None


@dataclass(slots=True)
class _SentMessage:
    """A user message as it was sent first."""

    message: Message
    blocks: frozenset[str] = field(default_factory=frozenset)


class ContextKept:
    """Sends each user message of the history as it was sent first, with its block of context; a block that is new comes last (P3).

    Conversations are told apart by what was said in them without such blocks.
    """

    def __init__(self, blocks: ContextBlocks) -> None:
        self._blocks = blocks
        self._sent: OrderedDict[int, _SentMessage] = OrderedDict()

    def __call__(self, turn: Turn) -> Turn:
        messages = list(turn.messages or ())
        asked = max((at for at, each in enumerate(messages) if role_of(each) == "user"), default=-1)
        key = xxh3_64_intdigest(f"{turn.group}\0{turn.session or ''}".encode(errors="replace"))
        there: set[str] = set()
        new: list[MovedText] = []
        for number, message in enumerate(messages):
            own, units = self._own(message)
            key = xxh3_64_intdigest(own.encode(errors="replace"), seed=key)
            if role_of(message) != "user" or not isinstance(message.get("content"), str):
                continue
            sent = self._sent.get(key)
            if sent is None:
                sent = _SentMessage(message, frozenset(str.__str__(unit.text) for unit in units))
                self._sent[key] = sent
                if len(self._sent) > _MOST_MESSAGES:
                    self._sent.popitem(last=False)
            messages[number] = sent.message
            there |= sent.blocks
            new += [unit for unit in units if str.__str__(unit.text) not in sent.blocks]
        new = [unit for unit in new if str.__str__(unit.text) not in there]
        if asked < 0 or (not new and all(a is b for a, b in zip(messages, turn.messages or (), strict=True))):
            return turn
        after = turn.with_messages(messages)
        after = append_units(after, new, own_block=True) if new else after
        after.call = turn.call.of_another_prompt
        return after

    def _own(self, message: Message) -> tuple[str, list[MovedText]]:
        """Return what a message says without blocks of context, and these."""
        content = message.get("content")
        if role_of(message) != "user" or not isinstance(content, str):
            return f"{role_of(message)}\0{content!s}", []
        text, units = self._blocks.parted(content)
        return "\n".join(line.strip() for line in str.__str__(text).split("\n") if line.strip()), units
