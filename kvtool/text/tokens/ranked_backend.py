"""A byte-level tokenizer by its ranks, run by tiktoken: loads and encodes several times as fast as the library, to the same ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt

from kvtool.text.tokens.backend import LibraryBackend
from kvtool.text.tokens.prompt import Ids, Spans
from kvtool.text.tokens.ranked_vocabulary import RankedVocabulary
from kvtool.text.tokens.ranks import LONGEST, bytes_of, written


class RankedBackend:
    """Encodes what is known to come out as the library has it (see `rank_proof`), and asks the library for the rest."""

    def __init__(self, name: str, vocabulary: RankedVocabulary, library: Callable[[], LibraryBackend]) -> None:
        from tiktoken import Encoding

        self.vocab_size = vocabulary.vocab_size
        self.prefix = list(vocabulary.prefix)
        self.suffix = list(vocabulary.suffix)
        self._open_library = library
        self._added = dict(vocabulary.added)
        self._names = {token: text for text, token in self._added.items()}
        self._vocabulary = vocabulary
        self._added_tokens = any_of(self._added) if self._added else None
        self._unlike = vocabulary.unlike_characters()
        self._encoding = Encoding(
            name,
            pat_str=vocabulary.pattern,
            mergeable_ranks=vocabulary.ranks(),
            special_tokens={},
        )

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Ids of each text; unusual characters and very long stretches go to the library."""
        others = [text for text in texts if not self._is_alike(text)]
        if not others:
            return [np.array(self._ids(text), np.int32) for text in texts]
        known = dict(zip(others, self._library.encode(others), strict=True))
        return [known[text] if text in known else np.array(self._ids(text), np.int32) for text in texts]

    def spans(self, text: str, ids: Ids | None = None) -> Spans:
        """Characters of each token, from the bytes that the tokens have."""
        if not self._is_alike(text):
            return self._library.spans(text)
        lengths = self._lengths[self._ids(text) if ids is None else ids]
        spans = np.empty((len(lengths), 2), np.int32)
        ends = lengths.cumsum(out=spans[:, 1])
        np.subtract(ends, lengths, out=spans[:, 0])
        if not text.isascii():
            bytes_ = np.frombuffer(text.encode(), np.uint8)
            characters = ((bytes_ & 0xC0) != 0x80).cumsum() - 1  # of each byte
            spans[:, 0], spans[:, 1] = characters[spans[:, 0]], characters[ends - 1] + 1
        return spans

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return b"".join(filter(None, map(self._tokens.get, ids))).decode(errors="replace")

    def token_text(self, token: int) -> str | None:
        """A token as the vocabulary writes it."""
        if token in self._names:
            return self._names[token]
        return written(self._tokens[token]) if token in self._tokens else None

    def token_id(self, text: str) -> int | None:
        """The token that the vocabulary writes so."""
        if text in self._added:
            return self._added[text]
        data = bytes_of(text)
        return None if data is None else self._ids_by_bytes.get(data)

    def newline_tokens(self) -> list[int]:
        """Tokens that hold a line feed."""
        added = [token for text, token in self._added.items() if "Ċ" in text or "\n" in text or text == "<0x0A>"]
        return added + [token for token, data in self._tokens.items() if b"\n" in data and token not in self._names]

    @cached_property
    def _tokens(self) -> dict[int, bytes]:
        return self._vocabulary.tokens()

    @cached_property
    def _lengths(self) -> npt.NDArray[np.int32]:
        """The bytes of each token."""
        lengths = np.zeros(self.vocab_size, np.int32)
        tokens = self._tokens
        lengths[list(tokens)] = list(map(len, tokens.values()))
        for token, text in self._names.items():
            lengths[token] = len(text.encode())
        return lengths

    @cached_property
    def _library(self) -> LibraryBackend:
        return self._open_library()

    @cached_property
    def _ids_by_bytes(self) -> dict[bytes, int]:
        return {data: token for token, data in self._tokens.items() if token not in self._names}

    def _is_alike(self, text: str) -> bool:
        return len(text) <= LONGEST and (text.isascii() or self._unlike.search(text) is None)

    def _ids(self, text: str) -> list[int]:
        encode = self._encoding.encode_ordinary
        if self._added_tokens is None or (match := self._added_tokens.search(text)) is None:
            return encode(text)
        ids: list[int] = []
        at = 0
        while match is not None:
            ids += encode(text[at : match.start()])
            ids.append(self._added[match.group()])
            at = match.end()
            match = self._added_tokens.search(text, at)
        return ids + encode(text[at:])


def any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Matches the leftmost of texts, the longest of those that begin there; each character is looked at once."""
    return re.compile(_alternatives(sorted(texts, reverse=True), 0))


def _alternatives(texts: Sequence[str], at: int) -> str:
    """Return a pattern for the texts after their first `at` characters, which they have in common."""
    longer = [text for text in texts if len(text) > at]
    found = [
        re.escape(character) + _alternatives(list(group), at + 1)
        for character, group in groupby(longer, key=lambda text: text[at])
    ]
    if len(longer) < len(texts):  # one of them ends here
        return f"(?:{'|'.join(found)})?" if found else ""
    return found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"
