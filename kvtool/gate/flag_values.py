"""Values of flags that demand something."""

from __future__ import annotations

from collections.abc import Callable

from kvtool.errors import KvtoolError


def parsed_flag(parse: Callable[[str], float], text: str | None, flag: str) -> float | None:
    """Return the value of a flag, if it is given; KvtoolError, with its name, for one that is none."""
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise KvtoolError(f"{flag}: {error}") from error
