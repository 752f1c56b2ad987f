"""Sum the misses of transcripts that belong together: in one pass, by session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from pydantic import Field

from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.prices.money_book import MoneyBook
from kvtool.accounting.prices.price_table import price_table
from kvtool.config.asked_run import RunOptions
from kvtool.config.options.run_options import Reading
from kvtool.errors import KvtoolError
from kvtool.profiler.opening import open_workload
from kvtool.profiler.run.purposes import explained_run, missed_run
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.results.document_base import Count, Model
from kvtool.results.misses import CacheMisses, Compaction, MissRow
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.call import FEWER
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.logs.records.record_format import NEW_KIND
from kvtool.workload.turn import Conversation


class TranscriptSums(Model):
    """Sums of one transcript, or of several that share calls. It holds no text of any prompt."""

    rows: list[MissRow] = Field(default_factory=list)
    calls: list[str] = Field(default_factory=list)
    """Hashes of the ids of its calls: those of another file are copies."""
    compactions: list[Compaction] = Field(default_factory=list)
    left_out: dict[str, Count] = Field(default_factory=dict)
    """Records that are no requests, by kind."""
    skipped: Count = 0
    """Records that could not be read."""
    local_times: Count = 0
    zoned_times: Count = 0
    """As in `CacheMisses`."""
    wrong: Count = 0
    first_wrong: str = ""
    """As in `PromptCounts`."""
    failed: str | None = None
    """Why the file could not be read."""

    @property
    def empty(self) -> bool:
        """Whether it was read and has no request."""
        return self.failed is None and not self.rows


@dataclass(slots=True)
class _Noted:
    """A source that notes the id of each of its calls."""

    source: LogSource
    calls: set[str] = field(default_factory=set)

    def conversations(self) -> Iterator[Conversation]:
        for identity, conversation in self.source.identified():
            if identity is not None:
                self.calls.add(blake2b(repr(identity).encode(errors="replace"), digest_size=8).hexdigest())
            yield conversation


class TranscriptReader:
    """Read transcripts, with tokenizers and prices that are loaded once."""

    def __init__(self, progress: Progress) -> None:
        self._load = Tokenizers(offline=True)
        self._prices = price_table()
        self._progress = progress

    def sums(self, paths: Sequence[str]) -> TranscriptSums:
        """Return the sums of these files by session; what cannot be read is counted. Raises KeyboardInterrupt."""
        try:
            return self._sums(paths)
        except KvtoolError as error:
            return _without_requests(paths) or TranscriptSums(failed=error.message)

    def _sums(self, paths: Sequence[str]) -> TranscriptSums:
        source = LogSource(paths, LogOptions(on_bad_line="skip"), keep_going=True)
        source.check_clock()
        noted = _Noted(source)
        whole = sum(
            map(_has_whole_prompt, noted.conversations())
        )  # to the end: then the source keeps a file that is not large
        options = RunOptions(inputs=tuple(paths), reading=Reading(on_bad_line="skip", jobs=1))
        opened = open_workload(options, self._load, source=source)
        setup = RunSetup(opened.planned.plan, JobMaker(opened.renderer, seed=opened.planned.plan.seed), self._progress)
        if whole:  # texts say more, as in a profile
            run = explained_run(setup, money=MoneyBook(self._prices), by="session", reports_usage=True)
        else:
            run = missed_run(setup, MoneyBook(self._prices))
        result = run.run(noted)
        if result.partial:
            raise KeyboardInterrupt
        misses = result.book(MissBook).misses()
        failed = next(iter(source.outcome.failed.values()), None)
        return TranscriptSums(
            rows=_rows(misses),
            calls=sorted(noted.calls),
            compactions=[] if misses is None else misses.compactions,
            local_times=0 if misses is None else misses.local_times,
            zoned_times=0 if misses is None else misses.zoned_times,
            wrong=source.prompts.wrong,
            first_wrong=source.prompts.first_wrong,
            left_out=source.left_out.counts,
            skipped=source.skipped + source.left_out.counts.get(NEW_KIND.kind, 0),
            failed=None if failed is None else failed.message,
        )


def _has_whole_prompt(conversation: Conversation) -> bool:
    """Return whether the text of a prompt may be all of it."""
    turn = conversation.next_turn(None)
    return turn is not None and turn.call.incomplete in (None, FEWER)


def _rows(misses: CacheMisses | None) -> list[MissRow]:
    return [] if misses is None or misses.rows is None else misses.rows.rows


def _without_requests(paths: Sequence[str]) -> TranscriptSums | None:
    """Return what files have beside requests, where they have none; None where they cannot be read."""
    source = LogSource(paths, LogOptions(on_bad_line="skip"))
    try:
        good = [not isinstance(entry, KvtoolError) for entry in source.entries()]
    except KvtoolError:
        return None
    if any(good) or (good and not source.left_out.counts):
        return None
    return TranscriptSums(left_out=source.left_out.counts, skipped=len(good))
