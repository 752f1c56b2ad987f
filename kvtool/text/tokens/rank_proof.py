"""Return whether a tokenizer.json can be run by its ranks: the same words, and in each word the same merges as the library makes.

Merges by rank join, of all neighbours that together are a token, the pair whose token has the lowest id, leftmost first.
The library joins the pair that comes first in its list of merges, leftmost first. Both are local: as long as no merge
crosses the ends of a stretch, what happens inside is what happens to that stretch alone. So a pair of neighbours that
makes token w is always the pair to which merges by rank bring the bytes of w alone: there is one such pair for each token,
or none. Where each of these pairs is in the library's list, in the order of the ids, every step of the two is the same, by
induction. `_merges_by_rank` looks at all of them.

Words are the matches of one regular expression of a known few. Its parts, classes of characters, are asked of both libraries for
each character (`_alike`); text with a character for which they differ, or that was not asked, is for the library.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kvtool.text.tokens.backend import LibraryBackend
from kvtool.text.tokens.ranked_vocabulary import RankedVocabulary
from kvtool.text.tokens.ranks import bytes_of

_LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CLASSES = (r"\p{L}", r"\p{N}", r"\s")
_PATTERNS: Mapping[str, Sequence[str]] = {
    _GPT2: _CLASSES,
    _LLAMA3: (*_CLASSES, "(?i:[stremvld])"),
    _QWEN: (*_CLASSES, "(?i:[stremvld])"),
    _TEKKEN: (*_CLASSES, r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"),
}
"""The classes of characters that a pattern is made of. Every character is in a match of each of these patterns."""
_LONGEST_ADDED = 200
_ASKED = ((0x00, 0xD7FF), (0xE000, 0xFFFF), (0x1D400, 0x1D7FF), (0x1F000, 0x1FBFF))
"""Ranges of characters that are asked about: the first plane, mathematical letters and emoji."""
_SAMPLE = 512
_BETWEEN = 8
"""One in so many characters is tried between others, too."""
_NONE = 1 << 40
"""A rank after all others."""


def ranked_vocabulary(spec: Mapping[str, object], backend: LibraryBackend) -> RankedVocabulary | None:
    """The vocabulary by ranks of a tokenizer.json; None where it is not known to give the library's ids."""
    model, added = spec.get("model"), _added(spec)
    pattern = _pattern(spec.get("pre_tokenizer"))
    if not isinstance(model, dict) or added is None or pattern is None:
        return None
    normalizer, decoder = spec.get("normalizer"), spec.get("decoder")
    nfc = normalizer is not None
    if nfc and not (isinstance(normalizer, dict) and normalizer.get("type") == "NFC"):
        return None
    if not isinstance(decoder, dict) or decoder.get("type") != "ByteLevel":
        return None
    if len({bool(entry.get("normalized")) for entry in added}) > 1 or (nfc and any(e.get("normalized") for e in added)):
        return None  # one kind is searched for after the other
    names = {str(entry["content"]): backend.token_id(str(entry["content"])) for entry in added}
    tokens = _tokens(model, names)
    if tokens is None:
        return None
    unmerged = _merges_by_rank(model, {data: token for token, data in tokens.items()})
    if unmerged is None:
        return None
    for text, token in names.items():
        assert token is not None
        as_bytes = bytes_of(text)
        tokens[token] = text.encode() if as_bytes is None else as_bytes
    ids = sorted(tokens)
    return RankedVocabulary(
        pattern=pattern,
        spec={key: value for key, value in spec.items() if key != "model"},
        vocab_size=backend.vocab_size,
        prefix=list(backend.prefix),
        suffix=list(backend.suffix),
        added={text: token for text, token in names.items() if token is not None},
        unmerged=[] if model.get("ignore_merges") else unmerged,
        alike=_alike(pattern, nfc=nfc),
        ids=np.array(ids, np.int32),
        lengths=np.array([len(tokens[token]) for token in ids], np.int32),
        data=b"".join([tokens[token] for token in ids]),
    )


def samples(vocabulary: RankedVocabulary) -> Iterator[str]:
    """Texts that hold every character that is encoded by ranks; some also between letters, digits, white space and punctuation."""
    characters = [chr(code) for first, last in vocabulary.alike for code in range(first, last + 1)]
    for start in range(0, len(characters), _SAMPLE):
        stretch = characters[start : start + _SAMPLE]
        yield "".join(stretch)
        yield "".join([f"a{one}B {one}'{one}1\n" for one in stretch[::_BETWEEN]])


def _added(spec: Mapping[str, object]) -> list[Mapping[str, object]] | None:
    """The added tokens; None where some are found in a way that is not known here."""
    entries = spec.get("added_tokens") or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return None
    for entry in entries:
        content = entry.get("content")
        if not isinstance(content, str) or not 0 < len(content) <= _LONGEST_ADDED:
            return None
        if any(entry.get(flag) for flag in ("lstrip", "rstrip", "single_word")):
            return None
    return entries


def _pattern(pre_tokenizer: object) -> str | None:
    """The regular expression of a byte-level pre-tokenizer, where it is a known one."""
    if not isinstance(pre_tokenizer, dict):
        return None
    steps = pre_tokenizer.get("pretokenizers") if pre_tokenizer.get("type") == "Sequence" else [pre_tokenizer]
    if not isinstance(steps, list) or not steps or not all(isinstance(step, dict) for step in steps):
        return None
    *splits, last = steps
    if last.get("type") != "ByteLevel" or last.get("add_prefix_space", True):
        return None
    if last.get("use_regex", True):
        return None if splits else _GPT2
    if len(splits) != 1 or splits[0].get("type") != "Split" or not isinstance(splits[0].get("pattern"), dict):
        return None
    isolated = splits[0].get("behavior") == "Isolated" and not splits[0].get("invert")
    removed = splits[0].get("behavior") == "Removed" and splits[0].get("invert") is True
    pattern = splits[0]["pattern"].get("Regex")
    return pattern if (isolated or removed) and pattern in _PATTERNS else None


def _tokens(model: Mapping[str, object], added: Mapping[str, int | None]) -> dict[int, bytes] | None:
    """The bytes of each token that is not an added one; None for a model that is no plain byte-level BPE."""
    plain = all(
        not model.get(key) for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    )
    vocab = model.get("vocab")
    if model.get("type") != "BPE" or not plain or not isinstance(vocab, dict):
        return None
    tokens: dict[int, bytes] = {}
    for text, token in vocab.items():
        data = bytes_of(text)
        if text in added:
            if data not in (None, text.encode()):
                return None  # its bytes may stand in a text that does not have the token
        elif data is None:
            return None
        else:
            tokens[token] = data
    every_id = [*tokens, *added.values()]
    whole = {bytes([byte]) for byte in range(256)} <= set(tokens.values())
    return tokens if whole and None not in every_id and len(set(every_id)) == len(every_id) else None


def _merges_by_rank(model: Mapping[str, object], ranks: Mapping[bytes, int]) -> list[int] | None:
    """Tokens to which no merges lead; None where merges by rank are not those of the list."""
    merges, ids = model.get("merges"), model.get("vocab")
    if not isinstance(merges, list) or not isinstance(ids, dict):
        return None
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    places = {(ids.get(left), ids.get(right)): place for place, (left, right) in enumerate(pairs)}
    unmerged: list[int] = []
    last = -1
    for data, token in sorted(ranks.items(), key=lambda item: item[1]):
        if len(data) == 1:
            continue
        pair = _last_pair(data, ranks)
        if pair is None:
            unmerged.append(token)
        elif (place := places.get((ranks[pair[0]], ranks[pair[1]]), -1)) > last:
            last = place
        else:
            return None
    return unmerged


def _last_pair(data: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """The two tokens that merges by rank make of bytes before they join these; None where they do not come so far."""
    cuts = list(range(len(data) + 1))  # ends of the tokens so far
    found = [ranks.get(data[at : at + 2], _NONE) for at in range(len(data) - 1)]  # of each two neighbours
    while len(found) > 1:
        best = min(found)
        if best == _NONE:
            return None
        at = found.index(best)
        del cuts[at + 1], found[at]
        if at:
            found[at - 1] = ranks.get(data[cuts[at - 1] : cuts[at + 1]], _NONE)
        if at < len(found):
            found[at] = ranks.get(data[cuts[at] : cuts[at + 2]], _NONE)
    return data[: cuts[1]], data[cuts[1] :]


def _alike(pattern: str, *, nfc: bool) -> list[tuple[int, int]]:
    """First and last of ranges of characters that both libraries see alike, and that normalization leaves alone."""
    from tiktoken import Encoding
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    asked = "".join(chr(code) for first, last in _ASKED for code in range(first, last + 1))
    alike = set(asked)
    one_byte_tokens = {bytes([byte]): byte for byte in range(256)}
    for part in _PATTERNS[pattern]:
        matcher = Encoding("class", pat_str=f"{part}+", mergeable_ranks=one_byte_tokens, special_tokens={})
        inside = set(bytes(matcher.encode_ordinary(asked)).decode())
        outside = {one for stretch, _ in Split(Regex(f"{part}+"), "removed").pre_tokenize_str(asked) for one in stretch}
        alike -= inside & outside
        alike &= inside | outside
    if nfc:
        alike -= _changed_by_nfc(asked)
    return _ranges(sorted(map(ord, alike)))


def _changed_by_nfc(characters: str) -> set[str]:
    """Characters that are no NFC, may become another with one before them, or are not known yet to Python's tables."""
    seconds = {"\u0338"}
    for one in characters:
        parts = unicodedata.decomposition(one).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(chr(int(parts[1], 16)))
    jamo = {chr(code) for code in range(0x1100, 0x1200)}
    return (seconds | jamo).union(
        one
        for one in characters
        if unicodedata.combining(one) or unicodedata.category(one) == "Cn" or not unicodedata.is_normalized("NFC", one)
    )


def _ranges(codes: Sequence[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return ranges
