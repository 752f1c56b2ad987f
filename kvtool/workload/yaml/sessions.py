"""Conversations of several turns: what the engine answered becomes part of the next prompt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kvtool.text.message import Message
from kvtool.text.traced import Origin, Traced
from kvtool.workload.turn import Conversation, Output, Turn

Ask = Callable[[int], tuple[list[Message], Turn]]
"""Of a turn's number: its messages (the last one is the question) and the turn without them."""


@dataclass(slots=True)
class Session:
    """A chat. Each turn's prompt is the messages before the question (rendered for this turn), all earlier questions with the
    engine's answers, and the question."""

    ask: Ask
    turns: int
    answered_at: Origin
    """Where the workload asks for this session: the place that an answer, which no file holds, is attributed to."""
    rewrite: Callable[[Turn], Turn] | None = None
    """Changes a turn before its question enters the history, as an edit of the workload file would."""
    _history: list[Message] = field(default_factory=list)
    _question: Message | None = None
    _number: int = 0

    def next_turn(self, previous: Output | None) -> Turn | None:
        if self._question is not None:
            if previous is None:
                raise ValueError("a session goes on only from the answer to its last turn")
            self._history += [self._question, {"role": "assistant", "content": self._answer(previous.text)}]
            self._question = None
        if self._number >= self.turns:
            return None
        messages, turn = self.ask(self._number)
        if self.rewrite is not None:
            turn.messages = messages
            turn = self.rewrite(turn)
            messages = turn.messages or messages
        self._question = messages[-1]
        turn.messages = [*messages[:-1], *self._history, self._question]
        self._number += 1
        return turn

    def _answer(self, text: str) -> Traced:
        origin = Origin(
            self.answered_at.path,
            self.answered_at.line,
            self.answered_at.column,
            verbatim=False,
            part=f"answer {self._number}",
            text=str.__str__(text),
        )
        return Traced.of(text, origin)


class Interleaved:
    """Several conversations as one that asks them in turn: the first turns of all, then the second turns, and so on.

    Whoever runs conversations side by side may take `members` apart instead.
    """

    def __init__(self, members: Iterable[Conversation]) -> None:
        self.members: list[Conversation] = list(members)
        self._waiting: deque[tuple[Conversation, Output | None]] = deque((member, None) for member in self.members)
        self._asked: Conversation | None = None

    def next_turn(self, previous: Output | None) -> Turn | None:
        if self._asked is not None:
            self._waiting.append((self._asked, previous))
            self._asked = None
        while self._waiting:
            member, answer = self._waiting.popleft()
            turn = member.next_turn(answer)
            if turn is not None:
                self._asked = member
                return turn
        return None
