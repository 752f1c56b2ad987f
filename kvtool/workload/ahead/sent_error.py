"""Errors on their way from one process to another."""

from __future__ import annotations

import pickle
import traceback

from kvtool.errors import KvtoolError


def sendable(error: Exception) -> Exception:
    """An error as another process can raise it; with where it came from, if that is a bug."""
    if not isinstance(error, KvtoolError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    except Exception as other:  # whatever it is that keeps it from travelling
        return RuntimeError(f"{type(error).__name__}: {error} ({other})")
    return error
