"""Text to token ids and back. Text that was seen before is not encoded again, and the ids are the same as if it were."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from kvtool.errors import KvtoolError
from kvtool.text.tokens.backend import Backend
from kvtool.text.tokens.backends import open_backend
from kvtool.text.tokens.cuts import Cuts, find_cuts
from kvtool.text.tokens.prompt import Ids, Prompt, Spans
from kvtool.text.tokens.tokenizer_files import TokenizerFiles, find_tokenizer
from kvtool.text.traced import Traced

_RECENT = 1_000_000
"""Characters seen lately after which those seen before them are forgotten."""
_KEPT = 16_000_000
"""Characters seen more than once; beyond that, all are forgotten. Each takes some 7 bytes with its tokens."""
_MARKS = 1 << 22
_KINDS = 255
"""Different marks: two pieces that have one place have one mark seldom."""


class PieceMemo:
    """Remembers the ids of pieces that come back, and those of the latest pieces. Memory is bounded by characters.

    A piece that comes again soon is not kept yet: the end of a prompt and its answer come again in the next prompt, and then
    never. It gets a mark, as does one that is forgotten: when a piece with a mark comes again (a workload is read several times),
    it is kept. A mark may be that of another piece; then one is kept that need not be.
    """

    def __init__(
        self, encode: Callable[[Sequence[str]], list[Ids]], *, recent: int = _RECENT, kept: int = _KEPT
    ) -> None:
        """`encode` gives the ids of pieces, each of which is asked for once at a time."""
        self._encode = encode
        self._most_recent, self._most_kept = recent, kept
        self._kept: dict[str, Ids] = {}
        self._kept_characters = 0
        self._young: dict[str, Ids] = {}
        self._young_characters = 0
        self._old: dict[str, Ids] = {}
        self._marks = bytearray(_MARKS)
        self._marked = 0

    def __call__(self, pieces: Sequence[str]) -> list[Ids]:
        """The ids of each piece."""
        kept = self._kept
        try:
            return [kept[piece] for piece in pieces]
        except KeyError:
            here = self._learn(dict.fromkeys(piece for piece in pieces if piece not in kept))
        found = [here[piece] if piece in here else kept[piece] for piece in pieces]
        if self._kept_characters > self._most_kept:
            self._kept, self._kept_characters = {}, 0
        return found

    def find(self, piece: str) -> Ids | None:
        """The ids of a piece that is remembered; None where it is not."""
        for memo in (self._kept, self._young, self._old):
            ids = memo.get(piece)
            if ids is not None:
                return ids
        return None

    def _learn(self, pieces: dict[str, None]) -> dict[str, Ids]:
        """The ids of pieces that are not kept; those with a mark are, from now on."""
        here = {piece: ids for piece in pieces if (ids := self._recent(piece)) is not None}
        again = set(here)
        new = [piece for piece in pieces if piece not in here]
        here.update(zip(new, self._encode(new), strict=True))
        for piece, ids in here.items():
            place, mark = _mark_of(piece)
            if self._marks[place] == mark:
                self._kept[piece] = ids
                self._kept_characters += len(piece)
                continue
            self._young[piece] = ids
            self._young_characters += len(piece)
            if piece in again:
                self._marks[place] = mark
                self._marked += 1
        if self._young_characters > self._most_recent:
            self._forget()
        return here

    def _recent(self, piece: str) -> Ids | None:
        """Take a piece from those that came lately; None where it did not."""
        ids = self._young.pop(piece, None)
        if ids is None:
            return self._old.pop(piece, None)
        self._young_characters -= len(piece)
        return ids

    def _forget(self) -> None:
        """Leave a mark of each piece that grew old, and let the young ones grow old."""
        if self._marked + len(self._old) > _MARKS // 4:
            self._marks, self._marked = bytearray(_MARKS), 0
        for piece in self._old:
            place, mark = _mark_of(piece)
            self._marks[place] = mark
        self._marked += len(self._old)
        self._old, self._young, self._young_characters = self._young, {}, 0


def _mark_of(piece: str) -> tuple[int, int]:
    """Return the place of a piece's mark, and the mark."""
    value = hash(piece)
    return value % _MARKS, value // _MARKS % _KINDS + 1


_SURROGATE = re.compile("[\ud800-\udfff]")
_OFFSET_PIECES = 64
_OFFSET_CHARACTERS = 1_000_000
"""Of pieces whose tokens' offsets are remembered: these take 8 bytes for each token, and it may be of one character."""
_PIECE_CHARACTERS = 16_000_000
"""A longer stretch that cannot be cut would take gigabytes in the encoder."""
_BATCH_CHARACTERS = 2_000_000
"""At most about this much text is in the encoder at a time: its results take some 200 bytes per token until they are copied."""


def load_tokenizer(name: str | None, *, offline: bool = False) -> Tokenizer:
    """The built-in tokenizer (None), a tokenizer.json, a folder with one, or that of a Hugging Face id.

    Raises NotAvailableError where an id is not cached and cannot be downloaded, KvtoolError where a file is no tokenizer.
    """
    return Tokenizer(find_tokenizer(name, offline=offline))


class Tokenizer:
    """A tokenizer that remembers the pieces of text it has encoded."""

    def __init__(self, files: TokenizerFiles) -> None:
        self._backend: Backend
        self._backend, spec = open_backend(files)
        self.name = files.name
        self.fingerprint = files.fingerprint
        self.vocab_size = self._backend.vocab_size
        self.chat_template = files.chat_template
        self._prefix, self._suffix = list(self._backend.prefix), list(self._backend.suffix)
        self._cuts: Cuts = find_cuts(spec)
        self.special_tokens: dict[str, str] = dict(files.named_tokens)
        if "bos_token" not in self.special_tokens and len(self._prefix) == 1:
            self.special_tokens["bos_token"] = self.token_text(self._prefix[0])
        self._memo = PieceMemo(self._encoded)
        self._offset_memo: dict[str, Spans] = {}
        self._offset_characters = 0

    @property
    def num_prefix_tokens(self) -> int:
        """The number of special tokens that begin a prompt."""
        return len(self._prefix)

    @property
    def bos_token(self) -> str | None:
        return self.special_tokens.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        return self.special_tokens.get("eos_token")

    def encode(self, text: str, *, add_special_tokens: bool) -> Prompt:
        """The prompt of a text, traced where the text is; special tokens that are written in the text count as such."""
        plain = text if type(text) is str else str.__str__(text)
        starts = self._cuts.starts(plain)
        arrays = self._pieces(plain, starts)
        prefix, suffix = (self._prefix, self._suffix) if add_special_tokens else ([], [])
        token_starts = array("i", accumulate(map(len, arrays), initial=len(prefix)))
        token_starts.pop()
        ids = _joined([np.array(prefix, np.int32), *arrays, np.array(suffix, np.int32)])
        if isinstance(text, Traced):
            return Prompt(ids, text, array("i", starts), token_starts, self.offsets)
        return Prompt(ids)

    def encode_continued(self, text: Traced, before: Prompt, shared: int) -> tuple[Prompt, int, int]:
        """Return the prompt of a text without special tokens that begins with the first `shared` characters of another such
        prompt's; and how many characters and tokens at its front are taken from there."""
        starts, token_starts = before.char_starts, before.token_starts
        assert starts is not None
        assert token_starts is not None
        kept = bisect_right(starts, shared - self._cuts.reach) - 1
        if kept <= 0:
            return self.encode(text, add_special_tokens=False), 0, 0
        chars, tokens = starts[kept], token_starts[kept]
        plain = str.__getitem__(text, slice(chars, None))
        new = self._cuts.starts(plain)
        arrays = self._pieces(plain, new)
        starts = starts[:kept]
        starts.extend(chars + at for at in new)
        token_starts = token_starts[:kept]
        token_starts.extend(accumulate(map(len, arrays), initial=tokens))
        token_starts.pop()
        ids = np.concatenate([before.ids[:tokens], *arrays])
        prompt = Prompt(ids, text, starts, token_starts, self.offsets)
        return prompt, chars, tokens

    def encode_ids(self, text: str) -> Ids:
        """The ids `[n]` of a text alone, without the tokens that begin or end a prompt."""
        plain = str.__str__(text)
        return _joined(self._pieces(plain, self._cuts.starts(plain)))

    def decode(self, ids: Ids | Sequence[int]) -> str:
        """The text of token ids: special tokens as they are written, broken bytes as U+FFFD, unknown ids left out."""
        tokens = np.asarray(ids, np.int64)
        return self._backend.decode(tokens[tokens >= 0].tolist())

    def token_text(self, token: int) -> str:
        """A token as the vocabulary writes it; `<id>` where it has none."""
        text = self._backend.token_text(token) if token >= 0 else None
        return f"<{token}>" if text is None else text

    @property
    def eos_id(self) -> int | None:
        """The token that ends an answer."""
        return None if self.eos_token is None else self._backend.token_id(self.eos_token)

    @cached_property
    def newline_mask(self) -> npt.NDArray[np.bool_]:
        """Over the vocabulary: which tokens hold a line feed, as themselves, byte-level (`Ċ`) or as a byte (`<0x0A>`)."""
        mask = np.zeros(self.vocab_size, dtype=np.bool_)
        mask[[token for token in self._backend.newline_tokens() if token < len(mask)]] = True
        return mask

    def is_token(self, text: str) -> bool:
        """Return whether the vocabulary has a token that is written so."""
        return self._backend.token_id(text) is not None

    def _pieces(self, text: str, starts: list[int]) -> list[Ids]:
        return self._memo([text[start:stop] for start, stop in pairwise([*starts, len(text)])])

    def _encoded(self, pieces: Sequence[str]) -> list[Ids]:
        """The ids of each piece, encoded some at a time."""
        found: list[Ids] = []
        batch: list[str] = []
        waiting = 0
        for piece in pieces:
            if len(piece) > _PIECE_CHARACTERS:
                raise KvtoolError(
                    f"{len(piece):,} characters that tokenizer `{self.name}` cannot split",
                    hint=f"the most is {_PIECE_CHARACTERS:,}; check whether this is text",
                )
            batch.append(piece)
            waiting += len(piece)
            if waiting >= _BATCH_CHARACTERS:
                found += self._encode_batch(batch)
                batch, waiting = [], 0
        return found + self._encode_batch(batch)

    def _encode_batch(self, batch: list[str]) -> list[Ids]:
        return self._backend.encode([piece if piece.isascii() else _SURROGATE.sub("\ufffd", piece) for piece in batch])

    def offsets(self, piece: str, ids: Ids | None = None) -> Spans:
        """The characters of each token of a piece, whose `ids` are these where they are known; the pieces that were asked for
        last are remembered."""
        memo = self._offset_memo
        found = memo.pop(piece, None)
        if found is None:
            plain = piece if piece.isascii() else _SURROGATE.sub("\ufffd", piece)
            found = self._backend.spans(plain, self._memo.find(piece) if ids is None else ids)
            self._offset_characters += len(piece)
            while memo and (self._offset_characters > _OFFSET_CHARACTERS or len(memo) >= _OFFSET_PIECES):
                oldest = next(iter(memo))
                self._offset_characters -= len(oldest)
                del memo[oldest]
        memo[piece] = found
        return found


class Tokenizers:
    """Loads tokenizers, each once: it takes time and memory, and workloads mostly have the same."""

    def __init__(self, *, offline: bool) -> None:
        self._offline = offline
        self._loaded: dict[str | None, Tokenizer] = {}

    def __call__(self, name: str | None) -> Tokenizer:
        if name not in self._loaded:
            self._loaded[name] = load_tokenizer(name, offline=self._offline)
        return self._loaded[name]


def _joined(arrays: list[Ids]) -> Ids:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)
