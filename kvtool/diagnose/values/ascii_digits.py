"""Text with the digits and signs of every script as the ones of ASCII, so that one pattern reads them all."""

from __future__ import annotations

import re
from unicodedata import decimal

_SIGNS = {
    **{0xFF00 + sign: 0x20 + sign for sign in range(1, 0x5F)},  # the wide forms beside ideographs
    **dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u3000"), ord(" ")),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2212\u30fc"), ord("-")),
    ord("\u066a"): ord("%"),
    ord("\u066b"): ord("."),
    ord("\u066c"): ord(","),
    ord("\u060c"): ord(","),
    ord("\u2044"): ord("/"),
    ord("\u2236"): ord(":"),
}
_OTHER = re.compile(rf"[\d{''.join(map(chr, _SIGNS))}](?<![0-9])")


def plain_signs(text: str) -> str:
    """Return the text with other digits and signs, each at its place: what is found in it is there in the text itself."""
    if text.isascii():
        return text
    return _OTHER.sub(_in_ascii, text)


def _in_ascii(found: re.Match[str]) -> str:
    sign = ord(found[0])
    return chr(_SIGNS[sign]) if sign in _SIGNS else str(decimal(found[0]))
