"""Find the request that another one goes on with: by its session, by its answer, or by its last message."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import xxhash

from kvtool.diagnose.compare.tools import tool_name
from kvtool.text.message import Message, role_of
from kvtool.text.templates.served_messages import part_text
from kvtool.workload.turn import RequestName, Turn

_LEADING = ("system", "developer")
_SPOKEN = ("assistant", "tool", "function")
_MOST_CHARACTERS = 64 << 20
_MOST_OF_SESSION = 8
"""Requests of one session that may still be gone on with: agents start others and ask for titles beside their own work."""

_MOST_CANDIDATES = 32
"""Requests without a session that one is compared with: a bound on time, as many may end with the same message."""


@dataclass(slots=True)
class ThreadStep:
    """A request that another one may go on with. `text` is its prompt up to the end of its last message, of so many `tokens`.

    `messages` are digests of what was said after the system prompt, each with its role; `answer` is that of its answer. `frame` are
    digests of the system prompt and of the names of its tools, None where there are none. No model reads the cache of another
    `model`.
    """

    number: int
    name: RequestName | None
    text: str
    tokens: int
    messages: tuple[tuple[str, int], ...]
    answer: int | None
    frame: tuple[int | None, int | None]
    model: str | None

    @classmethod
    def of(cls, turn: Turn, number: int, text: str, tokens: int) -> ThreadStep:
        """Make the step of a request; ids of tool calls do not count."""
        messages = turn.messages or []
        first = next((at for at, each in enumerate(messages) if role_of(each) not in _LEADING), len(messages))
        system = _digest_of([_digest(each) for each in messages[:first]]) if first else None
        tools = _digest_of(sorted(map(tool_name, turn.tools))) if turn.tools else None
        said = tuple((role_of(message), _digest(message)) for message in messages[first:])
        answer = _digest_of([turn.output_text]) if turn.output_text else None
        return cls(number, turn.name, text, tokens, said, answer, (system, tools), turn.call.model)


class Threads:
    """The latest request of each conversation, bounded in memory."""

    def __init__(self) -> None:
        self._steps: OrderedDict[int, tuple[str | None, ThreadStep]] = OrderedDict()
        self._by_session: dict[str, list[int]] = {}
        self._by_message: dict[tuple[str, int], list[int]] = {}
        self._characters = 0
        self._count = 0

    def find(self, session: str | None, request: ThreadStep) -> ThreadStep | None:
        """Return the step that a request goes on with; None where it begins a conversation."""
        said = Counter(request.messages)
        best: tuple[int, int] | None = None
        found: ThreadStep | None = None
        for number in self._candidates(session, request.messages):
            step = self._steps[number][1]
            shared = (Counter(step.messages) & said).total()
            if _goes_on(step, request, shared, named=session is not None) and (best is None or (shared, number) > best):
                best, found = (shared, number), step
        return found

    def put(self, session: str | None, step: ThreadStep, before: ThreadStep | None) -> None:
        """Enter the latest request of a conversation in place of the one before it."""
        if before is not None:
            self._drop(before.number)
        self._steps[step.number] = session, step
        self._characters += len(step.text)
        if session is not None:
            numbers = self._by_session.setdefault(session, [])
            numbers.append(step.number)
            if len(numbers) > _MOST_OF_SESSION:
                self._drop(numbers[0])
        else:
            for message in _proofs(step):
                self._by_message.setdefault(message, []).append(step.number)
        while self._characters > _MOST_CHARACTERS and len(self._steps) > 1:
            self._drop(next(iter(self._steps)))

    def new_number(self) -> int:
        """Return the number of another request."""
        self._count += 1
        return self._count

    def _candidates(self, session: str | None, messages: Sequence[tuple[str, int]]) -> Iterable[int]:
        if session is not None:
            return list(self._by_session.get(session, ()))
        found: dict[int, None] = {}
        for message in reversed(messages):
            found |= dict.fromkeys(self._by_message.get(message, ())[-_MOST_OF_SESSION:])
            if len(found) >= _MOST_CANDIDATES:
                break
        return found

    def _drop(self, number: int) -> None:
        session, step = self._steps.pop(number)
        self._characters -= len(step.text)
        holders = [(self._by_session, session)] if session is not None else []
        for of, key in [*holders, *((self._by_message, each) for each in (_proofs(step) if session is None else ()))]:
            numbers = of.get(key, [])  # type: ignore[attr-defined]
            if number in numbers:
                numbers.remove(number)
            if not numbers:
                of.pop(key, None)  # type: ignore[attr-defined]


def _proofs(step: ThreadStep) -> list[tuple[str, int]]:
    """Return the messages that only a request which goes on with this one has: its last message and its answer."""
    answer = [] if step.answer is None else [("assistant", step.answer)]
    return [*step.messages[-1:], *answer]


def _goes_on(step: ThreadStep, request: ThreadStep, shared: int, *, named: bool) -> bool:
    """Return whether a request goes on with a step: it asks the same model and has its answer or, if the log does not hold that,
    more messages, and more that a model or a tool said.

    A `named` session has half of the messages again, or it asks the same tools or the same system prompt something else at first;
    without a name, the last message or the answer is among them, too.
    """
    messages = request.messages
    spoken = sum(role in _SPOKEN for role, _ in messages) - sum(role in _SPOKEN for role, _ in step.messages)
    answered = step.answer is not None and ("assistant", step.answer) in messages
    longer = len(messages) > len(step.messages) and spoken >= 1
    if step.model != request.model or not (longer or (answered and ("assistant", step.answer) not in step.messages)):
        return False
    half = 2 * shared >= len(step.messages)
    if not named:
        return half and (answered or step.messages[-1] in messages)
    first = [role for role, _ in step.messages]
    begins = not any(role in _SPOKEN for role in first) and [role for role, _ in messages[: len(first)]] == first
    same = any(one is not None and one == other for one, other in zip(step.frame, request.frame, strict=True))
    return half or answered or (begins and same)


def _digest(message: Message) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else [content] if content else []
    values: list[object] = [part_text(part) if isinstance(part, dict) else str(part) for part in parts]
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, dict) else None
        values.append(function if isinstance(function, dict) else call)
    return _digest_of(values)


def _digest_of(values: Sequence[object]) -> int:
    digest = xxhash.xxh3_64()
    for value in values:
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)
        digest.update(str.__str__(text).encode(errors="surrogatepass"))
    return digest.intdigest()
