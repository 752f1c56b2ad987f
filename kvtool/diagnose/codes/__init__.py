"""Diagnostic codes, a file each: what a code means, why it costs, how it is found, what its fix wins. Codes are never reused.

A file `kv113.py` in one of the folders contains the entry `KV113`, and the kinds of difference that lead to this code alone. Other
modules import them from there. The registry below knows the codes by the names of the files, and reads a file when it is asked for.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from kvtool.diagnose.codes.entry import TIERS, CodeEntry, CodeRemedy, Tier, Varies
from kvtool.errors import KvtoolError

__all__ = [
    "TIERS",
    "CodeEntry",
    "CodeRemedy",
    "Tier",
    "Varies",
    "codes",
    "entries",
    "entry_of",
    "find_entry",
    "similar_code",
    "varies",
    "wins",
]

_LOOKALIKES = str.maketrans("OIL", "011")
_USUAL = ("blocked",)
"""Fates that the fix wins of a code that only a newer kvtool knows."""


@cache
def codes() -> tuple[str, ...]:
    """Return every code that has an entry, in order."""
    return tuple(sorted(_modules()))


@cache
def _modules() -> dict[str, str]:
    """Return the module of each code, by the names of the files in each folder."""
    (here,) = __path__
    return {
        name.upper(): f"{__name__}.{folder}.{name}"
        for _, folder, is_folder in iter_modules(__path__)
        if is_folder
        for _, name, _ in iter_modules([f"{here}/{folder}"])
    }


def entries() -> tuple[CodeEntry, ...]:
    """Return every entry, in the order of the codes."""
    return tuple(map(_entry, codes()))


@cache
def _entry(code: str) -> CodeEntry:
    entry = getattr(import_module(_modules()[code]), code)
    assert isinstance(entry, CodeEntry)
    return entry


def entry_of(code: str) -> CodeEntry | None:
    """Return the entry of a code as users write it (`KV101`, `kv101`, `101`); None where there is none."""
    wanted = _normal(code)
    return _entry(wanted) if wanted in codes() else None


def find_entry(code: str) -> CodeEntry:
    """Return the entry of a code; raise KvtoolError, with a similar code, where there is none."""
    entry = entry_of(code)
    if entry is None:
        close = similar_code(code)
        hint = f"did you mean {close}? " if close else ""
        raise KvtoolError(f"unknown code `{code}`", hint=f"{hint}kvtool explain --list shows all codes")
    return entry


def wins(code: str) -> tuple[str, ...]:
    """Return the fates that the fix of a code takes tokens from."""
    entry = entry_of(code)
    return entry.wins if entry is not None else _USUAL


def varies(code: str) -> Varies:
    """Return what varies where a code is found."""
    entry = entry_of(code)
    return entry.varies if entry is not None else ""


def similar_code(code: str) -> str | None:
    """Return the code that is most similar to this one, or whose name contains it; None where none is close."""
    wanted = _normal(code).translate(_LOOKALIKES)
    if wanted in codes():
        return wanted
    close = get_close_matches(wanted, codes(), n=1, cutoff=0.7)
    if close:
        return close[0]
    word = code.strip().lower()
    return next((entry.code for entry in entries() if len(word) > 3 and word in entry.name.lower()), None)


def _normal(code: str) -> str:
    code = code.strip().upper()[:40]
    return f"KV{code}" if code.isascii() and code.isdigit() else code
