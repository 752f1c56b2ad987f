"""State that is shared while a workload file becomes prompts (document, seed, mistakes), and random choices.

A choice depends only on a seed and on its key, never on the order in which choices are made.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path as FilePath
from types import TracebackType

from kvtool.errors import KvtoolError, Place, ProblemsError
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.text_files import Overlay, read_text
from kvtool.text.files.yaml_document import Path, YamlDocument
from kvtool.text.traced import Traced
from kvtool.workload.yaml.fields import Pick

Key = str | int
MOST_ENTRIES = 1_000_000
"""Of a list that a Zipf pick is made from: its weights are kept in memory."""


def bits(size: int, *key: Key) -> bytes:
    """Return `size` (at most 64) pseudo-random bytes that belong to `key`."""
    return hashlib.blake2b(_encoded(key), digest_size=size).digest()


def stream(size: int, *key: Key) -> bytes:
    """Return any number of pseudo-random bytes that belong to `key`."""
    return hashlib.shake_128(_encoded(key)).digest(size)


def below(bound: int, *key: Key) -> int:
    """Return a whole number from 0 to `bound` - 1."""
    return int.from_bytes(bits(8, *key)) * bound >> 64


def fraction(*key: Key) -> float:
    """Return a number from 0 to just under 1."""
    return (int.from_bytes(bits(8, *key)) >> 11) / 2**53


class Weighted:
    """Picks an index with a probability proportional to its weight."""

    def __init__(self, weights: Sequence[float]) -> None:
        self._sums = list(accumulate(weights))

    def index(self, *key: Key) -> int:
        return min(bisect_right(self._sums, fraction(*key) * self._sums[-1]), len(self._sums) - 1)


def zipf(count: int, exponent: float) -> Weighted:
    """Return the k-th of `count` entries weighs k to the power of -`exponent`."""
    return Weighted([(rank + 1) ** -exponent for rank in range(count)])


def _encoded(key: tuple[Key, ...]) -> bytes:
    return "\x1f".join(map(str, key)).encode("utf-8", "surrogatepass")


class Guard:
    """Takes the KvtoolErrors of a `with` block into a list."""

    def __init__(self, problems: list[KvtoolError]) -> None:
        self._problems = problems

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, ProblemsError):
            self._problems += error.errors
        elif isinstance(error, KvtoolError):
            self._problems.append(error)
        return isinstance(error, KvtoolError)


@dataclass(slots=True)
class Loading:
    document: YamlDocument
    seed: int
    problems: list[KvtoolError] = field(default_factory=list)
    overlay: Overlay | None = None
    """Texts to read in place of files."""
    allow_outside: bool = False
    """Whether it may name files outside of its repository or folder."""
    filters: frozenset[str] = frozenset()
    tests: frozenset[str] = frozenset()
    """Filters and tests of the application."""
    root: RootFolder = field(init=False)

    def __post_init__(self) -> None:
        self.root = RootFolder.of(self.document.path, allow_outside=self.allow_outside)

    def guard(self) -> Guard:
        """Note a mistake in the block and go on after it, so that all of them are said at once."""
        return Guard(self.problems)

    def resolve(self, path: str) -> str:
        """Return a path of the workload file, which counts from the folder of that file."""
        return str(FilePath(self.document.path).parent / path)

    def read(self, file: Traced, at: Path) -> tuple[str, str]:
        """Return the path, as the user would write it here, and the text of a file that the workload names."""
        shown = self.resolve(str.__str__(file))
        self.check(shown, at)
        return shown, read_text(FilePath(shown), shown=shown, place=self.place(at), overlay=self.overlay)

    def check(self, path: str, at: Path, *, shown: str | None = None) -> None:
        """Raise KvtoolError, at the value that names it, where the workload may not read what is there."""
        self.root.check(path, shown=shown or path, place=self.place(at))

    def place(self, at: Path, *, key: bool = False) -> Place:
        return self.document.place(at, key=key)

    def error(self, message: str, at: Path, hint: str | None = None) -> KvtoolError:
        return KvtoolError(message, hint=hint, place=self.place(at))


class Picker:
    """Chooses one of `count` entries for each number that it is asked about."""

    def __init__(self, count: int, pick: Pick, *key: Key) -> None:
        self._count = count
        self._how = pick.how
        self._key = key
        self._weighted: Weighted | None = zipf(count, pick.exponent) if pick.how == "zipf" else None

    def index(self, number: int) -> int:
        if self._weighted is not None:
            return self._weighted.index(*self._key, number)
        return number % self._count if self._how == "cycle" else below(self._count, *self._key, number)
