"""Commands of the rows of what-if's table."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from kvtool.config.command_line import CommandLine
from kvtool.results.documents.what_if import SweepRow


def words_of(command: str) -> list[str]:
    """Split a command as a shell does; at its spaces where a quote never ends, as a document written by hand may have it."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def flags_again(rows: Sequence[SweepRow]) -> list[str]:
    """Return for each row the words of its command that today's does not have; all words where it leaves an option out."""
    lines = [CommandLine(words_of(row.command or "")) for row in rows]
    return [shlex.join(line.beside(lines[0])) for line in lines]
