"""Template files that code renders, with the values that differ from call to call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.lint.passed_values import Constant, PassedValue, RenderedFile
from kvtool.lint.python.changed_values import holes_of
from kvtool.lint.python.text_values import FilePath, Message, Value, pieces_of
from kvtool.lint.skeleton import Hole, TemplatePlace

_MOST_PIECES = 200
_MOST_FOLDERS = 64
"""Folders beside a file in which its templates are looked for."""


def rendered_files(
    base: Value,
    given: Mapping[str, Value],
    settled: Iterable[str] = (),
    constants: Iterable[tuple[str, Constant | None]] = (),
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
    known = tuple(constants)
    yield from (
        RenderedFile(one.name, values, tuple(settled), known) for one in base if isinstance(one, FilePath) and one.name
    )


def text_of_file(name: str, spot: TemplatePlace) -> Hole:
    """Return the hole of what a file contains: the same in all requests, or the text that a template gives."""
    what = f"the text of `{name}`" if name else "the text of a file"
    return Hole(spot, OTHER, f"`{name or 'file'}`", doubt="open", hidden=True, unseen=what, file=name)


def roles_of_files(message: Message) -> Iterator[tuple[str, str]]:
    """Yield the names of the files whose text a message has in it, each with its role."""
    for piece in pieces_of(message.content, _MOST_PIECES):
        if isinstance(piece, Hole) and piece.unseen:
            yield piece.what.strip("`"), message.role


def template_paths(source: str, name: str) -> list[str]:
    """Return the files that a template's name can mean for the code in `source`: in its folder, or a folder beside it."""
    folder = os.path.dirname(source)  # noqa: PTH120 - Path would keep `..`
    try:
        with os.scandir(folder or ".") as entries:
            beside = sorted(one.name for one in islice(entries, _MOST_FOLDERS * 16) if one.is_dir())
    except OSError:
        beside = []
    inside = os.path.realpath(folder or ".") + os.sep
    paths = (os.path.normpath(os.path.join(folder, each, name)) for each in ("", *beside[:_MOST_FOLDERS]))  # noqa: PTH118
    return [path for path in paths if Path(path).is_file() and os.path.realpath(path).startswith(inside)]


def _is_plain(hole: Hole) -> bool:
    """Return whether a value surely is another one, and not only in another order."""
    return hole.certain and not hole.order and not hole.minor
