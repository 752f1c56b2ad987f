"""The order of independent requests in which a small cache reuses most: depth-first over the trie of their prompts (tier P0)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import xxhash

from kvtool.diagnose.codes.run.kv301 import KV301
from kvtool.diagnose.compare.json_forms import ordered
from kvtool.fixes.fix import Fix
from kvtool.text.message import role_of
from kvtool.workload.drive import NO_ANSWER
from kvtool.workload.turn import Conversation, Source, Turn
from kvtool.workload.yaml.sessions import Interleaved

_WORD = 0xFFFFFFFF
_FIRST_DEPTH = 16
_GROWTH = 1.5
_DEEPEST = 1 << 22
_HELD = 4096
"""Conversations that are held at a time; a longer source is read once for each so many."""


def depth_first(prompts: Iterable[bytes]) -> list[int]:
    """Return the places of prompts, each the bytes of its tokens, in an order that keeps those with long common beginnings
    together.

    Depth-first over their trie, which is looked at only at some depths (16, 24, 36, … tokens): a hash of the beginning for each
    depth that a prompt has is all that is kept of it. Branches come in the order in which the first of their prompts came, so
    prompts in this order already stay.
    """
    first: dict[int, int] = {}
    keys: list[array[int]] = []
    for index, data in enumerate(prompts):
        key = array("q")
        digest = xxhash.xxh3_64()
        at = 0
        for depth in _depths():
            stop = 4 * depth
            if stop > len(data):
                break
            digest.update(data[at:stop])
            key.append(first.setdefault(digest.intdigest(), index))
            at = stop
        key.append(index)
        keys.append(key)
    return sorted(range(len(keys)), key=keys.__getitem__)


def _depths() -> Iterator[int]:
    depth = _FIRST_DEPTH
    while depth <= _DEEPEST:
        yield depth
        depth = int(depth * _GROWTH)


class ReorderedSource:
    """A source of independent requests in the order of `depth_first`; it is read again and again, and never held as a whole."""

    def __init__(self, source: Source, order: Sequence[int]) -> None:
        self._source = source
        self._order = order

    @property
    def order(self) -> Sequence[int]:
        """Return the places in the source, as its conversations come here."""
        return self._order

    def conversations(self) -> Iterator[Conversation]:
        for start in range(0, len(self._order), _HELD):
            wanted = self._order[start : start + _HELD]
            places = set(wanted)
            passing = islice(self._source.conversations(), max(wanted) + 1)
            found = {index: each for index, each in enumerate(passing) if index in places}
            yield from (found[index] for index in wanted)


def reordered(source: Source) -> Source:
    """Return the source with its requests depth-first over their prompts; the source itself where one is a turn of a session.

    Prompts are compared by their text, as no tokenizer is at hand. The order of a conversation's turns is never touched.
    """
    sessions = False

    def beginnings() -> Iterator[bytes]:
        nonlocal sessions
        for conversation in source.conversations():
            turn = _only_turn(conversation)
            sessions = sessions or turn is None
            if turn is None:
                return
            yield _text_of(turn)

    order = depth_first(beginnings())
    return source if sessions or order == sorted(order) else ReorderedSource(source, order)


def _only_turn(conversation: Conversation) -> Turn | None:
    """Return the turn of an independent request; None where it is of a session, or not alone."""
    if isinstance(conversation, Interleaved):
        return None
    turn = conversation.next_turn(None)
    if turn is None or turn.session is not None or conversation.next_turn(NO_ANSWER) is not None:
        return None
    return turn


def _text_of(turn: Turn) -> bytes:
    """Return what a prompt is made of, in the order of most chat templates: the salt, instructions, tools, messages. UTF-32, four
    bytes for a character as for a token.
    """
    salt = (turn.salt or "").encode("utf-32-le", "surrogatepass")
    if turn.token_ids is not None:
        return salt + turn.token_ids.astype(np.int32).tobytes()
    if turn.hashed is not None:  # each block counts as sixteen tokens, so that each is looked at
        ids = [hash_ & _WORD for hash_ in turn.hashed.hash_ids for _ in range(_FIRST_DEPTH)]
        return salt + np.asarray(ids, dtype=np.uint32).tobytes()
    pieces = [turn.text or ""]
    messages = turn.messages or []
    if turn.tools:
        pieces.append(ordered(turn.tools).decode(errors="replace"))
    pieces += [f"{role_of(message)}\n{_content(message.get('content'))}\n" for message in messages]
    return salt + "".join(pieces).encode("utf-32-le", "surrogatepass")


def _content(content: object) -> str:
    return str.__str__(content) if isinstance(content, str) else ordered(content).decode(errors="replace")


def request_order_fix(samples: Sequence[Turn]) -> Fix | None:
    """Send the requests of a batch in the order of their prompts; None where a sample is a turn of a session."""
    if len(samples) < 2 or any(turn.session is not None or turn.index for turn in samples):
        return None
    what = "sort the requests by prompt, so that requests with long common prefixes follow each other"
    return Fix("order-requests", KV301.code, "P0", None, what, source=reordered)
