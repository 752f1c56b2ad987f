"""Text that looks sensitive: addresses, keys, card and account numbers, found by patterns that do not backtrack."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
"""Whatever is around it."""
_ISSUED = re.compile(r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|6(?:011|5\d\d)\d{12}", re.ASCII)
"""Lengths and first digits of the large issuers."""
_IBAN = re.compile(r"[A-Z](?<!\w[A-Z])[A-Z]\d{2}(?: ?[0-9A-Z]{4}){2,7}(?: ?[0-9A-Z]{1,3})?(?!\w)", re.ASCII)
_DIGITS = re.compile("[0-9][0-9]")
_SSN = re.compile(r"[0-8](?<![\w.-][0-8])\d\d(?<!000)(?<!666)-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])", re.ASCII)


def find_sensitive(text: str, start: int = 0, *, every: bool = False) -> Iterator[tuple[str, int, int]]:
    """Find parts of `text` from character `start` on that look sensitive: a name for each, and its range.

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


def may_be_sensitive(text: str, start: int = 0) -> bool:
    """Return whether anything from character `start` on looks like what `find_sensitive` finds, before checks of digits and names.

    Where it says no, `find_sensitive` finds nothing from there on, nor from any later character.
    """
    if _DOMAIN.search(text, start) or _KEY.search(text, start):
        return True
    numbers = _DIGITS.search(text, start)  # all of these have two in a row
    return numbers is not None and any(pattern.search(text, start) for pattern in (_CARD, _IBAN, _SSN))


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
    """Return whether digits may be those of a card: its beginning, its length, and the check digit of ISO/IEC 7812-1."""
    number = text.replace(" ", "").replace("-", "")
    if not _ISSUED.fullmatch(number):
        return False
    digits = [int(char) for char in number]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _checks_out(text: str) -> bool:
    """Return whether an account number passes the check of ISO 13616: modulo 97 it is 1."""
    packed = text.replace(" ", "")
    if not 15 <= len(packed) <= 34:
        return False
    return int("".join(str(int(char, 36)) for char in packed[4:] + packed[:4])) % 97 == 1
