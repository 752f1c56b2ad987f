"""The catalogue of diagnostic codes: what each one means, why it costs, what to do. Codes are never reused."""

from __future__ import annotations

from difflib import get_close_matches

from kvtool.errors import KvtoolError
from kvtool.results.catalogue import gates, ignores, run, structure, templates, values
from kvtool.results.catalogue.entry import TIERS, Entry, Remedy, Tier

__all__ = ["TIERS", "Entry", "Remedy", "Tier", "codes", "entries", "entry_of", "find_entry", "similar_code"]

_LOOKALIKES = str.maketrans("OIL", "011")


def entries() -> tuple[Entry, ...]:
    """Every entry, in the order of the codes."""
    return (*ignores.ENTRIES, *values.ENTRIES, *structure.ENTRIES, *templates.ENTRIES, *run.ENTRIES, *gates.ENTRIES)


def codes() -> tuple[str, ...]:
    """Every code that has an entry, in order."""
    return tuple(entry.code for entry in entries())


def entry_of(code: str) -> Entry | None:
    """The entry of a code as users write it (`KV101`, `kv101`, `101`); None where there is none."""
    wanted = _normal(code)
    return next((entry for entry in entries() if entry.code == wanted), None)


def find_entry(code: str) -> Entry:
    """The entry of a code; KvtoolError, with the code that was perhaps meant, where there is none."""
    entry = entry_of(code)
    if entry is None:
        close = similar_code(code)
        hint = f"did you mean {close}? " if close else ""
        raise KvtoolError(f"unknown code `{code}`", hint=f"{hint}kvtool explain --list has all of them")
    return entry


def similar_code(code: str) -> str | None:
    """The code that is written most like this one, or whose name it is part of; None where none is close."""
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
