"""List the sessions of transcripts. Sums of files that did not change are known from an earlier run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from pydantic import ValidationError

from kvtool.profiler.sessions.agent_folders import TranscriptFile, TranscriptFolder
from kvtool.profiler.sessions.transcript_sums import TranscriptSums
from kvtool.results.documents.agent_sessions import SessionFolder, SessionRow, SessionsDocument
from kvtool.results.misses import MissRow, sum_rows
from kvtool.text.files.result_cache import ResultCache, code_state, hash_of
from kvtool.version import __version__
from kvtool.workload.logs.log_pass import wrong_usage_notes

ReadSums = Callable[[Sequence[str]], TranscriptSums]
"""Return the sums of some transcripts, read in one pass."""
Keep = Callable[[MissRow], bool]


class TranscriptIndex:
    """Sums by file, or by files that share calls; each valid while the files do not change. It holds no text of any prompt."""

    def __init__(self, folder: Path | None) -> None:
        code = code_state("accounting", "config", "profiler", "results", "text", "workload")
        self._cache = ResultCache(folder, (__version__, code), forgets=False)
        self.known = 0

    def sums(self, files: Sequence[TranscriptFile], read: ReadSums) -> TranscriptSums:
        """Return the sums of some files together, from an earlier run where there are any."""
        name = hash_of("\0".join(each.path for each in files).encode("utf-8", "surrogateescape"))
        state = " ".join(each.state for each in files)
        if (found := self._cache.known(name, state)) is not None:
            try:
                sums = TranscriptSums.model_validate_json(found)
            except ValidationError:
                self._cache.drop(name)
            else:
                self.known += len(files) == 1
                return sums
        sums = read([each.path for each in files])
        if sums.failed is None:
            self._cache.add(name, state, sums.model_dump_json())
        return sums

    def close(self) -> None:
        """Write what is new."""
        self._cache.close()


@dataclass(slots=True)
class SessionList:
    """Sessions of transcripts, read newest first, in files that share calls together."""

    folders: Sequence[TranscriptFolder]
    index: TranscriptIndex
    read: ReadSums
    advance: Callable[[], None]
    """Called after each file."""
    partial: bool = False
    _sums: dict[TranscriptFile, TranscriptSums] = field(default_factory=dict)

    def make(self, *, since: float | None, keep: Keep) -> SessionsDocument:
        """Return the sessions with a request since a time (seconds since 1970) that `keep` accepts."""
        files = [each for folder in self.folders for each in folder.files]
        if since is not None:  # a file holds no request that is later than its last change
            files = [each for each in files if each.changed >= since * 1e9]
        files.sort(key=lambda each: (-each.changed, each.path))
        groups: list[tuple[list[TranscriptFile], TranscriptSums]] = []
        try:
            for each in files:
                self._sums[each] = self.index.sums([each], self.read)
                self.advance()
            groups = [self._joint(group) for group in linked(self._sums)]
        except KeyboardInterrupt:
            self.partial = True
            groups = [([group[0]], self._sums[group[0]]) for group in linked(self._sums)]  # no call counts twice
        finally:
            self.index.close()
        rows = [row for group, sums in groups for row in self._rows(group, sums)]
        rows = [row for row in rows if keep(row) and (since is None or row.last is None or row.last >= since)]
        return self._document(files, [sums for _, sums in groups], rows)

    def _joint(self, group: list[TranscriptFile]) -> tuple[list[TranscriptFile], TranscriptSums]:
        if len(group) == 1:
            return group, self._sums[group[0]]
        return group, self.index.sums(sorted(group), self.read)

    def _rows(self, group: Sequence[TranscriptFile], sums: TranscriptSums) -> Iterable[SessionRow]:
        newest = {row.key: each.path for each in reversed(group) for row in self._sums[each].rows}
        for row in sums.rows:
            yield SessionRow(**dict(row), path=newest.get(row.key, group[0].path))

    def _document(
        self, files: Sequence[TranscriptFile], groups: Sequence[TranscriptSums], rows: Sequence[SessionRow]
    ) -> SessionsDocument:
        left_out: Counter[str] = Counter()
        for sums in groups:
            left_out.update(sums.left_out)
        failed = {path: reason for folder in self.folders for path, reason in folder.unreadable}
        failed |= {each.path: sums.failed for each, sums in self._sums.items() if sums.failed is not None}
        calls = sum(len(sums.calls) for sums in self._sums.values())
        keys = {row.key for row in rows}
        kept = [sums for sums in groups if not keys.isdisjoint(row.key for row in sums.rows)]
        total = sum_rows("total", rows)
        first = next((sums.first_wrong for sums in groups if sums.wrong), "")
        ranked = sorted(rows, key=lambda row: (-Decimal(row.cost or 0), -(row.missed or 0), row.key))
        return SessionsDocument(
            folders=[
                SessionFolder(
                    agent=each.agent,
                    path=each.path,
                    files=len(each.files),
                    bytes=sum(file.size for file in each.files),
                )
                for each in self.folders
            ],
            partial=self.partial,
            files=len(files),
            known_files=self.index.known,
            files_without_usage=sum(sums.empty for sums in self._sums.values()),
            copied_calls=calls - sum(len(sums.calls) for sums in groups),
            skipped=sum(sums.skipped for sums in groups),
            local_times=sum(sums.local_times for sums in groups),
            zoned_times=sum(sums.zoned_times for sums in groups),
            wrong_usage=next(iter(wrong_usage_notes(sum(sums.wrong for sums in groups), first)), None),
            left_out=dict(left_out.most_common()),
            failed=failed,
            total=total,
            ttl=total.ttl,
            compactions=[each for sums in kept for each in sums.compactions if each.session in keys],
            sessions=[row for row in ranked if not row.subagent],
            subagents=[row for row in ranked if row.subagent],
        )


def linked(sums: Mapping[TranscriptFile, TranscriptSums]) -> list[list[TranscriptFile]]:
    """Return the files in groups that share calls or sessions, in their order: what one counts, no other may count again."""
    of: dict[TranscriptFile, list[TranscriptFile]] = {each: [each] for each in sums}
    first: dict[str, TranscriptFile] = {}
    for each, found in sums.items():
        for name in (*found.calls, *(f"session {row.key}" for row in found.rows)):
            other = of[first.setdefault(name, each)]
            own = of[each]
            if own is not other:
                other += own
                for member in own:
                    of[member] = other
    return list({id(group): group for group in of.values()}.values())
