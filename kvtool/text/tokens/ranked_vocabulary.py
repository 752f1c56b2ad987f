"""The vocabulary of a byte-level tokenizer as a file that is not parsed: ids, lengths, and the bytes of all tokens."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tiktoken import Encoding

_MAGIC = b"kvtool vocabulary 1\n"
_HEAD = struct.Struct("<16sQQ")
"""Checksum of what follows, length of the description, number of tokens; then description, ids, lengths and bytes."""


@dataclass(frozen=True, eq=False)
class RankedVocabulary:
    """A byte-level tokenizer whose merges are those of its ids: of the pairs that make a token, that of the lowest id is next.

    What follows from it is made once: the runs of one process mostly have the same tokenizer.
    """

    pattern: str
    """The regular expression whose matches are the words of a text; it matches everything."""
    spec: Mapping[str, object]
    """The tokenizer.json without its model."""
    vocab_size: int
    prefix: Sequence[int]
    suffix: Sequence[int]
    added: Mapping[str, int]
    """Tokens that are found in a text before anything else, as they are written."""
    unmerged: Sequence[int]
    """Tokens that no merges lead to and that words are not looked up for."""
    alike: Sequence[tuple[int, int]]
    """First and last of the ranges of characters for which the split is known to be the library's."""
    ids: npt.NDArray[np.int32]
    """`[n]`, of every token, ascending."""
    lengths: npt.NDArray[np.int32]
    """`[n]`, bytes of each token."""
    data: bytes
    """The bytes of all tokens."""

    def to_bytes(self) -> bytes:
        """The file."""
        import orjson
        from xxhash import xxh3_128_digest

        names = ("pattern", "spec", "vocab_size", "prefix", "suffix", "added", "unmerged", "alike")
        described = orjson.dumps({name: getattr(self, name) for name in names})
        body = described + self.ids.astype("<i4").tobytes() + self.lengths.astype("<i4").tobytes() + self.data
        return _MAGIC + _HEAD.pack(xxh3_128_digest(body), len(described), len(self.ids)) + body

    @classmethod
    @lru_cache(maxsize=2)
    def of_bytes(cls, file: bytes) -> RankedVocabulary | None:
        """Read a kept file, which is one object for equal bytes; None where it is cut off, changed, or no such file."""
        import orjson
        from xxhash import xxh3_128_digest

        start = len(_MAGIC) + _HEAD.size
        if len(file) < start or not file.startswith(_MAGIC):
            return None
        checksum, described, count = _HEAD.unpack_from(file, len(_MAGIC))
        if xxh3_128_digest(memoryview(file)[start:]) != checksum:
            return None
        ids_at = start + described
        lengths_at = ids_at + 4 * count
        return cls(
            **orjson.loads(file[start:ids_at]),
            ids=np.frombuffer(file, "<i4", count, ids_at),
            lengths=np.frombuffer(file, "<i4", count, lengths_at),
            data=file[lengths_at + 4 * count :],
        )

    @cached_property
    def tokens(self) -> Mapping[int, bytes]:
        """The bytes of every token by its id."""
        return dict(zip(self.ids.tolist(), self._cut(np.ones(len(self.ids), np.bool_)), strict=True))

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The added tokens as they are written, by their ids."""
        return {token: text for text, token in self.added.items()}

    @cached_property
    def ids_by_bytes(self) -> Mapping[bytes, int]:
        """The ids of the tokens that are not added, by their bytes."""
        return {data: token for token, data in self.tokens.items() if token not in self.names}

    @cached_property
    def widths(self) -> npt.NDArray[np.int32]:
        """`[vocab_size]`, the bytes of each token, 0 for ids without one."""
        widths = np.zeros(self.vocab_size, np.int32)
        widths[self.ids] = self.lengths
        for token, text in self.names.items():
            widths[token] = len(text.encode())
        return widths

    @cached_property
    def newline_tokens(self) -> Sequence[int]:
        """Tokens that hold a line feed."""
        added = [token for text, token in self.added.items() if "Ċ" in text or "\n" in text or text == "<0x0A>"]
        feeds = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n"))
        holding = np.unique(np.searchsorted(np.cumsum(self.lengths, dtype=np.int64), feeds, side="right"))
        return added + [token for token in self.ids[holding].tolist() if token not in self.names]

    @cached_property
    def encoding(self) -> Encoding:
        """The encoder of words."""
        from tiktoken import Encoding

        return Encoding("ranks", pat_str=self.pattern, mergeable_ranks=self._ranks(), special_tokens={})

    def _ranks(self) -> dict[bytes, int]:
        """The ids of the tokens that words are made of, by their bytes."""
        chosen = np.isin(self.ids, [*self.added.values(), *self.unmerged], invert=True)
        return dict(zip(self._cut(chosen), self.ids[chosen].tolist(), strict=True))

    def _cut(self, chosen: npt.NDArray[np.bool_]) -> list[bytes]:
        """The bytes of each token for which `chosen [n]` is true."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        starts = ends - self.lengths
        data = self.data
        return [data[start:end] for start, end in zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True)]

    @cached_property
    def unlike(self) -> re.Pattern[str]:
        """Matches a character for which the split might differ from the library's."""
        ranges = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in self.alike)
        return re.compile(f"[^{ranges}]")

    @cached_property
    def added_tokens(self) -> re.Pattern[str] | None:
        """Matches an added token; None where there is none."""
        return any_of(self.added) if self.added else None


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
