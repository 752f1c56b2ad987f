"""Groups of a workload file as sources of requests: their prompts, their arrival times, and prompts of random token ids."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, repeat
from typing import Protocol

import numpy as np

from kvtool.text.message import Message
from kvtool.text.traced import Origin, Traced, concat
from kvtool.workload.call import NO_CALL, Call, CallSettings
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Conversation, Ids, Output, Recorded, Turn
from kvtool.workload.yaml.load_state import Key, fraction, stream
from kvtool.workload.yaml.schema import DEFAULT_SESSION_OUTPUT, Arrival, Generate, GroupSpec, MessagePart, Sessions
from kvtool.workload.yaml.sessions import Interleaved, Session
from kvtool.workload.yaml.variables import Moment, VariableValues, places_in_order
from kvtool.workload.yaml.workload_texts import Template, Texts

LOWEST_ID, HIGHEST_ID = 1_000, 30_000
"""Ordinary tokens of every vocabulary in use: above the special and byte tokens, below the smallest vocabulary's end."""
_CALLS = {
    None: NO_CALL,
    "automatic": Call(settings=CallSettings(cache_ttl="5m")),
    "none": Call(settings=CallSettings(cache_mode="marks")),
}
"""By `cache_control` of a group what its requests say of caching beside their messages."""
Timed = tuple[float, Conversation]
"""A conversation and the second at which its first turn arrives."""


def arrival_times(spec: Arrival, *key: Key) -> Iterator[float]:
    """Yield arrival times, endless and never decreasing. `poisson`: independent of each other; `uniform`: evenly spaced;
    `burst`: `burst` at a time."""
    if spec.process == "poisson":
        now = spec.start
        number = 0
        while True:
            now -= math.log1p(-fraction(*key, "arrival", number)) / spec.rate
            number += 1
            yield now
    size = spec.burst if spec.process == "burst" else 1
    assert size is not None
    number = 0
    while True:
        yield spec.start + number // size * size / spec.rate
        number += 1


def generated(spec: Generate, *key: Key) -> Iterator[Ids]:
    """Yield the token ids of each request; they depend on `key` alone. One prompt is in memory at a time."""
    for prefix, suffix in _order(spec):
        yield np.concatenate(
            [_ids(spec.prefix_tokens, *key, "prefix", prefix), _ids(spec.suffix_tokens, *key, "suffix", prefix, suffix)]
        )


def _order(spec: Generate) -> Iterator[tuple[int, int]]:
    if spec.order == "sequential":
        return ((prefix, suffix) for prefix in range(spec.prefixes) for suffix in range(spec.per_prefix))
    return ((prefix, suffix) for suffix in range(spec.per_prefix) for prefix in range(spec.prefixes))


def _ids(count: int, *key: Key) -> Ids:
    words = np.frombuffer(stream(4 * count, *key), dtype="<u4")
    return (words % (HIGHEST_ID - LOWEST_ID + 1) + LOWEST_ID).astype(np.int32)


class GroupSource(Protocol):
    """A group: its conversations, in the order of their times; `requests` is None where only reading would tell."""

    name: str
    requests: int | None

    def timed(self) -> Iterator[Timed]: ...


@dataclass(frozen=True, slots=True)
class Content:
    """The prompt of a group: messages, segments or one raw text."""

    messages: list[tuple[MessagePart, Texts]] | None = None
    segments: list[Texts] | None = None
    join: Traced | None = None

    def texts(self) -> list[Texts]:
        return [texts for _, texts in self.messages] if self.messages is not None else self.segments or []

    def rendered_messages(self, values: dict[str, object], moment: Moment, *, in_session: bool) -> list[Message]:
        """Return the messages of a request. In a session, what is picked for all but the question stays the same in each turn."""
        assert self.messages is not None
        last = len(self.messages) - 1
        result: list[Message] = []
        for position, (part, texts) in enumerate(self.messages):
            number = moment.group_session if in_session and position < last else moment.group_request
            message: Message = {"role": part.role, "content": texts.render(values, number)}
            if part.name is not None:
                message["name"] = part.name
            if part.cache_control is not None:
                message["cache_control"] = {"type": "ephemeral", "ttl": part.cache_control}
            result.append(message)
        return result

    def rendered_text(self, values: dict[str, object], moment: Moment) -> Traced:
        assert self.segments is not None
        texts = [segment.render(values, moment.group_request) for segment in self.segments]
        return (self.join or Traced("\n")).join(texts) if len(texts) > 1 else concat(texts)


@dataclass(frozen=True, slots=True)
class OrderedTools:
    """The tools of a group: as written, or in one of so many random orders."""

    schemas: list[object] | None = None
    orders: int | None = None
    seed: int = 0

    def at(self, request: int) -> list[object] | None:
        """Return the tools of a request."""
        if self.schemas is None or self.orders is None:
            return self.schemas
        return [
            self.schemas[at] for at in places_in_order(len(self.schemas), request % self.orders, self.seed, "tools")
        ]


@dataclass(frozen=True, slots=True)
class Common:
    """Fields of every kind of group. `first` numbers its first request and session; `untimed` is the arrival of a group without
    `arrival` (0 where another group has one)."""

    spec: GroupSpec
    seed: int
    values: VariableValues
    tenant: Template | None
    first: Moment
    untimed: float | None
    written: tuple[str, int | None, int | None]
    """Path, line and column of the group."""

    @property
    def call(self) -> Call:
        """Return what a request says of caching beside its messages."""
        return _CALLS[self.spec.cache_control]

    def salt(self, values: dict[str, object]) -> str | None:
        return None if self.tenant is None else str.__str__(self.tenant.render(values))

    def moment(self, request: int, session: int) -> Moment:
        return Moment(self.first.request + request, self.first.session + session, request, session)

    def starts(self) -> Iterator[float | None]:
        arrival = self.spec.arrival
        if arrival is None:
            return repeat(self.untimed)
        return arrival_times(arrival, self.seed, "arrival", self.spec.name)


def limited(count: int, limit: int | None) -> int:
    return count if limit is None else min(count, limit)


class PromptGroup:
    """Requests that are independent of each other, each rendered when it is asked for."""

    def __init__(
        self, common: Common, content: Content, count: int, tools: OrderedTools, output: Template | None
    ) -> None:
        self.name = common.spec.name
        self.requests: int | None = limited(count, common.spec.limit)
        self._count = limited(count, common.spec.limit)
        self._common = common
        self._content = content
        self._tools = tools
        self._output = output

    def timed(self) -> Iterator[Timed]:
        for number, start in zip(range(self._count), self._common.starts(), strict=False):
            yield start or 0.0, Recorded(self._turn(number, start))

    def _turn(self, number: int, arrival: float | None) -> Iterator[Turn]:
        moment = self._common.moment(number, number)
        values = self._common.values.at(moment)
        spec = self._common.spec
        turn = Turn(
            group=self.name,
            written=self._common.written,
            id=f"{self.name}/{number}",
            tools=self._tools.at(moment.request),
            salt=self._common.salt(values),
            arrival=arrival,
            output_tokens=spec.output_tokens or (1 if self._output is None else None),
            output_text=None if self._output is None else str.__str__(self._output.render(values)),
            call=self._common.call,
        )
        if self._content.messages is not None:
            turn.messages = self._content.rendered_messages(values, moment, in_session=False)
        else:
            turn.text = self._content.rendered_text(values, moment)
        yield turn


class SessionGroup:
    """Chats whose history grows by the engine's answers."""

    def __init__(
        self,
        common: Common,
        content: Content,
        spec: Sessions,
        tools: OrderedTools,
        output: Template | None,
        origin: Origin,
    ) -> None:
        self.name = common.spec.name
        self._count = limited(spec.count, common.spec.limit)
        self.requests: int | None = self._count * spec.turns
        self._common = common
        self._content = content
        self._spec = spec
        self._sequential = spec.order == "sequential"
        self._tools = tools
        self._output = output
        self._origin = origin

    def timed(self) -> Iterator[Timed]:
        spec = self._spec
        if self._common.spec.arrival is None and spec.think is None and not self._sequential:
            sessions = (self._session(number, self._common.untimed) for number in range(self._count))
            yield self._common.untimed or 0.0, Interleaved(sessions)
            return
        starts = self._common.starts()
        if self._common.spec.arrival is None and spec.think is not None:
            length = spec.turns * spec.think if self._sequential else 0.0
            starts = (number * length for number in range(self._count))
        for number, start in zip(range(self._count), starts, strict=False):
            yield start or 0.0, self._session(number, start)

    def _session(self, session: int, start: float | None) -> Session:
        spec = self._spec
        group = self._common.spec
        first_values = self._common.values.at(self._moment(session, 0))
        salt = self._common.salt(first_values)

        def ask(number: int) -> tuple[list[Message], Turn]:
            moment = self._moment(session, number)
            values = self._common.values.at(moment)
            output = None if self._output is None else str.__str__(self._output.render(values))
            turn = Turn(
                group=self.name,
                written=self._common.written,
                id=f"{self.name}/{session}.{number}",
                session=f"{self.name}/{session}",
                index=number,
                tools=self._tools.at(moment.request),
                salt=salt,
                arrival=None if start is None else start + number * (spec.think or 0.0),
                output_tokens=(spec.output_tokens or DEFAULT_SESSION_OUTPUT) if output is None else None,
                output_text=output,
                call=self._common.call,
            )
            return self._content.rendered_messages(values, moment, in_session=True), turn

        assert group.sessions is spec
        return Session(ask, spec.turns, self._origin)

    def _moment(self, session: int, turn: int) -> Moment:
        """Return the number of the request: in the order in which they are asked for."""
        number = session * self._spec.turns + turn if self._sequential else turn * self._count + session
        return self._common.moment(number, session)


class GenerateGroup:
    """Random token ids."""

    def __init__(self, common: Common, spec: Generate) -> None:
        self.name = common.spec.name
        self._count = limited(spec.prefixes * spec.per_prefix, common.spec.limit)
        self.requests: int | None = self._count
        self._common = common
        self._spec = spec

    def timed(self) -> Iterator[Timed]:
        ids = generated(self._spec, self._common.seed, "generate", self.name)
        for number, (start, token_ids) in enumerate(zip(self._common.starts(), islice(ids, self._count), strict=False)):
            values = self._common.values.at(self._common.moment(number, number))
            turn = Turn(
                group=self.name,
                written=self._common.written,
                id=f"{self.name}/{number}",
                token_ids=token_ids,
                output_tokens=self._spec.output_tokens,
                salt=self._common.salt(values),
                arrival=start,
            )
            yield start or 0.0, Recorded(iter((turn,)))


class ImportGroup:
    """Conversations of logs, in this group and with its tenant."""

    def __init__(self, common: Common, source: LogSource) -> None:
        self.name = common.spec.name
        self.requests: int | None = None
        self._common = common
        self._source = source

    @property
    def skipped(self) -> int:
        """Return the number of bad lines that the last pass left out."""
        return self._source.skipped

    def timed(self) -> Iterator[Timed]:
        for number, conversation in enumerate(islice(self._source.conversations(), self._common.spec.limit)):
            if self._common.tenant is None:
                yield 0.0, conversation
            else:
                values = self._common.values.at(self._common.moment(number, number))
                yield 0.0, _Salted(conversation, self._common.salt(values))


@dataclass(frozen=True, slots=True)
class _Salted:
    conversation: Conversation
    salt: str | None

    def next_turn(self, previous: Output | None) -> Turn | None:
        turn = self.conversation.next_turn(previous)
        return None if turn is None else replace(turn, salt=self.salt)
