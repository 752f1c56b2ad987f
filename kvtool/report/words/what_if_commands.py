"""What rows of what-if's table say beside the command that was given."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from kvtool.report.terminal.next_command import with_values
from kvtool.results.documents.what_if import SweepRow


def words_of(command: str) -> list[str]:
    """As a shell takes it; by its spaces where a quote in it never ends, as in a document that somebody wrote by hand."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def flags_again(rows: Sequence[SweepRow]) -> list[str]:
    """Of each row what its command says beside today's or in its place, or all of it where it leaves something out."""
    today = with_values(words_of(rows[0].command or ""))
    found = []
    for row in rows:
        said = with_values(words_of(row.command or ""))
        more = [words for words in said if words not in today]
        left_out = {words[0] for words in today if words not in said} - {words[0] for words in more}
        found.append(shlex.join(word for words in (said if left_out else more) for word in words))
    return found
