"""Put edits into files: all of them or none, and only into files that are still what the edits were made for."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.checkout_links import write_target
from kvtool.text.files.part_file import PartFile

_NOTHING = "no file was changed"


class FileChange(Protocol):
    """A file's whole text before and after, line ends untouched, byte order mark included; `path` is as the user knows it."""

    @property
    def path(self) -> str: ...
    @property
    def before(self) -> str: ...
    @property
    def after(self) -> str: ...


def apply_edits(texts: Mapping[str, str], edits: Iterable[FileEdit]) -> dict[str, str]:
    """Return the new texts of the files that the edits change, by path in sorted order.

    Several insertions at one place come in the order of `edits`. KvtoolError where edits overlap or reach past the end.
    """
    found: dict[str, list[FileEdit]] = {}
    for edit in edits:
        found.setdefault(edit.path, []).append(edit)
    changed: dict[str, str] = {}
    for path in sorted(found):
        if path not in texts:
            raise KvtoolError(f"`{path}` was not read, so it cannot be edited")
        new = _edited(path, texts[path], found[path])
        if new != texts[path]:
            changed[path] = new
    return changed


def _edited(path: str, text: str, edits: list[FileEdit]) -> str:
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda each: (each.start, each.stop)):
        if not 0 <= edit.start <= edit.stop <= len(text):
            raise KvtoolError(f"an edit reaches past the end of `{path}`", hint="the file is not the one that was read")
        if edit.start < at:
            line = text.count("\n", 0, edit.start) + 1
            raise KvtoolError("two edits change the same text", place=Place(path, line))
        pieces += [text[at : edit.start], edit.replacement]
        at = edit.stop
    return "".join([*pieces, text[at:]])


@dataclass(slots=True)
class _Target:
    """A file that is about to be replaced; `new` holds its next content, and its last one until all are in their places."""

    shown: str
    real: Path
    before: bytes
    after: bytes
    new: PartFile | None = None


def write_files(files: Iterable[FileChange]) -> None:
    """Replace the content of files, all or none, each of which must be, to the byte, what it was `before`.

    A link goes on pointing to its file, and the file keeps its mode. KvtoolError, with every file as it was, where one has changed
    since it was read, is gone, is write-protected or no regular file, where a link leads out of a checkout, or the disk is full.
    """
    targets: dict[Path, _Target] = {}
    for file in sorted(files, key=lambda each: each.path):
        target = _checked(file)
        same = targets.setdefault(target.real, target)
        if same.after != target.after:
            raise KvtoolError(f"`{same.shown}` and `{file.path}` are one file, and would be changed in two ways")
    todo = list(targets.values())
    try:
        for target in todo:
            _prepare(target)
        for target in todo:
            _check_unchanged(target)
            assert target.new is not None
            target.new.put()
    except OSError as error:
        _restore(todo)
        raise KvtoolError(f"cannot write {target.shown}: {error.strerror or error}", hint=_NOTHING) from error
    except BaseException:
        _restore(todo)
        raise
    finally:
        for target in todo:
            if target.new is not None:
                target.new.discard()


def _checked(file: FileChange) -> _Target:
    path = file.path
    try:
        real = write_target(path)
        status = real.stat()
        if not stat.S_ISREG(status.st_mode):
            raise KvtoolError(f"`{path}` is not a regular file", hint=_NOTHING)
        if not status.st_mode & 0o222 or not os.access(real, os.W_OK):
            raise KvtoolError(f"cannot write {path}: it is write-protected", hint=_NOTHING)
    except (OSError, ValueError) as error:
        raise KvtoolError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}", hint=_NOTHING) from error
    target = _Target(path, real, file.before.encode(), file.after.encode())
    _check_unchanged(target)
    return target


def _check_unchanged(target: _Target) -> None:
    try:
        now = target.real.read_bytes()
    except OSError as error:
        raise KvtoolError(f"cannot read {target.shown}: {error.strerror or error}") from error
    if now != target.before:
        raise KvtoolError(f"`{target.shown}` has changed since it was read", hint="no file was changed; run it again")


def _prepare(target: _Target) -> None:
    """Write the next content beside the file, and keep the last one."""
    target.new = PartFile(target.real)
    target.new.file.write(target.after)
    target.new.file.flush()
    os.fsync(target.new.file.fileno())
    target.new.keep_old(target.before)


def _restore(targets: list[_Target]) -> None:
    for target in targets:
        if target.new is not None:
            with contextlib.suppress(OSError):
                target.new.restore()


@dataclass(frozen=True, slots=True, order=True)
class FileEdit:
    """Replace characters `[start, stop)` of the file's text (line ends untouched, byte order mark counted) by `replacement`."""

    path: str
    start: int
    stop: int
    replacement: str
