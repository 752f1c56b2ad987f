"""Opens what encodes a tokenizer's text: its ranks, kept in the user's cache, where they give the library's ids, or the library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from kvtool.errors import KvtoolError
from kvtool.text.files.checkout_links import make_folders
from kvtool.text.tokens.backend import Backend, LibraryBackend
from kvtool.text.tokens.ranked_backend import RankedBackend
from kvtool.text.tokens.ranked_vocabulary import RankedVocabulary
from kvtool.text.tokens.tokenizer_files import TokenizerFiles, cache_folder, keep, read_kept

_LAYOUT = 1
"""Part of the names of files: to be raised when the proof or what it writes changes."""
_UNRANKED = b"not by ranks\n"
_SUFFIX = ".ranks"
_MOST_FILES = 16
_WORTH_IT = 500_000
"""Bytes of a tokenizer.json from which on the proof pays: a smaller one is read at once."""


def open_backend(files: TokenizerFiles) -> tuple[Backend, Mapping[str, object]]:
    """Return the backend, and the tokenizer.json as far as it is at hand: its model may be left out.

    Raises KvtoolError where the file is no tokenizer.json.
    """

    @cache
    def library() -> LibraryBackend:
        return LibraryBackend(files)

    path = _path(files.digest)
    kept = b""
    with suppress(OSError):
        kept = read_kept(path)
        os.utime(path)  # those that are used are kept
    vocabulary = RankedVocabulary.of_bytes(kept)
    if vocabulary is None:
        spec = files.spec
        if kept != _UNRANKED and len(files.data) >= _WORTH_IT and _writable(path.parent):
            vocabulary = _proven(files, library())
            keep(path, _UNRANKED if vocabulary is None else vocabulary.to_bytes())
            with suppress(OSError):
                _remove_oldest(path.parent)
        if vocabulary is None:
            return library(), spec
    return RankedBackend(vocabulary, library), vocabulary.spec


def _path(digest: str) -> Path:
    """Return the path of the kept ranks; other versions of the libraries may differ in what they do."""
    libraries = f"{version('tokenizers')}-{version('tiktoken')}"
    return cache_folder() / f"{digest[:32]}-{libraries}-{_LAYOUT}{_SUFFIX}"


def _proven(files: TokenizerFiles, library: LibraryBackend) -> RankedVocabulary | None:
    """The ranks, where they give the library's ids; every character that is left to them is tried once, too."""
    from kvtool.text.tokens.rank_proof import ranked_vocabulary, samples

    vocabulary = ranked_vocabulary(files.spec, library)
    if vocabulary is None:
        return None
    backend, texts = RankedBackend(vocabulary, lambda: library), list(samples(vocabulary))
    same = map(np.array_equal, backend.encode(texts), library.encode(texts))
    return vocabulary if all(same) else None


def _writable(folder: Path) -> bool:
    """Return whether a proof can be kept: without that, each run would pay for it."""
    with suppress(OSError, KvtoolError):
        return os.access(make_folders(folder), os.W_OK)
    return False


def _remove_oldest(folder: Path) -> None:
    """Keep the files that were used last; another process may be doing the same."""
    found = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[_MOST_FILES:]:
        path.unlink(missing_ok=True)
