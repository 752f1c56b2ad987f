"""Text that looks sensitive in prefixes that several sessions or groups share: found, counted and placed, never kept.

A shared prefix is a side channel: who sends the same beginning is answered sooner. What stands in it should be known to all who
share it. Detectors look at new text only, with patterns that do not backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from kvtool.engine.hashing import NATIVE, BlockHash
from kvtool.jobs import Job
from kvtool.text import Origin, Traced

_BLOCK = 16
"""Tokens of the blocks that prefixes are compared by here, whatever the engine's are."""
_MOST_KEPT = 2_000
_MOST_PARTIES = 1_000
_LOCAL = re.compile(r"[\w.+%-]{1,64}+\Z", re.ASCII)
_DOMAIN = re.compile(r"@([A-Za-z0-9-]{1,63}+(?:\.[A-Za-z0-9-]{1,63}+){1,8}+)", re.ASCII)
_ANY_LOCAL = re.compile(r"[^\s@<>()\[\],;:\"'`]{1,64}+\Z")
_ANY_DOMAIN = re.compile(r"@[^\W_][\w-]{0,62}+(?:\.[\w-]{1,63}+){1,8}+")
_RESERVED = re.compile(r"(?i:(?:^|\.)(?:example(?:\.(?:com|org|net))?|test|invalid|localhost|local))\Z")
_ROLES = frozenset(
    [
        "abuse",
        "admin",
        "billing",
        "contact",
        "feedback",
        "hello",
        "help",
        "info",
        "legal",
        "mail",
        "no-reply",
        "noreply",
        "office",
        "privacy",
        "sales",
        "security",
        "service",
        "support",
        "team",
        "webmaster",
    ]
)
"""Local parts of addresses that belong to nobody."""
# A pattern that begins with a letter or a class of them is looked for several times faster than one that first looks behind itself.
_KEY = re.compile(
    r"sk-(?<![\w-]sk-)[\w-]{20,200}+|A(?:KIA|SIA)(?<![\w-]\w{4})[0-9A-Z]{16}(?!\w)|gh[pousr]_(?<![\w-]\w{4})\w{36,255}+"
    r"|github_pat_(?<![\w-]github_pat_)\w{22,255}+|x(?:ox[abeprs]|app)-(?<![\w-]x\w{3}-)[\w-]{10,200}+"
    r"|AIza(?<![\w-]AIza)[\w-]{35}(?![\w-])|sk_(?:live|test)_(?<![\w-]sk_\w{4}_)[A-Za-z0-9]{10,250}+"
    r"|hf_(?<![\w-]hf_)[A-Za-z0-9]{30,60}+|gl(?:pat|rt|dt|ptt|soat|cbt)-(?<![\w-]gl\w{2}-)(?<![\w-]gl\w{3}-)(?<![\w-]gl\w{4}-)[\w-]{20,60}+"
    r"|eyJ(?<![\w-]eyJ)[\w-]{10,4000}+\.eyJ[\w-]{10,4000}+\.[\w-]{10,1000}+"
    r"|-----BEGIN (?:[A-Z]{2,10} )?PRIVATE KEY-----",
    re.ASCII,
)
_RARE_KEY = re.compile(
    r"(?<![\w-])(?:[rp]k_(?:live|test)_[A-Za-z0-9]{10,250}+|whsec_[\w+/=-]{20,100}+|ya29\.[\w-]{20,500}+"
    r"|GOCSPX-[\w-]{20,60}+|npm_[A-Za-z0-9]{30,60}+|pypi-[\w-]{30,250}+)",
    re.ASCII,
)
"""Keys that no prompt is searched for, as they begin with letters that are all over a text."""
_CARD = re.compile(
    r"[2-6](?<![\w.+-][2-6])(?:\d{12,18}+|\d{3}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|(?<=3)[47]\d\d([ -])\d{6}\2\d{5})"
    r"(?![\w-]|[. ]\d)",
    re.ASCII,
)
_ANY_CARD = re.compile(r"(?<!\d)[2-6]\d{3}(?:\d{9,15}+|([ -])(?:\d{4}\1\d{4}\1\d{4}|\d{6}\1\d{5}))(?!\d)", re.ASCII)
"""Whatever stands around it."""
_ISSUED = re.compile(r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|6(?:011|5\d\d)\d{12}", re.ASCII)
"""Lengths and first digits of the large issuers."""
_IBAN = re.compile(r"[A-Z](?<!\w[A-Z])[A-Z]\d{2}(?: ?[0-9A-Z]{4}){2,7}(?: ?[0-9A-Z]{1,3})?(?!\w)", re.ASCII)
_SSN = re.compile(r"[0-8](?<![\w.-][0-8])\d\d(?<!000)(?<!666)-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])", re.ASCII)


def find_sensitive(text: str, start: int = 0, *, every: bool = False) -> Iterator[tuple[str, int, int]]:
    """What `text` has from character `start` on that looks sensitive: a name for it, and its range.

    `every` is for what is to be blacked out: with addresses that belong to nobody, and with rare keys.
    """
    yield from _every_email(text, start) if every else _emails(text, start)
    if every:
        yield from (("an API key", *match.span()) for match in _RARE_KEY.finditer(text, start))
        yield from (("a card number", *match.span()) for match in _ANY_CARD.finditer(text, start) if _is_card(match[0]))
    for name, pattern in (
        ("an API key", _KEY),
        ("a card number", _CARD),
        ("an IBAN", _IBAN),
        ("a social security number", _SSN),
    ):
        for match in pattern.finditer(text, start):
            if (pattern is _CARD and not _is_card(match[0])) or (pattern is _IBAN and not _checks_out(match[0])):
                continue
            yield name, match.start(), match.end()


def _emails(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    for match in _DOMAIN.finditer(text, start):
        at = match.start()
        local = _LOCAL.search(text, max(at - 64, start), at)
        if local and not _RESERVED.search(match[1]) and local[0].lower() not in _ROLES:
            yield "an email address", local.start(), match.end()


def _every_email(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Addresses in any script, and those that belong to nobody."""
    for match in _ANY_DOMAIN.finditer(text, start):
        local = _ANY_LOCAL.search(text, max(match.start() - 64, start), match.start())
        if local:
            yield "an email address", local.start(), match.end()


def _is_card(text: str) -> bool:
    """Whether the digits may be those of a card: begun like one, as long as one, and with the check digit of ISO/IEC 7812-1."""
    number = text.replace(" ", "").replace("-", "")
    if not _ISSUED.fullmatch(number):
        return False
    digits = [int(char) for char in number]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _checks_out(text: str) -> bool:
    """Whether an account number passes the check of ISO 13616: modulo 97 it is 1."""
    packed = text.replace(" ", "")
    if not 15 <= len(packed) <= 34:
        return False
    return int("".join(str(int(char, 36)) for char in packed[4:] + packed[:4])) % 97 == 1


Party = tuple[str, str]
"""Who sends a request, as far as it says: its group and its session."""


@dataclass(slots=True)
class Sensitive:
    """One place of one kind of text, and who shares the prefix with it."""

    kind: str
    group: str
    origin: Origin | None
    offset: int
    width: int
    parties: set[Party] = field(default_factory=set)
    requests: int = 1


class SensitiveBook:
    """Looks at the text that each request brings, and remembers by hash which prefixes have something in them."""

    def __init__(self) -> None:
        self._known: dict[BlockHash, list[Sensitive]] = {}
        """By the hash of the prefix up to the block in which the text ends."""
        self._kept = 0

    def add(self, job: Job, shared: int) -> None:
        """Enter a request whose first `shared` tokens an earlier one of the same salt had, too."""
        prompt = job.prompt
        if prompt is None or prompt.text is None or not len(prompt):
            return
        found = list(islice(self._new(job, prompt.text, shared), _MOST_KEPT - self._kept))
        if not found and not self._known:
            return
        whole = len(job.ids) // _BLOCK * _BLOCK
        hashes = NATIVE.chain(job.ids[:whole], _BLOCK, None, job.turn.salt, None)
        party = (job.turn.group, job.turn.session or "")
        for block in hashes[: shared // _BLOCK]:
            for place in self._known.get(block, ()):
                place.requests += 1
                if len(place.parties) < _MOST_PARTIES:
                    place.parties.add(party)
        for block_number, place in found:
            if block_number < len(hashes) and self._kept < _MOST_KEPT:
                place.parties.add(party)
                self._known.setdefault(hashes[block_number], []).append(place)
                self._kept += 1

    def _new(self, job: Job, text: Traced, shared: int) -> Iterator[tuple[int, Sensitive]]:
        """What stands in text that no earlier request had, and the block in which it ends."""
        prompt = job.prompt
        assert prompt is not None
        first = prompt.char_range(shared) if shared < len(prompt) else None
        if first is None:
            return
        start = max(first[0] - 64, 0)  # what begins before may end here
        for kind, low, high in find_sensitive(_plain(text), start):
            if high > first[0]:
                origin, offset = text.at(low)
                yield prompt.token_at(high - 1) // _BLOCK, Sensitive(kind, job.turn.group, origin, offset, high - low)

    def shared(self) -> list[Sensitive]:
        """What several sessions or groups share, one for each place and kind, in the order in which it was found."""
        merged: dict[tuple[str, str, Origin | None, int], Sensitive] = {}
        for place in (place for places in self._known.values() for place in places):
            if len(place.parties) < 2:
                continue
            key = place.kind, place.group, place.origin, place.offset
            other = merged.get(key)
            both = place.parties | other.parties if other is not None else set(place.parties)
            requests = place.requests + (other.requests if other is not None else 0)
            merged[key] = replace(place, parties=both, requests=requests)
        return list(merged.values())


def _plain(text: Traced) -> str:
    """The text without its origins: patterns run faster over it, and slices of it are cheap."""
    return str.__getitem__(text, slice(None))
