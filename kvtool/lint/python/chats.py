"""Chats that code sends: the messages of a call in their order, each with its role."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.lint.passed_values import SentTools
from kvtool.lint.python.filled_templates import nodes_of
from kvtool.lint.python.text_values import (
    Either,
    Items,
    Literal,
    Many,
    Message,
    Param,
    Piece,
    SentChat,
    Value,
    pieces_of,
)
from kvtool.lint.skeleton import CONVERSATION, MARKED_BLOCK, Hole, Node, TemplatePlace, leaves

ChatMessage = tuple[str, list[Node]]
"""The role of a message, as code names it, and its text."""


class Chat(NamedTuple):
    """The messages of a call, the function or the class that sends them, the line of the call, and the tools that it sends.

    A message contains the marks of its blocks (`MARKED_BLOCK`). `automatic`: the call asks for a mark at the last block.
    """

    sender: str
    messages: list[ChatMessage]
    line: int = 0
    tools: SentTools | None = None
    automatic: bool = False
    places: tuple[TemplatePlace | None, ...] = ()
    """Where the first constant text of each message is written."""
    api_call: TemplatePlace | None = None
    """Where the API is called: in the function that `line` calls, where it is not there."""


LEAST_TEXT = 40
"""Characters of constant text, below which nothing is a prompt."""
_MOST_NODES = 2_000
_MOST_MESSAGES = 40
_MOST_CHATS = 200
_NAMES = {"system": "system_message", "assistant": "answer", "ai": "answer", "placeholder": "history"}
"""Names of messages of which nothing is known."""


class Chats:
    """The chats of a module: of several that contain the same texts, the one with most messages."""

    def __init__(self, path: str) -> None:
        self._nowhere = TemplatePlace(path, 0, 0, 0)
        self._found: list[Chat] = []

    def add(
        self,
        messages: Iterable[tuple[str, Value]],
        sender: str,
        *,
        line: int = 0,
        sent: SentChat | None = None,
    ) -> None:
        """Add the messages of a call; those with hardly any constant text are no prompt."""
        messages = list(messages)[:_MOST_MESSAGES]
        chat = [(role, self._nodes(role, content)) for role, content in messages]
        places = tuple(_written_at(content) for _, content in messages)
        in_file = any(isinstance(leaf, Hole) and leaf.file for _, nodes in chat for leaf in leaves(nodes))
        written = sum(len(_text(nodes)) for _, nodes in chat)
        if len(self._found) < _MOST_CHATS and (in_file or written >= LEAST_TEXT):
            said = (sent.tools, sent.automatic, places, sent.api_call) if sent is not None else (None, False, places)
            self._found.append(Chat(sender, chat, line, *said))

    def all(self) -> list[Chat]:
        """Return the chats in the order in which they were found."""
        kept: list[Chat] = []
        for chat in sorted(self._found, key=_knowledge, reverse=True):
            if not any(_is_within(chat.messages, other.messages) for other in kept):
                kept.append(chat)
        return sorted(kept, key=self._found.index)

    def _nodes(self, role: str, content: Value) -> list[Node]:
        nodes = nodes_of(tuple(map(self._with_hole, content)), unfilled=True, most=[_MOST_NODES], copied=True)
        if all(isinstance(leaf, Hole) and leaf.unseen == MARKED_BLOCK for leaf in leaves(nodes)):
            return [self._hole(_NAMES.get(role, "user_message")), *nodes]
        return nodes

    def _with_hole(self, piece: Piece) -> Piece:
        return self._hole(piece.name) if isinstance(piece, Param) and piece.hole is None else piece

    def _hole(self, name: str) -> Hole:
        return Hole(self._nowhere, OTHER, f"`{name}`", doubt="open")


def parted(
    chat: Iterable[ChatMessage], written: Sequence[TemplatePlace | None]
) -> Iterator[tuple[str, list[Node], str, TemplatePlace | None]]:
    """Yield messages that end where a block does that has a mark, each with the time to live of that mark, and where it is written;
    a text without a role as it is.
    """
    for (role, nodes), place in zip_longest(chat, written):
        part: list[Node] = []
        for node in nodes:
            marks = [leaf.what for leaf in leaves([node]) if isinstance(leaf, Hole) and leaf.unseen == MARKED_BLOCK]
            if not (marks and isinstance(node, Hole)):
                part.append(node)
            if marks and part and role:
                yield role, part, marks[-1], place
                part, place = [], None
        if part or not nodes:
            yield role, part, "", place


def messages_in(value: Value) -> Iterator[tuple[str, Value]]:
    """Yield the messages of a list, with earlier ones of which only the place is known; of one of several lists the longest."""
    for piece in value:
        if isinstance(piece, Message):
            yield piece.role, piece.content
        elif isinstance(piece, Hole) and piece.unseen == CONVERSATION:
            yield "placeholder", (piece,)
        elif isinstance(piece, Items):
            for one in piece.values:
                yield from messages_in(one)
        elif isinstance(piece, Either):
            yield from max((list(messages_in(one)) for one in piece.branches), key=len)
        elif isinstance(piece, Many):
            yield from messages_in(piece.body)


def has_messages(value: Value) -> bool:
    """Return whether there is a message in a value."""
    return any(isinstance(piece, Message) for piece in pieces_of(value))


def _written_at(content: Value) -> TemplatePlace | None:
    """Return the place of the first constant text in a value; None where none is known."""
    texts = (piece for piece in pieces_of(content) if isinstance(piece, Literal) and piece.text.strip())
    first = next(texts, None)
    return None if first is None or first.source is None else first.source.spot(first.start, first.stop)


def _text(nodes: Iterable[Node]) -> str:
    return "".join(leaf for leaf in leaves(nodes) if isinstance(leaf, str)).strip()


def _knowledge(chat: Chat) -> tuple[int, int, bool]:
    """Return how much is known of a chat, to be compared."""
    written = sum(len(part) for _, nodes in chat.messages for part in _known(nodes))
    return len(chat.messages), written, chat.line > 0


def _is_within(chat: list[ChatMessage], other: list[ChatMessage]) -> bool:
    """Return whether another chat has all texts and files of one, in messages of the same roles."""
    texts = {(role, _known(nodes)) for role, nodes in other}
    return all((role, known) in texts for role, nodes in chat if any(known := _known(nodes)))


def _known(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the constant text of a message, and the files whose text is in it."""
    return (_text(nodes), *(leaf.file for leaf in leaves(nodes) if isinstance(leaf, Hole) and leaf.file))
