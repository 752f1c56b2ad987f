"""Find the text of a request in its rendered prompt: what a template writes around it is no evidence, as nobody knows what a
provider writes there."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

from kvtool.accounting.ledger.alignment import MIN_RUN, Gap
from kvtool.text.message import Message
from kvtool.text.pieces import found_in_order
from kvtool.text.templates.served_messages import part_text
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.jobs import Job


def repeated_tokens(job: Job, gaps: Sequence[Gap]) -> int:
    """Return the tokens after differences that repeat an earlier request; runs with less text of the request agree by chance."""
    prompt = job.prompt
    if prompt is None or prompt.text is None or prompt.offsets is None:
        return sum(gap.run for gap in gaps)
    places = list(_places(job, len(prompt.text)))
    starts = [start for start, _ in places]
    sums = list(accumulate((stop - start for start, stop in places), initial=0))

    def own_before(char: int) -> int:
        at = bisect_right(starts, char) - 1
        return 0 if at < 0 else sums[at] + min(char, places[at][1]) - places[at][0]

    found = 0
    for gap in gaps:
        start, stop = _char(prompt, gap.stop), _char(prompt, gap.stop + gap.run)
        own = own_before(stop) - own_before(start)
        found += gap.run if own * gap.run >= MIN_RUN * (stop - start) else 0
    return found


def has_own_text(job: Job, tokens: int, least: int) -> bool:
    """Return whether more than the least of the first tokens of a prompt are text of its request."""
    prompt = job.prompt
    if prompt is None or prompt.text is None or prompt.offsets is None:
        return tokens > least
    stop, own = _char(prompt, tokens), 0
    for start, end in _places(job, stop):
        own += min(end, stop) - start
        if own * tokens > least * stop:
            return True
    return False


def _char(prompt: Prompt, token: int) -> int:
    """Return the character at which a token of a prompt with text begins."""
    found = prompt.char_range(token)
    return 0 if found is None else found[0]


def _places(job: Job, stop: int) -> Iterator[tuple[int, int]]:
    """Yield where text of a request begins and ends in its prompt, as far as it begins before a character."""
    if job.turn.messages is None and job.turn.text is not None:
        yield 0, stop  # no template writes around the text of a completion
        return
    texts = chain(_strings_of(job.turn.tools), chain.from_iterable(map(content_texts, job.turn.messages or [])))
    for place in found_in_order(texts, "" if job.prompt is None else str.__str__(job.prompt.text)):
        if place is not None and place[0] >= stop:
            return
        if place is not None:
            yield place


def _strings_of(value: object) -> Iterator[str]:
    """Yield the texts of a JSON value as JSON writes them, without names of types and of fields: those are its form."""
    if isinstance(value, str):
        yield json.dumps(str.__str__(value), ensure_ascii=False)[1:-1]
    elif isinstance(value, dict):
        for name, each in value.items():
            if name != "type":
                yield from _strings_of(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings_of(each)


def content_texts(message: Message) -> Iterator[str]:
    """Yield the texts of a message's content."""
    content = message.get("content")
    for part in content if isinstance(content, list) else [content] if content else []:
        yield str.__str__(part_text(part))
