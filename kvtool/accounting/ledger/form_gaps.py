"""Find equal text of a prompt and its donor in other characters: other forms of letters share no tokens, so no alignment sees
them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from kvtool.accounting.ledger.alignment import MIN_RUN, EarlierPrompt, Gap
from kvtool.text.align import align_items, common_prefix
from kvtool.text.look_alike import visual_form
from kvtool.text.tokens.prompt import Prompt

_FEWEST = 32
"""The shortest gap, in tokens, that is examined."""
_SHORTEST = 24
"""The shortest line, in characters, that alone shows that two texts look alike."""
_LOOKED_AT = 12
"""Lines of a gap examined first, and four times as many of the donor's: most prompts have text of their own there."""
_LONG = 200
"""Characters of such a line, about."""
_BEGIN, _SEEN = 80, 20
"""Compared characters: of each line's beginning, and of its plain form; a letter may be four in another form."""
_MOST = 400_000
"""Characters of a gap that are read."""
_MOST_RANGES = 8
"""The most ranges of a gap; further ones are left to the tokens."""


class _Line(NamedTuple):
    start: int
    stop: int
    text: str


def with_form_gaps(gaps: Sequence[Gap], prompt: Prompt, known: int, donor: EarlierPrompt) -> tuple[Gap, ...]:
    """Split the gaps of a prompt at lines that look like lines of its donor; after the last gap, too.

    Lines that look alike are a gap of their own, without a run of tokens after it.
    """
    theirs = donor.prompt
    if len(prompt) - known < _FEWEST or prompt.char_starts is None or theirs.char_starts is None:
        return tuple(gaps)
    if not any(map(_may_have_forms, (prompt, theirs))):
        return tuple(gaps)
    found: list[Gap] = []
    at = donor_at = gaps[0].start if gaps else common_prefix(prompt.ids, donor.ids)
    for gap in gaps:
        found += _parted(gap, _inside(gap, prompt, theirs, known))
        at, donor_at = gap.stop + gap.run, gap.donor_stop + gap.run
    rest = Gap(at, len(prompt), donor_at, len(theirs), 0)
    inside = _inside(rest, prompt, theirs, known)
    last = inside[-1] if inside else rest
    return (
        *found,
        *_parted(rest._replace(stop=last.stop, donor_stop=last.donor_stop), inside)[: None if inside else 0],
    )


def _may_have_forms(prompt: Prompt) -> bool:
    """Return whether a prompt has lines that consist of replaceable characters."""
    text = str.__str__(prompt.text or "")
    return not text.isascii() or "  " in text or "\t" in text


def _parted(gap: Gap, inside: Sequence[Gap]) -> list[Gap]:
    """Split a gap at the lines that look alike; the text between them differs."""
    if not inside:
        return [gap]
    parts: list[Gap] = []
    at, donor_at = gap.start, gap.donor_start
    for each in inside:
        if (each.start, each.donor_start) != (at, donor_at):
            parts.append(Gap(at, each.start, donor_at, each.donor_start, 0))
        parts.append(each)
        at, donor_at = each.stop, each.donor_stop
    if (at, donor_at) == (gap.stop, gap.donor_stop):
        parts[-1] = parts[-1]._replace(run=gap.run)
    else:
        parts.append(Gap(at, gap.stop, donor_at, gap.donor_stop, gap.run))
    return parts


def _inside(gap: Gap, prompt: Prompt, theirs: Prompt, known: int) -> list[Gap]:
    """Return the ranges of similar lines within a gap, in order."""
    begin, end = max(gap.start, known), min(gap.donor_stop, len(theirs))
    if gap.stop - begin < _FEWEST or end - gap.donor_start < MIN_RUN:
        return []
    if not _may_be_similar(prompt, begin, theirs, gap.donor_start):
        return []
    found: list[Gap] = []
    mine, others = list(_lines(prompt, begin, gap.stop)), list(_lines(theirs, gap.donor_start, end))
    numbers: dict[str, int] = {}
    looks = [[numbers.setdefault(visual_form(line.text), len(numbers)) for line in lines] for lines in (mine, others)]
    for i, j, length in align_items(*looks):
        if not length or len(found) == _MOST_RANGES:
            continue
        start = max(prompt.token_at(mine[i].start), gap.start)
        stop = min(prompt.token_at(mine[i + length - 1].stop), gap.stop)
        donor_start = max(theirs.token_at(others[j].start), gap.donor_start)
        donor_stop = min(theirs.token_at(others[j + length - 1].stop), end)
        if stop - start >= MIN_RUN and donor_stop > donor_start:
            found.append(Gap(start, stop, donor_start, donor_stop, 0))
    return found


def _may_be_similar(prompt: Prompt, token: int, theirs: Prompt, donor_token: int) -> bool:
    """Return whether one of the prompt's next lines begins like one of its donor's, in other characters."""
    known = {_plain_form(text): text[:_SEEN] for text in _next(theirs, donor_token, 4 * _LOOKED_AT)}
    return any(known.get(_plain_form(text), text[:_SEEN]) != text[:_SEEN] for text in _next(prompt, token, _LOOKED_AT))


@lru_cache(maxsize=2048)
def _plain_form(begin: str) -> str:
    """Return the plain form of a line's beginning, as far as every form contains it."""
    return visual_form(begin)[:_SEEN]


def _next(prompt: Prompt, token: int, most: int) -> list[str]:
    """Return the beginnings of the next lines of some length, found without encoding anything."""
    at = prompt.char_before(token)
    assert at is not None
    assert prompt.text is not None
    text = str.__str__(prompt.text)
    start = text.rfind("\n", 0, at) + 1
    near = text[start : start + most * _LONG].split("\n")
    return [line[:_BEGIN].strip() for line in near if len(line) >= _SHORTEST][:most]


def _lines(prompt: Prompt, token: int, stop: int) -> Iterator[_Line]:
    """Return the lines with text, from a token's line on; text from elsewhere is a line by itself."""
    found, end = prompt.char_range(token), prompt.char_range(stop)
    assert found is not None
    assert end is not None
    assert prompt.text is not None
    text = str.__str__(prompt.text)
    cuts = [0, *accumulate(length for length, _, _ in prompt.text.marks)]
    start = max(text.rfind("\n", 0, found[0]) + 1, max((cut for cut in cuts if cut <= found[0]), default=0))
    high = min(end[0], start + _MOST)
    ends = [*(cut for cut in cuts if start < cut < high), high]
    at = start
    for cut in ends:
        for line in text[at:cut].splitlines(keepends=True):
            if not line.isspace():
                yield _Line(at, at + len(line), line)
            at += len(line)
