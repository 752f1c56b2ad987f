"""A log with the fixes made in its records, and the run that proves it: each request as it would have been sent."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kvtool.errors import KvtoolError
from kvtool.fixes.edits.body_limits import record_refusals
from kvtool.fixes.edits.record_calls import NotInRecordError
from kvtool.fixes.edits.record_edits import edited_record, same_prompt
from kvtool.fixes.fix import Fix, combined
from kvtool.fixes.marked_turn import without_refused_marks
from kvtool.profiler.advice.trials import total_rate
from kvtool.profiler.opening import Opened
from kvtool.profiler.optimize.request_diff import RequestEdit, count_changes
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.documents.optimize import CostBeforeAfter
from kvtool.results.money import amount_text
from kvtool.text.files.atomic_file import AtomicFile, as_private_as
from kvtool.text.files.compressed import compressed, open_bytes, uncompressed
from kvtool.text.files.json_stream import NotJSONError, RawRecord, parse
from kvtool.text.terminal.progress import Progress
from kvtool.text.terminal.streams import STDIN
from kvtool.workload.drive import NO_ANSWER
from kvtool.workload.logs.files.log_file import read_raw, records_of
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.records.record import Where
from kvtool.workload.logs.records.usage import COSTS, FLAT, record_without_reads
from kvtool.workload.request_fields import without_billing_header
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.prices.money_book import MoneyBook

_LOOKED_AT = 64
"""Edited requests at the front of the log of which the one with the most changes is shown."""
_COUNTED = (b'"usage', b'"meta_info"', *(f'"{name}"'.encode() for name in (*COSTS, *FLAT)))
"""What a record with reported tokens or a cost contains."""
_SEVERAL = "a record with several requests is not rewritten"


@dataclass(slots=True)
class OptimizedLog:
    """The log with fixes: edited records by file and number, and why others were left as they are."""

    values: dict[str, dict[int, Any]]
    example: RequestEdit | None
    changed: int
    left: Counter[str]
    after: RunResult | None = None
    wanted: tuple[str, int] | None = None
    """File and record of the costliest cause: its request is the example, where it is edited."""
    _changes: int = 0
    """Changed places of the example."""

    def show(self, edit: RequestEdit) -> None:
        """Keep the wanted request as example, else the one with the most changes; of equals the second one, as the first saw no
        earlier request.
        """
        self.changed += 1
        name = edit.turn.name
        if name is not None and (name.path, name.record) == self.wanted:
            self.example, self._changes = edit, sys.maxsize
            return
        if self.changed > _LOOKED_AT:
            return
        changes = count_changes(edit)
        if changes > self._changes or (changes == self._changes and self.changed == 2):
            self.example, self._changes = edit, changes

    def wins(self, before: RunResult) -> bool:
        """Return whether the log with its edits costs less than before, or hits more where no price is known; what a provider
        refused for the number of its marks wins, too.
        """
        hosted = before.counts.hosted
        if hosted is not None and hosted.too_many_marks:
            return True
        cost = self.cost(before)
        if cost is not None:
            return Decimal(cost.after) < Decimal(cost.before)
        return self.after is not None and total_rate(self.after) > total_rate(before)

    def cost(self, before: RunResult) -> CostBeforeAfter | None:
        """Return what all requests cost by the rules, before and after; None where no price is known."""
        old, new = money_of(before), None if self.after is None else money_of(self.after)
        if old is None or new is None:
            return None
        was, now = (_predicted(book) for book in (old, new))
        if was is None or now is None:
            return None
        currency = next(iter(old.currencies), "USD")
        return CostBeforeAfter(before=amount_text(was), after=amount_text(now), currency=currency)


def edit_log(opened: Opened, fixes: Sequence[Fix], progress: Progress) -> OptimizedLog | None:
    """Return the log with these fixes made in its records, run again; None where no record changes.

    Each edited record is read again and has to say what the fix made of its request: else it stays as it is. Raises
    TrialInterruptedError.
    """
    source = opened.source
    if not isinstance(source, LogSource) or not fixes or STDIN in source.files.paths:
        return None
    log = OptimizedLog({}, None, 0, Counter(), wanted=_costliest(fixes))
    changed = _changed_turns(source, fixes, log)
    for path in source.files.paths:
        log.values[path] = dict(_edited_values(path, changed.get(path, {}), log))
    if not log.changed:
        return None
    with TemporaryDirectory(prefix="kvtool-") as folder:
        paths = []
        for number, path in enumerate(source.files.paths):
            target = Path(folder, str(number), uncompressed(Path(path).name))
            target.parent.mkdir()
            with target.open("wb") as file:
                file.writelines(_lines(path, log.values[path], with_reads=True))  # they say what the provider counts
            paths.append(str(target))
        profiler = opened.profiler(ReportOptions(), progress, source=source.of_files(paths))
        log.after = profiler.counted()
    return log


def _costliest(fixes: Sequence[Fix]) -> tuple[str, int] | None:
    """Return file and record of the cause that the profile tells first."""
    causes = [fix.cause for fix in fixes if fix.cause is not None and fix.cause.record is not None]
    record = max(causes, key=lambda cause: cause.blocked).record if causes else None
    return None if record is None else (record.path, record.record)


def write_log(path: str, log: OptimizedLog, output: str) -> None:
    """Write a log as JSON lines with its edited records, compressed as the name says; others as they are, but without reported
    reads and costs, as these would count for all of it. A new file is as private as the log.
    """
    with AtomicFile(output, mode=as_private_as([path])) as target:
        for chunk in compressed(_lines(path, log.values.get(path, {})), output):
            target.write(chunk)


def _changed_turns(
    source: LogSource, fixes: Sequence[Fix], log: OptimizedLog
) -> dict[str, dict[int, tuple[Turn, Turn]]]:
    """Return the turns that fixes change, before and after, by file and record."""
    transform = combined(fixes)
    found: dict[str, dict[int, tuple[Turn, Turn]]] = {}
    for conversation in source.conversations():
        turn = conversation.next_turn(None)
        while turn is not None:
            after = transform(turn)
            name = turn.name
            if after is not turn and name is not None:
                if name.request:
                    log.left[_SEVERAL] += 1
                else:
                    found.setdefault(name.path, {})[name.record] = (turn, without_refused_marks(after))
            turn = conversation.next_turn(NO_ANSWER)
    return found


def _edited_values(path: str, changed: dict[int, tuple[Turn, Turn]], log: OptimizedLog) -> Iterator[tuple[int, Any]]:
    for number, raw in _records(path):
        if number not in changed:
            continue
        turn, after = changed.pop(number)
        try:
            value = parse(raw.data) if raw.value is None and not raw.around else None
            if value is None:
                raise NotInRecordError("the file is no list of JSON records")
            same = after.call.usage is turn.call.usage
            edited = edited_record(value, turn, after)
            edited = edited if same else record_without_reads(edited, same_prompt=False)
            again = _turn_of(edited, raw, path, number, headers=turn.call.headers)
            if again is None or not same_prompt(again, after):
                raise NotInRecordError("its record does not contain what the fix made")
            if refused := record_refusals(value, edited):
                raise NotInRecordError(f"its provider would refuse it: {refused[0]}")
        except (NotInRecordError, NotJSONError) as error:
            log.left[str(error)] += 1
            continue
        was, now = (record_without_reads(each, same_prompt=same) for each in (value, edited))
        log.show(RequestEdit(path, number, was, now, turn, after))
        yield number, edited


def _turn_of(value: Any, raw: RawRecord, path: str, number: int, *, headers: int) -> Turn | None:
    """Return the request that a record holds; with `headers`, without them."""
    data = json.dumps(value, ensure_ascii=False).encode()
    where = Where(path, raw.line, raw.column, str(number), number, number=number)
    read = read_raw(raw._replace(data=data), where, None, 0, {})
    if isinstance(read, KvtoolError) or len(read.items) != 1:
        return None
    turns = read.turns()
    if len(turns) != 1:
        return None
    return next(without_billing_header([turns[0]])) if headers else turns[0]


def _records(path: str) -> Iterator[tuple[int, RawRecord]]:
    with open_bytes(path, path) as reader:
        yield from enumerate(records_of(reader, path, path), 1)


def _lines(path: str, values: Mapping[int, Any], *, with_reads: bool = False) -> Iterator[bytes]:
    """Yield the records of a file as lines, the edited ones in place of those that they were made of."""
    for number, raw in _records(path):
        line, value = raw.data.replace(b"\n", b" ").strip(), values.get(number)
        if value is None and not with_reads and any(name in line for name in _COUNTED):
            with contextlib.suppress(NotJSONError):
                value = parse(line)
        if value is not None:
            kept = value if with_reads else record_without_reads(value)
            line = json.dumps(kept, ensure_ascii=False).encode()
        yield line + b"\n"


def _predicted(book: MoneyBook) -> Decimal | None:
    """Return what all requests cost by the rules; None where no price is known."""
    sides = [side for side in book.total.values() if side.costs.requests]
    return sum((side.costs.predicted.total for side in sides), Decimal(0)) if sides else None
