"""Blacks out the user's keys in what a server sends: it knows them from the requests, and may repeat them anywhere.

A key is found whole, in pieces, with spaces or escapes within it, and as base64, percent-encoding or hexadecimal digits of it.
"""

from __future__ import annotations

import base64
import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import quote, urlsplit

KEY_VARIABLES = ("KVTOOL_API_KEY", "OPENAI_API_KEY")
REDACTED = "[redacted key]"
_PIECE = 8
"""Characters of a key that nobody may see; a shorter key is an ordinary word."""
_BETWEEN = re.compile(
    r"(?:[\s\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\\(?:[abefnrtv0\r\n]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}))+"
)
"""What may be between two characters of a key: spaces, invisible characters, and both as escapes."""
_COVERED = re.compile(rb"\x01+")


def redact_keys(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the text with `[redacted key]` in place of each key and each piece of one."""
    pieces = _pieces(tuple(_keys(environment)))
    if not pieces:
        return text
    plain = _BETWEEN.sub("", text)
    if not any(piece in plain for piece in pieces):
        return text
    return _redacted(text, plain, pieces)


def redact_keys_in(value: object) -> object:
    """Return a JSON value with no key in any of its texts, those that name things included."""
    if isinstance(value, str):
        return redact_keys(value)
    if isinstance(value, list):
        return [redact_keys_in(each) for each in value]
    if isinstance(value, dict):
        return {redact_keys(name): redact_keys_in(each) for name, each in value.items()}
    return value


def _keys(environment: Mapping[str, str]) -> Iterator[str]:
    """Return the secrets that are sent: API keys, and the passwords of proxies."""
    for name in KEY_VARIABLES:
        yield environment.get(name, "").strip()
    for name, value in environment.items():
        if name.lower().endswith("_proxy") and "@" in value:
            yield urlsplit(value).netloc.rpartition("@")[0]


@lru_cache(maxsize=8)
def _pieces(keys: tuple[str, ...]) -> frozenset[str]:
    return frozenset(
        form[at : at + _PIECE] for key in keys for form in _forms(key) for at in range(len(form) - _PIECE + 1)
    )


def _forms(key: str) -> Iterator[str]:
    """Yield a key as it may be written; of base64 what does not depend on the bytes around the key."""
    if len(key) < _PIECE:
        return
    data = key.encode()
    yield from (key, quote(key, safe=""), data.hex(), data.hex().upper())
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            written = encode(bytes(before) + data).decode().rstrip("=")
            yield written[-(-8 * before // 6) : (before + len(data)) * 8 // 6]


def _redacted(text: str, plain: str, pieces: frozenset[str]) -> str:
    """Return the text without keys; `plain` is the text without what may be between characters."""
    covered = bytearray(len(plain))
    for piece in pieces:
        at = plain.find(piece)
        while at >= 0:
            covered[at : at + _PIECE] = b"\1" * _PIECE
            at = plain.find(piece, at + 1)
    starts, moved = array("q", [0]), array("q", [0])  # from each of these places in `plain` on the text is so far ahead
    for gap in _BETWEEN.finditer(text):
        starts.append(gap.start() - moved[-1])
        moved.append(moved[-1] + gap.end() - gap.start())
    found: list[str] = []
    done = 0
    for stretch in _COVERED.finditer(covered):
        first, last = (at + moved[bisect_right(starts, at) - 1] for at in (stretch.start(), stretch.end() - 1))
        found += [text[done:first], REDACTED]
        done = last + 1
    return "".join([*found, text[done:]])
