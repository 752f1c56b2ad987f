"""Conversations and their turns, each of which becomes one request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kvtool.engine.blocks.chain_numbers import Chain
from kvtool.errors import Place
from kvtool.text.message import Message
from kvtool.text.traced import Traced
from kvtool.workload.call import NO_CALL, Call

Ids = npt.NDArray[np.int32]


class LocalTime(float):
    """A time of a log that does not say its zone, taken as UTC."""


@dataclass(slots=True)
class HashedPrompt:
    """A prompt that a trace gives only as ids of its blocks: `hash_ids[i]` names tokens [i*block_size, (i+1)*block_size).

    With `answer`, the trace was made of tokens: its ids are those of full blocks only, and `answer` has those of the blocks after
    them, as far as they are filled and computed.
    """

    hash_ids: list[int]
    num_tokens: int
    block_size: int
    chain: Chain | None = None
    """The blocks by number, where they were numbered before; then the ids may be left out."""
    answer: list[int] | None = None


class Sampled(NamedTuple):
    """The answer of a model, as far as a log has it: its text, its tokens, or how many these are."""

    text: str | None = None
    ids: Ids | None = None
    tokens: int | None = None


class RequestName(NamedTuple):
    """A request of a log: `record` counts the records of its file from 1 and is 0 where the file itself is the prompt.

    `request` counts those of the record from 1 and is 0 for the only one. `known` is False where the log does not hold all of its
    prompt, as answers come from the engine.
    """

    path: str
    record: int = 0
    request: int = 0
    known: bool = True


@dataclass(slots=True, weakref_slot=True)
class Turn:
    """One request before tokenization. Exactly one of `messages`, `text`, `token_ids` and `hashed` is set."""

    group: str
    messages: list[Message] | None = None
    tools: list[Any] | None = None
    text: Traced | None = None
    token_ids: Ids | None = None
    hashed: HashedPrompt | None = None
    output_text: str | None = None
    output_ids: Ids | None = None
    output_tokens: int | None = None
    session: str | None = None
    index: int = 0
    salt: str | None = None
    arrival: float | None = None
    id: str = ""
    written: tuple[str, int | None, int | None] | None = None
    """Path, line and column of the record or the group that it is of; None where it is in no file."""
    name: RequestName | None = None
    """Which request of which log it is; None where it is of none."""
    extra: dict[str, Any] = field(default_factory=dict)
    """`chat_template_kwargs` of the record, passed on to the chat template."""
    fields: dict[str, Any] = field(default_factory=dict)
    """What else the request asks for, of the fields in `request_fields`."""
    more_answers: tuple[Sampled, ...] = ()
    """The answers after the first one, where the request asks for several."""
    call: Call = NO_CALL
    """What the log reports of it beside the prompt."""
    epoch: float | None = None
    """The moment from which `arrival` counts, in seconds since 1970, where the log has a clock."""
    clock: float | None = None
    """When it arrived on the clock of the log itself, in seconds; a `LocalTime` where the zone is not known."""

    def with_text(self, text: Traced | None) -> Turn:
        """Return the same request with another text (as `dataclasses.replace` makes it, in a fifth of the time)."""
        return Turn(
            self.group,
            self.messages,
            self.tools,
            text,
            self.token_ids,
            self.hashed,
            self.output_text,
            self.output_ids,
            self.output_tokens,
            self.session,
            self.index,
            self.salt,
            self.arrival,
            self.id,
            self.written,
            self.name,
            self.extra,
            self.fields,
            self.more_answers,
            self.call,
            self.epoch,
            self.clock,
        )

    def with_messages(self, messages: list[Message]) -> Turn:
        """Return the same request with other messages, likewise."""
        turn = self.with_text(self.text)
        turn.messages = messages
        return turn

    @property
    def session_or_file(self) -> str:
        """What the requests of one session share: its name or, where the log names none, the path of the file."""
        if self.session is not None:
            return self.session
        return "(no session)" if self.name is None else self.name.path

    @property
    def place(self) -> Place | None:
        """Return the place where the request is written."""
        return None if self.written is None else Place(*self.written)


@dataclass(frozen=True, slots=True)
class Output:
    """The engine's answer to a turn."""

    text: str


class Conversation(Protocol):
    """Turns that depend on each other: the next one is asked for when the last one has been answered."""

    def next_turn(self, previous: Output | None) -> Turn | None:
        """Return the next turn (None: the conversation is over). `previous` is None for the first one only."""
        ...


@dataclass(slots=True)
class Recorded:
    """A conversation whose turns are known beforehand (a log, a single request); answers are ignored."""

    turns: Iterator[Turn]

    def next_turn(self, previous: Output | None) -> Turn | None:
        del previous
        return next(self.turns, None)


class Source(Protocol):
    """A workload that can be read more than once; each pass yields the same conversations in the same order."""

    def conversations(self) -> Iterator[Conversation]: ...
