"""The command that shows two requests of logs side by side, with the options under which they were read and rendered."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from kvtool.config.command_line import flags
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.results.finding import ExamplePair, Snippet
from kvtool.text.files.compressed import uncompressed
from kvtool.text.terminal.streams import STDIN
from kvtool.workload.logs.files.plain_text_files import PLAIN_SUFFIXES, TEXT_FORMAT
from kvtool.workload.turn import RequestName

_NUMBERED = re.compile(r":\d{1,9}$")
"""A path with such an end would lose its number to a suffix after it."""


@dataclass(frozen=True, slots=True)
class PairCommand:
    """`flags` are those of `kvtool diff-prompts` that set options of the run, `log_format` is the format of its logs."""

    flags: tuple[str, ...] = ()
    log_format: str | None = None

    def example(self, cause: SlotCause) -> ExamplePair | None:
        """Return two requests that show a cause; None if there are none, or if they cannot be read again."""
        pair = cause.pair
        was, now, command = (None, None, None) if pair is None else self.shown(pair.earlier, pair.later)
        if pair is None or was is None or now is None or command is None:
            return None
        return ExamplePair(
            was=was,
            now=now,
            command=command,
            was_line=Snippet(text=pair.was.text, start=pair.was.start, stop=pair.was.stop),
            now_line=Snippet(text=pair.now.text, start=pair.now.start, stop=pair.now.stop),
        )

    def shown(
        self, earlier: RequestName | None, later: RequestName | None
    ) -> tuple[str | None, str | None, str | None]:
        """Return the names of two requests and the command that shows them; None for each that cannot be read again."""
        if earlier is None or later is None or not (_can_be_read(earlier.path) and _can_be_read(later.path)):
            return None, None, None
        was, now = name_of(earlier), name_of(later)
        return was, now, shlex.join(["kvtool", "diff-prompts", *self.flags, *self._format(earlier, later), was, now])

    def _format(self, *names: RequestName) -> tuple[str, ...]:
        if self.log_format is not None:
            return flags(log_format=self.log_format)
        texts = [name.path for name in names if not name.record]
        by_suffix = all(uncompressed(path.lower()).endswith(PLAIN_SUFFIXES) for path in texts)
        return flags(log_format=None if by_suffix else TEXT_FORMAT)


def name_of(request: RequestName) -> str:
    """Return the name of a request for `kvtool diff-prompts`: `log.jsonl:12`, `log.jsonl:12:3`, or the path of a prompt file."""
    path = f"./{request.path}" if request.path.startswith("-") else request.path
    if not request.record:
        return path
    number = request.request or (1 if _NUMBERED.search(path) else 0)
    return f"{path}:{request.record}" + (f":{number}" if number else "")


def _can_be_read(path: str) -> bool:
    """Return whether another command can read it, too: piped input cannot."""
    try:
        return path != STDIN and Path(path).is_file()
    except (OSError, ValueError):
        return False
