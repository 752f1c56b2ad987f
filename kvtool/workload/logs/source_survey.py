"""Survey of all files of a source: when each begins, how each is read, which records are joined, and which are there twice."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import orjson

from kvtool.errors import KvtoolError
from kvtool.text.files.compressed import is_plain, open_bytes
from kvtool.text.files.json_stream import NotJSONError, RawRecord, parse
from kvtool.text.message import Message
from kvtool.workload.logs.files.file_kinds import kind_of
from kvtool.workload.logs.files.log_file import LogEntry, LogFile
from kvtool.workload.logs.records.joined_records import Joins, Key, Place
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.records import asked_for
from kvtool.workload.logs.survey import AnyRecord, Order, RecordPlaces, RecordsInOrder
from kvtool.workload.turn import Turn

UNREADABLE = float("-inf")
"""For the first arrival of a file without a good record: what is wrong with it is reported first."""

Opened = Callable[[], LogFile]


class SourceSurvey:
    """Looks through all files once. `firsts`: by file, when its first call was made (None: that is not said). `doubles`: hashes of
    the ids of calls that are there more than once."""

    def __init__(self, logs: Sequence[Opened | None], *, whole: bool) -> None:
        """`logs` opens each file that is a log; without `whole` only their first records are looked at."""
        self._logs = logs
        self._places: dict[int, RecordPlaces] = {}
        self._orders: dict[int, Order] = {}
        self._any: dict[int, AnyRecord] = {}
        self.firsts: list[float | None] = []
        self.lasts: list[tuple[float, int] | None] = []
        """By file, when its last call was made and its line; None where that is not said, or only first records are looked at."""
        self.lateness: list[float | None] = []
        """By file, by how many seconds a call can come after a later one; None where that is not known."""
        itself = weakref.ref(self)  # files that were copied for a source are removed with it, at once

        def fetch(place: Place, key: Key) -> tuple[Record, int]:
            survey = itself()
            assert survey is not None
            return survey._fetch(place, key)

        self.joins: Joins | None = Joins(fetch) if whole else None
        self.doubles: frozenset[int] = frozenset()
        ids = array("q")
        for number, log in enumerate(logs):
            if log is not None and whole:
                self._look_through(number, log, ids)
                continue
            self.firsts.append(None if log is None else _first_arrival(log))
            self.lasts.append(None)
            self.lateness.append(None)
        if len(ids) > 1:
            found, counts = np.unique(np.frombuffer(ids, np.int64), return_counts=True)
            self.doubles = frozenset(found[counts > 1].tolist())
        if not self.joins:
            self._places = {number: self._places[number] for number in self._orders}

    def _look_through(self, number: int, log: Opened, ids: array[int]) -> None:
        asked = False

        def note(key: Key, record: int) -> None:
            nonlocal asked
            assert self.joins is not None
            self.joins.note(key, (number, record))
            asked = True

        try:
            survey = log().survey(lambda each: ids.append(hash(each)), note)
        except KvtoolError:  # it cannot even be copied
            self.firsts.append(UNREADABLE)
            self.lasts.append(None)
            self.lateness.append(None)
            return
        self.firsts.append(survey.first() if survey.any else UNREADABLE)
        self.lasts.append(survey.latest())
        self.lateness.append(survey.lateness())
        if (order := survey.order()) is not None:
            self._orders[number] = order
        if asked or order is not None:
            self._places[number] = survey.places

    def order_of(self, number: int) -> RecordsInOrder[LogEntry | None] | None:
        """Return how a file is read where that is not as it is written; for one pass."""
        order = self._orders.get(number)
        return None if order is None else RecordsInOrder(self._records(number), order)

    def _records(self, number: int) -> AnyRecord:
        if number not in self._any:
            opened = self._logs[number]
            assert opened is not None
            log = opened()
            with open_bytes(log.file, log.path) as reader:
                direct = is_plain(reader) and kind_of(reader, log.path) is None
            self._any[number] = AnyRecord(
                log.path, log.file, self._places[number], partial(_all_of, log), direct=direct
            )
        return self._any[number]

    def _fetch(self, place: Place, key: Key) -> tuple[Record, int]:
        number, at = place
        opened = self._logs[number]
        assert opened is not None
        log, records = opened(), self._records(number)
        raw = records.raw(at)
        where = log.where(raw.line, raw.column, records.nth(at), at + 1)
        try:
            value = parse(raw.data) if raw.value is None else raw.value
        except NotJSONError:  # the file has changed
            value = {}
        return asked_for(value, where, raw.around, key), len(raw.data)


class Repeated:
    """Calls of one pass that were there before. Those of one id are the same where their prompts are; where the id may be that of
    something else, where they also come from different files and say the same time."""

    def __init__(self, doubles: frozenset[int]) -> None:
        self._doubles = doubles
        self._seen: dict[int, list[tuple[int, float | None, str, str | None]]] = {}
        self._copied: set[str | None] = set()
        """Sessions that have calls in common with another one: the next call of its own goes on from them."""

    def has(self, entry: LogEntry) -> bool:
        """Return whether this call was read before; from now on it was. The first one after copies is that of a resumed session."""
        first = entry.first
        if entry.identity is None or (key := hash(entry.identity)) not in self._doubles:
            if first.session in self._copied:
                self._copied.remove(first.session)
                first.call = replace(first.call, began=first.call.began or "resumed")
            return False
        seen = self._seen.setdefault(key, [])
        prompt, time, session = _prompt_hash(first), first.arrival, first.session
        for before, when, path, other in seen:
            if before == prompt and (not entry.weak or (path != entry.path and when == time)):
                self._copied.update({session, other} if None not in (session, other) and session != other else ())
                return True
        seen.append((prompt, time, entry.path, session))
        return False


def _prompt_hash(turn: Turn) -> int:
    content: Any = turn.text if turn.messages is None else [_with_plain_text(each) for each in turn.messages]
    if turn.hashed is not None:
        content = turn.hashed.hash_ids
    elif turn.token_ids is not None:
        content = turn.token_ids.tolist()
    try:
        return hash(orjson.dumps(content))
    except TypeError:  # what JSON cannot hold as it is: huge numbers
        return hash(repr(content))


def _with_plain_text(message: Message) -> Message:
    """Return a message with a list of one text as that text: a copy of it may be written so."""
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and content[0].keys() == {"type", "text"}:
        return {**message, "content": content[0]["text"]}
    return message


def _first_arrival(opened: Opened) -> float | None:
    try:
        for found in opened().entries():
            if not isinstance(found, KvtoolError):
                return found.arrival
    except KvtoolError:
        pass
    return UNREADABLE


def _all_of(log: LogFile) -> Iterator[RawRecord]:
    with open_bytes(log.file, log.path) as reader:
        yield from log.raws(reader)
