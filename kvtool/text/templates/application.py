"""Parts of an application that its templates use beside variables: other templates, filters, tests, objects and functions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.text_files import Overlay
from kvtool.text.traced import Traced

_MOST_FOLDERS = 64
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
"""The name of a filter or a test."""
ANY_KEY = "*"
"""The field of a made-up object whose value any other key gets."""


class IncludedSource(NamedTuple):
    """A template that another one includes: its path and its text."""

    name: str
    source: Traced


Find = Callable[[str, str | None], IncludedSource | None]
"""Finds a template by the name in the tag and the path of the template with that tag; None where there is none."""


@dataclass(frozen=True, slots=True)
class Application:
    """What a template gets from its application. A filter of `filters` gives its value unchanged; a test of `tests` is true of a
    value that is not empty."""

    find: Find | None = None
    filters: frozenset[str] = frozenset()
    tests: frozenset[str] = frozenset()


class Fields(dict[str, Any]):
    """An object of an application: its fields are found as attributes and as keys, before the methods of mappings."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__({name: value for name, value in fields.items() if name != ANY_KEY})
        self._others = {ANY_KEY: fields[ANY_KEY]} if ANY_KEY in fields else {}

    def __missing__(self, key: object) -> Any:
        if not self._others:
            raise KeyError(key)
        return self._others[ANY_KEY]


class FixedFunction:
    """A function that returns the same value for all arguments. Printed, it is that value."""

    __name__ = "function"

    def __init__(self, value: object) -> None:
        self.value = value

    def __call__(self, *_args: object, **_kwargs: object) -> object:
        return self.value

    def __str__(self) -> str:
        return str(self.value)

    __repr__ = __str__


def keep_value(value: Any = None, *_args: object, **_kwargs: object) -> Any:
    """Return the value of a filter of the application unchanged."""
    return value


def is_filled(value: Any = None, *_args: object, **_kwargs: object) -> bool:
    """Return what a test of the application says: whether the value is not empty."""
    return bool(value)


def find_included(name: str, includer: str, root: RootFolder, overlay: Overlay | None = None) -> str | None:
    """Return the path of an included template: in the folder of the template that includes it, else in the nearest folder above.

    The search ends at the root. Loaders of Jinja count names from a folder that only the application knows; it is one of these.
    """
    folder = os.path.dirname(includer)  # noqa: PTH120 - paths stay as the user writes them
    if "\0" in name:
        return None
    for _ in range(_MOST_FOLDERS):
        path = os.path.normpath(os.path.join(folder, name.lstrip("/")))  # noqa: PTH118
        real = os.path.realpath(path)
        if (os.path.isfile(path) or (overlay is not None and real in overlay)) and root.holds(path):  # noqa: PTH113
            return path
        here = os.path.realpath(folder or ".")
        if here in (root.path, os.path.dirname(here)) or not root.holds(folder or "."):  # noqa: PTH120
            return None
        folder = os.path.normpath(os.path.join(folder, ".."))  # noqa: PTH118
    return None
