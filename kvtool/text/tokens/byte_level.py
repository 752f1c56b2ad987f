"""How byte-level vocabularies write bytes as characters."""

from __future__ import annotations

_PRINTED = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS = [byte for byte in range(256) if byte not in _PRINTED]
_BYTES = {byte: byte for byte in _PRINTED} | {0x100 + index: byte for index, byte in enumerate(_OTHERS)}
"""Byte of each character: printed ones of Latin-1 stand for themselves, the others are U+0100 and on."""
_CHARACTERS = {byte: chr(character) for character, byte in _BYTES.items()}


def bytes_of(written: str) -> bytes | None:
    """The bytes of a token as the vocabulary writes it; None where a character stands for no byte."""
    try:
        return bytes([_BYTES[ord(character)] for character in written])
    except KeyError:
        return None


def written(data: bytes) -> str:
    """Bytes as the vocabulary writes them."""
    return "".join(_CHARACTERS[byte] for byte in data)
