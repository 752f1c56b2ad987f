"""The engine's error for impossible requests and options."""

from __future__ import annotations


class EngineError(ValueError):
    """A mistake of the caller (not of kvtool): a message and, where there is one, a way out."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
