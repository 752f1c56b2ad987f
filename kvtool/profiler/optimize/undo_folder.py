"""The folder `.kvtool` of a project: there lie patches that undo what was written, and git leaves it alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kvtool.config.find import NAME, find_config, from_here
from kvtool.errors import KvtoolError
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.files.checkout_links import write_target
from kvtool.text.files.root_folder import RootFolder

FOLDER = ".kvtool"
_IGNORE = ".gitignore"


def free_undo(path: str) -> str:
    """The name for the patch of an input of which none was given: in the folder of its project, one that no earlier patch has."""
    folder = Path(from_here(os.path.join(_project_of(path), NAME))).parent / FOLDER  # noqa: PTH118 - strings are enough
    name, number = Path(path).name, 1
    while os.path.lexists(found := folder / f"{name}.undo{'' if number == 1 else f'.{number}'}.patch"):
        number += 1
    return str(found)


def _project_of(path: str) -> str:
    """Where the configuration of an input lies, else the root of its repository, else its own folder."""
    folder = os.path.realpath(Path(path).parent)
    config = find_config(folder)
    return os.path.realpath(Path(config).parent) if config is not None else RootFolder.of(path).path or folder


def root_of_folder(undo: str) -> str | None:
    """The project that a patch in its folder is about; None for a patch that lies elsewhere."""
    folder = Path(os.path.realpath(Path(undo).parent))
    return str(folder.parent) if folder.name == FOLDER else None


@contextlib.contextmanager
def folder_of(undo: str) -> Iterator[None]:
    """The folder of a patch is there, and ignored by git, where that is the project's own; left as it was where the block fails.

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
            why = "something else has this name" if isinstance(error, FileExistsError) else error.strerror or str(error)
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
