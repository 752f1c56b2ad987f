"""Keep results for files that did not change, in the user's cache folder: one file for each set of options.

It lies in `$XDG_CACHE_HOME/kvtool`, else `~/.cache/kvtool`, and nobody else may read it. An entry is valid for the state of its
file, the options and this very program. What is wrong with the cache is never an error: it is as if there were none.
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
from kvtool.text.files.atomic_file import PRIVATE, AtomicFile
from kvtool.text.files.checkout_links import make_folders

MOST_BYTES = 64 << 20
"""Of all files of one folder together: those that were not used for longest are removed."""
_MOST_OF_ONE = 32 << 20
_PRIVATE_FOLDER = 0o700

Entries = dict[str, tuple[str, str]]
"""The content of a cache file: by name, the state for which a result is valid, and the result."""


class ResultCache:
    """Results by name; to be asked for each, given what was new, and closed."""

    def __init__(self, folder: Path | None, valid_for: Sequence[object], *, forgets: bool) -> None:
        """Read the cache in `folder` (None: nowhere) for these options. `forgets`: entries that nobody asked for are dropped."""
        told = json.dumps([*map(repr, valid_for)])
        self._path = None if folder is None else folder / f"{hash_of(told.encode())[:32]}.json"
        self._before: Entries = {} if self._path is None else _read(self._path)
        self._now: Entries = {} if forgets else dict(self._before)

    def known(self, name: str, state: str) -> str | None:
        """Return the result of this name, where it is of this state."""
        entry = self._before.get(name)
        if entry is None or entry[0] != state:
            return None
        self._now[name] = entry
        return entry[1]

    def add(self, name: str, state: str, result: str) -> None:
        """Keep a result."""
        if self._path is not None:
            self._now[name] = state, result

    def drop(self, name: str) -> None:
        """Forget a result that cannot be read."""
        self._now.pop(name, None)

    def close(self) -> None:
        """Write the entries where any is new."""
        if self._path is None or not self._now:
            return
        if self._now == self._before or len(data := _packed(self._now)) > _MOST_OF_ONE:
            return
        with contextlib.suppress(OSError, KvtoolError):
            if _made_private(self._path.parent):
                with AtomicFile(self._path, mode=PRIVATE) as file:
                    file.write(data)
                _tidy(self._path.parent)


def kvtool_cache(name: str) -> Path | None:
    """Return the folder of a cache of kvtool; None where the system names none."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if not named.startswith("/"):
        home = os.environ.get("HOME", "")
        if not home.startswith("/"):
            return None
        named = f"{home}/.cache"
    return Path(named) / "kvtool" / name


def hash_of(data: bytes) -> str:
    """Return the SHA-256 of data."""
    return hashlib.sha256(data).hexdigest()


def code_state(*packages: str) -> list[tuple[str, int, int]]:
    """Return size and time of the program's own files: one that was changed gives other results under the same version."""
    top = Path(__file__).parents[2]
    found: list[tuple[str, int, int]] = []
    for package in packages:
        for folder, _, names in os.walk(top / package):
            for name in names:
                if name.endswith((".py", ".toml", ".json")):
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
