"""What kvtool says when the input is wrong: a message, a place in a file and a hint; never a traceback."""

from __future__ import annotations

from dataclasses import dataclass

EXIT_USAGE = 2
EXIT_NOT_AVAILABLE = 4
INSTALL_ENGINE = "pip install 'kvtool[engine]'"
"""What brings torch and transformers, which a light install has not."""
INSTALL_PARQUET = "pip install 'kvtool[parquet]'"
"""What brings pyarrow."""
INSTALL_LIVE = "pip install 'kvtool[live]'"
"""What brings httpx, msgspec and prometheus-client."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file, 1-based; `excerpt` is the line itself and `width` how many of its characters are meant."""

    path: str
    line: int | None = None
    column: int | None = None
    excerpt: str | None = None
    width: int = 1

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)


class KvtoolError(Exception):
    """A mistake in what the user gave us; shown at the edge as one message, with `exit_code`."""

    def __init__(
        self, message: str, *, hint: str | None = None, place: Place | None = None, exit_code: int = EXIT_USAGE
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.place = place
        self.exit_code = exit_code


def as_error(error: Exception) -> KvtoolError | None:
    """A mistake of the user's, whichever part found it, as the one kind of error; None for what is a bug or a stream that broke."""
    from kvtool.engine.engine_error import EngineError

    if isinstance(error, KvtoolError):
        return error
    if isinstance(error, EngineError):
        return KvtoolError(error.message, hint=error.hint)
    if isinstance(error, MemoryError):
        return KvtoolError("there is not enough memory")
    if isinstance(error, OSError) and error.filename is not None:
        return KvtoolError(f"{error.filename}: {error.strerror}")
    return None


class NotAvailableError(KvtoolError):
    """A tokenizer, model or endpoint that cannot be had here (exit code 4)."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, exit_code=EXIT_NOT_AVAILABLE)


class MessageRefusedError(KvtoolError):
    """The chat template does not take a message of a request; the other requests are none the worse for it."""


class ProblemsError(KvtoolError):
    """Several mistakes found in one pass over the input, in the order of their places."""

    def __init__(self, errors: list[KvtoolError]) -> None:
        super().__init__(f"{len(errors)} problems", exit_code=errors[0].exit_code if errors else EXIT_USAGE)
        self.errors = errors


def join_errors(errors: list[KvtoolError]) -> KvtoolError:
    """Mistakes as one error: the only one itself, or all of them."""
    return errors[0] if len(errors) == 1 else ProblemsError(errors)
