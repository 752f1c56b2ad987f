"""Write edited files with a patch that undoes it: all of that or nothing."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvtool.config.find import NAME, find_config, from_here
from kvtool.errors import KvtoolError
from kvtool.fixes.edits.apply import FileChange, write_files
from kvtool.fixes.edits.patch import undo_patch
from kvtool.text.files.atomic_file import AtomicFile, as_private_as
from kvtool.text.files.checkout_links import write_target
from kvtool.text.files.root_folder import RootFolder

FOLDER = ".kvtool"
_IGNORE = ".gitignore"
_HINT = "give a file of its own"


@dataclass(frozen=True, slots=True)
class _Renamed:
    path: str
    before: str
    after: str


def check_undo(undo: str, inputs: Iterable[str]) -> None:
    """Raise KvtoolError where the patch cannot get this name: what is there already is never overwritten."""
    if undo == "-":
        raise KvtoolError("--undo needs a file: standard output has the report", hint=_HINT)
    path = Path(undo)
    try:
        if path.is_dir():
            raise KvtoolError(f"--undo {undo} is a directory", hint="name a file in it")
        if any(os.path.realpath(undo) == os.path.realpath(name) for name in inputs):
            raise KvtoolError(f"--undo {undo} is an input", hint=_HINT)
        if path.exists() or path.is_symlink():
            raise KvtoolError(f"--undo {undo} exists already", hint="it may undo an earlier run: choose another name")
        write_target(path)
        if not path.parent.is_dir():
            raise KvtoolError(f"--undo {undo}: there is no folder `{path.parent}`")
    except (OSError, ValueError) as error:
        raise KvtoolError(f"--undo {undo}: {getattr(error, 'strerror', None) or error}") from error


def write_edits(files: Sequence[FileChange], undo: str | None) -> None:
    """Write the patch, as private as what it quotes, then the files.

    KvtoolError, with no patch and every file as it was, where that cannot be.
    """
    if undo is None:
        write_files(files)
        return
    if any(os.path.realpath(undo) == os.path.realpath(file.path) for file in files):
        raise KvtoolError(f"--undo {undo} is one of the edited files", hint=_HINT)
    with folder_of(undo):
        check_undo(undo, ())
        base = _base(files, undo)
        named = [
            _Renamed(os.path.relpath(os.path.realpath(file.path), base), file.before, file.after) for file in files
        ]
        with AtomicFile(undo, mode=_mode(files)) as patch:
            patch.write(undo_patch(named).encode())
        try:
            write_files(files)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(undo).unlink()
            raise


def _mode(files: Iterable[FileChange]) -> int:
    """Return the mode of the patch, which quotes all files; raise KvtoolError where one is gone."""
    try:
        return as_private_as(file.path for file in files)
    except OSError as error:
        raise KvtoolError(f"cannot read {error.filename}: {error.strerror or error}") from error


def undo_command(files: Sequence[FileChange], undo: str) -> str:
    """Return the shell command that takes the edits back."""
    base = _base(files, undo)
    folder = "" if base == os.path.realpath(os.curdir) else f"-d {shlex.quote(os.path.relpath(base))} "
    return f"patch -p1 {folder}< {shlex.quote(undo)}"


def _base(files: Iterable[FileChange], undo: str) -> str:
    """Return the folder that the names in a patch count from: `patch` follows no links, and takes no name that leads out of it."""
    here = os.path.realpath(os.curdir)
    folders = [os.path.dirname(os.path.realpath(file.path)) for file in files]  # noqa: PTH120 - names, as patches have them
    for base in (root_of_folder(undo), here):
        if base is not None and all(_lies_in(folder, base) for folder in folders):
            return base
    return os.path.commonpath(folders)


def _lies_in(folder: str, base: str) -> bool:
    return folder == base or folder.startswith(base.rstrip(os.sep) + os.sep)


def free_undo(path: str) -> str:
    """Return the name for the patch of an input of which none was given: in the folder of its project, one that no earlier patch
    has.
    """
    folder = Path(from_here(os.path.join(_project_of(path), NAME))).parent / FOLDER  # noqa: PTH118 - strings are enough
    name, number = Path(path).name, 1
    while os.path.lexists(found := folder / f"{name}.undo{'' if number == 1 else f'.{number}'}.patch"):
        number += 1
    return str(found)


def _project_of(path: str) -> str:
    """Return where the configuration of an input lies, else the root of its repository, else its own folder."""
    folder = os.path.realpath(Path(path).parent)
    config = find_config(folder)
    return os.path.realpath(Path(config).parent) if config is not None else RootFolder.of(path).path or folder


def root_of_folder(undo: str) -> str | None:
    """Return the project that a patch in its folder is about; None for a patch that lies elsewhere."""
    folder = Path(os.path.realpath(Path(undo).parent))
    return str(folder.parent) if folder.name == FOLDER else None


@contextlib.contextmanager
def folder_of(undo: str) -> Iterator[None]:
    """Make the folder of a patch, ignored by git where it is the project's own; leave it as it was where the block fails.

    KvtoolError where it cannot be made, or something else has its name.
    """
    folder = Path(undo).parent
    if folder.name != FOLDER or (folder.is_dir() and not folder.is_symlink()):
        yield
        return
    ignore = folder / _IGNORE
    try:
        try:
            write_target(folder).mkdir()
            with AtomicFile(ignore) as file:
                file.write(b"*\n")
        except OSError as error:
            why = "another file has this name" if isinstance(error, FileExistsError) else error.strerror or str(error)
            raise KvtoolError(
                f"cannot make the folder {folder} for the undo patch: {why}", hint="name the patch with --undo FILE"
            ) from error
        yield
    except BaseException:
        _remove(folder, ignore)
        raise


def _remove(folder: Path, ignore: Path) -> None:
    """Take away what was made, and nothing that others have put there meanwhile."""
    with contextlib.suppress(OSError):
        if folder.is_symlink() or os.listdir(folder) not in ([], [ignore.name]):  # noqa: PTH208 - names are enough
            return
        ignore.unlink(missing_ok=True)
        folder.rmdir()
