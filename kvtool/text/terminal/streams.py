"""The three standard streams of the process: there even where the caller closed them, and silent once the reader is gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kvtool.errors import KvtoolError

STDIN = "-"
"""What means standard input where a path is asked for."""
_MODES = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)


def fill_closed_streams() -> bool:
    """Put the null device where a standard stream is closed, so that no file that is opened later takes its place.

    Returns whether standard output was there.
    """
    for descriptor, mode in enumerate(_MODES):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, mode)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
    has_stdout = sys.stdout is not None
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as the process
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    return has_stdout


def check_piped(command: str, inputs: Sequence[str]) -> None:
    """KvtoolError where inputs ask for standard input (`-`) and that is a terminal: a command would wait for somebody to type."""
    if "-" in inputs and sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty():
        raise KvtoolError(
            f"kvtool {command} -: reading standard input needs a pipe", hint=f"see kvtool {command} --help"
        )


def stdout_is_terminal() -> bool:
    """Return whether people see what is printed, and no file or log of a CI system keeps it."""
    try:
        return sys.stdout is not None and sys.stdout.isatty()
    except ValueError:  # it was closed
        return False


@contextmanager
def printing() -> Iterator[None]:
    """Prints what a command has to say; that the reader has seen enough is no error, and the exit code holds all the same."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()


def flush_stdout() -> None:
    """Write out what is buffered: silent where the reader went away, KvtoolError where it cannot be written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
    except OSError as error:
        discard_stdout()
        raise output_error(error) from error


def output_error(error: OSError) -> KvtoolError:
    """A write that failed, as a message."""
    return KvtoolError(f"standard output cannot be written: {error.strerror or error}")


def discard_stdout() -> None:
    """Discard buffered output, which would raise again when the process ends."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
