"""A byte-level tokenizer by its ranks, run by tiktoken: loads and encodes several times as fast as the library, to the same ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from kvtool.text.tokens.backend import LibraryBackend
from kvtool.text.tokens.prompt import Ids, Spans
from kvtool.text.tokens.ranked_vocabulary import RankedVocabulary
from kvtool.text.tokens.ranks import LONGEST, bytes_of, written


class RankedBackend:
    """Encodes what is known to come out as the library has it (see `rank_proof`), and asks the library for the rest."""

    def __init__(self, vocabulary: RankedVocabulary, library: Callable[[], LibraryBackend]) -> None:
        self.vocab_size = vocabulary.vocab_size
        self.prefix = list(vocabulary.prefix)
        self.suffix = list(vocabulary.suffix)
        self._vocabulary = vocabulary
        self._open_library = library

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
        lengths = self._vocabulary.widths[self._ids(text) if ids is None else ids]
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
        return b"".join(filter(None, map(self._vocabulary.tokens.get, ids))).decode(errors="replace")

    def token_text(self, token: int) -> str | None:
        """A token as the vocabulary writes it."""
        vocabulary = self._vocabulary
        if token in vocabulary.names:
            return vocabulary.names[token]
        return written(vocabulary.tokens[token]) if token in vocabulary.tokens else None

    def token_id(self, text: str) -> int | None:
        """The token that the vocabulary writes so."""
        if text in self._vocabulary.added:
            return self._vocabulary.added[text]
        data = bytes_of(text)
        return None if data is None else self._vocabulary.ids_by_bytes.get(data)

    def newline_tokens(self) -> list[int]:
        """Tokens that hold a line feed."""
        return list(self._vocabulary.newline_tokens)

    @cached_property
    def _library(self) -> LibraryBackend:
        return self._open_library()

    def _is_alike(self, text: str) -> bool:
        return len(text) <= LONGEST and (text.isascii() or self._vocabulary.unlike.search(text) is None)

    def _ids(self, text: str) -> list[int]:
        vocabulary = self._vocabulary
        encode, pattern = vocabulary.encoding.encode_ordinary, vocabulary.added_tokens
        if pattern is None or (match := pattern.search(text)) is None:
            return encode(text)
        ids: list[int] = []
        at = 0
        while match is not None:
            ids += encode(text[at : match.start()])
            ids.append(vocabulary.added[match.group()])
            at = match.end()
            match = pattern.search(text, at)
        return ids + encode(text[at:])
