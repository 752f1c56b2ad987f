"""A quick check that two requests differ in nothing but values: it reads a few lines, and not all of the texts.

Most requests of an application are like the one before them but for a time or an id, and for the question at their end. That
`compare_turns` has no change of structure to tell of them follows from little:

    lines that both have           `start` of the first difference, and the line before it
    one line, another in each      a value, by its form or as a single word
    lines that both have           long enough to count
    lines that are their own       the end, which may be anything

The two lines in the middle may be missing. Where a line of one part was in another part, too, the alignment might pair it, so
then (and wherever anything else is not plain) nothing is said here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.compare.history import NEVER, history_start
from kvtool.diagnose.compare.messages import HEAD, LEAST_BEHIND, MOST_PAIRS, are_alike
from kvtool.diagnose.compare.passages import Differing, Passage, compare_passage
from kvtool.diagnose.compare.units import MAX_UNITS, Unit, common_prefix, common_suffix, differing, plain
from kvtool.diagnose.values.classify import classify_in
from kvtool.text.json_text import may_hold_json
from kvtool.text.message import role_of
from kvtool.workload.turn import Turn

_PLAIN = frozenset({"role", "content"})
_TAIL = 64
"""Characters of a text's end, which stand nowhere else in it."""
_MOST_LINES = 4_096
"""Lines of a text, up to which they are aligned without being cut into chunks first."""
_PROBE = 24
"""Characters after the first difference that are looked for further on: where they are found, the front may have been cut."""
_END = 64
"""Characters of the earlier text's end that are looked for in the later one, where it has twice as many."""
_LONG = 64
"""Characters of shared lines after a difference from which on they count, whatever follows them."""
_LINE = 256
"""Characters of a line, all of which is looked at around any part of it."""
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_PARTED = re.compile(r"[,;|\n]|[.!?]\s")


def differ_in_values(before: Turn, after: Turn) -> bool:
    """Return whether `compare_turns` surely finds neither a change of structure nor a cosmetic one; False where that is not
    plain.
    """
    if before.tools or after.tools:
        return False
    if before.messages is not None and after.messages is not None:
        return messages_differ_in_values(before.messages, after.messages)
    if before.messages is not None or after.messages is not None:
        return False
    if before.text is None or after.text is None:
        return False
    a, b = str.__str__(before.text), str.__str__(after.text)
    return a.startswith(b) or b.startswith(a) or _is_plain(a, b)


def _is_plain(a: str, b: str) -> bool:
    """Return the same of two texts neither of which begins with the other."""
    if not (a.isascii() and b.isascii()) or may_hold_json(a) or may_hold_json(b):
        return False
    shared = common_prefix(a, b)
    if a.find(b[shared : shared + _PROBE], shared + 1) >= 0 or (len(a) >= 2 * _END and a[-_END:] in b):
        return False
    first = a.rfind("\n", 0, shared) + 1
    start = a.rfind("\n", 0, len(a[:first].rstrip())) + 1  # of the line before, as the whole comparison has it
    if max(a.count("\n", start), b.count("\n", start)) >= _MOST_LINES or history_start(a) < NEVER:
        return False
    return _differ_in_one_line(a[start:].split("\n"), b[start:].split("\n"), a.count("\n", start, first))


def _differ_in_one_line(a: list[str], b: list[str], at: int) -> bool:
    """Check that texts differ in one line only; lines `at` are the first that differ."""
    most, stop = min(len(a), len(b)), at + 1
    while stop < most and a[stop] == b[stop]:
        stop += 1
    if stop == most:
        return False
    between = a[at + 1 : stop]
    if not between:
        stop = at
    end_a, end_b = a[stop:], b[stop:]
    if not all(map(str.strip, (a[at], b[at], end_a[0], end_b[0]))):
        return False  # a blank line belongs to the one before it
    keys = _keys(between)
    common = {*_keys(a[:at]), *keys}
    mine, theirs = {*_keys(end_a), *_keys(a[at : at + 1])}, {*_keys(end_b), *_keys(b[at : at + 1])}
    if not (mine.isdisjoint(theirs) and mine.isdisjoint(common) and theirs.isdisjoint(common)):
        return False
    one, other = "\n".join(end_a), "\n".join(end_b)
    behind = common_suffix(one, other, min(len(one), len(other)))
    if behind >= _LONG or 4 * behind >= max(len(one), len(other)):
        return False
    return not between or (sum(map(len, keys)) >= _LONG and _is_value(a[at] + "\n", b[at] + "\n"))


def _keys(lines: list[str]) -> list[str]:
    """Return what the lines say, blank ones left out."""
    return [key for line in lines if (key := " ".join(line.split()))]


def _is_value(a: str, b: str) -> bool:
    """Return whether two lines (with their line ends) differ in something that one detector finds whole, or in words none of which
    both have.
    """
    if max(len(a), len(b)) > _LINE:
        return False
    begin = common_prefix(a, b)
    end = common_suffix(a, b, min(len(a), len(b)) - begin)
    begin = max(a.rfind(" ", 0, begin), a.rfind("\t", 0, begin)) + 1
    tail = a[len(a) - end :]
    end -= next((at for at, sign in enumerate(tail) if sign.isspace()), end)
    stop_a, stop_b = len(a) - end, len(b) - end
    one, other = a[begin:stop_a], b[begin:stop_b]
    if not one.strip() or not other.strip() or _PARTED.search(one):
        return False
    if set(_WORD.findall(one)).isdisjoint(_WORD.findall(other)):
        return True
    return all(classify_in(line[:-1], begin, stop)[0] is not OTHER for line, stop in ((a, stop_a), (b, stop_b)))


def messages_differ_in_values(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Return whether `compare_messages` surely finds neither a change of structure nor a cosmetic one; False where that is not
    plain.
    """
    most = len(before)
    if most != len(after) or most > MOST_PAIRS:
        return False
    start = next((at for at in range(most) if before[at] is not after[at]), most)
    a, b = before[start:], after[start:]
    if not all(map(_is_plain_message, a)) or not all(map(_is_plain_message, b)):
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


def _is_plain_message(message: Any) -> bool:
    """Return whether a message is a role and a text, and nothing else."""
    return isinstance(message, dict) and message.keys() <= _PLAIN and isinstance(message.get("content"), str)


def _gaps(keys: Sequence[tuple[str, str]], equal: Sequence[bool]) -> Iterator[tuple[int, int, bool]]:
    """Yield rows of messages that differ, from the last to the first, and of each whether little of what is after it is shared."""
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
    """Return whether `compare_message` surely tells nothing but values of two messages with these texts."""
    if tail and not are_alike(a, b):
        return True
    if history or not (a.isascii() and b.isascii()) or may_hold_json(a) or may_hold_json(b):
        return False
    if tail and (len(a) < 2 * _TAIL or not b.endswith(a[-_TAIL:]) or b.find(a[-_TAIL:]) != len(b) - _TAIL):
        return False  # it may end in something new
    line, stop_a, stop_b = differing(a, b)
    first = line  # where the line before those that differ begins
    while (end := a.find("\n", first) + 1) and b.startswith(a[first:end], first):
        first = end
    lines_a, lines_b = (each[first:stop].split("\n") for each, stop in ((a, stop_a), (b, stop_b)))
    if not lines_a[-1] and not lines_b[-1]:
        del lines_a[-1], lines_b[-1]
    if not _are_separate(lines_a, lines_b) or max(a.count("\n"), b.count("\n")) >= MAX_UNITS:
        return False
    found = compare_passage(Passage(a, first, stop_a, b, first, stop_b, history=False))
    return isinstance(found, Differing) and found.are_values


def _are_separate(a: Sequence[str], b: Sequence[str]) -> bool:
    """Return whether two rows of as many lines, none of them blank, have none in common, in whatever order, spacing and
    numbering.
    """
    keys_a, keys_b = list(map(plain, a)), list(map(plain, b))
    if len(keys_a) != len(keys_b) or not all(keys_a) or not all(keys_b) or not set(keys_a).isdisjoint(keys_b):
        return False
    if len(keys_a) == 1:
        return True
    if " ".join(keys_a) == " ".join(keys_b):
        return False
    relaxed_a, relaxed_b = ([Unit(0, 0, key).relaxed for key in keys] for keys in (keys_a, keys_b))
    return relaxed_a == relaxed_b or sorted(relaxed_a) != sorted(relaxed_b)
