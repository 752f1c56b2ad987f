"""What is shared while a workload file is turned into prompts: the document, the seed, the mistakes found so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path as FilePath
from types import TracebackType

from kvtool.errors import KvtoolError, Place, ProblemsError
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.text_files import Overlay, read_text
from kvtool.text.files.yaml_document import Path, YamlDocument
from kvtool.text.traced import Traced
from kvtool.workload.yaml.draws import Key, Weighted, below, zipf
from kvtool.workload.yaml.fields import Pick

MOST_ENTRIES = 1_000_000
"""Of a list that a Zipf pick is made from: its weights are kept in memory."""


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
    root: RootFolder = field(init=False)

    def __post_init__(self) -> None:
        self.root = RootFolder.of(self.document.path, allow_outside=self.allow_outside)

    def guard(self) -> Guard:
        """Note a mistake in the block and go on after it, so that all of them are said at once."""
        return Guard(self.problems)

    def resolve(self, path: str) -> str:
        """A path of the workload file, which counts from the folder of that file."""
        return str(FilePath(self.document.path).parent / path)

    def read(self, file: Traced, at: Path) -> tuple[str, str]:
        """The path, as the user would write it here, and the text of a file that the workload names."""
        shown = self.resolve(str.__str__(file))
        self.check(shown, at)
        return shown, read_text(FilePath(shown), shown=shown, place=self.place(at), overlay=self.overlay)

    def check(self, path: str, at: Path, *, shown: str | None = None) -> None:
        """KvtoolError, at the value that names it, where the workload may not read what is there."""
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
