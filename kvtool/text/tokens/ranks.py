"""A byte-level vocabulary that is given by its ranks, as tiktoken and Tekken give them, as a tokenizer.json."""

from __future__ import annotations

from collections.abc import Mapping

LONGEST = 65_536
"""Characters of a text that tiktoken encodes at once: its regular expressions give up on some that are far longer."""


def tokenizer_json(
    ranks: Mapping[bytes, int], special: Mapping[str, int], *, pattern: str, begin: str | None = None
) -> bytes:
    """The tokenizer.json of tokens and special tokens with their ids, and the regular expression whose matches are words.

    `begin` is the special token that every prompt begins with. Merges are all pairs of tokens that together are a token, in the
    order of the ids: the library then joins what ranks join.
    """
    import orjson

    names = {data: written(data) for data in ranks}
    added = [
        {
            "id": token,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for text, token in sorted(special.items(), key=lambda item: item[1])
    ]
    vocab = dict(special) | {names[data]: token for data, token in ranks.items()}
    return orjson.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
                ],
            },
            "post_processor": None if begin is None else _begins_with(begin, special[begin]),
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": True,
                "vocab": vocab,
                "merges": _merges(ranks, names),
            },
        }
    )


def _merges(ranks: Mapping[bytes, int], names: Mapping[bytes, str]) -> list[tuple[str, str]]:
    merges: list[tuple[str, str]] = []
    for token in sorted(ranks, key=ranks.__getitem__):
        pairs = [(token[:at], token[at:]) for at in range(1, len(token))]
        found = [pair for pair in pairs if pair[0] in ranks and pair[1] in ranks]
        found.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [(names[left], names[right]) for left, right in found]
    return merges


def _begins_with(text: str, token: int) -> dict[str, object]:
    return {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": text, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {text: {"id": text, "ids": [token], "tokens": [text]}},
    }


_PRINTED = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS = [byte for byte in range(256) if byte not in _PRINTED]
_BYTES = {byte: byte for byte in _PRINTED} | {0x100 + index: byte for index, byte in enumerate(_OTHERS)}
"""Byte of each character: printed ones of Latin-1 mean themselves, the others are U+0100 and on."""
_CHARACTERS = {byte: chr(character) for character, byte in _BYTES.items()}


def bytes_of(written: str) -> bytes | None:
    """The bytes of a token as the vocabulary writes it; None where a character means no byte."""
    try:
        return bytes([_BYTES[ord(character)] for character in written])
    except KeyError:
        return None


def written(data: bytes) -> str:
    """Bytes as the vocabulary writes them."""
    return "".join(_CHARACTERS[byte] for byte in data)
