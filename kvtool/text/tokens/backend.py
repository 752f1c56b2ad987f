"""Backends that encode text: the `tokenizers` library, or anything that gives the very same ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kvtool.errors import KvtoolError
from kvtool.text.tokens.prompt import Ids, Spans
from kvtool.text.tokens.tokenizer_files import TokenizerFiles

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library


class Backend(Protocol):
    """Ids of texts without lone surrogates, and back. Nothing here remembers what it has encoded."""

    @property
    def vocab_size(self) -> int:
        """The number of tokens, added ones included."""

    @property
    def prefix(self) -> Sequence[int]:
        """The ids that the tokenizer's post-processor puts before every prompt."""

    @property
    def suffix(self) -> Sequence[int]:
        """The ids that it puts after every prompt."""

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """The ids `[n]` of each text, without prefix and suffix; added tokens that are written in a text count as such."""

    def spans(self, text: str, ids: Ids | None = None) -> Spans:
        """First character and end of each token of a text; tokens that share a character have it all.

        `ids` are those that `encode` gave for the text, where they are known.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids >= 0: added tokens as they are written, broken bytes as U+FFFD, unknown ids left out."""

    def token_text(self, token: int) -> str | None:
        """A token >= 0 as the vocabulary writes it; None where there is none."""

    def token_id(self, text: str) -> int | None:
        """The token that the vocabulary writes so."""

    def newline_tokens(self) -> Sequence[int]:
        """Tokens that hold a line feed: as itself, byte-level (`Ċ`), or as a byte (`<0x0A>`)."""


class LibraryBackend:
    """The `tokenizers` library itself: it reads every kind of tokenizer.json, which takes about a second."""

    def __init__(self, files: TokenizerFiles) -> None:
        """Raises KvtoolError where the library cannot read the file."""
        from tokenizers import Tokenizer as Library

        try:
            library: Library = Library.from_buffer(files.data)
        except Exception as error:  # the library raises plain Exceptions
            raise KvtoolError(f"tokenizer `{files.name}` cannot be loaded: {error}") from error
        library.no_truncation()
        library.no_padding()
        self.vocab_size: int = library.get_vocab_size(with_added_tokens=True)
        self.prefix, self.suffix = _wrapping_ids(library)
        # Spans shall cover the text, so nothing may trim them; the tokens it adds are known from here on.
        library.post_processor = None
        self.library = library

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Ids of each text; the library works on several at a time."""
        encodings = self.library.encode_batch_fast(list(texts), add_special_tokens=False)
        try:
            return [np.array(encoding.ids, np.int32) for encoding in encodings]
        except OverflowError as error:
            raise KvtoolError(
                "the tokenizer has token ids of 2^31 and more", hint="pass another one: -t ./tokenizer.json"
            ) from error

    def spans(self, text: str, ids: Ids | None = None) -> Spans:
        """Characters of each token; the library says them only where it encodes."""
        del ids
        return np.array(self.library.encode(text, add_special_tokens=False).offsets, np.int32).reshape(-1, 2)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return str(self.library.decode(list(ids), skip_special_tokens=False))

    def token_text(self, token: int) -> str | None:
        """A token as the vocabulary writes it."""
        text = self.library.id_to_token(token)
        return None if text is None else str(text)

    def token_id(self, text: str) -> int | None:
        """The token that the vocabulary writes so."""
        token: int | None = self.library.token_to_id(text)
        return token

    def newline_tokens(self) -> list[int]:
        """Tokens that hold a line feed."""
        vocabulary = self.library.get_vocab(with_added_tokens=True)
        return [token for text, token in vocabulary.items() if "Ċ" in text or "\n" in text or text == "<0x0A>"]


def _wrapping_ids(library: Library) -> tuple[list[int], list[int]]:
    """The ids that the tokenizer's post-processor puts before and after every text."""
    encoding = library.encode("a", add_special_tokens=True)
    mask = encoding.special_tokens_mask
    if 0 not in mask:
        return [], []
    first = mask.index(0)
    last = len(mask) - mask[::-1].index(0)
    return list(encoding.ids[:first]), list(encoding.ids[last:])
