"""Turns of a log's records with their places: group, session, time from the start, cache, tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.text.message import Message
from kvtool.text.terminal.streams import STDIN
from kvtool.text.traced import Traced
from kvtool.workload.logs.log_pass import PromptCounts
from kvtool.workload.logs.records.record_fields import scalar_fields
from kvtool.workload.turn import Output, Turn

if TYPE_CHECKING:
    from kvtool.workload.logs.files.log_file import LogEntry

_LOG_SUFFIXES = {".jsonl", ".ndjson", ".json", ".traj", ".log", ".gz", ".zst", ".txt", ".md"}


class Growing:
    """A dialogue of which only the user's side is known: each turn is sent with all before it and the engine's own answers."""

    def __init__(self, turns: Iterator[Turn]) -> None:
        self._turns = turns
        self._history: list[Message] = []

    def rest(self) -> list[Turn]:
        """Return the turns that have not been asked for, each with what its user says."""
        return list(self._turns)

    def next_turn(self, previous: Output | None) -> Turn | None:
        """Return the next turn, after `previous` has been added as the answer to the last one."""
        turn = next(self._turns, None)
        if turn is None:
            return None
        if previous is not None:
            self._history.append({"role": "assistant", "content": Traced(previous.text)})
            turn.name = turn.name and turn.name._replace(known=False)
        self._history += turn.messages or []
        turn.messages = list(self._history)
        return turn


def default_group(path: str) -> str:
    """Return the name of the file without the suffixes that say what is in it."""
    if path == STDIN:
        return "stdin"
    name = Path(path).name
    while (suffix := Path(name).suffix.lower()) in _LOG_SUFFIXES:
        name = name[: -len(suffix)]
    return name


def placed_turns(
    entry: LogEntry, count: int, base: int, epoch: float | None, group: str, own: str | None, told: PromptCounts
) -> Iterator[Turn]:
    """Yield the turns with their group, their places in the session and their times from the start of the source; `own` is the
    file of those whose ids another file has, too."""
    fields = scalar_fields(entry.value) if entry.first.call.usage is not None else ()
    for index in range(count):
        turn = entry.turns[index]
        if fields:
            turn.call = replace(turn.call, fields=fields)
        turn.group = group
        turn.index = base + index
        turn.epoch = epoch
        turn.clock = turn.arrival
        if turn.arrival is not None:
            turn.arrival -= epoch or 0.0
        if entry.before is not None and turn.name is not None:
            turn.name = turn.name._replace(request=entry.before + index + 1)
        if own is not None:
            turn.id = f"{own}:{turn.id}"
        told.add(turn)
        yield turn


def scoped(turns: Iterator[Turn], scope_of: Callable[[Turn], str | None]) -> Iterator[Turn]:
    """Return the turns with the cache of its own, where one has any, as a part of the salt."""
    for turn in turns:
        scope = scope_of(turn)
        yield turn if scope is None else replace(turn, salt=f"{turn.salt or ''}\x1e{scope}")


def of_tenant(tenant: str | None, turns: Iterator[Turn]) -> Iterator[Turn]:
    for turn in turns:
        turn.call = replace(turn.call, tenant=tenant)
        yield turn
