"""Whether two lists of messages surely differ in nothing but values: most requests of an application do.

The messages are the same ones in the same places, but for the last question and for lines of others in which values differ. That
`compare_messages` tells no change of structure follows without aligning anything, where no line of what differs between two texts
stands on both sides: nothing of it can be a part of what both have. Wherever anything is not plain, nothing is said here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvtool.diagnose.compare.messages import HEAD, LEAST_BEHIND, MOST_PAIRS, are_alike
from kvtool.diagnose.compare.passages import Differing, Passage, compare_passage
from kvtool.diagnose.compare.units import MAX_UNITS, Unit, differing, plain
from kvtool.text.json_text import may_hold_json
from kvtool.text.message import role_of

_PLAIN = frozenset({"role", "content"})
_END = 64
"""Characters of a text's end, which stand nowhere else in it."""


def messages_differ_in_values(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Whether `compare_messages` surely finds neither a change of structure nor a cosmetic one; False where that is not plain."""
    most = len(before)
    if most != len(after) or most > MOST_PAIRS:
        return False
    start = next((at for at in range(most) if before[at] is not after[at]), most)
    a, b = before[start:], after[start:]
    if not all(map(_is_plain, a)) or not all(map(_is_plain, b)):
        return False
    keys_a, keys_b = ([(role_of(each), str.__str__(each["content"])) for each in side] for side in (a, b))
    same = next((at for at, key in enumerate(keys_a) if key != keys_b[at]), len(keys_a))
    keys_a, keys_b = keys_a[same:], keys_b[same:]
    equal = [one == other for one, other in zip(keys_a, keys_b, strict=True)]
    if len({*keys_a, *keys_b}) != 2 * len(keys_a) - sum(equal):
        return False  # one that stands elsewhere, too, may have moved
    if any(one[0] != other[0] for one, other in zip(keys_a, keys_b, strict=True)):
        return False
    answered = max((at for at, (role, _) in enumerate(keys_b) if role == "assistant"), default=-1)
    for first, stop, is_last in _gaps(keys_a, equal):
        for at in range(first, first + 1 if is_last else stop):
            in_history = keys_b[at][0] not in HEAD and at < answered
            if not _texts_differ_in_values(keys_a[at][1], keys_b[at][1], history=in_history, tail=is_last):
                return False
    return True


def _is_plain(message: Any) -> bool:
    """Whether a message is a role and a text, and nothing else."""
    return isinstance(message, dict) and message.keys() <= _PLAIN and isinstance(message.get("content"), str)


def _gaps(keys: Sequence[tuple[str, str]], equal: Sequence[bool]) -> Iterator[tuple[int, int, bool]]:
    """Rows of messages that differ, from the last to the first, and of each whether little of what is behind it is shared."""
    shared = every = 0
    stop = len(keys)
    while stop:
        first = stop
        while first and equal[first - 1] == equal[stop - 1]:
            first -= 1
        length = sum(len(role) + len(text) for role, text in keys[first:stop])
        if equal[first]:
            shared += length
        else:
            yield first, stop, shared <= LEAST_BEHIND * every
        every += length
        stop = first


def _texts_differ_in_values(a: str, b: str, *, history: bool, tail: bool) -> bool:
    """Whether `compare_message` surely tells nothing but values of two messages with these texts."""
    if tail and not are_alike(a, b):
        return True
    if history or not (a.isascii() and b.isascii()) or may_hold_json(a) or may_hold_json(b):
        return False
    if tail and (len(a) < 2 * _END or not b.endswith(a[-_END:]) or b.find(a[-_END:]) != len(b) - _END):
        return False  # it may end in something new
    line, stop_a, stop_b = differing(a, b)
    first = line  # where the line before those that differ begins
    while (end := a.find("\n", first) + 1) and b.startswith(a[first:end], first):
        first = end
    lines_a, lines_b = (each[first:stop].split("\n") for each, stop in ((a, stop_a), (b, stop_b)))
    if not lines_a[-1] and not lines_b[-1]:
        del lines_a[-1], lines_b[-1]
    if not _stand_apart(lines_a, lines_b) or max(a.count("\n"), b.count("\n")) >= MAX_UNITS:
        return False
    found = compare_passage(Passage(a, first, stop_a, b, first, stop_b, history=False))
    return isinstance(found, Differing) and found.are_values


def _stand_apart(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether two rows of as many lines, none of them blank, have none in common, in whatever order, spacing and numbering."""
    keys_a, keys_b = list(map(plain, a)), list(map(plain, b))
    if len(keys_a) != len(keys_b) or not all(keys_a) or not all(keys_b) or not set(keys_a).isdisjoint(keys_b):
        return False
    if len(keys_a) == 1:
        return True
    if " ".join(keys_a) == " ".join(keys_b):
        return False
    relaxed_a, relaxed_b = ([Unit(0, 0, key).relaxed for key in keys] for keys in (keys_a, keys_b))
    return relaxed_a == relaxed_b or sorted(relaxed_a) != sorted(relaxed_b)
