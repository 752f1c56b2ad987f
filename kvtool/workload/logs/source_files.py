"""The files of a source: what each contains, what all of them look like, and opening them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.text.files.compressed import uncompressed
from kvtool.workload.logs.files.plain_text_files import PLAIN_GROUP, PLAIN_SUFFIXES, read_prompt
from kvtool.workload.logs.files.spool import Spool
from kvtool.workload.logs.placed_turns import default_group
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.workload.logs.files.log_file import LogFile
    from kvtool.workload.logs.records.record_format import RecordFormat
    from kvtool.workload.logs.source_survey import SourceSurvey

_MOST_OPEN = 64
"""Files that are kept open side by side; of more, each is opened when it is read from."""


@dataclass(frozen=True)
class RecordNames:
    """Names that tell the records of a source's files from those of others: `names` by path, the short name of each file, and the
    number from which its records are counted."""

    names: Mapping[str, str]
    first_record: int = 1


@dataclass(slots=True)
class SourceFiles:
    """Files by their paths, which are read in the same way. `group` names the group of a file; None: its name does.

    `as_prompts` says whether all are prompts, or none is; None: their names and contents do. `skip`: bad records are left out.
    `whole`: all records are looked at before the first one is read.
    """

    paths: tuple[str, ...]
    names: RecordNames
    group: Callable[[str], str] | None
    format: RecordFormat | None
    as_prompts: bool | None
    trace_block_size: int
    skip: bool
    whole: bool
    _spool: Spool = field(default_factory=Spool)
    _survey: SourceSurvey | None = None
    """What all of them look like; None until somebody looked."""
    _text_logs: dict[str, bool] = field(default_factory=dict)

    def status(self, path: str) -> os.stat_result:
        """Return the status of a file on the disk."""
        return Path(self._spool.read_from(path)).stat()

    def size(self, path: str) -> int:
        """Return the bytes of a file on the disk; 0 where it is gone."""
        try:
            return self.status(path).st_size
        except OSError:
            return 0

    def prompt(self, path: str) -> Turn:
        """Return a file that is one prompt."""
        return read_prompt(self._spool.file(path), path, self.group(path) if self.group else PLAIN_GROUP)

    def opener(self, path: str, ordinals: Iterator[int], *, values: bool) -> Callable[[], LogFile]:
        """Return what opens a log. `ordinals` count the records of all files; with `values` each keeps its JSON value."""
        from kvtool.workload.logs.files.log_file import LogFile

        return partial(
            LogFile,
            path,
            self._spool.file(path),
            self.group(path) if self.group else default_group(path),
            self.trace_block_size,
            self.format,
            ordinals,
            of_many=len(self.paths) > 1,
            values=values,
            parked=len(self.paths) > _MOST_OPEN,
            skip=self.skip,
            file_name=self.names.names[path],
        )

    def survey(self) -> SourceSurvey:
        """Return the survey of all files; a pass reports their problems itself."""
        from kvtool.workload.logs.source_survey import SourceSurvey

        if self._survey is None:
            logs = [
                None
                if self.is_prompt(path)
                else self.opener(path, itertools.count(self.names.first_record), values=False)
                for path in self.paths
            ]
            self._survey = SourceSurvey(logs, whole=self.whole)
        return self._survey

    def is_prompt(self, path: str) -> bool:
        """Return whether a file is one prompt, not a log."""
        name = uncompressed(path.lower())
        if self.as_prompts is not None:
            return self.as_prompts
        return name.endswith(PLAIN_SUFFIXES) and not self._is_log(path)

    def _is_log(self, path: str) -> bool:
        """Return whether a file that is a prompt by its name is a log by what is in it."""
        if path not in self._text_logs:
            from kvtool.workload.logs.files.file_kinds import has_text_records

            self._text_logs[path] = has_text_records(self._spool.file(path), path)
        return self._text_logs[path]
