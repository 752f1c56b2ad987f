"""The codes that `--select` and `--ignore` name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvtool.config.options.lint_options import Selecting
from kvtool.diagnose.codes import codes, entry_of, similar_code
from kvtool.errors import KvtoolError


def selection(selecting: Selecting) -> Callable[[str], bool]:
    """Return a check for the wanted codes; KvtoolError for a code that does not exist."""
    select, ignore = _codes(selecting.select, "--select"), _codes(selecting.ignore, "--ignore")

    def wanted(code: str) -> bool:
        return (not select or code.startswith(select)) and not (ignore and code.startswith(ignore))

    return wanted


def _codes(given: Iterable[str], flag: str) -> tuple[str, ...]:
    """Codes, or beginnings of codes (`KV1`), from a flag that may be repeated and may hold several with commas."""
    result: list[str] = []
    for word in (word.strip() for text in given for word in text.split(",")):
        if not word:
            continue
        code = word.upper()
        entry = entry_of(word)
        if not any(known.startswith(code) for known in codes()):
            if entry is None:
                close = similar_code(word)
                hint = f"did you mean {close}?" if close else "list all codes with kvtool explain --list"
                raise KvtoolError(f"{flag}: unknown code `{word}`", hint=hint)
            code = code if code.startswith("KV") else f"KV{code}"
        result.append(code)
    return tuple(result)
