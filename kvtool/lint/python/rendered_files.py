"""Template files that code renders, with the values that differ from call to call."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePath

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.lint.passed_values import Constant, Orders, PassedList, PassedValue, RenderedFile
from kvtool.lint.python.changed_values import holes_of
from kvtool.lint.python.text_values import FilePath, Items, Mapped, Message, Piece, Value, data_of, pieces_of
from kvtool.lint.skeleton import Hole, TemplatePlace

_MOST_PIECES = 200
_MOST_WALKED = 2_000
_INSTALLED = ("node_modules", "site-packages")
_MOST_FOLDERS = 64
"""Folders beside a file in which its templates are looked for."""


def rendered_files(
    base: Iterable[Piece],
    given: Mapping[str, Value],
    settled: Iterable[str] = (),
    constants: Iterable[tuple[str, Constant | None]] = (),
    lists: Iterable[tuple[str, PassedList]] = (),
) -> Iterator[RenderedFile]:
    """Yield the template files that a call of `render` fills, with what is known of the values that it gives.

    `settled` are the names of those that a process is set up with.
    """
    values = tuple(
        PassedValue(name, hole.kind, hole.clock, hole.spot)
        for name, value in given.items()
        if (hole := next((one for one in holes_of(value) if isinstance(one, Hole) and _is_plain(one)), None))
        is not None
    )
    known, passed = tuple(constants), tuple(lists)
    yield from (
        RenderedFile(one.name, values, tuple(settled), known, lists=passed)
        for one in base
        if isinstance(one, FilePath) and one.name
    )


def lists_in(path: str, value: Value) -> Iterator[tuple[str, PassedList]]:
    """Yield the lists in a value that is passed, by their paths."""
    one = value[0] if len(value) == 1 else None
    if isinstance(one, Mapped):
        for key, inside in one.pairs:
            yield from lists_in(f"{path}.{key}", inside)
    elif isinstance(one, Items):
        elements = [data_of(each) for each in one.values]
        known = () if None in elements else tuple(json.dumps(each, ensure_ascii=False) for each in elements)
        order: Orders = "fixed" if one.order is None else "request" if one.order.clock else "process"
        yield path, PassedList(known, order)


def text_of_file(name: str, spot: TemplatePlace) -> Hole:
    """Return the hole of what a file contains: the same in all requests, or the text that a template gives."""
    what = f"the text of `{name}`" if name else "the text of a file"
    return Hole(spot, OTHER, f"`{name or 'file'}`", doubt="open", hidden=True, unseen=what, file=name)


def roles_of_files(message: Message) -> Iterator[tuple[str, str]]:
    """Yield the names of the files whose text a message has in it, each with its role."""
    for piece in pieces_of(message.content, _MOST_PIECES):
        if isinstance(piece, Hole) and piece.unseen:
            yield piece.what.strip("`"), message.role


def template_paths(source: str, name: str, others: Iterable[str] = ()) -> list[str]:
    """Return the files that a template's name can mean for the code in `source`: in its folder, or a folder beside it.

    Where none is there, the one of `others` is meant whose path ends with the name.
    """
    folder = os.path.dirname(source)  # noqa: PTH120 - Path would keep `..`
    try:
        with os.scandir(folder or ".") as entries:
            beside = sorted(one.name for one in islice(entries, _MOST_FOLDERS * 16) if one.is_dir())
    except OSError:
        beside = []
    inside = os.path.realpath(folder or ".") + os.sep
    paths = (os.path.normpath(os.path.join(folder, each, name)) for each in ("", *beside[:_MOST_FOLDERS]))  # noqa: PTH118
    found = [path for path in paths if Path(path).is_file() and os.path.realpath(path).startswith(inside)]
    parts = PurePath(name).parts
    named = [] if found or not parts else [path for path in others if PurePath(path).parts[-len(parts) :] == parts]
    return found or (named if len(named) == 1 else [])


def only_file(folder: Path, name: str) -> Iterator[str]:
    """Yield the path from a folder of the one file below it that a template's name can mean; nothing where there are several."""
    parts, found = PurePath(name).parts, list[Path]()
    for here, folders, files in islice(os.walk(folder), _MOST_WALKED):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in _INSTALLED]
        if parts and parts[-1] in files and (path := Path(here, parts[-1])).parts[-len(parts) :] == parts:
            found.append(path)
    if len(found) == 1:
        yield os.path.relpath(found[0], folder)


def _is_plain(hole: Hole) -> bool:
    """Return whether a value surely is another one, and not only in another order."""
    return hole.certain and not hole.order and not hole.minor
