"""Memory that a run has freed, given back to the system: requests free their prompts in pieces, and glibc would keep them."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress


def give_back() -> None:
    """Give the free pages of the heap back; nothing where the C library does so by itself or cannot."""
    if sys.platform == "linux":
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
