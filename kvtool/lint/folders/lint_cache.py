"""Results of earlier runs, for files that did not change: one file for each folder and set of options.

It lies in the user's cache folder (`$XDG_CACHE_HOME/kvtool/lint`, else `~/.cache`), not in the project: a linter writes nothing
there. An entry is valid for the content of its file, the options and this very program. It may quote prompts, so nobody else may
read it. What is wrong with the cache is never an error: it is as if there were none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.lint.findings.file_result import JudgedText
from kvtool.lint.lint_inputs import TextInput
from kvtool.text.files.atomic_file import PRIVATE, AtomicFile
from kvtool.text.files.checkout_links import make_folders
from kvtool.version import __version__

MOST_BYTES = 64 << 20
"""Of all its files together: those that were not used for longest are removed."""
_MOST_OF_ONE = 32 << 20
_OWN_CODE = ("lint", "text", "diagnose", "results", "workload")
_PRIVATE_FOLDER = 0o700

Entry = tuple[str, str]
"""Hash of a file as it was read, and its packed result."""
Entries = dict[str, Entry]
"""The content of a cache file: results by path."""


class LintCache:
    """The results of one folder; to be asked for each file, reported what was new, and closed."""

    def __init__(self, folder: Path | None, options: Sequence[object]) -> None:
        """`folder` is where caches lie, None: nowhere. `options` are all that decides a result beside the files."""
        told = json.dumps([__version__, _own_state(), os.getcwd(), *map(repr, options)])  # noqa: PTH109
        self._path = None if folder is None else folder / f"{_hash(told.encode())[:32]}.json"
        self._before: Entries = {} if self._path is None else _read(self._path)
        self._now: Entries = {}

    def known(self, one: TextInput) -> JudgedText | None:
        """The result of the file, where it is as it was."""
        entry = self._before.get(one.path)
        if entry is None or entry[0] != self._key(one):
            return None
        try:
            result = JudgedText.unpacked(entry[1])
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        self._now[one.path] = entry
        return result

    def add(self, one: TextInput, result: JudgedText) -> None:
        """Keep a result; not of a file that could not be read."""
        if self._path is not None and result.error is None:
            self._now[one.path] = self._key(one), result.packed()

    def close(self) -> None:
        """Write what is new; files that were not asked for are forgotten where others were."""
        if self._path is None or not self._now:
            return
        if self._now == self._before or len(data := _packed(self._now)) > _MOST_OF_ONE:
            return
        with contextlib.suppress(OSError, KvtoolError):
            if _made_private(self._path.parent):
                with AtomicFile(self._path, mode=PRIVATE) as file:
                    file.write(data)
                _tidy(self._path.parent)

    def _key(self, one: TextInput) -> str:
        return _hash(f"{one.kind}\0{one.style}\0{one.found}\0{one.marks}\0{one.text}".encode("utf-8", "surrogatepass"))


def cache_folder() -> Path | None:
    """Return the folder of lint's caches; None where the system names none."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if not named.startswith("/"):
        home = os.environ.get("HOME", "")
        if not home.startswith("/"):
            return None
        named = f"{home}/.cache"
    return Path(named) / "kvtool" / "lint"


def file_hash(path: str) -> str:
    """Return the hash of a file's content; empty where it is no file, or cannot be read."""
    try:
        return _hash(Path(path).read_bytes())
    except (OSError, ValueError):
        return ""


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _own_state() -> list[tuple[str, int, int]]:
    """Size and time of the program's own files: one that was changed gives other results under the same version."""
    top = Path(__file__).parents[2]
    found: list[tuple[str, int, int]] = []
    for room in _OWN_CODE:
        for folder, _, names in os.walk(top / room):
            for name in names:
                if name.endswith((".py", ".toml")):
                    status = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - of hundreds, each time
                    found.append((name, status.st_size, status.st_mtime_ns))
    return sorted(found)


def _packed(entries: Entries) -> bytes:
    return json.dumps(entries, separators=(",", ":")).encode()


def _read(path: Path) -> Entries:
    """Read a cache of this user; nothing where it is damaged."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_size > _MOST_OF_ONE:
            return {}
        entries = json.loads(path.read_bytes())
        return {str(one): (str(key), str(result)) for one, (key, result) in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _made_private(folder: Path) -> bool:
    """Make the folder where it is missing; whether it is the user's own, and nobody else may look into it then."""
    make_folders(folder.parent.parent)
    for each in (folder.parent, folder):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=_PRIVATE_FOLDER)
        status = each.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        if stat.S_IMODE(status.st_mode) & 0o077:
            each.chmod(_PRIVATE_FOLDER)
    return True


def _tidy(folder: Path) -> None:
    """Remove what was not written for longest, until the rest is within the bound."""
    found = [(path, path.stat()) for path in folder.glob("*.json")]
    total = sum(status.st_size for _, status in found)
    for path, status in sorted(found, key=lambda one: one[1].st_mtime_ns):
        if total <= MOST_BYTES:
            return
        total -= status.st_size
        path.unlink(missing_ok=True)
