"""Links out of a checkout: nothing is written through one.

A checkout is foreign: whoever wrote it may have put a link in place of a file or of a folder. So each link on the way is judged by
where it lies: in a git repository it must lead to a file of that repository, below the working folder to one below it. Links
elsewhere (`/tmp` of macOS, `/dev/stdout`, the user's own) are the system's or the user's, and are followed.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.text.files.root_folder import RootFolder, git_root

_MOST_LINKS = 40
"""As Linux allows in one path."""


def write_target(path: str | Path) -> Path:
    """The real path of the file or folder to write. KvtoolError where a link leads out of the checkout that contains it, OSError
    where links lead round in a circle; ValueError for a name with a null character."""
    real, left = _led_out(path)
    if left is not None:
        where = "repository" if left.in_git else "working folder"
        raise KvtoolError(
            f"cannot write {path}: a link leads out of the {where}, to {real}", hint="pass the path of the file itself"
        )
    return Path(real)


def _led_out(path: str | Path) -> tuple[str, RootFolder | None]:
    """Return the end of a path, and the checkout that a link leads out of on the way there."""
    links, real = _followed(os.fspath(path))
    roots = (_root_around(os.path.dirname(link)) for link in links)  # noqa: PTH120 - strings are enough
    return real, next((root for root in roots if root is not None and not root.holds(real)), None)


def make_folders(path: str | Path, *, mode: int = 0o777) -> Path:
    """Make a folder and those above it where they are missing; its real path. KvtoolError as for `write_target`, OSError."""
    folder = write_target(path)
    folder.mkdir(mode, parents=True, exist_ok=True)
    return folder


def open_folder(folder: Path) -> int:
    """A handle of the folder with this real path. OSError, too, where a link has taken the place of a folder meanwhile.

    What is opened and renamed from the handle stays in that folder, whatever its path leads to by then.
    """
    kind = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(folder.anchor, kind)
    for name in folder.parts[1:]:
        try:
            inner = os.open(name, kind, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def _followed(path: str) -> tuple[list[str], str]:
    """The real paths of all links that the system follows on its way to a path, and the path where it ends."""
    at, waiting, links = os.path.realpath(os.sep if os.path.isabs(path) else os.curdir), [path], list[str]()  # noqa: PTH117
    while waiting:
        name, _, rest = waiting.pop().partition(os.sep)
        if rest:
            waiting.append(rest)
        here = at if name in ("", os.curdir) else os.path.dirname(at) if name == os.pardir else os.path.join(at, name)  # noqa: PTH118, PTH120
        try:
            leads_to = os.readlink(here)  # noqa: PTH115
        except OSError:  # no link, or nothing there
            at = here
            continue
        links.append(here)
        if len(links) > _MOST_LINKS:
            raise OSError(errno.ELOOP, "its links form a loop")
        at = os.sep if os.path.isabs(leads_to) else at  # noqa: PTH117
        waiting.append(leads_to)
    return links, at


def _root_around(folder: str) -> RootFolder | None:
    """The checkout that a folder is a part of; None where it is in no git repository and not below the working folder."""
    root = git_root(folder)
    if root is not None:
        return RootFolder(root, in_git=True)
    here = RootFolder(os.path.realpath(os.curdir))
    return here if here.holds(folder) else None
