"""Names of fields that some log format knows. Other keys of a record may be data, such as e-mail addresses, and are not printed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from importlib.abc import InspectLoader
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pkgutil import iter_modules
from types import CodeType

from kvtool.errors import KvtoolError
from kvtool.text.terminal.numbers import plural

_READERS = "kvtool.workload.logs"
_NAME = re.compile(r"[A-Za-z_@][A-Za-z0-9_@-]{0,39}")
_STEPS = re.compile(r"[.\[\]]+\d*")


@cache
def field_names() -> frozenset[str]:
    """Return the words in the code that reads logs: what it does not name is a field of no format. Nothing is imported for it."""
    return frozenset(_NAME.findall("\n".join(_constants(_READERS))))


def is_field_name(path: str) -> bool:
    """Return whether each step of a path is the name of a field."""
    return all(step in field_names() for step in _STEPS.split(path) if step)


def fields_shown(what: str, paths: Collection[str], most: int) -> str:
    """Return a clause for a message: which known fields there are, and how many others. `what` is what one is called: key,
    column."""
    known = [path for path in paths if is_field_name(path)][:most]
    if not known:
        return f"no format knows its {plural(len(paths), what)}"
    others = len(paths) - len(known)
    listed = ", ".join(f"`{path}`" for path in known)
    return f"its {what}s are {listed}" + (f" and {plural(others, 'other')}" if others else "")


def _constants(package: str) -> Iterator[str]:
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise KvtoolError(f"the installation of kvtool is incomplete: {package} is missing")
    for module in iter_modules(spec.submodule_search_locations, f"{package}."):
        if module.ispkg:
            yield from _constants(module.name)
        elif (found := find_spec(module.name)) is not None and found.origin is not None:
            own = found.loader  # under pytest it is one that only runs modules
            loader = own if isinstance(own, InspectLoader) else SourceFileLoader(found.name, found.origin)
            yield from _texts([loader.get_code(module.name)])


def _texts(constants: Iterable[object]) -> Iterator[str]:
    for each in constants:
        if isinstance(each, CodeType):
            yield from _texts(each.co_consts)
        elif isinstance(each, tuple | frozenset):
            yield from _texts(each)
        elif isinstance(each, str) and " " not in each:
            yield each
